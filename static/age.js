// @ts-check
// The age of the readings on the page, by the browser's clock: if the server is
// gone, or the machine has slept, the page must not look fresh.

import { span } from "./format.js";
import { byId, setHidden, setText } from "./dom.js";

/** The time of the reading on the page, by the server's clock; 0: there is none. */
let taken = 0;

/** The time of the newest reading. A paused page shows an older one. */
let arrived = 0;

/** A paused page turns grey after this many milliseconds at the earliest. */
const longestPause = 60_000;

/** The browser's clock minus the server's, plus the shortest time of a message on its way. */
let ahead = 0;

let ticked = Date.now();

/** Whether the next new reading sets the difference of the clocks again. */
let unsure = false;

/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/** Called when the readings on the page become stale, and when they no longer are. */
let changed = () => {};

/**
 * @param {object} options
 * @param {() => number} options.interval milliseconds between readings
 * @param {() => void} options.onWake called when the clock shows that the machine slept
 * @param {() => void} options.onStale called when the readings become stale, and when they no longer are
 */
export function startAge({ interval, onWake, onStale }) {
  changed = onStale;
  const { now, taken: first } = document.body.dataset;
  ahead = Date.now() - Number(now);
  taken = arrived = Number(first);
  const tick = () => {
    if (!document.hidden) { // the browser may delay the timers of a hidden page for minutes
      const gap = Date.now() - ticked;
      ticked = Date.now();
      if (gap < -1000 || gap > 10_000) {
        unsure = true;
        onWake();
      }
    }
    showAge(interval());
  };
  const run = () => {
    clearInterval(timer);
    tick();
    timer = setInterval(tick, 1000);
  };
  document.addEventListener("visibilitychange", run);
  run();
}

/**
 * A reading has arrived.
 * @param {string} timestamp RFC 3339; empty: now, as the clocks of several nodes differ
 * @param {boolean} fresh whether the server sent it as soon as it was taken
 * @param {boolean} shown whether the page shows it from now on
 */
export function setTaken(timestamp, fresh, shown) {
  arrived = Date.parse(timestamp) || Date.now() - ahead;
  if (shown) taken = arrived;
  if (!fresh) return;
  const apart = Date.now() - arrived;
  ahead = unsure ? apart : Math.min(ahead, apart);
  unsure = false;
}

/** Whether no reading has arrived for too long. */
export const isStale = () => "stale" in document.body.dataset;

/** @param {number} interval milliseconds */
export function showAge(interval) {
  if (!taken) return;
  const age = (/** @type {number} */ time) => Math.max(0, Date.now() - ahead - time);
  const { body } = document;
  const paused = "paused" in body.dataset;
  const stale = age(arrived) > 3 * interval;
  body.toggleAttribute("data-old", paused && age(taken) > Math.max(longestPause, 3 * interval));
  if (isStale() !== stale) {
    body.toggleAttribute("data-stale", stale);
    changed();
  }
  if (document.hidden) return;
  const long = span(age(arrived) / 1000);
  setText(byId("age"), stale ? `no reading for ${long}` : paused ? "paused" : age(taken) < 1500 ? "updated just now" : `updated ${long} ago`);
  setHidden(byId("paused"), !paused);
  setText(byId("paused"), paused ? `Paused: what is shown is ${span(age(taken) / 1000)} old.` : "");
}
