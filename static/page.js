// @ts-check
// The dashboard's script, also that of a GPU's page: it shows what the stream sends.

import { setTaken, showAge, startAge } from "./age.js";
import { dropForgotten, expectAlerts, showAlert } from "./alerts.js";
import { mostCards, showCards, standingOut } from "./cards.js";
import { showAnswer, showCauses } from "./causes.js";
import { addToCharts, allShown, drawCharts, loadCharts, markAlert, startCharts } from "./charts.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { showFacts } from "./facts.js";
import { askSummary, expectNodes, gpuName, isFleet, keep, merged } from "./fleet.js";
import { showHost } from "./host.js";
import { showNext } from "./next.js";
import { loadLibrary } from "./plot.js";
import { showProcesses } from "./processes.js";
import { connect, stateWords } from "./stream.js";
import { startTools } from "./tools.js";
import { showSummary, showTitle } from "./summary.js";
import { showWall } from "./wall.js";

/** @typedef {import("./message.js").Update} Update */

const { base = "/", version = "", gpu: only } = document.body.dataset;
let interval = 1000 * Number(document.body.dataset.interval);

/** @type {Update | null} */
let latest = null;
/** @type {Update | null} */
let drawn = null;
let planned = false;
let paused = false;
let connections = 0;
let updated = false;
/** The newest moment in the charts, in milliseconds since 1970. */
let drawnUntil = 0;
/** @type {string[] | undefined} */
let picked;

const stream = connect({
  greeting: only ? [{ event: "subscribe", data: { gpus: [only] } }] : [],
  interval: () => interval,
  silence: () => 4 * interval + 10_000,
  onMessage,
  onState,
});
startTools(() => drawn ?? latest, allShown);
startCharts(interval);
byId("ask").onclick = () => {
  if (paused) byId("pause").click();
  stream.wake();
};
byId("pause").onclick = () => {
  paused = !paused;
  document.body.toggleAttribute("data-paused", paused);
  byId("pause").setAttribute("aria-pressed", String(paused));
  if (!paused && latest) {
    setTaken(isFleet && !only ? "" : latest.timestamp, false, true);
    addToCharts(charted(latest));
    loadPast().catch(pastFailed); // with the readings of the pause
  }
  showAge(interval);
  plan();
};
startAge({ interval: () => interval, onWake: stream.wake, onStale: title });
document.addEventListener("visibilitychange", () => {
  plan();
  if (!document.hidden) stream.wake();
});
loadLibrary().then(loadPast).catch(pastFailed);

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
      updated = true;
      if (take(data, true)) dropForgotten();
      break;
    case "standing_alerts": // without a socket the page asks for them
      expectAlerts();
      for (const a of data) onMessage("alert", a);
      dropForgotten();
      break;
    case "alert":
    case "high_gpu_usage_alert":
      if (only && data.gpu_uuid !== only) break;
      showAlert(data, connections < 2 && !updated);
      markAlert(data);
      break;
  }
}

/** @param {import("./message.js").Status} status */
function begin(status) {
  if (status.version !== version && reloadOnce(status.version)) return;
  interval = 1000 * status.interval_seconds;
  connections += 1;
  expectAlerts();
  expectNodes(status);
  if (status.snapshot) take(status.snapshot, false);
  if (!paused && (connections > 1 || picked)) loadPast().catch(pastFailed);
}

/**
 * The update for the charts. Of very many GPUs they show those that stood out at first.
 * @param {Update} update
 */
function charted(update) {
  if (update.gpus.length <= mostCards) return update;
  picked ??= standingOut(update.gpus).slice(0, 8).map((g) => g.gpu_uuid);
  return { ...update, gpus: update.gpus.filter((g) => picked?.includes(g.gpu_uuid)) };
}

/**
 * Reloads the page: a server of another version may have other markup.
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
 * @returns whether the page shows it now; with several nodes it waits for the summary
 */
function take(update, fresh) {
  if (only) {
    const { node } = update;
    update.gpus = update.gpus.filter((g) => g.gpu_uuid === only);
    if (!update.gpus.length && isFleet && node && latest?.gpus[0].node !== node) return true; // it is about another node
    setHidden(byId("gone"), update.gpus.length > 0);
    if (update.gpus.length === 0) return true; // the readings on the page grow old
  } else if (keep(update)) {
    setTaken("", false, !paused);
    askSummary(Math.min(interval, 1000) / 4, () => {
      const all = merged();
      if (all) show(all, Date.parse(all.timestamp) - drawnUntil < 0.9 * interval);
      dropForgotten();
    });
    return false;
  }
  setTaken(update.timestamp, fresh, !paused);
  show(update);
  return true;
}

/**
 * @param {Update} update
 * @param {boolean} [soon] it is too soon for another moment in the charts
 */
function show(update, soon) {
  if (!paused && !soon) {
    drawnUntil = Date.parse(update.timestamp);
    addToCharts(charted(update));
  }
  latest = update;
  showAge(interval);
  title();
  plan();
}

function title() {
  if (latest) showTitle(latest, only ? gpuName(latest.gpus[0]) : "");
}

/** Draws in the next frame, or when a hidden tab is shown again. */
function plan() {
  if (planned || paused || document.hidden) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    drawPage();
  });
}

function drawPage() {
  if (latest && latest !== drawn) {
    drawn = latest;
    document.body.dataset.taken = String(Date.parse(latest.timestamp));
    showSummary(latest);
    showAnswer(only ? latest.gpus[0] : latest);
    showCauses(latest, only);
    showCards(latest);
    showProcesses(latest.gpus, latest.timestamp);
    showHost(latest.host);
    if (only) {
      showFacts(latest.gpus[0]);
      showNext(latest.gpus[0]);
    }
    showWhole(latest);
  }
  drawCharts();
}

/** @param {import("./stream.js").State} state */
function onState(state) {
  const el = byId("connection");
  // A lost connection stays lost in stateWords until it is live again.
  if (state === "connecting" && el.dataset.state === "waiting") return;
  setAttribute(el, "data-state", state);
  setText(el, stateWords[state]);
}

/**
 * Shows the wall if there are very many GPUs.
 * @param {Update} update
 */
function showWhole({ gpus }) {
  setHidden(byId("wall"), gpus.length <= mostCards);
  if (gpus.length > mostCards) showWall(gpus);
}

/** Loads the readings that the server kept, also from the time without a connection. */
async function loadPast() {
  if (!latest && !byId("wall").hidden) return; // the GPUs with charts are not known yet
  const of = only ? [only] : picked ?? [];
  await loadCharts(`${base}api/gpu/recent${of.length ? "?" : ""}${of.map((id) => `gpu=${encodeURIComponent(id)}`).join("&")}`);
}

/** @param {unknown} problem */
function pastFailed(problem) {
  console.warn("charts:", problem); // the charts begin with the next reading
}
