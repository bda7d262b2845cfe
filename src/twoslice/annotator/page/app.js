// The page: puts the parts together, opens scans, keeps the pen.

import { Actions } from "./actions.js";
import { showAdvice } from "./advice.js";
import * as api from "./api.js";
import { showControls } from "./controls.js";
import { ask, byId, fillHelp, make, notice, toggleHelp } from "./dialogs.js";
import { Drawing } from "./drawing.js";
import { Frames } from "./frames.js";
import { listenToKeys } from "./keys.js";
import { Saver } from "./saving.js";
import { showScans } from "./scans.js";
import { Slices } from "./slices.js";
import { State } from "./state.js";
import { Strokes } from "./strokes.js";

const HOLD_EVERY = 4000;

const state = new State();
const saver = new Saver(state, notice);
const strokes = new Strokes(state, saver, notice);
const actions = new Actions(state, saver);
const frames = new Frames(state, strokes, actions);

let opening = 0;

/** Open a case; what is drawn in the one before is saved already, or kept. @param {string} name */
async function open(name) {
  if (state.name === name && !state.locked) return;
  const turn = ++opening;
  strokes.cancel();
  await leave();
  cover(`Reading ${name} …`);
  let opened;
  try {
    opened = await api.openCase(name);
  } catch (error) {
    if (turn !== opening) return;
    cover(error instanceof Error ? error.message : String(error));
    state.name = null; // so that any scan can be opened again, the one before among them
    void refresh();
    return;
  }
  if (turn !== opening) return;
  const { scan } = opened;
  state.name = name;
  state.scan = scan;
  state.slices = new Slices(name, scan);
  state.drawing = new Drawing(scan, opened.drawing);
  state.locked = opened.drawing.locked;
  state.mine = opened.mine;
  state.notes = opened.notes;
  state.suggestions = opened.suggestions;
  state.faults = opened.faults;
  state.preview = null;
  state.previewMade = false;
  state.overlayFor = null;
  state.channel = Math.min(state.channel, scan.channels.length - 1);
  state.window = [...scan.channels[state.channel].window];
  state.range = middle(state.window);
  location.hash = encodeURIComponent(name);
  document.title = `${name} · twoslice`;
  cover(null);
  state.tell("case", "tool", "pen");
  await saver.begin();
  await refresh();
  warmNext();
}

/** Half of a window, around its middle. @param {[number, number]} window @returns {[number, number]} */
function middle([low, high]) {
  return [low + (high - low) / 4, high - (high - low) / 4];
}

/** Save what is left, and let the case go. */
async function leave() {
  if (!state.name) return;
  const waiting = new Promise((resolve) => setTimeout(resolve, 1500));
  await Promise.race([saver.settled(), waiting]);
  api.release(state.name);
  state.slices?.close();
}

/** The scan that likely comes next is read while this one is drawn. */
function warmNext() {
  const lines = state.overview?.cases ?? [];
  const todo = lines.find((line) => line.case !== state.name && line.status === "todo" && !line.flag);
  if (todo) setTimeout(() => void api.warm(todo.case).catch(() => {}), 1500);
}

async function refresh() {
  try {
    state.overview = await api.overview();
    state.tell("list");
    const reading = state.overview.cases.some((line) => line.status === "reading");
    if (reading) setTimeout(() => void refresh(), 1000);
  } catch {
    // the saving chip tells of a lost connection
  }
}

/** @param {string | null} text what to say in place of the panels */
function cover(text) {
  byId("cover").textContent = text ?? "";
  byId("cover").hidden = text === null;
}

/** Tell who has the pen, and what the preview shows. */
function showBanner() {
  const banner = byId("banner");
  const parts = [];
  if (state.preview) {
    const { expected, steps } = state.preview;
    const quality = expected === null ? "" : ` Expected Dice ${expected.toFixed(2)}.`;
    const coarse = steps.some((step) => step > 1) ? ` Coarse: ${steps.join("×")} voxels are one.` : "";
    parts.push(make("span", { text: `Preview: your slices as a volume.${quality}${coarse}` }));
    parts.push(button("Back to drawing", () => actions.leavePreview()));
  } else if (state.locked) {
    parts.push(make("span", { text: state.locked }));
  } else if (state.name && !state.mine) {
    parts.push(make("span", { text: "This scan is open in another tab, which has the pen. Here it can be looked at." }));
    parts.push(button("Take the pen", () => void takePen()));
  } else if (state.notes.flag) {
    parts.push(make("span", { text: `Flagged: ${state.notes.flag}` }));
  }
  banner.replaceChildren(...parts);
  banner.hidden = parts.length === 0;
}

/** @param {string} text @param {() => void} act */
function button(text, act) {
  const made = make("button", { text, type: "button" });
  made.addEventListener("click", act);
  return made;
}

async function takePen() {
  if (!state.name) return;
  await api.hold(state.name, true);
  state.mine = true;
  await saver.takeOver();
  state.tell("pen", "drawing");
}

/** Say now and then that this page is still there, and hear whether the pen was taken. */
async function keepHold() {
  const { name } = state;
  if (!name || state.locked) return;
  try {
    const { mine } = await api.hold(name);
    if (state.name !== name) return;
    const wasAway = saver.clean && saver.standing !== "saved";
    // A server that was away may have been started anew, with another history.
    if (mine && (!state.mine || wasAway)) await saver.takeOver();
    if (mine !== state.mine) {
      strokes.cancel();
      state.mine = mine;
      state.tell("pen", "drawing");
    }
    if (wasAway && saver.clean) saver.stand("saved");
  } catch (error) {
    const code = error instanceof api.ApiError && error.code === "token" ? "token" : "offline";
    if (saver.clean) saver.stand(code);
  }
}

saver.onchanged = async () => {
  const { answer } = await ask(
    "The label file was changed by another program",
    ["The page can read it again and go on from there. What was drawn here since is dropped."],
    [
      { text: "Read it again", value: "yes" },
      { text: "Not yet", value: "", kind: "quiet" },
    ],
  );
  if (answer && state.name) saver.adopt(await api.reload(state.name));
};

actions.open = open;
actions.refresh = refresh;
state.on("case", () => frames.build());
state.on("case", showBanner);
state.on("pen", showBanner);
let listed = "";
state.on("drawing", () => {
  const now = `${state.name} ${state.drawing?.slots.map((slot) => slot.drawn).join()}`;
  if (now === listed || !saver.clean) return;
  listed = now;
  void refresh();
});

fillHelp();
showScans(state, actions);
showControls(state, actions, frames);
showAdvice(state, actions, saver);
listenToKeys(state, frames, strokes, actions);
byId("help-open").addEventListener("click", toggleHelp);
window.addEventListener("beforeunload", (event) => {
  if (!saver.clean) event.preventDefault();
});
window.addEventListener("pagehide", () => {
  if (state.name) api.release(state.name);
});
setInterval(() => void keepHold(), HOLD_EVERY);

await refresh();
const wished = decodeURIComponent(location.hash.slice(1));
const known = state.overview?.cases.some((line) => line.case === wished);
const first = known ? wished : (state.overview?.next ?? state.overview?.cases[0]?.case);
if (first) await open(first);
else cover("The server does not answer. Open the link that it printed.");
document.body.dataset.ready = "true";
