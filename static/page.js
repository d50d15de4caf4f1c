// @ts-check
// The page's own script: what arrives on the stream is put in its place.

import { setTaken, showAge, startAge } from "./age.js";
import { dropForgotten, expectAlerts, showAlert } from "./alerts.js";
import { showCards } from "./cards.js";
import { byId, setAttribute, setText } from "./dom.js";
import { showHost } from "./host.js";
import { showProcesses } from "./processes.js";
import { connect } from "./stream.js";
import { showSummary, showTitle } from "./summary.js";

/** @typedef {import("./message.js").Update} Update */

const { base = "/", version = "" } = document.body.dataset;
let interval = 1000 * Number(document.body.dataset.interval);

/** What the header says of the connection. */
const words = { connecting: "connecting", live: "live", waiting: "connection lost, trying again" };

/** @type {Update | null} */
let newest = null;
let drawn = true;
let planned = false;
let connections = 0;

/** @type {typeof import("./charts.js") | null} */
let charts = null;

const stream = connect({
  url: address(`${base}ws`),
  silence: () => 4 * interval + 10_000,
  onMessage,
  onState,
});
startAge({ interval: () => interval, onWake: stream.wake });
document.addEventListener("visibilitychange", () => {
  plan();
  if (!document.hidden) stream.wake();
});
import("./charts.js").then((module) => {
  charts = module;
  module.startCharts(interval);
  if (newest) module.addToCharts(newest);
  return loadPast();
}).catch(pastFailed);

/** @param {string} path */
function address(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

/**
 * @param {string} event
 * @param {any} data
 */
function onMessage(event, data) {
  switch (event) {
    case "gpu_status":
      begin(data);
      break;
    case "gpu_status_update":
      take(data, true);
      dropForgotten();
      break;
    case "high_gpu_usage_alert":
      showAlert(data);
      break;
  }
}

/** @param {import("./message.js").Status} status */
function begin(status) {
  if (status.version !== version && reloadOnce(status.version)) return;
  interval = 1000 * status.interval_seconds;
  connections += 1;
  expectAlerts();
  if (status.snapshot) take(status.snapshot, false);
  if (connections > 1) loadPast().catch(pastFailed);
}

/**
 * A server of another version may have other markup.
 * @param {string} newer
 */
function reloadOnce(newer) {
  if (sessionStorage.getItem("reloaded for") === newer) return false;
  sessionStorage.setItem("reloaded for", newer);
  location.reload();
  return true;
}

/**
 * @param {Update} update
 * @param {boolean} fresh
 */
function take(update, fresh) {
  setTaken(update.timestamp, fresh);
  showTitle(update);
  charts?.addToCharts(update);
  newest = update;
  drawn = false;
  plan();
}

/** Draws in the next frame; in a tab that nobody sees, when it is seen again. */
function plan() {
  if (planned || document.hidden) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    draw();
  });
}

function draw() {
  if (newest && !drawn) {
    drawn = true;
    showSummary(newest);
    showCards(newest.gpus, newest.timestamp);
    showProcesses(newest.gpus, newest.timestamp);
    showHost(newest.host);
    showAge(interval);
  }
  charts?.drawCharts();
}

/** @param {import("./stream.js").State} state */
function onState(state) {
  const el = byId("connection");
  // What was lost stays lost in words until it is live again.
  if (state === "connecting" && el.dataset.state === "waiting") return;
  setAttribute(el, "data-state", state);
  setText(el, words[state]);
}

/** Fills the charts with what the server kept, also of the time without a connection. */
async function loadPast() {
  if (!charts) return;
  await charts.loadCharts(base);
  setText(byId("charts-title"), "Last 15 minutes");
}

/** @param {unknown} problem */
function pastFailed(problem) {
  console.warn("charts:", problem);
  setText(byId("charts-title"), "Last minutes: what was before could not be loaded");
}
