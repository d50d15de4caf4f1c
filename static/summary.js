// @ts-check
// What the page says about the machine as a whole. views/page.go writes the same
// in Go.

import { between, celsius, clean, count, dots, longestName, memory, missing, percent, plain, say, sentence, show, watts } from "./format.js";
import { byId, setAttribute, setHidden, setText, setValue } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";

import { isStale } from "./age.js";
import { firing } from "./alerts.js";
import { temperatureMeter } from "./cards.js";
import { gpuName } from "./fleet.js";

/** @typedef {import("./message.js").Update} Update */
/** @typedef {import("./message.js").GPU} GPU */

// The kinds of readings that are not of the machine as it is now: each has a banner.
const notLive = ["simulated", "recorded"];

/** What the page's readings are, for a picture of it: "simulated data"; empty for live ones. */
export function kindText() {
  const kind = notLive.find((k) => !byId(k).hidden);
  return kind ? `${kind} data` : "";
}

/** @param {Update} u */
export function showSummary(u) {
  setAttribute(document.body, "data-status", u.status);
  setText(byId("node"), clean(u.node ?? count("nodes", u.node_count ?? 0), longestName));
  setText(byId("source"), u.source);
  setText(byId("driver"), driver(u.drivers));
  setText(byId("found"), sentence(u.found));
  for (const kind of notLive) setHidden(byId(kind), !(u.source === kind || u.gpus.some((g) => g.source === kind)));
  setHidden(byId("waiting"), true);
  setHidden(byId("gpus"), u.gpus.length === 0);
  showTotals(u);
  showFailures(u);
  const notes = u.notes.map(sentence);
  setHidden(byId("limits"), notes.length === 0);
  sync(byId("notes"), "t-note", notes, (text) => text, setText);
}

/**
 * Shows in the tab's title and icon whether alerts fire, and the highest
 * utilization and temperature; or that the readings are stale.
 * @param {Update} u
 * @param {string} name of the page
 */
export function showTitle(u, name) {
  if (isStale()) {
    showIcon(0, 3, "M6 8l2-2 8 8 8-8 2 2-8 8 8 8-2 2-8-8-8 8-2-2 8-8z");
    document.title = dots("× no reading", name, "gpuwhy");
    return;
  }
  const answering = u.gpus.filter((g) => g.state === "ok");
  const util = highest(answering.map((g) => g.utilization.gpu_percent));
  const heat = highest(answering.map((g) => g.temperature.current_celsius));
  const alerts = firing() > 0;
  showIcon(Math.ceil((util ?? 0) / 20), answering.reduce((worst, g) => Math.max(worst, ["", "near", "over"].indexOf(temperatureMeter(g).level)), 0), alerts ? "M21 2l9 15H12z" : "");
  const title = (alerts ? "▲ " : "") + dots(util != null && percent(util), heat != null && celsius(heat), name, "gpuwhy");
  if (document.title !== title) document.title = title;
}

/**
 * Draws the icon if it changes: a column as high as the load in the colour of the
 * heat, with a triangle while alerts fire, or a cross if nothing is known.
 * @param {number} load 0 to 5
 * @param {number} heat 0 to 2; 3: not known
 * @param {string} sign the outline of the triangle or cross, or empty
 */
function showIcon(load, heat, sign) {
  const look = `${load}${heat}${sign}`;
  if (look === icon) return;
  icon = look;
  const colour = ["#2e9c8f", "#e88a2c", "#e5484d", "#8a9499"][heat];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="6" fill="#20282c"/>`
    + `<rect x="5" y="${27 - 4 * load}" width="22" height="${2 + 4 * load}" rx="2" fill="${colour}"/><path d="${sign}" fill="#fff" stroke="#20282c"/></svg>`;
  document.querySelector("link[rel=icon]")?.setAttribute("href", `data:image/svg+xml,${encodeURIComponent(svg)}`);
}

let icon = "";

/** @param {(number | null)[]} values */
function highest(values) {
  const known = values.filter((v) => v != null);
  return known.length ? Math.max(...known) : null;
}

/** @param {Update["drivers"]} drivers */
function driver(drivers) {
  return dots(...drivers.flatMap((d) => [
    d.driver_version && say("driver", (drivers.length > 1 ? d.source + " " : "") + clean(d.driver_version, longestName)),
    d.cuda_driver_version && say("CUDA", clean(d.cuda_driver_version, longestName)),
  ]));
}

/** @param {Update} u */
function showTotals(u) {
  const hottest = u.gpus.reduce(hotter, /** @type {GPU | null} */ (null));
  const away = u.gpu_count - u.answering_gpu_count;
  const some = u.gpus.length > 0;
  const untold = u.gpus.filter((g) => g.state === "ok" && trusted(g, "utilization.gpu_percent") == null).length;
  let of = say("of", count("GPUs", u.gpu_count));
  if (untold > 0) of = say("not told", of, untold);
  if (away > 0) of = say("not read", of, away);
  total("memory", ...memoryTotal(u));
  total("power", show(u.total_power_draw_watts, undefined, watts), sumOfLimits(u, "power.power_draw_watts", "power.power_limit_watts", watts));
  total("busy", plain(String(u.busy_gpu_count)), of);
  total("processes", plain(String(u.process_count)), "");
  total("hottest", show(some && hottest ? hottest.temperature.current_celsius : null,
    hottest?.quality["temperature.current_celsius"], celsius),
    hottest && u.gpus.length > 1 ? gpuName(hottest) : "");
}

/**
 * The memory of all GPUs, and how many are not in it, since they use the machine's.
 * @param {Update} u
 * @returns {[import("./format.js").Value, string]}
 */
function memoryTotal(u) {
  const { total_memory_used_mb: used, unified_memory_gpu_count: unified } = u;
  const of = sumOfLimits(u, "memory.used_mb", "memory.total_mb", memory);
  if (!unified) return [show(used, undefined, memory), of];
  if (used == null) return [missing("unified"), of];
  return [show(used, undefined, memory), [of, say("without unified", count("GPUs", unified))].filter(Boolean).join(", ")];
}

/**
 * A reading of a GPU, or null if it is doubtful.
 * @param {any} g
 * @param {string} path
 */
function trusted(g, path) {
  const [group, member] = path.split(".");
  return g.quality[path] === "doubtful" ? null : g[group][member];
}

/**
 * The sum of the limits of all GPUs, if the same GPUs have a value and a limit.
 * The sums of different GPUs can't be compared.
 * @param {Update} u
 * @param {string} value
 * @param {string} limit
 * @param {(sum: number) => string} format
 */
function sumOfLimits({ gpus }, value, limit, format) {
  const of = gpus.filter((g) => g.state === "ok" && (trusted(g, value) ?? trusted(g, limit)) != null);
  const both = of.filter((g) => trusted(g, value) != null && trusted(g, limit) != null);
  return of.length && both.length === of.length ? say("of", format(both.reduce((sum, g) => sum + trusted(g, limit), 0))) : "";
}

/**
 * @param {GPU | null} best
 * @param {GPU} g
 */
function hotter(best, g) {
  const heat = g.temperature.current_celsius;
  if (g.state !== "ok" || heat == null) return best;
  return best == null || heat > Number(best.temperature.current_celsius) ? g : best;
}

/**
 * @param {string} key
 * @param {import("./format.js").Value} value
 * @param {string} note
 */
function total(key, value, note) {
  const row = document.querySelector(`#totals [data-key="${key}"]`);
  if (!row) return;
  setValue(slot(row, "value"), value);
  setText(slot(row, "note"), note);
}

/** @param {Update} u */
function showFailures(u) {
  setHidden(byId("failures"), u.failures.length === 0);
  setHidden(byId("look-around"), u.gpus.length > 0);
  setText(byId("failures-title"), say(u.gpus.length === 0 ? "no GPU read" : "not all read"));
  sync(byId("failure-list"), "t-failure", u.failures, (f) => f.source, (row, f) => setTexts(row, {
    source: f.source,
    since: say("failing", between(f.since, u.timestamp)),
    what: sentence(f.what),
    try: sentence(f.try),
    next: f.next_try == null ? "" : say("again", between(u.timestamp, f.next_try)),
  }));
}
