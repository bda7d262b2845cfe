// What the tools do to a raster. Distances are in millimetres, so that a round brush is round on
// the screen whatever the voxels' shape.

/** @typedef {import("./types.js").PlaneShape} PlaneShape */
/** @typedef {import("./types.js").Point} Point */

/**
 * May a pixel be painted? Used by the threshold-limited brush.
 * @typedef {(pixel: number) => boolean} Allowed
 */

/**
 * Paint every pixel whose centre lies within `radius` of the way from one point to another, and
 * always the pixels under both points.
 * @param {Uint8Array} raster
 * @param {PlaneShape} shape
 * @param {Point} from
 * @param {Point} to
 * @param {number} radius
 * @param {number} value
 * @param {Allowed} [allowed]
 * @returns {boolean} true if a pixel changed
 */
export function brush(raster, shape, from, to, radius, value, allowed) {
  const [sx, sy] = shape.spacing;
  const ax = from.x * sx;
  const ay = from.y * sy;
  const bx = to.x * sx;
  const by = to.y * sy;
  const dx = bx - ax;
  const dy = by - ay;
  const length = dx * dx + dy * dy;
  const x0 = Math.max(0, Math.floor((Math.min(ax, bx) - radius) / sx));
  const x1 = Math.min(shape.width - 1, Math.floor((Math.max(ax, bx) + radius) / sx));
  const y0 = Math.max(0, Math.floor((Math.min(ay, by) - radius) / sy));
  const y1 = Math.min(shape.height - 1, Math.floor((Math.max(ay, by) + radius) / sy));
  let changed = false;
  /** @param {number} pixel */
  const put = (pixel) => {
    if (raster[pixel] !== value && (!allowed || allowed(pixel))) {
      raster[pixel] = value;
      changed = true;
    }
  };
  for (let y = y0; y <= y1; y++) {
    for (let x = x0; x <= x1; x++) {
      const px = (x + 0.5) * sx - ax;
      const py = (y + 0.5) * sy - ay;
      const part = length > 0 ? Math.min(1, Math.max(0, (px * dx + py * dy) / length)) : 0;
      const qx = px - part * dx;
      const qy = py - part * dy;
      if (qx * qx + qy * qy <= radius * radius) put(y * shape.width + x);
    }
  }
  for (const point of walk(from, to)) {
    const pixel = pixelAt(shape, point);
    if (pixel >= 0) put(pixel);
  }
  return changed;
}

/** Points from one place to another, no further than half a pixel apart. @param {Point} from @param {Point} to */
function* walk(from, to) {
  const steps = Math.ceil(2 * Math.max(Math.abs(to.x - from.x), Math.abs(to.y - from.y)));
  for (let i = 0; i <= steps; i++) {
    const part = steps ? i / steps : 0;
    yield { x: from.x + part * (to.x - from.x), y: from.y + part * (to.y - from.y) };
  }
}

/**
 * @param {PlaneShape} shape
 * @param {Point} point
 * @returns {number} the pixel under a point, -1 outside
 */
export function pixelAt(shape, point) {
  const x = Math.floor(point.x);
  const y = Math.floor(point.y);
  if (x < 0 || y < 0 || x >= shape.width || y >= shape.height) return -1;
  return y * shape.width + x;
}

/**
 * Paint every pixel whose centre lies inside a polygon (even-odd).
 * @param {Uint8Array} raster
 * @param {PlaneShape} shape
 * @param {Point[]} corners
 * @param {number} value
 * @returns {boolean}
 */
export function polygon(raster, shape, corners, value) {
  if (corners.length < 3) return false;
  let changed = false;
  for (let row = 0; row < shape.height; row++) {
    const y = row + 0.5;
    const cuts = [];
    for (let i = 0; i < corners.length; i++) {
      const a = corners[i];
      const b = corners[(i + 1) % corners.length];
      if (a.y <= y !== b.y <= y) cuts.push(a.x + ((y - a.y) / (b.y - a.y)) * (b.x - a.x));
    }
    cuts.sort((a, b) => a - b);
    for (let i = 0; i + 1 < cuts.length; i += 2) {
      const first = Math.max(0, Math.ceil(cuts[i] - 0.5));
      const last = Math.min(shape.width - 1, Math.ceil(cuts[i + 1] - 0.5) - 1);
      for (let x = first; x <= last; x++) {
        const pixel = row * shape.width + x;
        changed ||= raster[pixel] !== value;
        raster[pixel] = value;
      }
    }
  }
  return changed;
}

/**
 * Fill the connected area of one label around a pixel.
 * @param {Uint8Array} raster
 * @param {PlaneShape} shape
 * @param {number} pixel
 * @param {number} value
 * @returns {"filled" | "same" | "open"} open: the area reaches the border, nothing is painted
 */
export function fill(raster, shape, pixel, value) {
  const { width, height } = shape;
  const old = raster[pixel];
  if (old === value) return "same";
  const seen = new Uint8Array(raster.length);
  const stack = [pixel];
  const area = [];
  seen[pixel] = 1;
  while (stack.length) {
    const at = /** @type {number} */ (stack.pop());
    const x = at % width;
    const y = (at - x) / width;
    if (old === 0 && (x === 0 || y === 0 || x === width - 1 || y === height - 1)) return "open";
    area.push(at);
    for (const [next, inside] of /** @type {[number, boolean][]} */ ([
      [at - 1, x > 0],
      [at + 1, x < width - 1],
      [at - width, y > 0],
      [at + width, y < height - 1],
    ])) {
      if (inside && !seen[next] && raster[next] === old) {
        seen[next] = 1;
        stack.push(next);
      }
    }
  }
  for (const at of area) raster[at] = value;
  return "filled";
}
