// The page's state, in one place, and who wants to know when it changes.

import { greys } from "./render.js";

/** @typedef {import("./drawing.js").Drawing} Drawing */
/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {import("./slices.js").Slices} Slices */
/** @typedef {import("./types.js").Notes} Notes */
/** @typedef {import("./types.js").Overview} Overview */
/** @typedef {import("./types.js").PlaneName} PlaneName */
/** @typedef {import("./types.js").PreviewMade} PreviewMade */
/** @typedef {import("./types.js").Scan} Scan */
/** @typedef {import("./types.js").Suggestion} Suggestion */
/** @typedef {"brush" | "eraser" | "threshold" | "polygon" | "lasso" | "fill" | "pan" | "window"} Tool */
/** @typedef {"case" | "drawing" | "look" | "tool" | "list" | "saving" | "pen"} Topic */

export class State {
  constructor() {
    /** @type {Overview | null} */
    this.overview = null;
    /** @type {string | null} */
    this.name = null;
    /** @type {Scan | null} */
    this.scan = null;
    /** @type {Drawing | null} */
    this.drawing = null;
    /** @type {Slices | null} */
    this.slices = null;
    /** @type {Notes} */
    this.notes = { finished: false, flag: null };
    /** @type {Suggestion[]} */
    this.suggestions = [];
    /** @type {string[]} */
    this.faults = [];
    /** @type {string | null} */
    this.locked = null;
    this.mine = true;
    this.busy = false;
    /** @type {PreviewMade | null} */
    this.preview = null;
    /** True once a preview of this scan was made: it can be copied from. */
    this.previewMade = false;
    /** @type {((panel: Panel) => void) | null} */
    this.overlayFor = null;
    /** @type {Tool} */
    this.tool = "brush";
    this.label = 1;
    this.size = 5;
    /** @type {[number, number]} */
    this.range = [0, 1];
    this.opacity = 0.4;
    this.outline = true;
    this.smooth = true;
    this.channel = 0;
    /** @type {[number, number]} */
    this.window = [0, 1];
    this.tableKey = "";
    /** @type {Uint32Array} */
    this.table = new Uint32Array(0);
    /** @type {Map<Topic, (() => void)[]>} */
    this.listeners = new Map();
  }

  /** @param {Topic} topic @param {() => void} listener */
  on(topic, listener) {
    this.listeners.set(topic, [...(this.listeners.get(topic) ?? []), listener]);
  }

  /** @param {...Topic} topics */
  tell(...topics) {
    for (const topic of topics) for (const listener of this.listeners.get(topic) ?? []) listener();
  }

  get previewKey() {
    return this.preview?.version ?? "";
  }

  /** True if strokes are taken just now. */
  get canDraw() {
    return this.drawing !== null && this.mine && !this.busy && !this.locked && !this.preview;
  }

  /** The value that the tool paints. */
  get paint() {
    return this.tool === "eraser" ? 0 : this.label;
  }

  /** The brush's radius in millimetres: its size counts the smaller side of a pixel. @param {PlaneName} plane */
  radius(plane) {
    const spacing = this.scan?.planes[plane].spacing ?? [1, 1];
    return (this.size / 2) * Math.min(...spacing);
  }

  /** @param {number} channel @returns {Uint32Array} */
  greys(channel) {
    const key = `${this.name} ${channel} ${this.window}`;
    const shape = this.scan?.channels[channel];
    if (key !== this.tableKey && shape) {
      this.table = greys(shape, this.window);
      this.tableKey = key;
    }
    return this.table;
  }
}
