// @ts-check
// The alerts on the dashboard: the worst, or all of them.

import { clean, dots, longestName, longestSentence, say, sentence } from "./format.js";
import { isFleet } from "./fleet.js";
import { sendForms } from "./forms.js";
import { moment } from "./moments.js";
import { tell } from "./tools.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Alert} Alert */

/** How long a resolved alert stays on the page, in milliseconds. */
const staysFor = 60_000;

/** The most rows on the page: those of the worst alerts. */
const mostAlerts = 100;

const severities = ["info", "warning", "critical"];

/**
 * The firing alerts, and the resolved ones for a while, by id. Until the server
 * sends them, only what the markup says is known of the alerts in it.
 * @type {Map<string, Alert>}
 */
const alerts = new Map();

/** The alerts from before the connection that the server has not sent again yet. */
const unconfirmed = new Set();

let alertsPlanned = false;

for (const row of /** @type {Iterable<HTMLElement>} */ (byId("alerts").children)) {
  const { key: alert_id = "", severity, state } = row.dataset;
  alerts.set(alert_id, /** @type {any} */ ({ alert_id, severity, state }));
}

/** @param {Alert} a */
const isOver = (a) => a.state === "resolved";

/** The number of alerts that are not resolved. */
export const firing = () => [...alerts.values()].filter((a) => !isOver(a)).length;

byId("more-alerts").onclick = () => {
  byId("alerts").toggleAttribute("data-open");
  showAlerts();
};
sendForms();

// "10 s ago" is true for ten seconds: the texts of firing alerts are fetched again
// now and then. A newer text that has arrived meanwhile stays.
setInterval(async () => {
  if (document.hidden || "paused" in document.body.dataset || !firing() || alerts.size > mostAlerts || byId("connection").dataset.state !== "live") return;
  try {
    const answer = await fetch(`${document.body.dataset.base}api/alerts`);
    for (const a of answer.ok ? (await answer.json()).alerts : []) {
      if (a.timestamp > (alerts.get(a.alert_id)?.timestamp ?? "~")) alerts.set(a.alert_id, a);
    }
    planAlerts();
  } catch {
    // the server does not answer, or a proxy does: the next attempt may succeed
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
  if (!quietly && (!alerts.has(id) || isOver(a))) setText(byId("said"), dots(label(a), message(a)));
  unconfirmed.delete(id);
  alerts.set(id, a);
  if (isOver(a)) setTimeout(() => alerts.get(id) === a && drop(id), staysFor);
  planAlerts();
}

/** Makes the list once for each frame, also when thousands of alerts arrive together. */
function planAlerts() {
  if (alertsPlanned) return;
  alertsPlanned = true;
  requestAnimationFrame(() => {
    alertsPlanned = false;
    showAlerts();
  });
}

/** The worst come first and the resolved last, otherwise in the order of arrival. */
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
 * With several nodes an alert names its own.
 * @param {Alert} a
 */
function message(a) {
  const node = isFleet ? clean(a.node, longestName) : "";
  return node ? say("says", node, sentence(a.message)) : sentence(a.message);
}

/**
 * @param {HTMLElement} row
 * @param {Alert} a
 */
function showAlertRow(row, a) {
  if (a.message === undefined) return; // the markup has it
  const over = isOver(a);
  setAttribute(row, "data-state", a.state);
  setAttribute(row, "data-severity", a.severity);
  setAttribute(row, "title", say("since", moment(a.since)));
  setTexts(row, { label: label(a), message: message(a), said: said(a) });
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
 * What people said about an alert.
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

/** A connection begins: the server will send all firing alerts again. */
export function expectAlerts() {
  for (const a of alerts.values()) if (!isOver(a)) unconfirmed.add(a.alert_id);
}

/** The first update after that: the alerts that were not sent again are over. */
export function dropForgotten() {
  unconfirmed.forEach(drop);
  unconfirmed.clear();
}
