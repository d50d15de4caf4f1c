// @ts-check
// The machine as it was, on the page of the past, which alone loads this: keys go to other times, and a replay goes on by itself. The address
// says which time it is.

/** What the script of all pages can do. @type {{choose: typeof import("./live.js").choose, addressWith: typeof import("./picture.js").addressWith, ends: typeof import("./picture.js").ends, iso: typeof import("./picture.js").iso}} */
let can;

const then = () => document.getElementById("past-then");
/** The time that is asked for; empty while nothing is. */
let goal = "";
let asked = performance.now();
/** The time that was shown when the page last changed; empty: none was. */
let shown = then()?.dataset.at ?? "";
/** It was taken from the picture: keys are meant for it. */
let taken = false;
/** Somebody goes through what was shown before. */
let back = false;
/** What had the focus last. @type {Element | null} */
let had = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * @param {Record<string, string>} values
 * @param {boolean} [kept] whether Back leads here again
 */
function go(values, kept) {
  asked = performance.now();
  can.choose(can.addressWith({ play: "", ...values }), kept);
  goal = values.at ?? "";
}

/** The machine goes on by a minute a second, until it reaches the end of what is drawn or a time of which nothing is known. */
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
  // What has the focus may have uses of its own for arrows; Escape means the machine wherever one is, but in a form or a dialog.
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
