// @ts-check
// The menu: notifications and a sound for alerts, files to save, and a report to
// copy.

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

// A click elsewhere and the Escape key close the menu.
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
 * Notifies of an alert that has just fired, if a person asked for that.
 * @param {import("./message.js").Alert} a
 * @param {string} title
 */
export function tell(a, title) {
  if (stored("notify") && "Notification" in window && Notification.permission === "granted") {
    new Notification(title, { body: clean(a.message, longestSentence), tag: a.alert_id });
  }
  if (stored("sound")) ring();
}

/** Plays two short tones. Browsers stay silent until somebody clicks on the page. */
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
