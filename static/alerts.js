// @ts-check
// High-usage alerts, as they fire and as they are over.

import { clean, longestSentence, moment } from "./format.js";
import { tell } from "./tools.js";
import { byId, clone, setAttribute, setTexts } from "./dom.js";

/** @typedef {import("./message.js").Alert} Alert */

/** How long an alert that is over stays to be read, in milliseconds. */
const staysFor = 60_000;

/**
 * Rows that were there before the connection and were not sent again yet.
 * @type {Set<HTMLElement>}
 */
const unconfirmed = new Set();

/** @returns {Iterable<HTMLElement>} */
const alertRows = () => /** @type {any} */ (byId("alerts").children);

/** How many are firing. */
export const firing = () => [...alertRows()].filter((r) => r.dataset.state !== "resolved").length;

/**
 * @param {Alert} a
 * @param {boolean} [quietly] it is not new
 */
export function showAlert(a, quietly) {
  const over = a.state === "resolved";
  let row = [...alertRows()].find((r) => r.dataset.key === a.alert_id);
  if (!row) {
    if (over) return;
    if (!quietly) tell(a);
    row = clone("t-alert");
    setAttribute(row, "data-key", a.alert_id);
    byId("alerts").append(row);
  }
  unconfirmed.delete(row);
  setAttribute(row, "data-state", a.state);
  setAttribute(row, "title", `since ${moment(a.since)}`);
  setTexts(row, { label: over ? "Over" : "High usage", message: clean(a.message, longestSentence) });
  if (over) setTimeout(() => row.dataset.state === "resolved" && row.remove(), staysFor);
}

/** A connection begins: whatever still fires will be sent again. */
export function expectAlerts() {
  for (const row of alertRows()) if (row.dataset.state !== "resolved") unconfirmed.add(row);
}

/** The first update after that: what was not sent again is over. */
export function dropForgotten() {
  for (const row of unconfirmed) row.remove();
  unconfirmed.clear();
}
