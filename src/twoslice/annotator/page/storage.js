// What waits to be saved, kept in the browser's storage: a closed tab loses none of it.

import { decode, encode } from "./drawing.js";

/** @typedef {import("./drawing.js").Snapshot} Snapshot */
/** @typedef {import("./types.js").Edit} Edit */

/**
 * Edits that the server has not acknowledged. `after` is the drawing after those under way: if an
 * answer was lost, it tells whether they arrived. A queue longer than one request has `cuts`: how
 * many edits go before each, and the drawing after them.
 * @typedef {{base: string, sent: Edit[], after: Snapshot | null, queue: Edit[],
 *            cuts: {at: number, after: Snapshot}[]}} Pending
 */

/** @param {string} base @returns {Pending} */
export function nothing(base) {
  return { base, sent: [], after: null, queue: [], cuts: [] };
}

/** @param {string} key @param {Pending | null} pending */
export function keep(key, pending) {
  try {
    if (!pending) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(pending, packed));
  } catch {
    // a full or forbidden storage: the page itself still has the strokes
  }
}

/** @param {string} key @returns {Pending | null} */
export function kept(key) {
  try {
    const left = JSON.parse(localStorage.getItem(key) ?? "null");
    if (!left || !Array.isArray(left.sent) || !Array.isArray(left.queue)) return null;
    for (const { after } of [left, ...left.cuts])
      for (const each of after ?? []) each.raster = decode(each.raster, sum(each.raster));
    return left;
  } catch {
    return null;
  }
}

/** Rasters go into the storage as runs. @param {string} _key @param {unknown} value */
function packed(_key, value) {
  return value instanceof Uint8Array ? encode(value) : value;
}

/** The length of a raster from its runs. @param {number[]} runs */
function sum(runs) {
  return runs.reduce((total, value, at) => (at % 2 ? total : total + value), 0);
}
