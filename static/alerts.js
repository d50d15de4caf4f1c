// @ts-check
// Alerts, as they fire and as they are over: the worst, and all if asked for.

import { clean, dots, longestName, longestSentence, say, sentence } from "./format.js";
import { sendForms } from "./forms.js";
import { moment } from "./moments.js";
import { tell } from "./tools.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { clone, setTexts, slot } from "./rows.js";

/** @typedef {import("./message.js").Alert} Alert */

/** How long an alert that is over stays to be read, in milliseconds. */
const staysFor = 60_000;

const severities = ["info", "warning", "critical"];

/**
 * Rows that were there before the connection and were not sent again yet.
 * @type {Set<HTMLElement>}
 */
const unconfirmed = new Set();

/** @returns {HTMLElement[]} */
const alertRows = () => /** @type {any} */ ([...byId("alerts").children]);

/** @param {HTMLElement} row */
const isOver = (row) => row.dataset.state === "resolved";

/** How many stand. */
export const firing = () => alertRows().filter((r) => !isOver(r)).length;

byId("more-alerts").onclick = () => {
  byId("alerts").toggleAttribute("data-open");
  arrange();
};
arrange();
sendForms();

/**
 * @param {Alert} a
 * @param {boolean} [quietly] it is not new
 */
export function showAlert(a, quietly) {
  const over = a.state === "resolved";
  let row = alertRows().find((r) => r.dataset.key === a.alert_id);
  if (!row) {
    if (over) return;
    if (!quietly && !a.acknowledged && !a.silenced_until) tell(a, label(a));
    row = clone("t-alert");
    setAttribute(row, "data-key", a.alert_id);
    byId("alerts").append(row);
  }
  unconfirmed.delete(row);
  setAttribute(row, "data-state", a.state);
  setAttribute(row, "data-severity", a.severity);
  setAttribute(row, "title", say("since", moment(a.since)));
  setTexts(row, { label: label(a), message: sentence(a.message), said: said(a) });
  for (const button of row.querySelectorAll("button")) {
    const what = button.dataset.do ?? "";
    setAttribute(button, "formaction", `${document.body.dataset.base}api/alerts/${encodeURIComponent(a.alert_id)}/${what}`);
    const had = button === document.activeElement;
    setHidden(button, over || Boolean(what === "silence" ? a.silenced_until : a.acknowledged));
    if (had && button.hidden) slot(row, "said").focus();
  }
  arrange();
  if (over) setTimeout(() => isOver(row) && drop(row), staysFor);
}

/** @param {Alert} a */
const label = (a) => (a.state === "firing" ? say(`alert ${a.rule}`) || say(`alert ${a.severity}`) : say(`alert ${a.state}`));

/**
 * What people said of it.
 * @param {Alert} a
 */
function said({ acknowledged: by, silenced_until: until }) {
  let known = by && say("acknowledged");
  if (known && by?.by) known = say("by", known, clean(by.by, longestName));
  if (known && by?.comment) known = say("says", known, clean(by.comment, longestSentence));
  return dots(known, until && say("silenced", moment(until)));
}

/** What matters most comes first, and what is over last; else they are as they came. */
function arrange() {
  const box = byId("alerts");
  const rank = (/** @type {HTMLElement} */ r) => (isOver(r) ? -2 : severities.indexOf(r.dataset.severity ?? ""));
  const rows = alertRows().sort((a, b) => rank(b) - rank(a));
  rows.forEach((row, i) => row !== box.children[i] && box.insertBefore(row, box.children[i]));
  const more = byId("more-alerts");
  const open = "open" in box.dataset;
  setHidden(more, rows.length < 2);
  setAttribute(more, "aria-expanded", String(open));
  setText(more, rows.length < 2 ? "" : open ? "Show the first alone" : say("more", rows.length - 1));
}

/** @param {HTMLElement} row */
function drop(row) {
  row.remove();
  arrange();
}

/** A connection begins: whatever still stands will be sent again. */
export function expectAlerts() {
  for (const row of alertRows()) if (!isOver(row)) unconfirmed.add(row);
}

/** The first update after that: what was not sent again is over. */
export function dropForgotten() {
  unconfirmed.forEach(drop);
  unconfirmed.clear();
}
