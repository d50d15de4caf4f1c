// @ts-check
// High-usage alerts, as they fire and as they are over.

import { clean, longestSentence } from "./format.js";
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
const rows = () => /** @type {any} */ (byId("alerts").children);

/** @param {Alert} a */
export function showAlert(a) {
  const over = a.state === "resolved";
  let row = [...rows()].find((r) => r.dataset.key === a.alert_id);
  if (!row) {
    row = clone("t-alert");
    setAttribute(row, "data-key", a.alert_id);
    byId("alerts").append(row);
  }
  unconfirmed.delete(row);
  setAttribute(row, "data-state", a.state);
  setAttribute(row, "title", `since ${a.since.slice(0, 19).replace("T", " ")} UTC`);
  setTexts(row, { label: over ? "Over" : "High usage", message: clean(a.message, longestSentence) });
  if (over) setTimeout(() => row.dataset.state === "resolved" && row.remove(), staysFor);
}

/** A connection begins: whatever still fires will be sent again. */
export function expectAlerts() {
  for (const row of rows()) if (row.dataset.state !== "resolved") unconfirmed.add(row);
}

/** The first update after that: what was not sent again is over. */
export function dropForgotten() {
  for (const row of unconfirmed) row.remove();
  unconfirmed.clear();
}
