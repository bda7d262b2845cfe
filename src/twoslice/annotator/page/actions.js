// What a person can do with a scan, whether by button or by key.

import * as api from "./api.js";
import { ask, notice } from "./dialogs.js";

/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {import("./saving.js").Saver} Saver */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").PlaneName} PlaneName */

export class Actions {
  /** @param {State} state @param {Saver} saver */
  constructor(state, saver) {
    this.state = state;
    this.saver = saver;
    /** Set by app.js: opens a case. @type {(name: string) => Promise<void>} */
    this.open = async () => {};
    /** Set by app.js: fetches the list anew. @type {() => Promise<void>} */
    this.refresh = async () => {};
    this.previewing = false;
  }

  /** @returns {Promise<unknown>} */
  async undo() {
    if (!this.state.canDraw) return;
    if (!this.state.drawing?.undo && this.saver.clean) return notice("There is nothing to undo.");
    return this.saver.request({ kind: "undo" });
  }

  /** @returns {Promise<unknown>} */
  async redo() {
    if (!this.state.canDraw) return;
    if (!this.state.drawing?.redo) return notice("There is nothing to redo.");
    return this.saver.request({ kind: "redo" });
  }

  /** @param {Panel} panel */
  async clear(panel) {
    if (panel.slot && this.state.canDraw) {
      const { plane, index } = panel.slot;
      await this.saver.request({ kind: "clear", plane, index });
    }
  }

  /** @param {Panel | null} panel */
  async copy(panel) {
    if (!panel?.slot || !this.state.canDraw) return;
    const { plane, index, drawn, neighbour, raster } = panel.slot;
    if (neighbour === null && !this.state.previewMade) {
      notice(`No other ${plane} slice is drawn in this scan, and there is no preview to copy from.`);
      return;
    }
    if (drawn && raster.some((value) => value > 0 && value < 255)) {
      const from = neighbour === null ? "the preview" : `slice ${neighbour}`;
      const { answer } = await ask(
        `Replace the drawing on ${plane} ${index}?`,
        [`What ${from} shows takes its place. Undo brings it back.`],
        [
          { text: "Replace it", value: "yes" },
          { text: "Keep it", value: "", kind: "quiet" },
        ],
      );
      if (!answer) return;
    }
    if (await this.saver.request({ kind: "copy", plane, index })) {
      notice(neighbour === null ? "Copied from the preview." : `Copied from ${plane} ${neighbour}.`);
    }
  }

  /** Draw on the slice that a panel shows in place of its chosen one. @param {Panel | null} panel */
  async choose(panel) {
    if (!panel?.slot || panel.drawable || !this.state.canDraw) return;
    const { plane, index, drawn } = panel.slot;
    const to = panel.index;
    if (this.state.drawing?.slots.some((slot) => slot.plane === plane && slot.index === to)) {
      notice(`${plane} ${to} is chosen already, in another panel.`);
      return;
    }
    let carry = false;
    if (drawn) {
      const { answer } = await ask(
        `Draw on ${plane} ${to} in place of ${index}?`,
        [`Slice ${index} has a drawing, and a plane keeps one slice here. Undo brings it back.`],
        [
          { text: "Take the drawing along", value: "carry" },
          { text: "Discard it", value: "drop", kind: "danger" },
          { text: "Cancel", value: "", kind: "quiet" },
        ],
      );
      if (!answer) return;
      carry = answer === "carry";
    }
    await this.saver.request({ kind: "move", plane, index, to, carry });
  }

  /** @param {PlaneName} plane @param {number} index */
  async add(plane, index) {
    if (this.state.canDraw) await this.saver.request({ kind: "add", plane, index });
  }

  /** @param {PlaneName} plane @param {number} index @param {boolean} drawn */
  async remove(plane, index, drawn) {
    if (!this.state.canDraw) return;
    if (drawn) {
      const { answer } = await ask(
        `Remove ${plane} ${index}?`,
        ["It has a drawing. Undo brings it back."],
        [
          { text: "Remove it", value: "yes", kind: "danger" },
          { text: "Keep it", value: "", kind: "quiet" },
        ],
      );
      if (!answer) return;
    }
    await this.saver.request({ kind: "remove", plane, index });
  }

  async flag() {
    const { name, notes } = this.state;
    if (!name) return;
    if (notes.flag) {
      await this.note({ unflag: true });
      return;
    }
    const { answer, text } = await ask(
      `Flag ${name}`,
      ["A flagged scan is set aside: it is not suggested, and keeps what is drawn."],
      [
        { text: "Flag it", value: "yes" },
        { text: "Cancel", value: "", kind: "quiet" },
      ],
      { text: "Why?", value: "" },
    );
    if (answer) await this.note({ flag: text });
  }

  /** Call the scan finished, after a look at what the check would say. */
  async finish() {
    const { state } = this;
    if (!state.name || !state.drawing || state.locked) return;
    if (state.notes.finished) {
      await this.note({ finished: false });
      return;
    }
    await this.saver.settled();
    const missing = state.drawing.slots.filter((slot) => !slot.drawn);
    const lines = [
      ...missing.map((slot) => `${slot.plane} ${slot.index} is not drawn yet.`),
      ...state.faults,
    ];
    if (lines.length) {
      const { answer } = await ask("Finish with open points?", lines, [
        { text: "Go on drawing", value: "" },
        { text: "Finish anyway", value: "yes", kind: "quiet" },
      ]);
      if (!answer) return;
    }
    const next = await this.note({ finished: true });
    if (next) await this.open(next);
    else notice("Every scan is finished or flagged.");
  }

  /** @param {{finished?: boolean, flag?: string, unflag?: boolean}} change @returns {Promise<string | null>} */
  async note(change) {
    const { state } = this;
    if (!state.name) return null;
    try {
      const answer = await api.note(state.name, change);
      state.notes = answer.notes;
      await this.refresh();
      state.tell("case");
      return answer.next;
    } catch (error) {
      notice(error instanceof Error ? error.message : String(error));
      return null;
    }
  }

  async next() {
    const { overview, name } = this.state;
    await this.refresh();
    const following = overview?.next === name ? null : this.state.overview?.next;
    if (following && following !== name) await this.open(following);
    else notice("No other scan is suggested.");
  }

  /** Into the preview, or out of it. */
  async preview() {
    const { state } = this;
    if (state.preview) {
      this.leavePreview();
      return;
    }
    if (!state.name || !state.drawing || this.previewing) return;
    if (!state.drawing.slots.some((slot) => slot.drawn)) {
      notice("Nothing is drawn yet. Draw on one slice at least.");
      return;
    }
    const { name } = state;
    this.previewing = true;
    state.tell("pen");
    try {
      await this.saver.settled();
      const made = await api.preview(name);
      if (state.name !== name) return;
      state.previewMade = true;
      state.overlayFor = (panel) => {
        const { plane, index } = panel;
        api.previewSlice(name, made.version, plane, index).then(
          (labels) => {
            if (panel.index !== index) return;
            panel.overlay = labels;
            panel.labelKey = "";
            panel.draw();
          },
          () => {},
        );
      };
      state.preview = made;
      state.tell("case", "pen");
    } catch (error) {
      notice(error instanceof Error ? error.message : String(error));
    } finally {
      this.previewing = false;
      state.tell("pen");
    }
  }

  leavePreview() {
    this.state.preview = null;
    this.state.overlayFor = null;
    this.state.tell("case", "pen");
  }
}
