// @ts-check
// How old what is shown is, by the browser's own clock: a page whose server
// has gone, or whose machine has slept, must not look fresh.

import { span } from "./format.js";
import { byId, setHidden, setText } from "./dom.js";

/** When the reading that is shown was taken, by the server's clock; 0: none. */
let taken = 0;

/** When the newest was; a page that is paused shows an older one. */
let arrived = 0;

/** After how many milliseconds a page that is paused is greyed, at least. */
const longestPause = 60_000;

/** The browser's clock less the server's, and the shortest way of a message. */
let ahead = 0;

let ticked = Date.now();

/** Whether the next new reading sets the clocks' difference anew. */
let unsure = false;

/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/** Tells that what is shown has become stale, or is no longer. */
let changed = () => {};

/**
 * @param {object} options
 * @param {() => number} options.interval milliseconds between readings
 * @param {() => void} options.onWake when the clock shows that the machine slept
 * @param {() => void} options.onStale when what is shown becomes stale, and when it no longer is
 */
export function startAge({ interval, onWake, onStale }) {
  changed = onStale;
  const { now, taken: first } = document.body.dataset;
  ahead = Date.now() - Number(now);
  taken = arrived = Number(first);
  const tick = () => {
    if (!document.hidden) { // else the browser lets it wait for minutes
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
 * A reading has come.
 * @param {string} timestamp RFC 3339; empty: now, as the clocks of several nodes differ
 * @param {boolean} fresh whether it was sent as soon as it was taken
 * @param {boolean} shown whether it is shown from now on
 */
export function setTaken(timestamp, fresh, shown) {
  arrived = Date.parse(timestamp) || Date.now() - ahead;
  if (shown) taken = arrived;
  if (!fresh) return;
  const apart = Date.now() - arrived;
  ahead = unsure ? apart : Math.min(ahead, apart);
  unsure = false;
}

/** Whether no reading has come for too long. */
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
