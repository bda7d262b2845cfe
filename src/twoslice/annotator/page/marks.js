// What a panel shows over its slice: the lines of other slices, jumps of the outline, the tool.

import { crossing } from "./drawing.js";
import { PLANE_COLOURS } from "./palette.js";

/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {CanvasRenderingContext2D} Context */

const BRUSHES = ["brush", "eraser", "threshold"];

/**
 * The lines where the other chosen slices cut this one, and where the outline jumps at them.
 * @param {Panel} panel
 * @param {Context} context
 */
export function paintLines(panel, context) {
  const { drawing } = panel.state;
  if (!drawing) return;
  for (const other of drawing.slots) {
    const line = crossing(panel.plane, panel.shape, other.plane, other.index);
    if (!line) continue;
    const upright = line.across === 1;
    const place = upright ? line.start : line.start / panel.shape.width;
    // From some zoom on the voxels of the line are seen between two lines, not under one.
    const wide = panel.zoom * panel.shape.spacing[upright ? 0 : 1] > 5;
    context.strokeStyle = PLANE_COLOURS[other.plane];
    for (const edge of wide ? [place, place + 1] : [place + 0.5]) {
      dashed(panel, context, upright, edge);
    }
  }
  if (panel.slot && panel.drawable) paintJumps(panel, context, drawing.jumps(panel.slot));
}

/** @param {Panel} panel @param {Context} context @param {boolean} upright @param {number} edge */
function dashed(panel, context, upright, edge) {
  const { width, height } = panel.shape;
  const from = panel.toScreen(upright ? { x: edge, y: 0 } : { x: 0, y: edge });
  const to = panel.toScreen(upright ? { x: edge, y: height } : { x: width, y: edge });
  context.save();
  context.lineWidth = 1;
  context.globalAlpha = 0.75;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(Math.round(from.x) + 0.5, Math.round(from.y) + 0.5);
  context.lineTo(Math.round(to.x) + 0.5, Math.round(to.y) + 0.5);
  context.stroke();
  context.restore();
}

/** @param {Panel} panel @param {Context} context @param {number[]} jumps */
function paintJumps(panel, context, jumps) {
  const radius = Math.max(5, panel.zoom * Math.max(...panel.shape.spacing) * 0.8);
  context.lineWidth = 2;
  context.strokeStyle = "#ffb020";
  for (const pixel of jumps) {
    const x = pixel % panel.shape.width;
    const y = (pixel - x) / panel.shape.width;
    const at = panel.toScreen({ x: x + 0.5, y: y + 0.5 });
    context.beginPath();
    context.arc(at.x, at.y, radius, 0, 2 * Math.PI);
    context.stroke();
  }
}

/**
 * The brush under the pointer or the keyboard's cursor, and a polygon under way.
 * @param {Panel} panel
 * @param {Context} context
 */
export function paintGhost(panel, context) {
  const { at, corners } = panel.ghost;
  const place = at ?? (panel.keyboard ? panel.cursor : null);
  context.strokeStyle = "#ffffff";
  context.lineWidth = 1.5;
  if (corners?.length) {
    const points = (place ? [...corners, place] : corners).map((point) => panel.toScreen(point));
    context.beginPath();
    points.forEach(({ x, y }, i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.fillStyle = "#ffffff";
    if (panel.state.tool === "polygon") {
      for (const { x, y } of points.slice(0, corners.length)) context.fillRect(x - 2, y - 2, 4, 4);
    }
  }
  if (!place || panel.state.preview) return;
  const { x, y } = panel.toScreen(place);
  context.save();
  context.beginPath();
  if (BRUSHES.includes(panel.state.tool)) {
    context.setLineDash(panel.drawable ? [] : [3, 3]);
    context.arc(x, y, Math.max(2, panel.state.radius(panel.plane) * panel.zoom), 0, 2 * Math.PI);
  }
  if (panel.keyboard) {
    context.moveTo(x - 9, y);
    context.lineTo(x + 9, y);
    context.moveTo(x, y - 9);
    context.lineTo(x, y + 9);
  }
  context.stroke();
  context.restore();
}
