// The frame around a panel: its title, its slice number, letters, and what can be done with it.

import { byId, make } from "./dialogs.js";
import { Panel } from "./panel.js";
import { PLANE_COLOURS } from "./palette.js";
import { listen } from "./pointer.js";

/** @typedef {import("./actions.js").Actions} Actions */
/** @typedef {import("./drawing.js").Slot} Slot */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./strokes.js").Strokes} Strokes */
/** @typedef {import("./types.js").PlaneName} PlaneName */

/** @type {PlaneName[]} */
const PLANES = ["axial", "coronal", "sagittal"];

export class Frames {
  /** @param {State} state @param {Strokes} strokes @param {Actions} actions */
  constructor(state, strokes, actions) {
    this.state = state;
    this.strokes = strokes;
    this.actions = actions;
    /** @type {Frame[]} */
    this.frames = [];
    this.active = 0;
    state.on("look", () => this.draw());
    state.on("tool", () => this.draw());
    state.on("drawing", () => this.follow());
    state.on("pen", () => this.update());
  }

  /** @returns {Panel | null} the panel that the keyboard acts on */
  get panel() {
    return this.frames[this.active]?.panel ?? null;
  }

  /** Make the panels anew: one a chosen slice, or the three planes of the preview. */
  build() {
    const host = byId("panels");
    const kept = new Map(this.frames.map((frame) => [frame.key, frame.panel]));
    for (const frame of this.frames) frame.panel.close();
    const { drawing, preview, locked } = this.state;
    /** @type {[PlaneName, Slot | null][]} */
    const wanted = preview || locked
      ? PLANES.map((plane) => [plane, null])
      : (drawing?.slots ?? []).map((slot) => [slot.plane, slot]);
    host.dataset.count = String(wanted.length);
    host.replaceChildren();
    this.frames = wanted.map(([plane, slot], at) => {
      const frame = new Frame(this.state, this.strokes, this.actions, plane, slot, at);
      frame.element.addEventListener("focusin", () => (this.active = at));
      frame.element.addEventListener("pointerdown", () => (this.active = at));
      host.append(frame.element);
      frame.start();
      const before = kept.get(frame.key);
      if (before && !before.fitted) {
        Object.assign(frame.panel, { zoom: before.zoom, middle: before.middle, fitted: false });
      }
      return frame;
    });
    this.active = Math.min(this.active, Math.max(0, wanted.length - 1));
    this.update();
  }

  /** After the drawing changed: other slices need other panels. */
  follow() {
    const slots = this.state.drawing?.slots ?? [];
    const same =
      this.state.preview ||
      this.state.locked ||
      (slots.length === this.frames.length &&
        slots.every((slot, at) => this.frames[at].panel.slot === slot));
    if (!same) this.build();
    this.update();
    this.draw();
  }

  update() {
    for (const frame of this.frames) frame.update();
  }

  draw() {
    for (const { panel } of this.frames) panel.draw();
  }
}

class Frame {
  /**
   * @param {State} state
   * @param {Strokes} strokes
   * @param {Actions} actions
   * @param {PlaneName} plane
   * @param {Slot | null} slot
   * @param {number} at
   */
  constructor(state, strokes, actions, plane, slot, at) {
    this.state = state;
    this.strokes = strokes;
    this.key = `${plane} ${slot ? at : "preview"}`;
    this.plane = plane;
    this.slot = slot;
    this.shape = /** @type {import("./types.js").Scan} */ (state.scan).planes[plane];
    this.stage = make("div", { class: "stage" });
    this.number = make("span", { class: "number" });
    this.badge = make("span", { class: "badge" });
    this.empty = make("button", {
      text: "Nothing here",
      class: "quiet",
      type: "button",
      title: "This slice was looked at and shows nothing of the targets",
    });
    this.clear = make("button", {
      text: "Clear",
      class: "quiet",
      type: "button",
      title: "Make this slice undrawn",
    });
    this.away = make("div", { class: "away" });
    this.away.hidden = true;
    this.slider = make("input", { type: "range", label: `Shown ${plane} slice` });
    this.slider.min = "0";
    this.slider.max = String(this.shape.slices - 1);
    const name = make("h2", { text: plane });
    name.style.color = PLANE_COLOURS[plane];
    const title = make("header", {}, name, this.number, this.badge, this.empty, this.clear);
    const sides = Object.entries(this.shape.letters).map(([side, letter]) =>
      make("span", { class: `letter ${side}`, text: letter }),
    );
    const view = make("div", { class: "view" }, this.stage, ...sides, this.away);
    this.element = make("section", { class: "panel", label: `${plane} panel` }, title, view, this.slider);
    this.panel = /** @type {Panel} */ (/** @type {unknown} */ (null));
    this.empty.addEventListener("click", () => strokes.markEmpty(this.panel));
    this.clear.addEventListener("click", () => actions.clear(this.panel));
    this.actions = actions;
  }

  /** Once it is on the page, and has a size. */
  start() {
    this.panel = new Panel(this.state, this.plane, this.slot, this.stage);
    const { canvas } = this.panel;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "drawing area");
    canvas.addEventListener("blur", () => {
      this.panel.keyboard = false;
      this.panel.draw();
    });
    listen(this.panel, this.strokes);
    this.panel.onslice = () => this.update();
    this.slider.addEventListener("input", () => this.panel.show(Number(this.slider.value)));
    this.update();
  }

  update() {
    const { panel, slot, state } = this;
    const { index } = panel;
    this.slider.value = String(index);
    this.number.textContent = `slice ${index} (0–${this.shape.slices - 1})`;
    const words = slot ? this.words(slot) : state.preview ? "preview" : "to look at";
    this.badge.textContent = words;
    this.badge.dataset.kind = words;
    this.empty.hidden = !slot || slot.drawn || !state.canDraw;
    this.clear.hidden = !slot || !slot.drawn || !state.canDraw;
    panel.canvas.setAttribute(
      "aria-label",
      `${this.plane} slice ${index}, ${words}. Arrow keys move the cursor, space draws, Page Up and Page Down show neighbours.`,
    );
    this.away.hidden = !slot || panel.drawable;
    if (!this.away.hidden && this.away.dataset.at !== `${index} ${slot?.index}`) this.tellAway(index);
  }

  /** @param {Slot} slot */
  words(slot) {
    if (!slot.drawn) return "to draw";
    return slot.raster.some((value) => value > 0) ? "drawn" : "drawn, empty";
  }

  /** @param {number} index */
  tellAway(index) {
    const { slot, panel } = this;
    if (!slot) return;
    this.away.dataset.at = `${index} ${slot.index}`;
    const back = make("button", { text: `Back to ${slot.index}`, type: "button" });
    back.addEventListener("click", () => panel.show(slot.index));
    const here = make("button", { text: `Draw on ${index}`, class: "quiet", type: "button" });
    here.addEventListener("click", () => this.actions.choose(panel));
    const text = `Looking at ${index}, drawing on ${slot.index}.`;
    this.away.replaceChildren(make("span", { text }), back, here);
  }
}
