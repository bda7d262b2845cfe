// Tools, labels, the window and the overlay: buttons and sliders that follow the state.

import { byId, make } from "./dialogs.js";
import { cssColour } from "./palette.js";

/** @typedef {import("./actions.js").Actions} Actions */
/** @typedef {import("./frames.js").Frames} Frames */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Tool} Tool */

/** Level and width, as radiologists name them. @type {[string, number, number][]} */
const CT_PRESETS = [
  ["Soft tissue", 40, 400],
  ["Liver", 60, 160],
  ["Mediastinum", 50, 350],
  ["Lung", -600, 1500],
  ["Bone", 500, 2000],
  ["Brain", 40, 80],
  ["Angiography", 300, 600],
];

/** @param {string} id */
const input = (id) => /** @type {HTMLInputElement} */ (byId(id));

/**
 * @param {State} state
 * @param {Actions} actions
 * @param {Frames} frames
 */
export function showControls(state, actions, frames) {
  showTools(state, actions, frames);
  showWindow(state);
  showLook(state);
}

/** @param {State} state @param {Actions} actions @param {Frames} frames */
function showTools(state, actions, frames) {
  const tools = /** @type {NodeListOf<HTMLInputElement>} */ (
    document.querySelectorAll("input[name=tool]")
  );
  for (const tool of tools) {
    tool.addEventListener("change", () => {
      state.tool = /** @type {Tool} */ (tool.value);
      state.tell("tool");
    });
  }
  byId("undo").addEventListener("click", () => void actions.undo());
  byId("redo").addEventListener("click", () => void actions.redo());
  byId("copy").addEventListener("click", () => void actions.copy(frames.panel));
  byId("preview").addEventListener("click", () => void actions.preview());
  byId("finish").addEventListener("click", () => void actions.finish());
  byId("flag").addEventListener("click", () => void actions.flag());
  input("size").addEventListener("input", () => {
    state.size = Number(input("size").value);
    state.tell("tool");
  });
  for (const [at, id] of ["low", "high"].entries()) {
    input(id).addEventListener("change", () => {
      const value = Number(input(id).value);
      if (Number.isFinite(value)) state.range[at] = value;
      state.tell("tool");
    });
  }
  const update = () => {
    for (const tool of tools) tool.checked = tool.value === state.tool;
    input("size").value = String(state.size);
    byId("size-shown").textContent = String(state.size);
    byId("threshold").hidden = state.tool !== "threshold";
    input("low").value = short(state.range[0]);
    input("high").value = short(state.range[1]);
    showLabels(state);
  };
  state.on("tool", update);
  state.on("case", update);
  const enable = () => {
    const { drawing } = state;
    const able = state.canDraw;
    set("undo", able && Boolean(drawing?.undo));
    set("redo", able && Boolean(drawing?.redo));
    set("copy", able);
    set("preview", Boolean(drawing?.slots.some((slot) => slot.drawn)) && !actions.previewing);
    set("finish", Boolean(drawing) && !state.locked && !state.preview);
    set("flag", Boolean(state.name));
    byId("preview-text").textContent = actions.previewing
      ? "Propagating …"
      : state.preview
        ? "Back to drawing"
        : "Preview";
    byId("finish-text").textContent = state.notes.finished ? "Reopen scan" : "Finish scan";
    byId("flag").setAttribute("aria-pressed", String(Boolean(state.notes.flag)));
  };
  for (const topic of /** @type {const} */ (["drawing", "pen", "case"])) state.on(topic, enable);
}

/** @param {string} id @param {boolean} able */
function set(id, able) {
  /** @type {HTMLButtonElement} */ (byId(id)).disabled = !able;
}

/** @param {State} state */
function showLabels(state) {
  const host = byId("labels");
  const named = state.overview?.labels ?? [];
  // Background comes last: with it, every tool takes away.
  const labels = [...named.filter(({ value }) => value > 0), ...named.filter(({ value }) => !value)];
  if (host.childElementCount !== labels.length) {
    host.replaceChildren(
      ...labels.map(({ value, name }) => {
        const radio = make("input", { type: "radio" });
        radio.name = "label";
        radio.value = String(value);
        radio.addEventListener("change", () => {
          state.label = value;
          if (state.tool === "eraser") state.tool = "brush";
          state.tell("tool");
        });
        const patch = make("span", { class: "patch" });
        patch.style.background = cssColour(value);
        const key = value < 10 ? [make("kbd", { text: String(value) })] : [];
        return make("label", { class: "choice" }, radio, patch, make("span", { text: name }), ...key);
      }),
    );
  }
  for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (host.querySelectorAll("input"))) {
    radio.checked = Number(radio.value) === state.label;
  }
}

/** @param {State} state */
function showWindow(state) {
  const preset = /** @type {HTMLSelectElement} */ (byId("preset"));
  const channel = /** @type {HTMLSelectElement} */ (byId("channel"));
  preset.addEventListener("change", () => {
    const shape = state.scan?.channels[state.channel];
    const chosen = CT_PRESETS.find(([name]) => name === preset.value);
    if (chosen) state.window = [chosen[1] - chosen[2] / 2, chosen[1] + chosen[2] / 2];
    else if (shape && preset.value === "Automatic") state.window = [...shape.window];
    state.tell("look", "tool");
  });
  for (const [id, at] of /** @type {[string, number][]} */ ([["level", 0], ["width", 1]])) {
    input(id).addEventListener("change", () => {
      const [low, high] = state.window;
      const now = [(low + high) / 2, high - low];
      const value = Number(input(id).value);
      if (Number.isFinite(value)) now[at] = at ? Math.max(value, 1e-6) : value;
      state.window = [now[0] - now[1] / 2, now[0] + now[1] / 2];
      state.tell("look", "tool");
    });
  }
  channel.addEventListener("change", () => {
    state.channel = Number(channel.value);
    const shape = state.scan?.channels[state.channel];
    if (shape) state.window = [...shape.window];
    state.tell("case");
  });
  const update = () => {
    const [low, high] = state.window;
    input("level").value = short((low + high) / 2);
    input("width").value = short(high - low);
    const ct = state.scan?.channels[state.channel]?.hounsfield;
    const names = ["Automatic", ...(ct ? CT_PRESETS.map(([name]) => name) : []), "Own"];
    if (preset.options.length !== names.length) {
      preset.replaceChildren(...names.map((text) => make("option", { text })));
    }
    preset.value = named(state, low, high);
    const channels = state.overview?.channels ?? [];
    byId("channels").hidden = channels.length < 2;
    if (channel.options.length !== channels.length) {
      channel.replaceChildren(
        ...channels.map((text, at) => Object.assign(make("option", { text }), { value: String(at) })),
      );
    }
    channel.value = String(state.channel);
  };
  state.on("tool", update);
  state.on("case", update);
}

/** What a window is called. @param {State} state @param {number} low @param {number} high */
function named(state, low, high) {
  const auto = state.scan?.channels[state.channel]?.window;
  if (auto && auto[0] === low && auto[1] === high) return "Automatic";
  const known = CT_PRESETS.find(([, level, width]) => low === level - width / 2 && high === level + width / 2);
  return known ? known[0] : "Own";
}

/** @param {State} state */
function showLook(state) {
  input("opacity").addEventListener("input", () => {
    state.opacity = Number(input("opacity").value) / 100;
    state.tell("look", "tool");
  });
  for (const what of /** @type {const} */ (["outline", "smooth"])) {
    input(what).addEventListener("change", () => {
      state[what] = input(what).checked;
      state.tell("look");
    });
  }
  state.on("tool", () => {
    input("opacity").value = String(Math.round(state.opacity * 100));
    byId("opacity-shown").textContent = `${Math.round(state.opacity * 100)} %`;
    input("outline").checked = state.outline;
    input("smooth").checked = state.smooth;
  });
}

/** A number short enough for its field. @param {number} value @returns {string} */
function short(value) {
  return String(Number(value.toPrecision(Math.abs(value) >= 1000 ? 5 : 4)));
}
