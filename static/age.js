// @ts-check
// How old what is shown is, by the browser's own clock: a page whose server
// has gone, or whose machine has slept, must not look fresh.

import { span } from "./format.js";
import { byId, setText } from "./dom.js";

/** When the reading that is shown was taken, by the server's clock; 0: none. */
let taken = 0;

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
  taken = Number(first);
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
 * A reading is shown from now on.
 * @param {string} timestamp RFC 3339
 * @param {boolean} fresh whether it was sent as soon as it was taken
 */
export function setTaken(timestamp, fresh) {
  taken = Date.parse(timestamp);
  if (!fresh) return;
  const apart = Date.now() - taken;
  ahead = unsure ? apart : Math.min(ahead, apart);
  unsure = false;
}

/** Whether what is shown is too old to be trusted. */
export const isStale = () => "stale" in document.body.dataset;

/** @param {number} interval milliseconds */
export function showAge(interval) {
  if (!taken) return;
  const age = Math.max(0, Date.now() - ahead - taken);
  const paused = "paused" in document.body.dataset;
  const stale = !paused && age > 3 * interval;
  if (isStale() !== stale) {
    document.body.toggleAttribute("data-stale", stale);
    changed();
  }
  if (document.hidden) return;
  const words = age < 1500 ? "just now" : `${span(age / 1000)} ago`;
  setText(byId("age"), paused ? `paused, ${words}` : stale ? `no reading for ${span(age / 1000)}` : `updated ${words}`);
}
