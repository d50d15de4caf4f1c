// @ts-check
// Pictures of the last minutes, one line for each GPU.

// @ts-ignore: vendored without types
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { decimals } from "./format.js";
import { byId, setAttribute, setHidden, setText, slot, sync } from "./dom.js";
import { Past, reach } from "./past.js";

/** @typedef {import("./past.js").Series} Series */
/** @typedef {{figure: HTMLElement, box: HTMLElement, metric: string, unit: string, plot: any, near: number | null}} Chart */

const colours = 8;
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [1, 2], [14, 4], [7, 2, 1, 2]];
const height = 148;

/** @type {Chart[]} */
const charts = [...document.querySelectorAll(".chart")].map((el) => {
  const figure = /** @type {HTMLElement} */ (el);
  return {
    figure,
    box: /** @type {HTMLElement} */ (figure.querySelector(".plot")),
    metric: figure.dataset.metric ?? "",
    unit: figure.dataset.unit ?? "",
    plot: null,
    near: null,
  };
});

/** @type {Past} */
let past;
/** @type {Series[]} */
let lines = [];
/** The key of the one GPU that is shown alone; empty: all are. */
let alone = "";
let dirty = false;

/** @param {number} interval milliseconds between readings */
export function startCharts(interval) {
  past = new Past(Math.max(3 * interval, 10_000) / 1000);
  new ResizeObserver(resize).observe(byId("charts"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
}

/**
 * Fetches what the server kept: at the start, and after a connection was lost.
 * @param {string} base
 */
export async function loadCharts(base) {
  const answer = await fetch(`${base}api/gpu/recent`, { cache: "no-store" });
  if (!answer.ok) throw new Error(`api/gpu/recent: ${answer.status}`);
  past.replace(await answer.json());
  dirty = true;
  drawCharts();
}

/** @param {import("./message.js").Update} u */
export function addToCharts(u) {
  past.add(u);
  dirty = true;
}

/** Draws what was added since; nothing where nobody can see it. */
export function drawCharts() {
  if (!dirty || document.hidden || byId("charts").clientWidth === 0) return;
  dirty = false;
  const now = past.ordered();
  const same = now.length === lines.length && now.every((s, i) => s.key === lines[i].key && s.index === lines[i].index);
  lines = now;
  if (!same || !charts[0].plot) rebuild();
  for (const c of charts) {
    c.plot.setData([past.times, ...lines.map((s) => s.values[c.metric])]);
    showReadout(c);
  }
}

/** Makes the charts anew: for other GPUs, or in other colours. */
function rebuild() {
  if (!lines.some((s) => s.key === alone)) alone = "";
  sync(byId("series"), "t-series", lines, (s) => s.key, showSeries);
  setHidden(byId("series"), lines.length < 2);
  for (const c of charts) {
    c.plot?.destroy();
    c.near = null;
    c.plot = new (/** @type {any} */ (uPlot))(options(c), [past.times, ...lines.map((s) => s.values[c.metric])], c.box);
  }
}

function resize() {
  for (const c of charts) if (c.plot) c.plot.setSize({ width: c.box.clientWidth, height });
  drawCharts();
}

/**
 * @param {HTMLElement} row
 * @param {Series} s
 */
function showSeries(row, s) {
  setText(slot(row, "label"), `GPU ${s.index}`);
  const line = /** @type {SVGElement | null} */ (row.querySelector("line"));
  if (line) {
    line.style.stroke = `var(--line-${s.index % colours})`;
    line.style.strokeDasharray = dash(s.index).join(" ");
  }
  const button = row.querySelector("button");
  if (!button) return;
  setAttribute(button, "aria-pressed", String(alone === s.key));
  button.onclick = () => {
    alone = alone === s.key ? "" : s.key;
    for (const c of charts) lines.forEach((l, i) => c.plot.setSeries(i + 1, { show: visible(l) }));
    for (const c of charts) showReadout(c);
    sync(byId("series"), "t-series", lines, (l) => l.key, showSeries);
  };
}

/** @param {Series} s */
const visible = (s) => alone === "" || alone === s.key;

/** @param {number} index */
const dash = (index) => dashes[Math.floor(index / colours) % dashes.length];

/** @param {string} name */
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const toMinutes = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const toSeconds = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });

/** @param {Chart} c */
function options(c) {
  const axis = { stroke: style("--muted"), font: `11px ${style("--font")}`, ticks: { show: false }, grid: { stroke: style("--grid"), width: 1 } };
  return {
    width: c.box.clientWidth,
    height,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    focus: { alpha: 0.2 },
    cursor: {
      sync: { key: "gpuwhy", setSeries: true },
      drag: { x: false, y: false, setScale: false },
      focus: { prox: lines.length > 1 ? 20 : -1 },
      y: false,
      points: { size: 7 },
    },
    scales: {
      x: { range: () => [(past.times.at(-1) ?? 0) - reach, past.times.at(-1) ?? 0] },
      y: { range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => range(c.metric, min, max) },
    },
    axes: [
      { ...axis, size: 22, gap: 4, space: 70, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((t) => toMinutes.format(t * 1000)) },
      { ...axis, size: 36, gap: 4, space: 34, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((v) => decimals(v)) },
    ],
    series: [{}, ...lines.map((s) => line(s))],
    hooks: {
      setCursor: [() => showReadout(c)],
      setSeries: [(/** @type {any} */ _, /** @type {number | null} */ i, /** @type {any} */ o) => {
        if (o.focus != null) c.near = i;
        showReadout(c);
      }],
    },
  };
}

/** @param {Series} s */
function line(s) {
  const stroke = style(`--line-${s.index % colours}`);
  return {
    show: visible(s),
    stroke,
    width: lines.length > 16 ? 1 : 1.5,
    dash: dash(s.index),
    fill: lines.length === 1 ? style("--fill") : undefined,
    spanGaps: false,
    points: { show: true, size: 4, width: 0, fill: stroke, filter: lonely },
  };
}

/**
 * Points without a neighbour, which no line shows.
 * @param {any} u
 * @param {number} i
 */
function lonely(u, i) {
  const values = u.data[i];
  const found = [];
  for (let n = 0; n < values.length; n++) {
    if (values[n] != null && values[n - 1] == null && values[n + 1] == null) found.push(n);
  }
  return found;
}

/**
 * @param {string} metric
 * @param {number} min
 * @param {number} max
 */
function range(metric, min, max) {
  if (metric.endsWith("_percent")) return [0, Math.max(100, max ?? 0)];
  if (metric === "temperature_celsius") return [Math.min(20, Math.floor((min ?? 20) / 10) * 10), Math.max(90, (max ?? 0) + 5)];
  return [0, Math.max(50, (max ?? 0) * 1.15)];
}

/**
 * The value under the pointer, or the newest: of one GPU, or the highest.
 * @param {Chart} c
 */
function showReadout(c) {
  if (!c.plot) return;
  const at = c.plot.cursor.idx;
  const hovered = at != null && past.times[at] != null;
  const i = hovered ? at : past.times.length - 1;
  const one = hovered && c.near != null ? lines[c.near - 1] : undefined;
  const value = (/** @type {Series} */ s) => s.values[c.metric][i];
  const shown = one ? [one] : lines.filter((s) => visible(s) && value(s) != null);
  const top = shown.reduce((/** @type {Series | undefined} */ best, s) => (best && Number(value(best)) >= Number(value(s)) ? best : s), undefined);
  const v = top && value(top);
  const never = lines.every((s) => s.values[c.metric].every((n) => n == null));
  let text = v == null ? (never ? "not reported" : "no reading") : `${decimals(v)} ${c.unit}`;
  if (top && lines.length > 1) text = shown.length > 1 ? `highest ${text} · GPU ${top.index}` : `${text} · GPU ${top.index}`;
  setText(slot(c.figure, "readout"), hovered ? `${text} · ${toSeconds.format(past.times[i] * 1000)}` : text);
}
