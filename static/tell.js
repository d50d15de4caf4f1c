// @ts-check
// Announces alerts that have just fired, if a person asked for that, copies the text beside a button, and makes a
// report to share.

import { store, stored } from "./choices.js";

/** @type {AudioContext | undefined} */
let audio;

const box = (/** @type {string} */ name) => /** @type {HTMLInputElement | null} */ (document.getElementById(name));
const told = () => /** @type {HTMLElement} */ (document.getElementById("told"));
const texts = () => /** @type {Record<string, string>} */ ({ ...told().dataset });
/** A dialog has its own place: screen readers don't announce what is outside. */
const aloud = () => document.querySelector("dialog:modal .told") ?? told();

/** @type {ReturnType<typeof setTimeout> | undefined} */
let said;

/**
 * Reports a result beside an element and to screen readers, for as long as it takes to read.
 * @param {Element} beside
 * @param {boolean} done
 * @param {string} text
 */
function say(beside, done, text) {
  const hush = () => {
    for (const name of ["data-done", "data-failed"]) document.querySelector(`[${name}]`)?.removeAttribute(name);
    aloud().textContent = "";
  };
  hush();
  clearTimeout(said);
  said = setTimeout(hush, 1500 + 60 * text.length);
  beside.setAttribute(done ? "data-done" : "data-failed", text);
  aloud().textContent = text;
}

/** A page that announces alerts is kept up to date even while nobody sees it. */
const mark = () => document.body.toggleAttribute("data-told", Boolean(stored("notify") || stored("sound")));

for (const name of ["notify", "sound"]) {
  const of = box(name);
  if (!of) continue;
  of.checked = stored(name) !== "";
  of.onchange = async () => {
    if (name === "notify" && of.checked && !(await mayNotify())) {
      of.checked = false;
      say(of.closest("label") ?? of, false, texts().refused);
    }
    store(name, of.checked ? "on" : "");
    if (name === "sound" && of.checked) ring();
    mark();
  };
}
mark();

const mayNotify = async () => isSecureContext && "Notification" in window && (await Notification.requestPermission()) === "granted";

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

const standing = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-alert]")]);
/** All alerts that were announced or seen: the page lists only the newest. */
const known = new Set(standing().map((el) => el.dataset.alert));
document.body.addEventListener("patched", () => {
  const now = standing();
  for (const el of now) {
    if (known.has(el.dataset.alert)) continue;
    if (stored("notify") && "Notification" in window && Notification.permission === "granted") {
      try {
        new Notification(el.dataset.title ?? "", { body: el.dataset.body, tag: el.dataset.alert });
      } catch {
        // phones don't allow that
      }
    }
    if (stored("sound")) ring();
  }
  for (const el of now) known.add(el.dataset.alert);
});

addEventListener("click", async (e) => {
  const button = /** @type {HTMLElement | null} */ (/** @type {Element} */ (e.target).closest("[data-copy], #copy, #link"));
  if (!button) return;
  const { copied, reported, blocked, away } = texts();
  const text = button.dataset.copy ?? (button.id === "link" ? link() : await import("./report.js").then(({ report }) => report()).catch(() => ""));
  if (!text) say(button, false, away);
  else if (await copy(text)) say(button, true, button.id === "copy" ? reported : copied);
  else say(button, false, blocked);
});

/** Address of the past at the shown moment, which doesn't change later. */
function link() {
  const at = Number(document.getElementById("state")?.dataset.taken);
  const url = new URL(`${document.body.dataset.base}past`, location.href);
  const moment = (/** @type {number} */ t) => new Date(t).toISOString();
  for (const [name, t] of [["from", at - 900_000], ["to", at], ["at", at]]) url.searchParams.set(String(name), moment(Number(t)));
  return url.href;
}

/**
 * Over plain HTTP, browsers only copy the selection.
 * @param {string} text
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const of = /** @type {HTMLElement | null} */ (document.activeElement), area = document.createElement("textarea");
    area.value = text;
    aloud().replaceChildren(area);
    area.select();
    const done = document.execCommand("copy");
    aloud().replaceChildren();
    of?.focus({ preventScroll: true });
    return done;
  }
}
