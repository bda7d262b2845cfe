// Questions, short messages and the help page.

import { SHORTCUTS } from "./shortcuts.js";

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  return /** @type {T} */ (document.getElementById(id));
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {{class?: string, text?: string, type?: string, title?: string, label?: string}} [with_]
 * @param {...Node} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, with_ = {}, ...children) {
  const element = document.createElement(tag);
  if (with_.class) element.className = with_.class;
  if (with_.text !== undefined) element.textContent = with_.text;
  if (with_.type) element.setAttribute("type", with_.type);
  if (with_.title) element.title = with_.title;
  if (with_.label) element.setAttribute("aria-label", with_.label);
  element.append(...children);
  return element;
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let fading;

/** A short message that goes away by itself. @param {string} message */
export function notice(message) {
  if (!message) return;
  const box = byId("notice");
  box.textContent = message;
  box.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => box.classList.remove("shown"), 6000);
}

/**
 * Ask a question; the first answer is the one that Enter gives, Escape gives null.
 * @param {string} title
 * @param {string[]} lines
 * @param {{text: string, value: string, kind?: string}[]} answers
 * @param {{text: string, value: string}} [input]
 * @returns {Promise<{answer: string | null, text: string}>}
 */
export function ask(title, lines, answers, input) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("question"));
  const field = make("input", { type: "text" });
  if (input) field.value = input.value;
  const buttons = answers.map(({ text, value, kind }) => {
    const button = make("button", { text, class: kind ?? "", type: "button" });
    button.addEventListener("click", () => dialog.close(value));
    return button;
  });
  dialog.replaceChildren(
    make("h2", { text: title }),
    ...lines.map((text) => make("p", { text })),
    ...(input ? [make("label", { class: "field", text: input.text }, field)] : []),
    make("div", { class: "answers" }, ...buttons),
  );
  dialog.setAttribute("aria-label", title);
  dialog.returnValue = "";
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") dialog.close(answers[0].value);
  });
  dialog.showModal();
  (input ? field : buttons[0]).focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => resolve({ answer: dialog.returnValue || null, text: field.value }),
      { once: true },
    );
  });
}

/** True while a question or the help is open. */
export function isOpen() {
  return document.querySelector("dialog[open]") !== null;
}

export function toggleHelp() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("help"));
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

export function fillHelp() {
  const groups = new Map();
  for (const each of SHORTCUTS) groups.set(each.group, [...(groups.get(each.group) ?? []), each]);
  const sections = [...groups].map(([name, entries]) => {
    const list = make("dl");
    for (const { keys, does } of entries) {
      const term = make("dt");
      for (const key of keys) term.append(make("kbd", { text: key }));
      list.append(make("div", {}, term, make("dd", { text: does })));
    }
    return make("section", {}, make("h3", { text: name }), list);
  });
  byId("help-body").replaceChildren(...sections);
  byId("help-close").addEventListener("click", toggleHelp);
}
