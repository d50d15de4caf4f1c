// @ts-check
// The page of alerts. On news the script fetches the page again and changes what
// differs. What somebody types or has open stays.

import { byId, setAttribute, setText } from "./dom.js";
import { sendForms } from "./forms.js";
import { rewriteMoments } from "./moments.js";
import { order } from "./order.js";
import { connect, stateWords } from "./stream.js";

let asking = false;
let behind = false;
let heardOf = "";

/** Fetches the page, or does so later if nobody sees it now. */
function refresh() {
  behind = true;
  if (asking || document.hidden) return;
  asking = true;
  behind = false;
  const page = new XMLHttpRequest();
  page.responseType = "document"; // a whole page whose scripts do not run
  page.open("GET", location.pathname + location.search);
  page.onload = () => {
    const main = page.status === 200 && page.response?.querySelector("main");
    if (!main) return;
    rewriteMoments(main);
    become(/** @type {Element} */ (document.querySelector("main")), main);
    document.title = page.response.title;
  };
  page.onloadend = () => {
    asking = false;
    if (behind) refresh();
  };
  page.send();
}

/**
 * Makes an element equal to the server's. Rows with the same key are the same.
 * The reader chooses what is open, and the answers to forms exist only here:
 * both stay.
 * @param {Element} now
 * @param {Element} next
 */
function become(now, next) {
  if (now.isEqualNode(next) || now.localName === "output") return;
  for (const { name } of [...now.attributes, ...next.attributes]) {
    const value = next.getAttribute(name);
    if (value === now.getAttribute(name) || name === "open") continue;
    if (value === null) now.removeAttribute(name);
    else now.setAttribute(name, value);
  }
  if (![...now.children, ...next.children].length) return setText(now, next.textContent ?? "");
  const old = [...now.childNodes];
  const nodes = [...next.childNodes].map((child) => {
    const i = old.findIndex((o) => alike(o, child));
    if (i < 0) return child;
    const [kept] = old.splice(i, 1);
    if (kept instanceof Element) become(kept, /** @type {Element} */ (child));
    else if (kept.nodeValue !== child.nodeValue) kept.nodeValue = child.nodeValue;
    return kept;
  });
  for (const gone of old) gone.remove();
  order(now, nodes);
}

/**
 * @param {any} a
 * @param {any} b
 */
const alike = (a, b) => a.nodeName === b.nodeName && a.id === b.id && a.dataset?.key === b.dataset?.key && a.getAttribute?.("action") === b.getAttribute?.("action");

connect({
  greeting: [{ event: "subscribe", data: { events: ["alert", "high_gpu_usage_alert"] } }],
  interval: () => 1000 * Number(document.body.dataset.interval),
  silence: () => 2 ** 30, // an hour without an alert is no reason to connect again
  onMessage(event, data) {
    if (event === "gpu_status_update") return;
    const text = JSON.stringify(data);
    if (event !== "standing_alerts" || text !== heardOf) refresh();
    heardOf = text;
  },
  onState(state) {
    const el = byId("connection");
    if (state === "connecting" && el.dataset.state === "waiting") return;
    setAttribute(el, "data-state", state);
    setText(el, stateWords[state]);
  },
});
sendForms(refresh);
setInterval(() => document.querySelector(".firing") && refresh(), 30_000); // "10 s ago" is true for ten seconds
document.addEventListener("visibilitychange", () => behind && refresh());
