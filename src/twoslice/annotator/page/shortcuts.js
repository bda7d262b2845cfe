// Every shortcut, as the help lists them. keys.js acts on those that have an action.

/**
 * @typedef {object} Shortcut
 * @property {string} group
 * @property {string[]} keys
 * @property {string} does
 */

/** @type {Shortcut[]} */
export const SHORTCUTS = [
  { group: "Tools", keys: ["B"], does: "Brush" },
  { group: "Tools", keys: ["E"], does: "Eraser" },
  { group: "Tools", keys: ["T"], does: "Threshold-limited brush; Alt+click or K takes the range from under the brush" },
  { group: "Tools", keys: ["P"], does: "Polygon: click corners; Enter, a double click or the first corner closes it" },
  { group: "Tools", keys: ["L"], does: "Lasso: draw around and let go" },
  { group: "Tools", keys: ["F"], does: "Fill a closed outline" },
  { group: "Tools", keys: ["M"], does: "Pan (or drag with the middle button, or two fingers)" },
  { group: "Tools", keys: ["W"], does: "Window: sideways contrast, up and down brightness (or drag with the right button)" },
  { group: "Tools", keys: ["[", "]"], does: "Smaller, larger brush" },
  { group: "Tools", keys: ["1", "…", "9", "0"], does: "Choose a label; 0 is background, with which every tool takes away" },
  { group: "Drawing", keys: ["Ctrl+Z"], does: "Undo, without end" },
  { group: "Drawing", keys: ["Ctrl+Y", "Ctrl+Shift+Z"], does: "Redo" },
  { group: "Drawing", keys: ["C"], does: "Copy from the neighbouring slice" },
  { group: "Drawing", keys: ["Escape"], does: "Drop the stroke or polygon under way; leave the preview" },
  { group: "Looking", keys: ["Wheel", "PageUp", "PageDown"], does: "Neighbouring slices; drawing stays on the chosen one" },
  { group: "Looking", keys: ["Home"], does: "Back to the chosen slice" },
  { group: "Looking", keys: ["Enter"], does: "Draw on the slice that is shown, in place of the chosen one" },
  { group: "Looking", keys: ["+", "-", "Ctrl+Wheel"], does: "Zoom" },
  { group: "Looking", keys: ["R"], does: "The whole slice again" },
  { group: "Looking", keys: ["O"], does: "Outlines on or off" },
  { group: "Looking", keys: ["H"], does: "Hide the labels while it is held" },
  { group: "Looking", keys: ["S"], does: "Smooth pixels on or off" },
  { group: "Scan", keys: ["V"], does: "Preview: the drawn slices become a volume" },
  { group: "Scan", keys: ["Ctrl+Enter"], does: "Finish this scan and go to the next" },
  { group: "Scan", keys: ["N"], does: "Go to the next scan" },
  { group: "Scan", keys: ["G"], does: "Flag this scan, or take the flag away" },
  { group: "Scan", keys: ["/"], does: "Search the list of scans" },
  { group: "Keyboard alone", keys: ["Tab"], does: "From panel to panel, and to every button" },
  { group: "Keyboard alone", keys: ["Arrows"], does: "Move the cursor by a pixel; with Shift by ten" },
  { group: "Keyboard alone", keys: ["Space"], does: "Use the tool at the cursor; held, arrows draw" },
  { group: "Keyboard alone", keys: ["?"], does: "This page" },
];
