// Strokes on their way to the disk. A stroke counts as saved when the server says that the file
// has it. Until then it is kept here and in the browser's storage, and sent again after a lost
// connection, a killed server or a closed tab.

import * as api from "./api.js";
import { sameAs } from "./drawing.js";
import { portion } from "./portion.js";
import { keep, kept, nothing } from "./storage.js";

/** @typedef {import("./drawing.js").Snapshot} Snapshot */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").DrawingState} DrawingState */
/** @typedef {import("./types.js").Edit} Edit */
/** @typedef {import("./storage.js").Pending} Pending */
/** @typedef {"saved" | "saving" | "offline" | "token" | "unsaved"} Standing */

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
    this.pending = nothing("");
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
    this.pending = nothing(this.state.drawing?.version ?? "");
    this.tries = 0;
    this.stand("saved");
    const left = kept(this.key);
    if (!left) return;
    this.pending = left;
    this.stand("saving");
    await this.reconcile();
    if (!this.clean) this.pump();
  }

  /** @param {Edit} edit already made in the drawing */
  push(edit) {
    const { queue, cuts } = this.pending;
    const last = [...queue.slice(cuts.at(-1)?.at ?? 0), edit];
    if (this.latest && portion(last) < last.length) cuts.push({ at: queue.length, after: this.latest });
    queue.push(edit);
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
      const cut = pending.cuts.shift();
      pending.sent = pending.queue.splice(0, cut?.at ?? portion(pending.queue));
      pending.after = cut?.after ?? (pending.queue.length ? null : this.latest);
      for (const each of pending.cuts) each.at -= pending.sent.length;
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
    this.pending = nothing(drawing.version);
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
      for (const each of pending.cuts) each.at += pending.sent.length;
      if (pending.queue.length && pending.after)
        pending.cuts.unshift({ at: pending.sent.length, after: pending.after });
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
    keep(this.key, this.clean ? null : this.pending);
  }
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
