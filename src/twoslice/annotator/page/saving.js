// Strokes on their way to the disk. A stroke counts as saved when the server says that the file
// has it. Until then it is kept here and in the browser's storage, and sent again after a lost
// connection, a killed server or a closed tab.

import * as api from "./api.js";
import { decode, encode, sameAs } from "./drawing.js";
import { portion } from "./portion.js";

/** @typedef {import("./drawing.js").Snapshot} Snapshot */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").DrawingState} DrawingState */
/** @typedef {import("./types.js").Edit} Edit */
/** @typedef {"saved" | "saving" | "offline" | "token" | "unsaved"} Standing */

/**
 * Edits that the server has not acknowledged. `after` is the drawing after those under way: if an
 * answer was lost, it tells whether they arrived.
 * @typedef {{base: string, sent: Edit[], after: Snapshot | null, queue: Edit[]}} Pending
 */

const PAUSES = [300, 1000, 2000, 4000];

export class Saver {
  /**
   * @param {State} state
   * @param {(message: string) => void} tell says something to the person
   */
  constructor(state, tell) {
    this.state = state;
    this.tell = tell;
    /** @type {Standing} */
    this.standing = "saved";
    this.message = "";
    /** @type {Pending} */
    this.pending = { base: "", sent: [], after: null, queue: [] };
    /** @type {Snapshot | null} */
    this.latest = null;
    this.sending = false;
    this.tries = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** @type {(() => void)[]} */
    this.waiting = [];
    /** Called when the server says that another program wrote the file. */
    this.onchanged = () => {};
  }

  get clean() {
    return !this.pending.sent.length && !this.pending.queue.length;
  }

  get key() {
    return `twoslice ${this.state.overview?.id} ${this.state.name}`;
  }

  /** A case was opened: put back what a closed page left unsaved. */
  async begin() {
    clearTimeout(this.timer);
    const base = this.state.drawing?.version ?? "";
    this.pending = { base, sent: [], after: null, queue: [] };
    this.tries = 0;
    this.stand("saved");
    const left = this.stored();
    if (!left) return;
    this.pending = left;
    this.stand("saving");
    await this.reconcile();
    if (!this.clean) this.pump();
  }

  /** @param {Edit} edit already made in the drawing */
  push(edit) {
    this.pending.queue.push(edit);
    this.latest = this.state.drawing?.snapshot() ?? null;
    this.store();
    this.stand("saving");
    this.pump();
  }

  /** Resolves when everything is saved. @returns {Promise<void>} */
  settled() {
    if (this.clean) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  /**
   * An edit that the server makes (undo, another slice, …): waits for strokes, then takes over
   * the drawing that comes back.
   * @param {Edit} edit
   * @returns {Promise<boolean>} false if it was refused
   */
  async request(edit) {
    const { state } = this;
    if (!state.name || state.busy) return false;
    if (this.standing !== "saved" && this.standing !== "saving") {
      this.tell("Strokes are not saved yet: this must wait.");
      return false;
    }
    state.busy = true;
    state.tell("pen");
    try {
      await this.settled();
      const answer = await api.edit(state.name, this.pending.base, [edit]);
      this.adopt(answer.drawing);
      state.faults = answer.faults;
      return true;
    } catch (error) {
      await this.refused(error, false);
      return false;
    } finally {
      state.busy = false;
      state.tell("drawing", "pen");
    }
  }

  async pump() {
    const { pending, state } = this;
    if (this.sending || !state.name || this.clean) return;
    this.sending = true;
    clearTimeout(this.timer);
    if (!pending.sent.length) {
      pending.sent = pending.queue.splice(0, portion(pending.queue));
      pending.after = pending.queue.length ? null : this.latest;
      this.store();
    }
    try {
      const answer = await api.edit(state.name, pending.base, pending.sent);
      if (this.pending === pending) this.acknowledged(answer.drawing, answer.faults);
    } catch (error) {
      if (this.pending === pending) await this.refused(error, true);
    } finally {
      this.sending = false;
    }
    if (this.standing === "saving") this.pump();
  }

  /** @param {DrawingState} drawing @param {string[]} faults */
  acknowledged(drawing, faults) {
    this.pending.base = drawing.version;
    this.pending.sent = [];
    this.pending.after = null;
    this.tries = 0;
    this.state.faults = faults;
    this.state.drawing?.count(drawing);
    this.store();
    if (this.clean) {
      this.stand("saved");
      for (const resolve of this.waiting.splice(0)) resolve();
    } else {
      this.stand("saving");
    }
    this.state.tell("drawing");
  }

  /** @param {DrawingState} drawing */
  adopt(drawing) {
    this.pending = { base: drawing.version, sent: [], after: null, queue: [] };
    this.state.drawing?.adopt(drawing);
    this.store();
    this.stand("saved");
    for (const resolve of this.waiting.splice(0)) resolve();
    this.state.tell("drawing");
  }

  /** @param {unknown} error @param {boolean} strokes true if strokes wait to be sent again */
  async refused(error, strokes) {
    if (!(error instanceof api.ApiError)) throw error;
    if (error.code === "offline" || error.code === "token" || error.status >= 500) {
      const standing = error.code === "offline" ? "offline" : error.code;
      this.stand(standing === "offline" || standing === "token" ? standing : "unsaved", error.message);
      if (strokes) this.retry();
      return;
    }
    if (error.code === "held") {
      this.state.mine = false;
      this.state.tell("pen");
    }
    if (error.code === "changed-on-disk") {
      this.onchanged();
      return;
    }
    if (error.code === "stale" && strokes) {
      await this.reconcile();
      return;
    }
    this.tell(error.message);
    await this.takeOver();
  }

  retry() {
    const pause = PAUSES[Math.min(this.tries++, PAUSES.length - 1)];
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        await this.reconcile();
        this.pump();
      } catch (error) {
        await this.refused(error, true);
      }
    }, pause);
  }

  /** After an answer was lost: did what was sent arrive, is it to be sent again, or neither? */
  async reconcile() {
    const { state, pending } = this;
    if (!state.name || !state.drawing) return;
    const there = await api.drawing(state.name);
    if (this.pending !== pending) return;
    if (there.version === pending.base) {
      pending.queue = [...pending.sent, ...pending.queue];
      pending.sent = [];
      replay(state, there, pending.queue);
    } else if (pending.after && sameAs(pending.after, there)) {
      pending.base = there.version;
      pending.sent = [];
      replay(state, there, pending.queue);
    } else {
      this.adopt(there);
      this.tell("The drawing was changed elsewhere. It is shown as it is now.");
      return;
    }
    this.latest = state.drawing.snapshot();
    this.store();
    this.stand(this.clean ? "saved" : "saving");
    if (this.clean) for (const resolve of this.waiting.splice(0)) resolve();
    state.tell("drawing");
  }

  async takeOver() {
    if (!this.state.name) return;
    try {
      this.adopt(await api.drawing(this.state.name));
    } catch {
      this.retry();
    }
  }

  /** @param {Standing} standing @param {string} [message] */
  stand(standing, message = "") {
    this.standing = standing;
    this.message = message;
    this.state.tell("saving");
  }

  store() {
    try {
      if (this.clean) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify(this.pending, packed));
    } catch {
      // a full or forbidden storage: the page itself still has the strokes
    }
  }

  /** @returns {Pending | null} */
  stored() {
    try {
      const left = JSON.parse(localStorage.getItem(this.key) ?? "null");
      if (!left || !Array.isArray(left.sent) || !Array.isArray(left.queue)) return null;
      for (const each of left.after ?? []) each.raster = decode(each.raster, sum(each.raster));
      return left;
    } catch {
      return null;
    }
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

/**
 * The server's drawing with strokes on top that it does not have yet.
 * @param {State} state
 * @param {DrawingState} there
 * @param {Edit[]} edits
 */
function replay(state, there, edits) {
  const { drawing } = state;
  if (!drawing) return;
  drawing.adopt(there);
  for (const { plane, index, runs } of edits) {
    const slot = drawing.slots.find((each) => each.plane === plane && each.index === index);
    if (!slot || !runs) continue;
    drawing.begin(slot);
    for (let i = 0; i < runs.length; i += 3) slot.raster.fill(runs[i + 2], runs[i], runs[i] + runs[i + 1]);
    drawing.spread(slot);
  }
}
