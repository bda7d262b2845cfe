// From codes and labels to pixels.

import { UNDRAWN } from "./drawing.js";
import { colourOf } from "./palette.js";

/** @typedef {import("./types.js").ChannelShape} ChannelShape */
/** @typedef {import("./types.js").PlaneShape} PlaneShape */

/**
 * The grey of every code under a window, as opaque pixels.
 * @param {ChannelShape} channel
 * @param {[number, number]} window
 * @returns {Uint32Array}
 */
export function greys(channel, window) {
  const table = new Uint32Array(channel.bytes === 1 ? 256 : 65536);
  const [low, high] = window;
  const scale = 255 / Math.max(high - low, 1e-9);
  for (let code = 0; code < table.length; code++) {
    const value = channel.offset + channel.step * code;
    const grey = Math.min(255, Math.max(0, Math.round((value - low) * scale)));
    table[code] = 0xff000000 | (grey << 16) | (grey << 8) | grey;
  }
  return table;
}

/**
 * @param {OffscreenCanvas} canvas
 * @param {PlaneShape} shape
 * @param {(pixels: Uint32Array) => void} colour
 */
function put(canvas, shape, colour) {
  if (canvas.width !== shape.width || canvas.height !== shape.height) {
    canvas.width = shape.width;
    canvas.height = shape.height;
  }
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = new ImageData(shape.width, shape.height);
  colour(new Uint32Array(image.data.buffer));
  context.putImageData(image, 0, 0);
}

/**
 * @param {OffscreenCanvas} canvas
 * @param {PlaneShape} shape
 * @param {Uint8Array | Uint16Array} codes
 * @param {Uint32Array} table
 */
export function drawImage(canvas, shape, codes, table) {
  put(canvas, shape, (pixels) => {
    for (let i = 0; i < pixels.length; i++) pixels[i] = table[codes[i]];
  });
}

/**
 * @param {OffscreenCanvas} canvas
 * @param {PlaneShape} shape
 * @param {Uint8Array} raster
 */
export function drawLabels(canvas, shape, raster) {
  const table = new Uint32Array(256);
  for (let value = 1; value < UNDRAWN; value++) {
    const [red, green, blue] = colourOf(value);
    table[value] = 0xff000000 | (blue << 16) | (green << 8) | red;
  }
  put(canvas, shape, (pixels) => {
    for (let i = 0; i < pixels.length; i++) pixels[i] = table[raster[i]];
  });
}

/**
 * The borders of each label along the voxels' edges, in columns and rows.
 * @param {PlaneShape} shape
 * @param {Uint8Array} raster
 * @returns {Map<number, Path2D>}
 */
export function outlines(shape, raster) {
  const { width, height } = shape;
  /** @type {Map<number, Path2D>} */
  const paths = new Map();
  /** @param {number} value */
  const path = (value) => {
    let found = paths.get(value);
    if (!found) paths.set(value, (found = new Path2D()));
    return found;
  };
  /** @param {number} x @param {number} y */
  const at = (x, y) =>
    x < 0 || y < 0 || x >= width || y >= height ? 0 : raster[y * width + x] % UNDRAWN;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const value = raster[y * width + x];
      if (value === 0 || value === UNDRAWN) continue;
      if (at(x, y - 1) !== value) edge(path(value), x, y, x + 1, y);
      if (at(x, y + 1) !== value) edge(path(value), x, y + 1, x + 1, y + 1);
      if (at(x - 1, y) !== value) edge(path(value), x, y, x, y + 1);
      if (at(x + 1, y) !== value) edge(path(value), x + 1, y, x + 1, y + 1);
    }
  }
  return paths;
}

/** @param {Path2D} path @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
function edge(path, x0, y0, x1, y1) {
  path.moveTo(x0, y0);
  path.lineTo(x1, y1);
}
