// What the tools do on a panel, whoever moves them: mouse, pen, finger or keyboard.

import { difference } from "./drawing.js";
import { brush, fill, pixelAt, polygon } from "./tools.js";

/** @typedef {import("./drawing.js").Slot} Slot */
/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {import("./saving.js").Saver} Saver */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").Point} Point */

export class Strokes {
  /**
   * @param {State} state
   * @param {Saver} saver
   * @param {(message: string) => void} tell
   */
  constructor(state, saver, tell) {
    this.state = state;
    this.saver = saver;
    this.tell = tell;
    /** @type {{panel: Panel, slot: Slot, before: Uint8Array, drawn: boolean, value: number, limited: boolean, last: Point} | null} */
    this.stroke = null;
  }

  /** Why nothing can be drawn on a panel just now; null if it can. @param {Panel} panel */
  hindrance(panel) {
    const { state } = this;
    if (state.preview) return "This is the preview. Go back to drawing first.";
    if (state.locked) return state.locked;
    if (!state.mine) return "This scan is open in another tab, which has the pen.";
    if (!panel.drawable) {
      return `Drawing stays on slice ${panel.slot?.index}. Press Home to go back to it, or Enter to draw on this one.`;
    }
    return state.canDraw ? null : "One moment …";
  }

  /**
   * @param {Panel} panel
   * @param {Point} at
   * @param {boolean} [erase] the pen's other end
   * @returns {boolean} false if nothing can be drawn
   */
  begin(panel, at, erase = false) {
    const why = this.hindrance(panel);
    if (why || !panel.slot) {
      this.tell(why ?? "");
      return false;
    }
    const { slot } = panel;
    const value = erase ? 0 : this.state.paint;
    const { drawn } = slot;
    const limited = this.state.tool === "threshold" && !erase;
    this.stroke = { panel, slot, before: slot.raster.slice(), drawn, value, limited, last: at };
    this.state.drawing?.begin(slot);
    if (this.state.tool === "lasso" && !erase) panel.ghost.corners = [at];
    else this.move(at);
    return true;
  }

  /** @param {Point} at */
  move(at) {
    const { stroke } = this;
    if (!stroke) return;
    const { panel, slot, value, limited, last } = stroke;
    stroke.last = at;
    if (panel.ghost.corners && this.state.tool === "lasso") {
      panel.ghost.corners.push(at);
      panel.draw();
      return;
    }
    const allowed = limited ? this.within(panel) : undefined;
    const radius = this.state.radius(slot.plane);
    if (brush(slot.raster, slot.shape, last, at, radius, value, allowed)) {
      this.state.drawing?.spread(slot);
      this.state.tell("look");
    }
  }

  end() {
    const { stroke } = this;
    if (!stroke) return;
    const { panel, slot, value } = stroke;
    const corners = panel.ghost.corners;
    if (corners && this.state.tool === "lasso") {
      polygon(slot.raster, slot.shape, corners, value);
      panel.ghost.corners = undefined;
    }
    this.stroke = null;
    this.save(slot, stroke.before, stroke.drawn);
  }

  /** Take back what the stroke under way did. */
  cancel() {
    const { stroke } = this;
    if (!stroke) return;
    stroke.slot.raster.set(stroke.before);
    stroke.slot.drawn = stroke.drawn;
    stroke.panel.ghost.corners = undefined;
    this.stroke = null;
    this.state.drawing?.spread(stroke.slot);
    this.state.tell("look");
  }

  /** One more corner, or the end of the polygon where it began. @param {Panel} panel @param {Point} at */
  corner(panel, at) {
    const why = this.hindrance(panel);
    if (why) {
      this.tell(why);
      return;
    }
    const corners = (panel.ghost.corners ??= []);
    if (corners.length > 2 && near(panel, corners[0], at)) {
      this.close(panel);
      return;
    }
    if (!corners.length || !near(panel, corners[corners.length - 1], at, 2)) corners.push(at);
    panel.draw();
  }

  /** Close a polygon under way. @param {Panel} panel @returns {boolean} false if there is none */
  close(panel) {
    const { corners } = panel.ghost;
    panel.ghost.corners = undefined;
    panel.draw();
    if (!corners || !panel.slot || this.hindrance(panel)) return false;
    this.change(panel, (slot) => polygon(slot.raster, slot.shape, corners, this.state.paint));
    return true;
  }

  /** @param {Panel} panel @returns {boolean} */
  abandon(panel) {
    const busy = Boolean(panel.ghost.corners);
    panel.ghost.corners = undefined;
    this.cancel();
    panel.draw();
    return busy;
  }

  /** @param {Panel} panel @param {Point} at */
  fillAt(panel, at) {
    const why = this.hindrance(panel);
    if (why) {
      this.tell(why);
      return;
    }
    const pixel = pixelAt(panel.shape, at);
    if (pixel < 0) return;
    this.change(panel, (slot) => {
      const done = fill(slot.raster, slot.shape, pixel, this.state.paint);
      if (done === "open") this.tell("Nothing is filled: the outline around this place is open.");
      return done === "filled";
    });
  }

  /** The slice was looked at and shows nothing of the targets. @param {Panel} panel */
  markEmpty(panel) {
    const why = this.hindrance(panel);
    if (why) this.tell(why);
    else this.change(panel, () => true);
  }

  /** @param {Panel} panel @param {(slot: Slot) => boolean} work */
  change(panel, work) {
    const { slot } = panel;
    if (!slot) return;
    const before = slot.raster.slice();
    const { drawn } = slot;
    this.state.drawing?.begin(slot);
    if (work(slot)) {
      this.save(slot, before, drawn);
      return;
    }
    slot.raster.set(before);
    slot.drawn = drawn;
    slot.changes++;
    this.state.tell("look");
  }

  /** Intensities that the threshold-limited brush may paint. @param {Panel} panel */
  within(panel) {
    const { slices, channel, scan, range } = this.state;
    const codes = slices?.now(channel, panel.plane, panel.index);
    const shape = scan?.channels[channel];
    if (!codes || !shape) return () => false;
    return (/** @type {number} */ pixel) => {
      const value = shape.offset + shape.step * codes[pixel];
      return value >= range[0] && value <= range[1];
    };
  }

  /** Take the range of intensities from what lies under the brush. @param {Panel} panel @param {Point} at */
  pick(panel, at) {
    const { slices, channel, scan } = this.state;
    const codes = slices?.now(channel, panel.plane, panel.index);
    const shape = scan?.channels[channel];
    if (!codes || !shape) return;
    const under = new Uint8Array(panel.shape.width * panel.shape.height);
    brush(under, panel.shape, at, at, this.state.radius(panel.plane), 1);
    const values = [];
    for (let i = 0; i < under.length; i++) {
      if (under[i]) values.push(shape.offset + shape.step * codes[i]);
    }
    if (!values.length) return;
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length);
    const [low, high] = this.state.window;
    const room = Math.max(2 * spread, (high - low) / 50);
    this.state.range = [mean - room, mean + room];
    this.state.tell("tool");
  }

  /** @param {Slot} slot @param {Uint8Array} before @param {boolean} drawn */
  save(slot, before, drawn) {
    this.state.drawing?.spread(slot);
    const runs = difference(before, slot.raster);
    if (runs.length || !drawn) {
      this.saver.push({ kind: "paint", plane: slot.plane, index: slot.index, runs });
    }
    this.state.tell("drawing");
  }
}

/** @param {Panel} panel @param {Point} a @param {Point} b @param {number} [pixels] */
function near(panel, a, b, pixels = 9) {
  const one = panel.toScreen(a);
  const other = panel.toScreen(b);
  return Math.hypot(one.x - other.x, one.y - other.y) < pixels;
}
