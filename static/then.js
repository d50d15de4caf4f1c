// @ts-check
// The machine as it was. Only the page of the past loads this: keys move through time, and a replay runs by itself. The address contains the
// time.

/** Functions of the script of all pages. @type {{choose: typeof import("./live.js").choose, addressWith: typeof import("./picture.js").addressWith, ends: typeof import("./picture.js").ends, iso: typeof import("./picture.js").iso}} */
let can;

const then = () => document.getElementById("past-then");
/** The requested time; empty if none is pending. */
let goal = "";
let asked = performance.now();
/** The time shown when the page last changed; empty for none. */
let shown = then()?.dataset.at ?? "";
/** It was selected in the picture, so keys belong to it. */
let taken = false;
/** Somebody is going back and forth through the history. */
let back = false;
/** The element that had the focus last. @type {Element | null} */
let had = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * @param {Record<string, string>} values
 * @param {boolean} [kept] whether Back returns here
 */
function go(values, kept) {
  asked = performance.now();
  can.choose(can.addressWith({ play: "", ...values }), kept);
  goal = values.at ?? "";
}

/** A replay advances a minute per second, until the end of the picture or a time without data. */
function replay() {
  clearTimeout(timer);
  const t = then();
  if (!t?.hasAttribute("data-playing") || !t.querySelector(".answer")) return;
  const next = Date.parse(t.dataset.at ?? "") + 60_000;
  if (!(next < Math.min(can.ends(), Date.now()))) return go({}, true);
  timer = setTimeout(() => go({ at: can.iso(next), play: "60" }), Math.max(0, 1000 - (performance.now() - asked)));
}

function changed() {
  const t = then(), picture = document.getElementById("past-picture"), at = t?.dataset.at ?? "";
  goal = "";
  if (taken) t?.focus({ preventScroll: true });
  if (!t && shown && document.activeElement === document.body && had?.closest("#past-then")) picture?.focus({ preventScroll: true });
  if (t && !shown && !back) t.scrollIntoView();
  [shown, taken, back] = [at, false, false];
  replay();
}

/** @param {KeyboardEvent} e */
function key(e) {
  const t = then(), by = { ArrowLeft: -1, ArrowRight: 1, Escape: 0 }[e.key];
  if (!t || by === undefined || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || e.defaultPrevented) return;
  // The focused element may use arrow keys itself. Escape closes the machine view, except in a form or a dialog.
  if (e.target instanceof Element && e.target.closest(by ? "input, select, dialog, summary, [tabindex='0']" : "input, select, dialog")) return;
  e.preventDefault();
  go({ at: by ? can.iso(Date.parse(goal || t.dataset.at || "") + by * Number(t.dataset.step)) : "" }, true);
}

/** @param {typeof can} page */
export function begin(page) {
  can = page;
  document.body.addEventListener("patched", changed);
  document.body.addEventListener("taken", () => { taken = true; });
  document.addEventListener("keydown", key);
  document.addEventListener("focusin", (e) => { had = /** @type {Element} */ (e.target); });
  addEventListener("popstate", () => { back = true; });
  replay();
}
