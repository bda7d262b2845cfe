// Mouse, pen and touch on a panel. One finger draws, two pan and zoom; the middle button pans, the
// right one sets the window; the wheel turns slices, with Ctrl it zooms.

/** @typedef {import("./panel.js").Panel} Panel */
/** @typedef {import("./strokes.js").Strokes} Strokes */
/** @typedef {import("./types.js").Point} Point */
/** @typedef {"draw" | "pan" | "window" | "pinch"} Gesture */

/**
 * @param {Panel} panel
 * @param {Strokes} strokes
 */
export function listen(panel, strokes) {
  const { state, canvas } = panel;
  /** @type {Map<number, Point>} */
  const down = new Map();
  /** @type {Gesture | null} */
  let gesture = null;
  /** @type {Point} */
  let last = { x: 0, y: 0 };
  let turned = 0;

  /** @param {MouseEvent} event @returns {Point} */
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({ preventScroll: true });
    panel.keyboard = false;
    event.preventDefault();
    const at = place(event);
    down.set(event.pointerId, at);
    last = at;
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch {
      // a pointer that is gone already
    }
    if (event.pointerType === "touch" && down.size === 2) {
      strokes.cancel();
      gesture = "pinch";
      return;
    }
    if (gesture) return;
    gesture = start(event, at);
  });

  /** @param {PointerEvent} event @param {Point} at @returns {Gesture | null} */
  const start = (event, at) => {
    const point = panel.toSlice(at);
    if (event.button === 1 || state.tool === "pan") return "pan";
    if (event.button === 2 || state.tool === "window") return "window";
    if (event.altKey) {
      strokes.pick(panel, point);
      return null;
    }
    if (state.tool === "polygon") {
      strokes.corner(panel, point);
      return null;
    }
    if (state.tool === "fill") {
      strokes.fillAt(panel, point);
      return null;
    }
    // Button 5 is the pen's other end.
    return strokes.begin(panel, point, event.button === 5) ? "draw" : null;
  };

  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    const before = down.get(event.pointerId);
    panel.ghost.at = event.pointerType === "touch" && !before ? undefined : panel.toSlice(at);
    if (gesture === "pinch" && before && down.size === 2) {
      pinch(event.pointerId, at);
    } else if (gesture === "draw") {
      const all = event.getCoalescedEvents?.() ?? [];
      for (const each of all.length ? all : [event]) strokes.move(panel.toSlice(place(each)));
    } else if (gesture === "pan") {
      panel.panBy(at.x - last.x, at.y - last.y);
    } else if (gesture === "window") {
      dragWindow(at.x - last.x, at.y - last.y);
    }
    if (before) down.set(event.pointerId, at);
    last = at;
    panel.draw();
  });

  /** @param {number} moved @param {Point} to */
  const pinch = (moved, to) => {
    const from = /** @type {Point} */ (down.get(moved));
    const [, other] = /** @type {[number, Point]} */ ([...down].find(([id]) => id !== moved));
    const gap = Math.hypot(from.x - other.x, from.y - other.y);
    const now = Math.hypot(to.x - other.x, to.y - other.y);
    panel.panBy((to.x - from.x) / 2, (to.y - from.y) / 2);
    if (gap > 0) panel.zoomBy(now / gap, { x: (to.x + other.x) / 2, y: (to.y + other.y) / 2 });
  };

  /** Sideways: contrast; up and down: brightness. @param {number} dx @param {number} dy */
  const dragWindow = (dx, dy) => {
    const [low, high] = state.window;
    const full = state.scan?.channels[state.channel].window ?? [0, 1];
    const unit = (full[1] - full[0]) / 300;
    const level = (low + high) / 2 + dy * unit;
    const width = Math.max(unit / 4, high - low + dx * unit);
    state.window = [level - width / 2, level + width / 2];
    state.tell("look", "tool");
  };

  /** @param {PointerEvent} event */
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    if (gesture === "draw") {
      if (event.type === "pointercancel") strokes.cancel();
      else strokes.end();
    }
    if (down.size === 0 || gesture !== "pinch") gesture = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);

  canvas.addEventListener("pointerleave", () => {
    panel.ghost.at = undefined;
    panel.draw();
  });

  canvas.addEventListener("dblclick", () => {
    if (state.tool === "polygon") strokes.close(panel);
  });

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (event.ctrlKey) {
        panel.zoomBy(Math.exp(-event.deltaY / 300), place(event));
        return;
      }
      // A notch is 100 or 120; a touchpad sends many small steps, a busy page several notches at once.
      turned += event.deltaMode === 1 ? event.deltaY * 33 : event.deltaY;
      if (Math.abs(turned) < 60 || strokes.stroke) return;
      const notches = Math.max(1, Math.round(Math.abs(turned) / 110));
      panel.show(panel.index - Math.sign(turned) * Math.min(10, notches));
      turned = 0;
    },
    { passive: false },
  );
}
