// The colours of labels, the same as in colours.py, and of the three planes' lines.

/** @typedef {import("./types.js").PlaneName} PlaneName */

/** @type {[number, number, number][]} */
export const COLOURS = [
  [255, 107, 107],
  [78, 205, 196],
  [255, 209, 102],
  [123, 158, 255],
  [199, 125, 255],
  [144, 218, 90],
  [255, 159, 67],
  [240, 130, 190],
  [90, 200, 250],
  [200, 180, 140],
  [160, 220, 180],
  [230, 230, 120],
];

/** @type {Record<PlaneName, string>} */
export const PLANE_COLOURS = { axial: "#ff8a80", coronal: "#8ce99a", sagittal: "#ffe066" };

/**
 * The colour of a label from 1 on; they come round after the last.
 * @param {number} value
 * @returns {[number, number, number]}
 */
export function colourOf(value) {
  return COLOURS[(value - 1) % COLOURS.length];
}

/**
 * @param {number} value
 * @returns {string}
 */
export function cssColour(value) {
  return value === 0 ? "#5a6472" : `rgb(${colourOf(value).join(" ")})`;
}
