// Requests to the server. A refusal becomes an ApiError with the server's own words.

/** @typedef {import("./types.js").DrawingState} DrawingState */
/** @typedef {import("./types.js").Edit} Edit */
/** @typedef {import("./types.js").Notes} Notes */
/** @typedef {import("./types.js").OpenedCase} OpenedCase */
/** @typedef {import("./types.js").Overview} Overview */
/** @typedef {import("./types.js").PlaneName} PlaneName */
/** @typedef {import("./types.js").PreviewMade} PreviewMade */

export class ApiError extends Error {
  /**
   * @param {number} status 0 where no server answered
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** This page's own name for as long as it is loaded: who has the pen is told by it. */
export const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "offline", "The server does not answer.");
  }
  if (response.ok) return response;
  if (response.status === 401) {
    throw new ApiError(401, "token", "The server was started anew. Open the new link it printed.");
  }
  let told = { error: "fault", message: `The server answered ${response.status}.` };
  try {
    told = await response.json();
  } catch {
    // not JSON: the plain words above stand
  }
  throw new ApiError(response.status, told.error, told.message);
}

/**
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
async function post(path, body) {
  const response = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

/** @param {string} name */
const at = (name) => `/api/cases/${encodeURIComponent(name)}`;

/** @returns {Promise<Overview>} */
export const overview = async () => (await ask("/api/dataset")).json();

/** @param {string} name @returns {Promise<OpenedCase>} */
export const openCase = (name) => post(`${at(name)}/open`, { client });

/** @param {string} name @returns {Promise<DrawingState>} */
export const drawing = async (name) => (await ask(`${at(name)}/drawing`)).json();

/**
 * @param {string} name
 * @param {string} base
 * @param {Edit[]} edits
 * @returns {Promise<{drawing: DrawingState, faults: string[]}>}
 */
export const edit = (name, base, edits) => post(`${at(name)}/edits`, { client, base, edits });

/** @param {string} name @param {boolean} take @returns {Promise<{mine: boolean}>} */
export const hold = (name, take = false) => post(`${at(name)}/hold`, { client, take });

/** @param {string} name @returns {Promise<DrawingState>} */
export const reload = (name) => post(`${at(name)}/reload`, {});

/** @param {string} name @returns {Promise<unknown>} */
export const warm = (name) => post(`${at(name)}/warm`, {});

/**
 * @param {string} name
 * @param {{finished?: boolean, flag?: string, unflag?: boolean}} change
 * @returns {Promise<{notes: Notes, next: string | null, why: string}>}
 */
export const note = (name, change) => post(`${at(name)}/note`, { client, ...change });

/** @param {string} name @returns {Promise<PreviewMade>} */
export const preview = (name) => post(`${at(name)}/preview`, { client });

/** Let a case go as the page closes. @param {string} name */
export function release(name) {
  const body = new Blob([JSON.stringify({ client })], { type: "application/json" });
  navigator.sendBeacon(`${at(name)}/release`, body);
}

/**
 * @param {string} name
 * @param {number} channel
 * @param {PlaneName} plane
 * @param {number} index
 * @param {string} stamp
 * @param {AbortSignal} [signal]
 * @returns {Promise<ArrayBuffer>}
 */
export async function slice(name, channel, plane, index, stamp, signal) {
  const path = `${at(name)}/slices/${channel}/${plane}/${index}?stamp=${stamp}`;
  return (await ask(path, { signal })).arrayBuffer();
}

/**
 * @param {string} name
 * @param {string} version
 * @param {PlaneName} plane
 * @param {number} index
 * @returns {Promise<Uint8Array>}
 */
export async function previewSlice(name, version, plane, index) {
  const response = await ask(`${at(name)}/preview/${version}/${plane}/${index}`);
  return new Uint8Array(await response.arrayBuffer());
}
