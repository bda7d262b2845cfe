// What is drawn: a raster a chosen slice. The pixels on the line where two slices cross belong to
// both, and are kept equal in both rasters.

/** @typedef {import("./types.js").DrawingState} DrawingState */
/** @typedef {import("./types.js").PlaneName} PlaneName */
/** @typedef {import("./types.js").PlaneShape} PlaneShape */
/** @typedef {import("./types.js").Scan} Scan */
/** @typedef {import("./types.js").SliceState} SliceState */

export const UNDRAWN = 255;

/** @type {Record<PlaneName, number>} */
const AXES = { sagittal: 0, coronal: 1, axial: 2 };

/**
 * One chosen slice.
 * @typedef {object} Slot
 * @property {PlaneName} plane
 * @property {number} index
 * @property {boolean} drawn
 * @property {Uint8Array} raster
 * @property {PlaneShape} shape
 * @property {number | null} neighbour
 * @property {number} changes counts up when the raster changes, for those who keep a picture of it
 */

/**
 * Pixels `start + t * stride` for t from 0 to count - 1; t runs the same way in both slices.
 * @typedef {{start: number, stride: number, count: number, across: number}} Line
 */

/**
 * The line that slice `index` of plane `other` cuts into a slice of plane `plane`.
 * @param {PlaneName} plane
 * @param {PlaneShape} shape
 * @param {PlaneName} other
 * @param {number} index
 * @returns {Line | null} null for planes that do not cross
 */
export function crossing(plane, shape, other, index) {
  if (plane === other) return null;
  const [across] = [0, 1, 2].filter((axis) => axis !== AXES[plane]);
  if (AXES[other] === across) {
    return { start: shape.width - 1 - index, stride: shape.width, count: shape.height, across: 1 };
  }
  const row = shape.height - 1 - index;
  return { start: row * shape.width, stride: 1, count: shape.width, across: shape.width };
}

/**
 * @param {number[]} runs
 * @param {number} size
 * @returns {Uint8Array}
 */
export function decode(runs, size) {
  const raster = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) {
    raster.fill(runs[i + 1], at, at + runs[i]);
    at += runs[i];
  }
  return raster;
}

/** The inverse of `decode`. @param {Uint8Array} raster @returns {number[]} */
export function encode(raster) {
  const runs = [];
  for (let i = 0; i < raster.length; ) {
    const start = i;
    while (i < raster.length && raster[i] === raster[start]) i++;
    runs.push(i - start, raster[start]);
  }
  return runs;
}

/**
 * What changed between two rasters, as start, length, value, …; undrawn counts as background.
 * @param {Uint8Array} before
 * @param {Uint8Array} after
 * @returns {number[]}
 */
export function difference(before, after) {
  const runs = [];
  const size = after.length;
  for (let i = 0; i < size; i++) {
    if (after[i] === (before[i] === UNDRAWN ? 0 : before[i])) continue;
    const start = i;
    const value = after[i];
    while (
      i + 1 < size &&
      after[i + 1] === value &&
      (before[i + 1] === UNDRAWN ? 0 : before[i + 1]) !== value
    ) {
      i++;
    }
    runs.push(start, i - start + 1, value);
  }
  return runs;
}

export class Drawing {
  /** @param {Scan} scan @param {DrawingState} state */
  constructor(scan, state) {
    this.scan = scan;
    /** @type {Slot[]} */
    this.slots = [];
    this.version = "";
    this.undo = 0;
    this.redo = 0;
    this.adopt(state);
  }

  /** Take over the server's state. @param {DrawingState} state */
  adopt(state) {
    const known = this.slots;
    this.slots = state.slices.map((each) => {
      const { plane, index, drawn, neighbour, mask } = each;
      const shape = this.scan.planes[plane];
      const raster = decode(mask, shape.width * shape.height);
      // Panels hold on to slots: one that stays is changed, not replaced.
      const old = known.find((slot) => slot.plane === plane && slot.index === index);
      const slot = old ?? { plane, index, drawn, neighbour, raster, shape, changes: 0 };
      return Object.assign(slot, { drawn, raster, neighbour, changes: slot.changes + 1 });
    });
    this.count(state);
  }

  /** Take over the server's counts, not its pixels. @param {DrawingState} state */
  count(state) {
    this.version = state.version;
    this.undo = state.undo;
    this.redo = state.redo;
    for (const [at, each] of state.slices.entries()) {
      const slot = this.slots[at];
      if (slot) slot.neighbour = each.neighbour;
    }
  }

  /** True if the server has exactly what is here. @param {DrawingState} state */
  equals(state) {
    return sameAs(this.snapshot(), state);
  }

  /** @returns {Snapshot} */
  snapshot() {
    return this.slots.map(({ plane, index, drawn, raster }) => ({
      plane,
      index,
      drawn,
      raster: raster.slice(),
    }));
  }

  /** A slice counts as drawn from its first stroke on. @param {Slot} slot */
  begin(slot) {
    if (slot.drawn) return;
    slot.drawn = true;
    for (let i = 0; i < slot.raster.length; i++) if (slot.raster[i] === UNDRAWN) slot.raster[i] = 0;
    slot.changes++;
  }

  /** Bring a slice's lines onto the slices that it crosses. @param {Slot} slot */
  spread(slot) {
    slot.changes++;
    for (const other of this.slots) {
      const here = crossing(slot.plane, slot.shape, other.plane, other.index);
      const there = crossing(other.plane, other.shape, slot.plane, slot.index);
      if (!here || !there) continue;
      for (let t = 0; t < here.count; t++) {
        other.raster[there.start + t * there.stride] = slot.raster[here.start + t * here.stride];
      }
      other.changes++;
    }
  }

  /**
   * Where the outline of a drawn slice jumps at a line: the pixels on either side agree with each
   * other and not with the line.
   * @param {Slot} slot
   * @returns {number[]} pixels of the slice
   */
  jumps(slot) {
    /** @type {number[]} */
    const found = [];
    if (!slot.drawn) return found;
    for (const other of this.slots) {
      const line = other.drawn && crossing(slot.plane, slot.shape, other.plane, other.index);
      if (!line) continue;
      const place = line.across === 1 ? line.start : line.start / slot.shape.width;
      const side = line.across === 1 ? slot.shape.width : slot.shape.height;
      if (place < 1 || place > side - 2) continue;
      for (let t = 0; t < line.count; t++) {
        const at = line.start + t * line.stride;
        const before = slot.raster[at - line.across];
        if (before === slot.raster[at + line.across] && slot.raster[at] !== before) found.push(at);
      }
    }
    return found;
  }

  /**
   * The labels of any slice: its own raster, or what drawn slices leave on it where they cross.
   * @param {PlaneName} plane
   * @param {number} index
   * @returns {Uint8Array | null} null where there is nothing
   */
  seen(plane, index) {
    const own = this.slots.find((slot) => slot.plane === plane && slot.index === index);
    if (own) return own.raster;
    const shape = this.scan.planes[plane];
    let raster = null;
    for (const slot of this.slots) {
      if (!slot.drawn) continue;
      const here = crossing(plane, shape, slot.plane, slot.index);
      const there = crossing(slot.plane, slot.shape, plane, index);
      if (!here || !there) continue;
      raster ??= new Uint8Array(shape.width * shape.height).fill(UNDRAWN);
      for (let t = 0; t < here.count; t++) {
        raster[here.start + t * here.stride] = slot.raster[there.start + t * there.stride];
      }
    }
    return raster;
  }
}

/** @typedef {{plane: PlaneName, index: number, drawn: boolean, raster: Uint8Array}[]} Snapshot */

/** @param {Snapshot} snapshot @param {DrawingState} state @returns {boolean} */
export function sameAs(snapshot, state) {
  return (
    snapshot.length === state.slices.length &&
    snapshot.every((one, at) => {
      const other = state.slices[at];
      if (one.plane !== other.plane || one.index !== other.index || one.drawn !== other.drawn) {
        return false;
      }
      const raster = decode(other.mask, one.raster.length);
      return raster.every((value, i) => value === one.raster[i]);
    })
  );
}
