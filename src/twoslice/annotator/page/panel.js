// One panel: a slice of one plane, what is drawn on it, and the lines where other slices cut it.

import { paintGhost, paintLines } from "./marks.js";
import { cssColour } from "./palette.js";
import { drawImage, drawLabels, outlines } from "./render.js";

/** @typedef {import("./drawing.js").Slot} Slot */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").PlaneName} PlaneName */
/** @typedef {import("./types.js").PlaneShape} PlaneShape */
/** @typedef {import("./types.js").Point} Point */

/**
 * What a tool shows over the slice while it is used.
 * @typedef {object} Ghost
 * @property {Point} [at] the brush
 * @property {Point[]} [corners] a polygon under way
 */

export class Panel {
  /**
   * @param {State} state
   * @param {PlaneName} plane
   * @param {Slot | null} slot null where there is nothing to draw on: the preview
   * @param {HTMLElement} stage
   */
  constructor(state, plane, slot, stage) {
    this.state = state;
    this.plane = plane;
    this.slot = slot;
    this.stage = stage;
    this.canvas = document.createElement("canvas");
    stage.append(this.canvas);
    this.shape = /** @type {PlaneShape} */ (state.scan?.planes[plane]);
    this.index = slot ? slot.index : Math.floor(this.shape.slices / 2);
    /** Millimetres at the middle of the panel, and screen pixels a millimetre. */
    this.middle = { x: 0, y: 0 };
    this.zoom = 1;
    this.fitted = true;
    /** @type {Ghost} */
    this.ghost = {};
    /** @type {Point} */
    this.cursor = { x: this.shape.width / 2, y: this.shape.height / 2 };
    this.keyboard = false;
    this.image = new OffscreenCanvas(1, 1);
    this.labels = new OffscreenCanvas(1, 1);
    this.imageKey = "";
    this.imageIndex = -1;
    this.labelKey = "";
    /** @type {Map<number, Path2D>} */
    this.paths = new Map();
    /** @type {Uint8Array | null} */
    this.overlay = null;
    this.asked = 0;
    /** Called when another slice is shown. */
    this.onslice = () => {};
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(stage);
    this.resize();
    this.show(this.index);
  }

  close() {
    this.watch.disconnect();
    this.stage.replaceChildren();
  }

  /** True where strokes may go: on the chosen slice itself. */
  get drawable() {
    return this.slot !== null && this.index === this.slot.index;
  }

  get size() {
    return { width: this.stage.clientWidth, height: this.stage.clientHeight };
  }

  resize() {
    const { width, height } = this.size;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    if (this.fitted) this.fit();
    this.draw();
  }

  /** Show the whole slice. */
  fit() {
    const { width, height } = this.size;
    const [sx, sy] = this.shape.spacing;
    const room = 46; // for the letters
    this.zoom = Math.max(
      0.01,
      Math.min(
        (width - room) / (this.shape.width * sx),
        (height - room) / (this.shape.height * sy),
      ),
    );
    this.middle = { x: (this.shape.width * sx) / 2, y: (this.shape.height * sy) / 2 };
    this.fitted = true;
    this.draw();
  }

  /**
   * @param {number} factor
   * @param {Point} [around] a place on the screen that stays where it is
   */
  zoomBy(factor, around) {
    const { width, height } = this.size;
    const fixed = around ?? { x: width / 2, y: height / 2 };
    const before = this.toSlice(fixed);
    this.zoom = Math.min(200, Math.max(0.05, this.zoom * factor));
    const after = this.toSlice(fixed);
    const [sx, sy] = this.shape.spacing;
    this.middle.x += (before.x - after.x) * sx;
    this.middle.y += (before.y - after.y) * sy;
    this.fitted = false;
    this.draw();
  }

  /** @param {number} dx @param {number} dy screen pixels */
  panBy(dx, dy) {
    this.middle.x -= dx / this.zoom;
    this.middle.y -= dy / this.zoom;
    this.fitted = false;
    this.draw();
  }

  /** @param {Point} screen @returns {Point} columns and rows */
  toSlice(screen) {
    const { width, height } = this.size;
    const [sx, sy] = this.shape.spacing;
    return {
      x: (this.middle.x + (screen.x - width / 2) / this.zoom) / sx,
      y: (this.middle.y + (screen.y - height / 2) / this.zoom) / sy,
    };
  }

  /** @param {Point} point columns and rows @returns {Point} */
  toScreen(point) {
    const { width, height } = this.size;
    const [sx, sy] = this.shape.spacing;
    return {
      x: width / 2 + (point.x * sx - this.middle.x) * this.zoom,
      y: height / 2 + (point.y * sy - this.middle.y) * this.zoom,
    };
  }

  /** Show slice `index`; what is shown stays until the new one is here. @param {number} index */
  show(index) {
    const way = index < this.index ? -1 : 1;
    this.index = Math.min(this.shape.slices - 1, Math.max(0, index));
    this.overlay = null;
    const { slices, channel } = this.state;
    this.state.overlayFor?.(this);
    slices
      ?.get(channel, this.plane, this.index)
      .then(() => {
        this.draw();
        slices.prefetch(channel, this.plane, this.index, way);
      })
      .catch(() => {});
    this.onslice();
    this.draw();
  }

  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paint();
    });
  }

  /** The labels on the slice that is shown. @returns {Uint8Array | null} */
  raster() {
    if (this.state.preview) return this.overlay;
    return this.state.drawing?.seen(this.plane, this.index) ?? null;
  }

  paint() {
    const ratio = window.devicePixelRatio || 1;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#000";
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const [sx, sy] = this.shape.spacing;
    const corner = this.toScreen({ x: 0, y: 0 });
    const across = this.zoom * sx * ratio;
    const down = this.zoom * sy * ratio;
    const matrix = new DOMMatrix([across, 0, 0, down, corner.x * ratio, corner.y * ratio]);
    context.setTransform(matrix);
    if (this.updateImage()) {
      context.imageSmoothingEnabled = this.state.smooth;
      context.imageSmoothingQuality = "high";
      context.drawImage(this.image, 0, 0);
    }
    const raster = this.raster();
    if (raster) this.paintLabels(context, raster, matrix, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.state.preview) paintLines(this, context);
    paintGhost(this, context);
    const here = this.imageIndex === this.index ? "ready" : "loading";
    this.canvas.dataset.shown = `${this.plane} ${this.index} ${here}`;
  }

  /** @returns {boolean} false while the slice is on its way */
  updateImage() {
    const { slices, channel, scan } = this.state;
    if (!scan) return false;
    const codes = slices?.now(channel, this.plane, this.index);
    if (!codes) return this.imageKey !== "";
    const [low, high] = this.state.window;
    const key = `${channel} ${this.index} ${low} ${high}`;
    if (key !== this.imageKey) {
      drawImage(this.image, this.shape, codes, this.state.greys(channel));
      this.imageKey = key;
      this.imageIndex = this.index;
    }
    return true;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Uint8Array} raster
   * @param {DOMMatrix} matrix
   * @param {number} ratio
   */
  paintLabels(context, raster, matrix, ratio) {
    const changes = this.state.drawing?.slots.reduce((sum, slot) => sum + slot.changes, 0);
    const key = `${this.index} ${changes} ${this.state.drawing?.version} ${this.state.previewKey}`;
    if (key !== this.labelKey) {
      drawLabels(this.labels, this.shape, raster);
      this.paths = outlines(this.shape, raster);
      this.labelKey = key;
    }
    context.imageSmoothingEnabled = false;
    context.globalAlpha = this.state.opacity;
    context.drawImage(this.labels, 0, 0);
    context.globalAlpha = 1;
    if (!this.state.outline) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.lineWidth = 1.5 * ratio;
    context.lineCap = "square";
    for (const [value, path] of this.paths) {
      const turned = new Path2D();
      turned.addPath(path, matrix);
      context.strokeStyle = cssColour(value);
      context.stroke(turned);
    }
  }
}
