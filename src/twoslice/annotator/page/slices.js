// Slices of the open scan, kept once fetched; neighbours are fetched before they are asked for.

import * as api from "./api.js";

/** @typedef {import("./types.js").PlaneName} PlaneName */
/** @typedef {import("./types.js").Scan} Scan */
/** @typedef {Uint8Array | Uint16Array} Codes */

const AHEAD = 10;
const AT_ONCE = 4;
const MOST_BYTES = 300 * 2 ** 20;

export class Slices {
  /** @param {string} name @param {Scan} scan */
  constructor(name, scan) {
    this.name = name;
    this.scan = scan;
    /** @type {Map<string, Codes>} */
    this.kept = new Map();
    /** @type {Map<string, Promise<Codes>>} */
    this.coming = new Map();
    /** @type {[number, PlaneName, number][]} */
    this.wished = [];
    this.bytes = 0;
    this.running = 0;
    this.stop = new AbortController();
  }

  /** Forget everything that is still on its way. */
  close() {
    this.stop.abort();
    this.wished = [];
  }

  /**
   * @param {number} channel
   * @param {PlaneName} plane
   * @param {number} index
   * @returns {Codes | null} null if it is not here yet
   */
  now(channel, plane, index) {
    return this.kept.get(`${channel} ${plane} ${index}`) ?? null;
  }

  /**
   * @param {number} channel
   * @param {PlaneName} plane
   * @param {number} index
   * @returns {Promise<Codes>}
   */
  get(channel, plane, index) {
    const key = `${channel} ${plane} ${index}`;
    const known = this.kept.get(key);
    if (known) return Promise.resolve(known);
    let coming = this.coming.get(key);
    if (!coming) {
      coming = this.fetch(key, channel, plane, index);
      this.coming.set(key, coming);
    }
    return coming;
  }

  /**
   * Fetch what a person will likely see next: further the same way, then a few behind.
   * @param {number} channel
   * @param {PlaneName} plane
   * @param {number} index
   * @param {number} way 1 or -1
   */
  prefetch(channel, plane, index, way) {
    const last = this.scan.planes[plane].slices - 1;
    /** @type {[number, PlaneName, number][]} */
    const wished = [];
    for (let step = 1; step <= AHEAD; step++) {
      const places = step <= 3 ? [index + way * step, index - way * step] : [index + way * step];
      for (const place of places) {
        if (place >= 0 && place <= last && !this.now(channel, plane, place)) {
          wished.push([channel, plane, place]);
        }
      }
    }
    this.wished = [...wished, ...this.wished.filter(([, other]) => other !== plane)].slice(0, 40);
    this.pump();
  }

  pump() {
    while (this.running < AT_ONCE && this.wished.length) {
      const [channel, plane, index] = /** @type {[number, PlaneName, number]} */ (
        this.wished.shift()
      );
      if (this.now(channel, plane, index)) continue;
      this.running++;
      this.get(channel, plane, index)
        .catch(() => {})
        .finally(() => {
          this.running--;
          this.pump();
        });
    }
  }

  /**
   * @param {string} key
   * @param {number} channel
   * @param {PlaneName} plane
   * @param {number} index
   * @returns {Promise<Codes>}
   */
  async fetch(key, channel, plane, index) {
    try {
      const { stamp, channels } = this.scan;
      const raw = await api.slice(this.name, channel, plane, index, stamp, this.stop.signal);
      const codes = channels[channel].bytes === 1 ? new Uint8Array(raw) : new Uint16Array(raw);
      this.keep(key, codes);
      return codes;
    } finally {
      this.coming.delete(key);
    }
  }

  /** @param {string} key @param {Codes} codes */
  keep(key, codes) {
    this.kept.set(key, codes);
    this.bytes += codes.byteLength;
    for (const [oldest, dropped] of this.kept) {
      if (this.bytes <= MOST_BYTES) break;
      this.kept.delete(oldest);
      this.bytes -= dropped.byteLength;
    }
  }
}
