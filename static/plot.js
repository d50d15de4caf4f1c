// @ts-check
// What all charts share: the readings, the lines, the cursor, and how a chart is
// drawn.

import { decimals, dots } from "./format.js";
import { setText } from "./dom.js";
import { stroke } from "./export.js";
import { gpuName, idOf, isFleet } from "./fleet.js";
import { slot } from "./rows.js";
import { Past, reach } from "./past.js";
import { chosen } from "./state.js";

/** @typedef {import("./past.js").Series} Series */
/**
 * @typedef {object} Chart
 * @property {boolean} isLarge
 * @property {HTMLElement} box
 * @property {HTMLElement} readout
 * @property {HTMLElement} stats
 * @property {string} metric
 * @property {string} over another metric, drawn over the first
 * @property {number} width of the box in the last layout; 0: the chart is not shown
 * @property {number} height
 * @property {boolean} seen whether the chart is on the screen, or near
 * @property {boolean} old whether there are readings that are not drawn yet
 * @property {number} drawn the time of the last drawing, in milliseconds since 1970
 * @property {any} plot
 * @property {number | null} near the line that stands out: the one under the pointer
 * @property {[number, number] | null} zoom the span that the chart shows, in seconds since 1970; null: all
 * @property {string} range the least, mean and highest reading; empty: there is none
 */

export const colours = 8;
export const root = document.documentElement;
const dashes = [[], [7, 4], [2, 3], [14, 4], [9, 3, 2, 3], [4, 7], [14, 3, 4, 3], [20, 8]];

/** @type {Record<string, string>} */
const units = {};

export const past = new Past(10);

/** @type {any} the library; until it is loaded, nothing is drawn */
let uPlot;

/** @type {Series | undefined} the line that is shown alone */
let single;
/** @type {Series[]} */
export let lines = [];

/** The moment to which keys moved the cursor, in seconds since 1970; 0: the pointer has the cursor. */
export let pinned = 0;
/** The line to which keys moved the cursor, counted from 1; 0: all lines. */
export let followed = 0;

/**
 * Moves the cursor as keys do.
 * @param {number} moment
 * @param {number} line
 */
export function pin(moment, line) {
  pinned = moment;
  followed = line;
}

/**
 * @param {Element} el the element with the chart and its texts
 * @returns {Chart}
 */
export const chartOf = (el) => ({
  isLarge: el.localName === "dialog",
  box: /** @type {HTMLElement} */ (el.querySelector(".plot")), readout: slot(el, "readout"), stats: slot(el, "stats"),
  metric: /** @type {HTMLElement} */ (el).dataset.metric ?? "", over: "", width: 0, height: 0, seen: false, old: false, drawn: 0, plot: null, near: null, zoom: null, range: "",
});

/** The small charts. */
export const pictures = [...document.querySelectorAll(".chart")].map((el) => {
  const c = chartOf(el);
  units[c.metric] = el.querySelector("small")?.textContent ?? "";
  return c;
});

/** Fetches the library, which is larger than the rest of the page. */
export async function loadLibrary() {
  // @ts-ignore: vendored without types
  uPlot = (await import("./vendor/uplot/uPlot.esm.js")).default;
}

/** Whether charts can be drawn: there is a library and a reading. */
export const isReady = () => uPlot && past.times.length > 0;

/** Takes the lines from the readings, and returns whether they are the same as before. */
export function renewLines() {
  const now = past.ordered();
  const same = now.length === lines.length && now.every((s, i) => s.key === lines[i].key && s.gpu_id === lines[i].gpu_id);
  lines = now;
  lines.forEach((s, i) => {
    s.rank = isFleet ? i : s.gpu_id ?? 0;
  });
  pick();
  return same;
}

/** Finds the line that a person chose to see alone. */
export function pick() {
  single = lines.find((s) => idOf(s) === chosen("line"));
}

/**
 * The span that a chart shows, or that of all readings, in seconds since 1970. It
 * is a minute at least.
 * @param {Chart} [c]
 */
export function spanOf(c) {
  const last = past.times.at(-1) ?? 0;
  return c?.zoom ?? [Math.max(last - reach, Math.min(past.times[0] ?? 0, last - 60)), last];
}

/** @param {Chart} c */
export function spanText(c) {
  const [from, to] = spanOf(c);
  return toSpan.formatRange(1000 * from, 1000 * to);
}

/** @param {Chart} c */
export const metricsOf = (c) => [c.metric, c.over].filter(Boolean);

/** @param {Chart} c */
export const data = (c) => [past.times, ...metricsOf(c).flatMap((m) => lines.map((s) => s.values[m]))];

/** @param {Chart} c */
export function build(c) {
  c.plot?.destroy();
  c.plot = c.near = null;
  if (!lines.length || c.box.closest("[hidden]")) return;
  c.old = false;
  if (!c.isLarge) c.height = Math.round(9.87 * rem());
  c.plot = new uPlot(options(c), data(c), c.box);
  measure(c);
}

/**
 * Whether a line, or a mark of a line, is shown.
 * @param {{key: string}} of
 */
export const visible = (of) => !single || single.key === of.key;

/** @param {Series} s */
export const dash = (s) => dashes[Math.floor(s.rank / colours) % dashes.length];

/** @param {Series} s */
export const colour = (s) => style(`--line-${s.rank % colours}`);

/** @param {string} name */
const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();

/** The size of the page's text in pixels, which is larger on large screens. */
export const rem = () => parseFloat(getComputedStyle(root).fontSize);

const toMinutes = new Intl.DateTimeFormat([], { timeStyle: "short" });
export const toSeconds = new Intl.DateTimeFormat([], { timeStyle: "medium" });
const toSpan = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });

/**
 * The element with the name of a metric and its unit.
 * @param {string} metric
 */
export const optionOf = (metric) => /** @type {HTMLOptionElement} */ (document.querySelector(`#large-over [value=${metric}]`));

/** @param {string} metric */
export const titled = (metric) => optionOf(metric).text;

/** @param {Chart} c */
function options(c) {
  const size = rem();
  const font = `${Math.round(0.733 * size)}px ${style("--font")}`;
  const axis = { stroke: style("--muted"), font, labelFont: font, labelSize: 1.4 * size, ticks: { show: false }, gap: 4, grid: { stroke: style("--grid"), width: 1 } };
  const numbers = (/** @type {string} */ metric) => ({
    ...axis, size: 2.4 * size, space: 2.3 * size, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((v) => decimals(v)), label: c.over ? titled(metric) : null,
  });
  const scale = (/** @type {string} */ metric) => ({ range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => range(metric, min, max) });
  return {
    width: root.hasAttribute("data-paper") ? 20 * size : c.width || c.box.clientWidth,
    height: c.height,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    focus: { alpha: 0.2 },
    cursor: {
      ...(!c.isLarge && { sync: { key: "gpuwhy", setSeries: true } }),
      drag: { x: c.isLarge, setScale: false },
      move: (/** @type {any} */ u, /** @type {number} */ left, /** @type {number} */ top) => (pinned ? [u.valToPos(pinned, "x"), 0] : [left, top]),
      focus: { prox: 20, dist: (/** @type {any} */ _, /** @type {number} */ i, /** @type {number} */ __, /** @type {number} */ y, /** @type {number} */ pointer) => (pinned ? Number(i !== followed) * 99 : y - pointer) },
      y: false,
      points: { size: 7 },
    },
    scales: { x: { range: () => spanOf(c) }, y: scale(c.metric), over: scale(c.over) },
    axes: [
      { ...axis, size: 1.5 * size, space: 5.3 * size, values: (/** @type {any} */ u, /** @type {number[]} */ at) => at.map((t) => (u.valToPos(t, "x") > u.bbox.width / devicePixelRatio - 2 * size ? "" : (at[1] - at[0] < 60 ? toSeconds : toMinutes).format(t * 1000))) },
      numbers(c.metric),
      ...(c.over ? [{ ...numbers(c.over), scale: "over", side: 1, grid: { show: false } }] : []),
    ],
    series: [{}, ...lines.map((s) => line(s)), ...(c.over ? lines.map((s) => ({ ...line(s), scale: "over", dash: [3, 4], fill: undefined })) : [])],
    hooks: {
      draw: [(/** @type {any} */ u) => annotate(u, c.metric)],
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
  const stroke = colour(s);
  return {
    show: visible(s),
    stroke,
    width: lines.length > 16 ? 1 : 1.5,
    dash: dash(s),
    fill: lines.length === 1 ? style("--fill") : undefined,
    points: { show: true, size: 4, width: 0, fill: stroke, filter: lonely },
  };
}

/**
 * The points without a neighbour: lines do not show them.
 * @param {any} u
 * @param {number} i
 */
function lonely(u, i) {
  return u.data[i].flatMap((/** @type {any} */ v, /** @type {number} */ n, /** @type {any[]} */ all) => (v != null && all[n - 1] == null && all[n + 1] == null ? n : []));
}

/**
 * The different limits of the lines that are shown.
 * @param {string} metric
 */
const limitsOf = (metric) => [...new Set(lines.filter(visible).map((s) => s.limits[metric]).filter((v) => v != null))];

/**
 * @param {string} metric
 * @param {number} min
 * @param {number} max
 */
function range(metric, min, max) {
  const top = Math.max(max ?? 0, ...limitsOf(metric));
  if (metric.endsWith("_percent")) return [0, Math.max(100, top)];
  if (metric === "temperature_celsius") return [Math.min(20, Math.floor((min ?? 20) / 10) * 10), Math.max(90, top + 5)];
  return [0, Math.max(50, top * 1.1)];
}

/**
 * Draws the limits, and the marks of alerts and processes.
 * @param {any} u
 * @param {string} metric
 */
function annotate(u, metric) {
  const { ctx, bbox: { left, top, width, height } } = u;
  const right = left + width;
  const bottom = top + height;
  const px = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = px;
  ctx.strokeStyle = ctx.fillStyle = style("--muted");
  ctx.setLineDash([6 * px, 4 * px]);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const half = (px % 2) / 2; // a line between two pixels looks blurred
  const limits = limitsOf(metric);
  for (const limit of limits) {
    const y = Math.round(u.valToPos(limit, "y", true)) + half;
    stroke(ctx, left, y, right, y);
    if (limit === Math.max(...limits)) ctx.fillText("limit", left + 4 * px, y - 7 * px);
  }
  ctx.setLineDash([]);
  ctx.strokeStyle = style("--near");
  for (const m of past.marks) {
    const x = Math.round(u.valToPos(m.t, "x", true)) + half;
    if (x < left || x > right || !visible(m)) continue;
    ctx.globalAlpha = m.kind === "over" ? 0.4 : 1;
    if (m.kind === "alert" || m.kind === "over") stroke(ctx, x, top, x, bottom);
    else {
      ctx.fillStyle = style("--ink");
      ctx.textAlign = "center";
      ctx.fillText(m.kind === "came" ? "▴" : "▾", x, bottom - 5 * px);
    }
  }
  ctx.restore();
}

/**
 * Shows the value under the cursor, or the newest: of one GPU, or the highest.
 * @param {Chart} c
 */
function showReadout(c) {
  if (!c.plot) return;
  const t = past.times[c.plot.cursor.idx];
  const i = t ? c.plot.cursor.idx : past.times.length - 1;
  const one = followed || c.near;
  const value = (/** @type {Series} */ s) => Number(s.values[c.metric][i]);
  const seen = one ? [lines[(one - 1) % lines.length]] : lines.filter((s) => visible(s) && s.values[c.metric][i] != null).sort((a, b) => value(b) - value(a));
  const [top] = seen;
  const said = (/** @type {Series | undefined} */ s) => dots(...metricsOf(c).map((m) => (s?.values[m][i] == null ? m === c.metric && "no reading" : `${decimals(Number(s.values[m][i]))}\u00a0${units[m]}`)), s && lines.length > 1 && gpuName(s));
  setText(c.readout, dots(`${seen.length > 1 ? "highest " : ""}${said(top)}`, c.isLarge && seen.length > 1 && `lowest ${said(seen.at(-1))}`, t && toSeconds.format(t * 1000)));
  setText(c.stats, dots(c.range, c.isLarge && spanText(c)));
}

/**
 * Finds the range and mean of all values that are shown.
 * @param {Chart} c
 */
export function measure(c) {
  let [low, high, sum, n] = [Infinity, -Infinity, 0, 0];
  const [from, to] = spanOf(c);
  for (const s of lines) {
    if (!visible(s)) continue;
    s.values[c.metric].forEach((v, i) => {
      if (v == null || past.times[i] < from || past.times[i] > to) return;
      low = Math.min(low, v);
      high = Math.max(high, v);
      sum += v;
      n += 1;
    });
  }
  c.range = n ? `min ${decimals(low)} · avg ${decimals(sum / n)} · max ${decimals(high)}\u00a0${units[c.metric]}` : "";
  showReadout(c);
}
