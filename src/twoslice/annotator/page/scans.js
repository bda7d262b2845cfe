// The list of scans: what is done, what comes next, search.

import { byId, make } from "./dialogs.js";

/** @typedef {import("./actions.js").Actions} Actions */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./types.js").CaseLine} CaseLine */

/** @type {Record<string, [string, string]>} status to sign and words */
const WORDS = {
  todo: ["○", "not started"],
  started: ["◐", "one slice"],
  drawn: ["◕", "drawn"],
  done: ["●", "done"],
  locked: ["⊘", "cannot be drawn"],
  reading: ["…", "reading"],
};

/**
 * @param {State} state
 * @param {Actions} actions
 */
export function showScans(state, actions) {
  const list = byId("scans");
  const search = /** @type {HTMLInputElement} */ (byId("search"));
  const next = byId("next");

  const update = () => {
    const { overview, name } = state;
    if (!overview) return;
    byId("dataset").textContent = overview.name;
    const done = overview.cases.filter((line) => line.status === "done").length;
    const progress = /** @type {HTMLProgressElement} */ (byId("progress"));
    progress.max = overview.cases.length;
    progress.value = done;
    const touched = overview.cases.filter((line) => line.drawn > 0).length;
    byId("counts").textContent = `${done} done, ${touched} drawn, ${overview.cases.length} scans`;
    next.hidden = !overview.next || overview.next === name;
    next.replaceChildren(
      make("strong", { text: `Next: ${overview.next}` }),
      make("span", { text: overview.why }),
    );
    const wish = search.value.trim().toLowerCase();
    const shown = overview.cases.filter((line) => line.case.toLowerCase().includes(wish));
    list.replaceChildren(...shown.map((line) => entry(line, name)));
    byId("none").hidden = shown.length > 0;
  };

  /** @param {CaseLine} line @param {string | null} current */
  const entry = (line, current) => {
    const [sign, words] = line.flag ? ["⚑", "flagged"] : (WORDS[line.status] ?? ["?", line.status]);
    const mark = make("span", { class: "sign", text: sign });
    mark.setAttribute("aria-hidden", "true");
    const button = make(
      "button",
      { type: "button", title: line.flag ? `Flagged: ${line.flag}` : words },
      mark,
      make("span", { class: "case", text: line.case }),
      make("span", { class: "words", text: words }),
    );
    button.dataset.status = line.flag ? "flagged" : line.status;
    if (line.case === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => void actions.open(line.case));
    return make("li", {}, button);
  };

  search.addEventListener("input", update);
  search.addEventListener("keydown", (event) => {
    const first = list.querySelector("button");
    if (event.key === "Enter" && first) first.click();
  });
  next.addEventListener("click", () => {
    if (state.overview?.next) void actions.open(state.overview.next);
  });
  state.on("list", update);
  state.on("case", update);
}
