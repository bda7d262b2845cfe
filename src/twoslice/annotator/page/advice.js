// The chosen slices, why they were suggested, and what may be wrong with them.

import { byId, make } from "./dialogs.js";
import { PLANE_COLOURS } from "./palette.js";

/** @typedef {import("./actions.js").Actions} Actions */
/** @typedef {import("./saving.js").Saver} Saver */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").PlaneName} PlaneName */

/** @type {PlaneName[]} */
const PLANES = ["axial", "coronal", "sagittal"];

/** @type {Record<string, string>} */
const STANDING = {
  saved: "All strokes saved",
  saving: "Saving …",
  offline: "No connection: strokes are kept here",
  token: "Open the new link: the server was started anew",
  unsaved: "Not saved",
};

/**
 * @param {State} state
 * @param {Actions} actions
 * @param {Saver} saver
 */
export function showAdvice(state, actions, saver) {
  const update = () => {
    showSlices(state, actions);
    showWarnings(state);
  };
  state.on("drawing", update);
  state.on("case", update);
  state.on("pen", update);
  state.on("saving", () => {
    const chip = byId("saving");
    chip.textContent = STANDING[saver.standing];
    chip.dataset.kind = saver.standing;
    chip.title = saver.message;
    if (saver.standing === "unsaved" && saver.message) byId("trouble").textContent = saver.message;
    byId("trouble").hidden = saver.standing !== "unsaved";
  });
  for (const plane of PLANES) {
    byId(`add-${plane}`).addEventListener("click", () => {
      const middle = Math.floor((state.scan?.planes[plane].slices ?? 0) / 2);
      const taken = state.drawing?.slots.filter((slot) => slot.plane === plane) ?? [];
      let index = middle;
      while (taken.some((slot) => slot.index === index)) index++;
      void actions.add(plane, index);
    });
  }
}

/** @param {State} state @param {Actions} actions */
function showSlices(state, actions) {
  const { drawing } = state;
  const slots = drawing?.slots ?? [];
  byId("slices").replaceChildren(
    ...slots.map((slot) => {
      const why = state.suggestions.find(
        (each) => each.plane === slot.plane && each.index === slot.index,
      )?.why;
      const name = make("strong", { text: `${slot.plane} ${slot.index}` });
      name.style.color = PLANE_COLOURS[slot.plane];
      const remove = make("button", {
        text: "×",
        class: "quiet small",
        type: "button",
        title: `Do without ${slot.plane} ${slot.index}`,
        label: `Do without ${slot.plane} ${slot.index}`,
      });
      remove.disabled = !state.canDraw || slots.length < 2;
      remove.addEventListener("click", () => void actions.remove(slot.plane, slot.index, slot.drawn));
      const words = slot.drawn ? "drawn" : "to draw";
      return make(
        "li",
        {},
        make("div", { class: "line" }, name, make("span", { text: words }), remove),
        ...(why ? [make("p", { text: why })] : []),
      );
    }),
    ...further(state, actions),
  );
  for (const plane of PLANES) {
    const button = /** @type {HTMLButtonElement} */ (byId(`add-${plane}`));
    button.disabled = !state.canDraw || slots.length >= 6;
  }
}

/** Suggested slices that are not chosen. @param {State} state @param {Actions} actions */
function further(state, actions) {
  const slots = state.drawing?.slots ?? [];
  // A suggestion in a plane that has its slice already was passed over by the person.
  const doubtful = slots.every((slot) => slot.drawn) ? state.suggestions : [];
  return doubtful
    .filter(({ plane, index }) => !slots.some((s) => s.plane === plane && s.index === index))
    .filter(({ why }) => why.startsWith("Where"))
    .map(({ plane, index, why }) => {
      const add = make("button", { text: `Add ${plane} ${index}`, class: "small", type: "button" });
      add.disabled = !state.canDraw;
      add.addEventListener("click", () => void actions.add(plane, index));
      return make("li", { class: "further" }, add, make("p", { text: why }));
    });
}

/** @param {State} state */
function showWarnings(state) {
  const { drawing } = state;
  const lines = [];
  for (const slot of drawing?.slots ?? []) {
    const count = drawing?.jumps(slot).length ?? 0;
    if (count > 1) {
      lines.push(`The outline on ${slot.plane} ${slot.index} jumps at ${count} voxels of a line (ringed).`);
    }
  }
  const warnings = byId("warnings");
  warnings.replaceChildren(...lines.map((text) => make("li", { text })));
  byId("warning-card").hidden = lines.length === 0;
}
