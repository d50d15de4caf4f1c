// @ts-check
// What a person can ask of the page: notifications and a sound for alerts, files,
// and a text for a bug report.

import { clean, longestSentence } from "./format.js";
import { byId, setText } from "./dom.js";
import { copyReport, saveCSV, saveJSON } from "./export.js";
import { store, stored } from "./state.js";

/** @typedef {import("./message.js").Update} Update */

/** @type {AudioContext | undefined} */
let audio;

for (const name of ["notify", "sound"]) {
  const box = /** @type {HTMLInputElement} */ (byId(name));
  box.checked = stored(name) !== "";
  box.onchange = async () => {
    if (name === "notify" && box.checked && !(await mayNotify())) box.checked = false;
    store(name, box.checked ? "on" : "");
    if (name === "sound" && box.checked) ring();
  };
}

async function mayNotify() {
  const granted = isSecureContext && "Notification" in window && (await Notification.requestPermission()) === "granted";
  setText(byId("told"), granted ? "" : "The browser does not allow it here: it needs your permission, and https or this very machine.");
  return granted;
}

// The menu closes as menus do.
const menu = /** @type {HTMLDetailsElement} */ (document.querySelector(".menu"));
addEventListener("click", (e) => {
  if (!menu.contains(/** @type {Node} */ (e.target))) menu.open = false;
});
menu.onkeydown = (/** @type {KeyboardEvent} */ e) => {
  if (e.key !== "Escape") return;
  menu.open = false;
  menu.querySelector("summary")?.focus();
};

/**
 * Tells of an alert that has just fired, as far as that was asked for.
 * @param {import("./message.js").Alert} a
 * @param {string} title
 */
export function tell(a, title) {
  if (stored("notify") && "Notification" in window && Notification.permission === "granted") {
    new Notification(title, { body: clean(a.message, longestSentence), tag: a.alert_id });
  }
  if (stored("sound")) ring();
}

/** Two short tones. Browsers keep silent until the page was clicked once. */
function ring() {
  audio ??= new AudioContext();
  for (const [i, pitch] of [660, 880].entries()) {
    const tone = new OscillatorNode(audio, { frequency: pitch });
    const volume = new GainNode(audio, { gain: 0.1 });
    const from = audio.currentTime + 0.18 * i;
    volume.gain.setTargetAtTime(0, from + 0.08, 0.04);
    tone.connect(volume).connect(audio.destination);
    tone.start(from);
    tone.stop(from + 0.4);
  }
}

/**
 * @param {() => Update | null} newest
 * @param {() => import("./export.js").Shown} charts
 */
export function startTools(newest, charts) {
  byId("save-json").onclick = () => saveJSON(newest());
  byId("save-csv").onclick = () => saveCSV(charts());
  byId("copy").onclick = async () => setText(byId("told"), await copyReport(newest()));
}
