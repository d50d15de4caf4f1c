// @ts-check
// Alerts, as they fire and as they are over: the worst, and all if asked for.

import { clean, dots, longestName, longestSentence, say, sentence } from "./format.js";
import { sendForms } from "./forms.js";
import { moment } from "./moments.js";
import { tell } from "./tools.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Alert} Alert */

/** How long an alert that is over stays to be read, in milliseconds. */
const staysFor = 60_000;

/** How many rows there are at most: the worst. */
const mostAlerts = 100;

const severities = ["info", "warning", "critical"];

/**
 * All that stand, and those that are over for a while, by their id. Of those of
 * the first paint no more is known than their place, until they are sent.
 * @type {Map<string, Alert>}
 */
const alerts = new Map();

/** Those that were there before the connection and were not sent again yet. */
const unconfirmed = new Set();

let alertsPlanned = false;

for (const row of /** @type {Iterable<HTMLElement>} */ (byId("alerts").children)) {
  const { key: alert_id = "", severity, state } = row.dataset;
  alerts.set(alert_id, /** @type {any} */ ({ alert_id, severity, state }));
}

/** @param {Alert} a */
const isOver = (a) => a.state === "resolved";

/** How many stand. */
export const firing = () => [...alerts.values()].filter((a) => !isOver(a)).length;

byId("more-alerts").onclick = () => {
  byId("alerts").toggleAttribute("data-open");
  showAlerts();
};
sendForms();

// "10 s ago" is true for ten seconds: what stands is told anew now and then,
// unless something newer has come meanwhile.
setInterval(async () => {
  if (document.hidden || "paused" in document.body.dataset || !firing() || alerts.size > mostAlerts || byId("connection").dataset.state !== "live") return;
  try {
    const answer = await fetch(`${document.body.dataset.base}api/alerts`);
    for (const a of answer.ok ? (await answer.json()).alerts : []) {
      if (a.timestamp > (alerts.get(a.alert_id)?.timestamp ?? "~")) alerts.set(a.alert_id, a);
    }
    planAlerts();
  } catch {
    // it does not answer, or a proxy does: the next time may be better
  }
}, 30_000);

/**
 * @param {Alert} a
 * @param {boolean} [quietly] it is not new
 */
export function showAlert(a, quietly) {
  const id = a.alert_id;
  if (!alerts.has(id)) {
    if (isOver(a)) return;
    if (!quietly && !a.acknowledged && !a.silenced_until) tell(a, label(a));
  }
  if (!quietly && (!alerts.has(id) || isOver(a))) setText(byId("said"), dots(label(a), sentence(a.message)));
  unconfirmed.delete(id);
  alerts.set(id, a);
  if (isOver(a)) setTimeout(() => alerts.get(id) === a && drop(id), staysFor);
  planAlerts();
}

/** Of thousands that come in one go the list is made once for each frame. */
function planAlerts() {
  if (alertsPlanned) return;
  alertsPlanned = true;
  requestAnimationFrame(() => {
    alertsPlanned = false;
    showAlerts();
  });
}

/** What matters most comes first, and what is over last; else they are as they came. */
function showAlerts() {
  const rank = (/** @type {Alert} */ a) => (isOver(a) ? -2 : severities.indexOf(a.severity));
  const sorted = [...alerts.values()].sort((a, b) => rank(b) - rank(a));
  const box = byId("alerts");
  sync(box, "t-alert", sorted.slice(0, mostAlerts), (a) => a.alert_id, showAlertRow);
  const more = byId("more-alerts");
  const open = "open" in box.dataset;
  const n = sorted.length;
  setHidden(more, n < 2);
  setAttribute(more, "aria-expanded", String(open));
  setText(more, n < 2 ? "" : open ? "Show the first alone" : n > mostAlerts ? say("worst", mostAlerts, n) : say("more", n - 1));
}

/**
 * @param {HTMLElement} row
 * @param {Alert} a
 */
function showAlertRow(row, a) {
  if (a.message === undefined) return; // as the first paint has it
  const over = isOver(a);
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

/** @param {string} id */
function drop(id) {
  alerts.delete(id);
  planAlerts();
}

/** A connection begins: whatever still stands will be sent again. */
export function expectAlerts() {
  for (const a of alerts.values()) if (!isOver(a)) unconfirmed.add(a.alert_id);
}

/** The first update after that: what was not sent again is over. */
export function dropForgotten() {
  unconfirmed.forEach(drop);
  unconfirmed.clear();
}
