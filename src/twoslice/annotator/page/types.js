// Shapes of what passes between the parts of the page and the server; no code.

/** @typedef {"axial" | "coronal" | "sagittal"} PlaneName */

/**
 * How one plane of a scan lies on the screen. Rows run from the top, columns from the left.
 * @typedef {object} PlaneShape
 * @property {number} slices
 * @property {number} width
 * @property {number} height
 * @property {[number, number]} spacing millimetres a column, a row
 * @property {{left: string, right: string, top: string, bottom: string}} letters
 */

/**
 * @typedef {object} ChannelShape
 * @property {1 | 2} bytes
 * @property {number} offset
 * @property {number} step a voxel's value is offset + step * code
 * @property {[number, number]} window
 * @property {boolean} hounsfield
 */

/**
 * @typedef {object} Scan
 * @property {Record<PlaneName, PlaneShape>} planes
 * @property {ChannelShape[]} channels
 * @property {number[]} shape
 * @property {number[]} spacing
 * @property {string} stamp
 */

/**
 * @typedef {object} SliceState
 * @property {PlaneName} plane
 * @property {number} index
 * @property {boolean} drawn
 * @property {number[]} mask length, value, length, value, …
 * @property {number | null} neighbour a drawn slice of this plane to copy from
 */

/**
 * @typedef {object} DrawingState
 * @property {string | null} locked
 * @property {string} version
 * @property {SliceState[]} slices
 * @property {number} undo
 * @property {number} redo
 */

/** @typedef {{plane: PlaneName, index: number, why: string}} Suggestion */
/** @typedef {{finished: boolean, flag: string | null}} Notes */

/**
 * @typedef {object} OpenedCase
 * @property {string} case
 * @property {Scan} scan
 * @property {DrawingState} drawing
 * @property {boolean} mine
 * @property {Notes} notes
 * @property {Suggestion[]} suggestions
 * @property {string[]} faults
 */

/** @typedef {{case: string, status: string, drawn: number, flag: string | null}} CaseLine */

/**
 * @typedef {object} Overview
 * @property {string} name
 * @property {string} id of the folder: two datasets may have one name
 * @property {{value: number, name: string}[]} labels
 * @property {string[]} channels
 * @property {CaseLine[]} cases
 * @property {string | null} next
 * @property {string} why
 * @property {number} wanted
 */

/**
 * @typedef {{kind: string, plane?: PlaneName, index?: number, runs?: number[], to?: number,
 *   carry?: boolean}} Edit
 */

/** @typedef {{version: string, seconds: number, expected: number | null, steps: number[]}} PreviewMade */

/** @typedef {{x: number, y: number}} Point a place in columns and rows of a slice */

export {};
