// @ts-check
// What comes next of the GPU that the page is about.

import { byId, setHidden, setText } from "./dom.js";
import { sentence } from "./format.js";

/** When the server is asked again: it makes forecasts once a minute. */
let due = performance.now() + 60_000;
let shortest = 0;

/**
 * Shows what a reading tells. How wrong such forecasts were, and those that are new, are on the page as the server makes it.
 * @param {import("./message.js").GPU} g
 */
export function showNext(g) {
  const left = new Map((g.next ?? []).map((p) => [p.kind, p.sentence]));
  const shown = byId("next");
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (shown.querySelectorAll("li"))) {
    const text = left.get(row.dataset.kind ?? "");
    setHidden(row, text == null);
    if (text != null) setText(/** @type {Element} */ (row.firstElementChild), sentence(text));
    left.delete(row.dataset.kind ?? "");
  }
  const now = performance.now();
  if (now < (left.size ? shortest : due)) return;
  due = now + 60_000;
  shortest = now + 10_000;
  const page = new XMLHttpRequest();
  page.responseType = "document"; // a whole page whose scripts do not run
  page.open("GET", location.pathname);
  page.onload = () => {
    const newer = page.response?.getElementById("next");
    if (!newer) return;
    setHidden(shown, newer.hidden);
    shown.querySelector(".outlooks")?.replaceWith(newer.querySelector(".outlooks"));
  };
  page.send();
}
