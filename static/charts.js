// @ts-check
// Pictures of the last minutes, one line for each GPU: small ones side by side,
// and one with all the room there is.

import { decimals, dots, say, span } from "./format.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { saveCSV, savePNG } from "./export.js";
import { slot, sync } from "./rows.js";
import { Past, reach } from "./past.js";
import { choose, chosen } from "./state.js";

/** @typedef {import("./past.js").Series} Series */
/**
 * @typedef {object} Chart
 * @property {HTMLElement} box
 * @property {HTMLElement | null} readout
 * @property {HTMLElement} stats
 * @property {string} metric
 * @property {string} over another metric, laid over it
 * @property {number} width of the box, as it was last laid out; 0: it is not shown
 * @property {number} height
 * @property {boolean} seen whether it is on the screen, or near
 * @property {boolean} old whether there is more to be drawn than is
 * @property {number} drawn when it was drawn, in milliseconds since 1970
 * @property {any} plot
 * @property {number | null} near the line under the pointer
 * @property {string} range
 */

const colours = 8;
const dashes = [[], [7, 4], [2, 3], [14, 4]];

/** @type {Record<string, string>} */
const units = {};
/** @type {Record<string, string>} */
const labels = {};

/**
 * How far a chart that is off the screen may be behind, in milliseconds: a
 * picture of the whole page has it too.
 */
const mayLag = 30_000;

const blank = { over: "", width: 0, height: 0, seen: false, old: false, drawn: 0, plot: null, near: null, range: "" };

/** @type {Chart[]} */
const pictures = [...document.querySelectorAll(".chart")].map((el) => {
  const figure = /** @type {HTMLElement} */ (el);
  const { metric = "", unit = "" } = figure.dataset;
  const box = /** @type {HTMLElement} */ (figure.querySelector(".plot"));
  units[metric] = unit;
  labels[metric] = figure.querySelector("h3")?.textContent ?? "";
  figure.onclick = () => {
    choose("chart", metric);
    showLarge();
  };
  return { ...blank, box, readout: slot(figure, "readout"), stats: slot(figure, "stats"), metric };
});

const dialog = /** @type {HTMLDialogElement} */ (byId("large"));
const over = /** @type {HTMLSelectElement} */ (byId("large-over"));

/** @type {Chart} */
const large = { ...blank, box: /** @type {HTMLElement} */ (dialog.querySelector(".plot")), readout: null, stats: byId("large-stats"), metric: "", seen: true };

const all = [...pictures, large];

/** @type {Past} */
let past;

/** @type {any} the library, once it is there: until then nothing is drawn */
let uPlot;

/** @type {Series[]} */
let lines = [];
let dirty = false;

/** @param {number} interval milliseconds between readings */
export function startCharts(interval) {
  past = new Past(Math.max(3 * interval, 10_000) / 1000);
  // The browser says where the charts are, once it has laid the page out: to
  // ask it would have it do so twice for each reading.
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => resize(chartIn(target), contentRect.width)));
  const sights = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) chartIn(target).seen = isIntersecting;
    drawCharts();
  }, { rootMargin: "200px" });
  for (const c of all) {
    sizes.observe(c.box);
    (c.readout ? c.box.parentElement : c.box)?.addEventListener("keydown", (e) => step(c, e));
  }
  for (const c of pictures) sights.observe(c.box);
  addEventListener("beforeprint", () => {
    for (const c of all) c.seen = true;
    drawCharts();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  over.onchange = () => {
    choose("over", over.value);
    showLarge();
  };
  byId("large-close").onclick = () => dialog.close();
  dialog.onclose = () => {
    choose("chart", "");
    large.plot?.destroy();
    large.plot = null;
  };
  byId("large-csv").onclick = () => saveCSV(shownData());
  byId("large-png").onclick = () => savePNG(shownData());
}

/** Fetches what draws them, which is as large as all the rest of the page. */
export async function loadLibrary() {
  // @ts-ignore: vendored without types
  uPlot = (await import("./vendor/uplot/uPlot.esm.js")).default;
}

/**
 * Fetches what the server kept: at the start, and after a connection was lost.
 * @param {string} url
 */
export async function loadCharts(url) {
  const answer = await fetch(url, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  past.replace(await answer.json());
  dirty = true;
  for (const c of all) c.drawn = 0;
  drawCharts();
}

/**
 * The arrow keys move the cursor of the chart that has the focus.
 * @param {Chart} c
 * @param {KeyboardEvent} e
 */
function step({ plot }, e) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
  if (!by) return;
  e.preventDefault();
  const t = past.times[(plot?.cursor.idx ?? past.times.length - 1) + by];
  if (t) plot?.setCursor({ left: plot.valToPos(t, "x"), top: 0 });
}

/** @param {import("./message.js").Update} u */
export function addToCharts(u) {
  past.add(u);
  dirty = true;
}

/** @param {import("./message.js").Alert} a */
export function markAlert(a) {
  if (a.state === "no_data") return; // it is neither
  const key = `${a.node}/${a.gpu_uuid}`;
  const fired = a.state === "firing";
  const t = Date.parse(fired ? a.since : a.timestamp) / 1000;
  if (past.marks.some((m) => m.t === t && m.key === key)) return; // it was sent again
  past.mark({ t, key, kind: fired ? "alert" : "over", text: `${fired ? "alert" : "alert over"}${a.gpu_id < 0 ? "" : ` on GPU ${a.gpu_id}`}` });
  dirty = true;
}

/** @param {Element} box */
const chartIn = (box) => /** @type {Chart} */ (all.find((c) => c.box === box));

/** Draws what was added since; nothing where nobody can see it. */
export function drawCharts() {
  if (document.hidden || !pictures[0].width || !uPlot) return;
  if (dirty) renew();
  for (const c of all) {
    if (!c.plot || !c.old || !(c.seen || Date.now() - c.drawn > mayLag)) continue;
    c.old = false;
    c.drawn = Date.now();
    c.plot.setData(data(c));
  }
}

/** What is said of the charts is new at once, seen or not. */
function renew() {
  dirty = false;
  const now = past.ordered();
  const same = now.length === lines.length && now.every((s, i) => s.key === lines[i].key && s.index === lines[i].index);
  lines = now;
  if (past.times.length) setText(byId("charts-title"), `Last ${span(past.times[past.times.length - 1] - start())}`);
  if (!same || !pictures[0].plot) rebuild();
  for (const c of all) {
    if (!c.plot) continue;
    c.old = true;
    measure(c);
  }
  for (const path of document.querySelectorAll(".cards:is([data-density=roomy], [data-density=compact]) .trend path")) {
    const card = /** @type {HTMLElement} */ (path.closest(".card"));
    setAttribute(path, "d", past.trend(card.dataset.key ?? ""));
  }
  if (chosen("chart") && (!dialog.open || !same)) showLarge();
  else if (dialog.open) showMarks();
}

/** @param {Chart} c */
const data = (c) => [past.times, ...[c.metric, c.over].filter(Boolean).flatMap((m) => lines.map((s) => s.values[m]))];

/** The first moment that is shown: a page that was just opened shows a minute. */
function start() {
  const last = past.times.at(-1) ?? 0;
  return Math.max(last - reach, Math.min(past.times[0] ?? 0, last - 60));
}

/** Makes the charts anew: for other GPUs, or in other colours. */
function rebuild() {
  sync(byId("series"), "t-series", lines, (s) => s.key, showSeries);
  setHidden(byId("series"), lines.length < 2);
  setHidden(byId("chart-key"), lines.length === 0);
  pictures.forEach(build);
  if (dialog.open) build(large);
}

/** @param {Chart} c */
function build(c) {
  c.plot?.destroy();
  c.near = null;
  c.old = false;
  if (c.readout) c.height = Math.round(9.87 * rem());
  c.plot = new uPlot(options(c), data(c), c.box);
  measure(c);
}

/**
 * @param {Chart} c
 * @param {number} width
 */
function resize(c, width) {
  c.width = width;
  if (width && c.plot && c.plot.width !== width) c.plot.setSize({ width, height: c.height });
  drawCharts();
}

/** Opens the chosen chart, or makes it anew with another metric over it. */
function showLarge() {
  const metric = chosen("chart");
  if (!labels[metric]) return;
  over.value = chosen("over") === metric ? "" : chosen("over");
  Object.assign(large, { metric, over: over.value, height: Math.max(180, Math.min(520, innerHeight - 330)) });
  setText(byId("large-title"), `${labels[metric]}, ${units[metric]}${large.over && ` · dashed: ${labels[large.over]}, ${units[large.over]}`}`);
  if (!dialog.open) dialog.showModal();
  build(large);
  showMarks();
}

function showMarks() {
  const marks = past.marks.filter((m) => visible(m)).sort((a, b) => b.t - a.t);
  sync(byId("large-marks"), "t-note", marks, (m) => m.t + m.text, (row, m) => setText(row, `${toSeconds.format(m.t * 1000)} ${m.text}`));
}

/**
 * What the large chart shows, or all charts do, for those who save it.
 * @param {string[]} [metrics]
 */
export function shownData(metrics = [large.metric, large.over].filter(Boolean)) {
  return {
    title: byId("large-title").textContent ?? "", stats: large.stats.textContent ?? "", plot: large.plot, times: past.times,
    columns: metrics.flatMap((m) => lines.filter(visible).map((s) => ({ name: `GPU ${s.index} ${m}`, values: s.values[m] }))),
  };
}

export const allShown = () => shownData(Object.keys(labels));

/**
 * @param {HTMLElement} row
 * @param {Series} s
 */
function showSeries(row, s) {
  setText(slot(row, "label"), say("gpu", s.index));
  const line = /** @type {SVGElement} */ (row.querySelector("line"));
  line.style.stroke = `var(--line-${s.index % colours})`;
  line.style.strokeDasharray = dash(s.index).join(" ");
  const button = /** @type {HTMLElement} */ (row.querySelector("button"));
  setAttribute(button, "aria-pressed", String(chosen("line") === String(s.index)));
  button.onclick = () => {
    choose("line", chosen("line") === String(s.index) ? "" : String(s.index));
    rebuild();
  };
}

/**
 * Whether a line, or a mark of one, is shown: all are, or one alone.
 * @param {{key: string}} of
 */
function visible(of) {
  const one = lines.find((s) => String(s.index) === chosen("line"));
  return !one || one.key === of.key;
}

/** @param {number} index */
const dash = (index) => dashes[Math.floor(index / colours) % dashes.length];

/** @param {string} name */
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The size of the page's text in pixels, which is larger on large screens. */
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/**
 * Whose each line of the large chart is, over the lines: where the picture goes,
 * it goes too.
 * @param {any} u
 * @param {number} columns
 * @param {number} size
 */
function drawKey({ ctx, bbox }, columns, size) {
  ctx.lineWidth = size / 8;
  ctx.textAlign = "left"; // it is as the last axis left it
  lines.filter(visible).forEach((s, i) => {
    const x = bbox.left + (i % columns) * 6 * size;
    const y = (Math.floor(i / columns) + 0.6) * 1.3 * size;
    ctx.strokeStyle = style(`--line-${s.index % colours}`);
    ctx.setLineDash(dash(s.index).map((d) => d * devicePixelRatio));
    stroke(ctx, x, y, x + 2 * size, y);
    ctx.fillText(say("gpu", s.index), x + 2.4 * size, y);
  });
}

const toMinutes = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const toSeconds = new Intl.DateTimeFormat([], { timeStyle: "medium" });

/** @param {Chart} c */
function options(c) {
  const size = rem();
  const width = c.width || c.box.clientWidth;
  const columns = Math.max(1, Math.floor(width / 6 / size - 1));
  const rows = c === large ? Math.min(6, Math.ceil(lines.length / columns)) : 0;
  const axis = { stroke: style("--muted"), font: `${Math.round(0.733 * size)}px ${style("--font")}`, ticks: { show: false }, gap: 4, grid: { stroke: style("--grid"), width: 1 } };
  const numbers = { ...axis, size: 2.4 * size, space: 2.3 * size, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((v) => decimals(v)) };
  const scale = (/** @type {string} */ metric) => ({ range: (/** @type {any} */ _, /** @type {number} */ min, /** @type {number} */ max) => range(metric, min, max) });
  return {
    width,
    height: c.height,
    padding: [8 + rows * 1.3 * size, 6, 0, 0],
    legend: { show: false },
    focus: { alpha: 0.2 },
    cursor: {
      sync: { key: "gpuwhy", setSeries: true },
      drag: { x: false },
      focus: { prox: lines.length > 1 ? 20 : -1 },
      y: false,
      points: { size: 7 },
    },
    scales: { x: { range: () => [start(), past.times.at(-1) ?? 0] }, y: scale(c.metric), over: scale(c.over) },
    axes: [
      { ...axis, size: 1.5 * size, space: 5.3 * size, values: (/** @type {any} */ u, /** @type {number[]} */ at) => at.map((t) => (u.valToPos(t, "x") > u.bbox.width / devicePixelRatio - 2 * size ? "" : (at[1] - at[0] < 60 ? toSeconds : toMinutes).format(t * 1000))) },
      numbers,
      ...(c.over ? [{ ...numbers, scale: "over", side: 1, grid: { show: false } }] : []),
    ],
    series: [{}, ...lines.map((s) => line(s)), ...(c.over ? lines.map((s) => ({ ...line(s), scale: "over", dash: [3, 4], fill: undefined })) : [])],
    hooks: {
      draw: [(/** @type {any} */ u) => {
        annotate(u, c.metric);
        if (rows) drawKey(u, columns, size * devicePixelRatio);
      }],
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
    points: { show: true, size: 4, width: 0, fill: stroke, filter: lonely },
  };
}

/**
 * Points without a neighbour, which no line shows.
 * @param {any} u
 * @param {number} i
 */
function lonely(u, i) {
  return u.data[i].flatMap((/** @type {any} */ v, /** @type {number} */ n, /** @type {any[]} */ all) => (v != null && all[n - 1] == null && all[n + 1] == null ? n : []));
}

/**
 * The limits of the lines that are shown; alike for most machines.
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
 * Draws the limits, and marks of what happened.
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
  const half = (px % 2) / 2; // a line between pixels is blurred
  for (const limit of limitsOf(metric)) {
    const y = Math.round(u.valToPos(limit, "y", true)) + half;
    stroke(ctx, left, y, right, y);
    ctx.fillText("limit", left + 4 * px, y - 7 * px);
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
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 */
function stroke(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
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
  const one = hovered && c.near != null ? lines[(c.near - 1) % lines.length] : undefined;
  const value = (/** @type {Series} */ s) => s.values[c.metric][i];
  const seen = one ? [one] : lines.filter((s) => visible(s) && value(s) != null);
  const top = seen.reduce((/** @type {Series | undefined} */ best, s) => (best && Number(value(best)) >= Number(value(s)) ? best : s), undefined);
  const v = top && value(top);
  let text = v == null ? "no reading" : `${decimals(v)}\u00a0${units[c.metric]}`;
  if (top && lines.length > 1) text = seen.length > 1 ? `highest ${text} · GPU ${top.index}` : `${text} · GPU ${top.index}`;
  if (hovered) text = dots(text, c.over && top && top.values[c.over][i] != null && `${decimals(Number(top.values[c.over][i]))}\u00a0${units[c.over]}`, toSeconds.format(past.times[i] * 1000));
  if (c.readout) setText(c.readout, text);
  setText(c.stats, c.readout ? c.range : dots(text, c.range));
}

/**
 * The range and mean of all that is shown.
 * @param {Chart} c
 */
function measure(c) {
  let [low, high, sum, n] = [Infinity, -Infinity, 0, 0];
  for (const s of lines) {
    if (!visible(s)) continue;
    for (const v of s.values[c.metric]) {
      if (v == null) continue;
      low = Math.min(low, v);
      high = Math.max(high, v);
      sum += v;
      n += 1;
    }
  }
  c.range = n ? `min ${decimals(low)} · avg ${decimals(sum / n)} · max ${decimals(high)}` : "";
  showReadout(c);
}
