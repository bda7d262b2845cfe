// The keyboard. Keys act unless a person is typing or answering a question.

import { byId, isOpen, toggleHelp } from "./dialogs.js";

/** @typedef {import("./actions.js").Actions} Actions */
/** @typedef {import("./frames.js").Frames} Frames */
/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Tool} Tool */
/** @typedef {import("./strokes.js").Strokes} Strokes */

/** @type {Record<string, Tool>} */
const TOOLS = {
  b: "brush",
  e: "eraser",
  t: "threshold",
  p: "polygon",
  l: "lasso",
  f: "fill",
  m: "pan",
  w: "window",
};

/** @type {Record<string, [number, number]>} */
const ARROWS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/**
 * @param {State} state
 * @param {Frames} frames
 * @param {Strokes} strokes
 * @param {Actions} actions
 */
export function listenToKeys(state, frames, strokes, actions) {
  let opacity = -1;
  document.addEventListener("keydown", (event) => {
    if (isOpen()) {
      if (event.key === "?" && byId("help").hasAttribute("open")) toggleHelp();
      return;
    }
    if (isTyping(event.target)) {
      if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    const handled = event.ctrlKey || event.metaKey ? withControl(event) : plain(event);
    if (handled) event.preventDefault();
  });
  document.addEventListener("keyup", (event) => {
    if (event.key === " " && strokes.stroke && frames.panel?.keyboard) strokes.end();
    if (event.key === "h" && opacity >= 0) {
      state.opacity = opacity;
      state.outline = true;
      opacity = -1;
      state.tell("look");
    }
  });

  /** @param {KeyboardEvent} event @returns {boolean} */
  const withControl = (event) => {
    const key = event.key.toLowerCase();
    if (key === "z") void (event.shiftKey ? actions.redo() : actions.undo());
    else if (key === "y") void actions.redo();
    else if (key === "enter") void actions.finish();
    else return false;
    return true;
  };

  /** @param {KeyboardEvent} event @returns {boolean} */
  const plain = (event) => {
    const { key } = event;
    const panel = frames.panel;
    if (event.altKey) return false;
    if (TOOLS[key]) {
      state.tool = TOOLS[key];
      state.tell("tool");
    } else if (/^[0-9]$/.test(key)) chooseLabel(Number(key));
    else if (key === "[" || key === "]") resize(key === "]" ? 1 : -1);
    else if (key === "?") toggleHelp();
    else if (key === "/") byId("search").focus();
    else if (key === "n") void actions.next();
    else if (key === "g") void actions.flag();
    else if (key === "v") void actions.preview();
    else if (key === "o" || key === "s") toggle(key === "o" ? "outline" : "smooth");
    else if (key === "h" && opacity < 0 && !event.repeat) {
      opacity = state.opacity;
      state.opacity = 0;
      state.outline = false;
      state.tell("look");
    } else if (key === "Escape") escape(panel);
    else return panel ? onPanel(event, panel) : false;
    return true;
  };

  /** @param {KeyboardEvent} event @param {Panel} panel @returns {boolean} */
  const onPanel = (event, panel) => {
    const { key } = event;
    const focused = document.activeElement === panel.canvas;
    if (key === "PageUp" || key === "PageDown") {
      panel.show(panel.index + (key === "PageUp" ? 1 : -1));
    } else if (key === "c") void actions.copy(panel);
    else if (key === "k") strokes.pick(panel, panel.ghost.at ?? panel.cursor);
    else if (key === "r") panel.fit();
    else if (key === "+" || key === "=") panel.zoomBy(1.25);
    else if (key === "-") panel.zoomBy(0.8);
    else if (key === "Home" && panel.slot) panel.show(panel.slot.index);
    else if (key === "Enter" && (focused || document.activeElement === document.body)) {
      if (!strokes.close(panel)) void actions.choose(panel);
    } else if (focused && ARROWS[key]) move(panel, ARROWS[key], event.shiftKey ? 10 : 1);
    else if (focused && key === " ") use(panel, event.repeat);
    else return false;
    return true;
  };

  /** @param {Panel} panel @param {[number, number]} way @param {number} far */
  const move = (panel, [dx, dy], far) => {
    const { width, height } = panel.shape;
    // From middle of pixel to middle of pixel, so that a brush of size 1 hits just one.
    const from = panel.cursor;
    panel.cursor = {
      x: Math.min(width, Math.max(1, Math.floor(from.x) + dx * far + 1)) - 0.5,
      y: Math.min(height, Math.max(1, Math.floor(from.y) + dy * far + 1)) - 0.5,
    };
    panel.keyboard = true;
    panel.ghost.at = undefined;
    if (strokes.stroke?.panel === panel) strokes.move(panel.cursor);
    panel.draw();
  };

  /** @param {Panel} panel @param {boolean} repeat */
  const use = (panel, repeat) => {
    panel.keyboard = true;
    if (repeat || strokes.stroke) return;
    if (state.tool === "polygon") strokes.corner(panel, panel.cursor);
    else if (state.tool === "fill") strokes.fillAt(panel, panel.cursor);
    else if (state.tool !== "pan" && state.tool !== "window") strokes.begin(panel, panel.cursor);
    panel.draw();
  };

  /** @param {Panel | null} panel */
  const escape = (panel) => {
    if (panel && strokes.abandon(panel)) return;
    if (state.preview) actions.leavePreview();
  };

  /** @param {number} value */
  const chooseLabel = (value) => {
    if (!state.overview?.labels.some((label) => label.value === value)) return;
    state.label = value;
    if (state.tool === "eraser") state.tool = "brush";
    state.tell("tool");
  };

  /** @param {number} step */
  const resize = (step) => {
    const by = state.size < 10 ? 1 : state.size < 30 ? 2 : 5;
    state.size = Math.min(100, Math.max(1, state.size + step * by));
    state.tell("tool");
  };

  /** @param {"outline" | "smooth"} what */
  const toggle = (what) => {
    state[what] = !state[what];
    state.tell("look", "tool");
  };
}

/** @param {EventTarget | null} target @returns {boolean} */
function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  const kind = target.getAttribute("type") ?? "";
  return (
    (target.tagName === "INPUT" && !["range", "checkbox", "radio"].includes(kind)) ||
    target.tagName === "SELECT" ||
    target.tagName === "TEXTAREA"
  );
}
