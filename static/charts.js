// @ts-check
// Pictures of the last minutes, one line for each GPU: small ones side by side,
// and one with all the room there is.

import { decimals, dots, span } from "./format.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { saveCSV, savePNG, stroke } from "./export.js";
import { slot, sync } from "./rows.js";
import { Past, reach } from "./past.js";
import { choose, chosen } from "./state.js";

/** @typedef {import("./past.js").Series} Series */
/**
 * @typedef {object} Chart
 * @property {HTMLElement} box
 * @property {HTMLElement} readout
 * @property {HTMLElement} stats
 * @property {string} metric
 * @property {string} over another metric, laid over it
 * @property {number} width of the box, as it was last laid out; 0: it is not shown
 * @property {number} height
 * @property {boolean} seen whether it is on the screen, or near
 * @property {boolean} old whether there is more to be drawn than is
 * @property {number} drawn when it was drawn, in milliseconds since 1970
 * @property {any} plot
 * @property {number | null} near the line that stands out: the one under the pointer
 * @property {string} range empty: there is no reading
 */

const colours = 8;
const root = document.documentElement;
const dashes = [[], [7, 4], [2, 3], [14, 4], [9, 3, 2, 3], [4, 7], [14, 3, 4, 3], [20, 8]];

/** @type {Record<string, string>} */
const units = {};

/**
 * How far a chart that is off the screen may be behind, in milliseconds: a
 * picture of the whole page has it too.
 */
const mayLag = 30_000;

/**
 * @param {Element} el holds it and what is said of it
 * @returns {Chart}
 */
const chartOf = (el) => ({
  box: /** @type {HTMLElement} */ (el.querySelector(".plot")), readout: slot(el, "readout"), stats: slot(el, "stats"),
  metric: /** @type {HTMLElement} */ (el).dataset.metric ?? "", over: "", width: 0, height: 0, seen: false, old: false, drawn: 0, plot: null, near: null, range: "",
});

const pictures = [...document.querySelectorAll(".chart")].map((el) => {
  const figure = /** @type {HTMLElement} */ (el);
  const c = chartOf(figure);
  units[c.metric] = figure.querySelector("small")?.textContent ?? "";
  figure.onclick = () => {
    choose("chart", c.metric);
    showLarge();
  };
  return c;
});

const dialog = /** @type {HTMLDialogElement} */ (byId("large"));
const large = chartOf(dialog);
const over = /** @type {HTMLSelectElement} */ (byId("large-over"));

/** In, out and all: each has by how much it changes the span that is shown. */
const zooms = /** @type {HTMLButtonElement[]} */ ([...dialog.querySelectorAll("button[value]")]);

const all = [...pictures, large];

/** @type {Past} */
let past;

/** @type {any} the library, once it is there: until then nothing is drawn */
let uPlot;

/** @type {Series | undefined} the line that is shown alone */
let single;
/** @type {Series[]} */
let lines = [];
let dirty = false;
let loaded = false;

/** The moment that the keys have moved the cursor to, in seconds since 1970; 0: the pointer has it. */
let pinned = 0;
/** The line that the keys have gone to, counted from 1; 0: all. */
let followed = 0;
/** The moment that what happened is sorted by its distance from; 0: the newest is first. */
let sought = 0;
/** @type {[number, number] | null} what the large chart shows, in seconds since 1970; null: all */
let zoom = null;
/** The newest moment that was drawn. */
let ended = 0;

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
    (c === large ? c.box : c.box.parentElement)?.addEventListener("keydown", (e) => steer(c, e));
    // Before the library hears of it: from here on the pointer has the cursor.
    c.box.addEventListener("mousemove", (e) => {
      if (e.movementX || e.movementY) pinned = followed = 0;
    }, true);
  }
  for (const c of pictures) sights.observe(c.box);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  over.onchange = () => {
    choose("over", over.value);
    showLarge();
  };
  byId("large-close").onclick = () => dialog.close();
  dialog.onclose = () => {
    choose("chart", "");
    large.plot?.destroy();
    large.plot = zoom = null;
    pinned = followed = sought = 0;
    setHidden(byId("large-all"), true);
  };
  for (const button of zooms) {
    button.onclick = () => {
      magnify(Number(button.value));
      if (button.hidden) large.box.focus();
    };
  }
  byId("large-csv").onclick = () => saveCSV(shownData(metricsOf(large), spanOf(large)));
  byId("large-png").onclick = () => savePNG({
    title: byId("large-title").textContent ?? "",
    notes: [large.range, spanText(), dots(byId("node").textContent, !byId("simulated").hidden && "simulated data", "gpuwhy")],
    plot: large.plot,
    key: lines.filter(visible).map((s) => ({ name: nameOf(s), colour: colour(s), dash: dash(s) })),
  });
  large.box.onclick = () => {
    sought = past.times[large.plot.cursor.idx] ?? 0;
    showMarks();
  };
  let begun = NaN; // where a drag began, in pixels from the left
  large.box.onpointerdown = large.box.onpointermove = large.box.onpointerup = large.box.onpointercancel = (/** @type {PointerEvent} */ e) => {
    const { plot } = large;
    const x = Math.max(0, Math.min(plot.rect.width, e.clientX - plot.rect.left));
    if (e.type === "pointerdown") begun = x;
    const left = Math.min(begun, x);
    const width = Math.abs(begun - x);
    if (e.buttons && width > 8) large.box.setPointerCapture(e.pointerId); // wherever it is let go
    if (e.type === "pointerup" && width > 8) zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    if (!e.buttons) begun = NaN;
    plot.setSelect({ left, width: e.buttons ? width : 0 }, false);
  };
}

/**
 * Draws the charts for paper, and again for the screen.
 * @param {boolean} paper
 */
function print(paper) {
  root.toggleAttribute("data-paper", paper);
  rebuild();
  queueMicrotask(() => root.removeAttribute("data-paper")); // drawn by then, in colours and letters for paper
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
  loaded = dirty = true;
  for (const c of pictures) c.drawn = 0;
  drawCharts();
}

/**
 * Moves the cursor of the chart that has the focus; in the large one also from
 * line to line, nearer and further away.
 * @param {Chart} c
 * @param {KeyboardEvent} e
 */
function steer(c, e) {
  const { plot } = c;
  if (!plot || e.ctrlKey || e.altKey || e.metaKey) return;
  if (c === large) zooms["+-0".indexOf(e.key)]?.click();
  const { times } = past;
  const last = times.length - 1;
  const now = plot.cursor.idx ?? last;
  const beside = c === large && { ArrowDown: 1, ArrowUp: -1 }[e.key];
  const to = beside ? now : { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last, Escape: pinned ? NaN : undefined }[e.key];
  if (to == null) return;
  e.preventDefault();
  pinned = times[Math.max(0, Math.min(last, to))] ?? 0;
  const stops = lines.length + 1;
  if (beside) do followed = (followed + beside + stops) % stops; while (followed && !visible(lines[followed - 1]));
  if (!pinned) followed = 0;
  if (c === large) {
    sought = pinned;
    const [from, until] = spanOf(c);
    const by = pinned && (Math.min(0, pinned - from) || Math.max(0, pinned - until));
    zoomTo(from + by, until + by);
  }
  plot.setCursor({ left: -10, top: -10 }, true, true); // away, or to that moment
  setText(byId(c === large ? "large-said" : "said"), pinned ? c.readout.textContent ?? "" : "");
}

/**
 * Shows a part of the span that is shown, or more, around the cursor or else up
 * to its end.
 * @param {number} factor
 */
function magnify(factor) {
  const [from, to] = spanOf(large);
  const around = pinned || to;
  zoomTo(around + (from - around) * factor, around + (to - around) * factor);
  setText(byId("large-said"), large.stats.textContent ?? "");
}

/**
 * Has the large chart show what lies between two moments, as far as it is known;
 * all, where that is no more.
 * @param {number} from
 * @param {number} to
 */
function zoomTo(from, to) {
  const [first, last] = spanOf(pictures[0]);
  const width = Math.max(past.gap, to - from);
  const begin = Math.max(first, Math.min(from, last - width));
  zoom = width < 0.97 * (last - first) ? [begin, begin + width] : null;
  setHidden(byId("large-all"), !zoom);
  measure(large);
  showMarks();
  large.plot.batch(() => large.plot.setData(data(large)));
}

/**
 * What a chart shows, in seconds since 1970: a page that was just opened shows a
 * minute.
 * @param {Chart} c
 */
function spanOf(c) {
  const last = past.times.at(-1) ?? 0;
  return (c === large && zoom) || [Math.max(last - reach, Math.min(past.times[0] ?? 0, last - 60)), last];
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
  if (document.hidden || !uPlot || !past.times.length) return;
  if (dirty) renew();
  for (const c of pictures) {
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
  pick();
  if (pinned) pinned = Math.max(pinned, past.times[0]); // what it was at may be forgotten
  const [from, to] = spanOf(pictures[0]);
  setText(byId("charts-title"), `Last ${span(to - from)}`);
  showOffered();
  if (!same) rebuild();
  for (const c of pictures) {
    c.old = true;
    if (!c.plot) build(c);
  }
  for (const path of document.querySelectorAll(".cards:is([data-density=roomy], [data-density=compact]) .trend path")) {
    const card = /** @type {HTMLElement} */ (path.closest(".card"));
    setAttribute(path, "d", past.trend(card.dataset.key ?? ""));
  }
  if (chosen("chart") && (!dialog.open || !same)) showLarge();
  else if (dialog.open) {
    // A span that ends now goes on with what comes.
    const [begin, end] = spanOf(large);
    const by = end < ended ? 0 : to - end;
    zoomTo(begin + by, end + by);
  }
  ended = to;
}

/**
 * A chart without a reading takes no room. Until the past is there, those that
 * the server showed stay: it knows the past.
 */
function showOffered() {
  for (const c of pictures) {
    measure(c);
    const figure = /** @type {HTMLElement} */ (c.box.parentElement);
    const known = lines.some((s) => s.values[c.metric].some((v) => v !== null));
    if (known || loaded) setHidden(figure, !known);
    const option = optionOf(c.metric);
    option.hidden = option.disabled = figure.hidden || c.metric === large.metric;
  }
}

/** Says which span the large chart shows. */
function spanText() {
  const [from, to] = spanOf(large);
  return toSpan.formatRange(1000 * from, 1000 * to);
}

/** @param {Chart} c */
const metricsOf = (c) => [c.metric, c.over].filter(Boolean);

/** @param {Chart} c */
const data = (c) => [past.times, ...metricsOf(c).flatMap((m) => lines.map((s) => s.values[m]))];

/** Finds the one line that was asked for. */
function pick() {
  single = lines.find((s) => String(s.index) === chosen("line"));
}

/** Makes the charts anew: for other GPUs, or in other colours. */
function rebuild() {
  pick();
  for (const id of ["series", "large-series"]) sync(byId(id), "t-series", lines, (s) => s.key, showSeries);
  showOffered();
  pictures.forEach(build);
  if (large.plot) showLarge();
}

/** @param {Chart} c */
function build(c) {
  c.plot?.destroy();
  c.plot = c.near = null;
  if (!lines.length || c.box.closest("[hidden]")) return;
  c.old = false;
  if (c !== large) c.height = Math.round(9.87 * rem());
  c.plot = new uPlot(options(c), data(c), c.box);
  measure(c);
}

/**
 * @param {Chart} c
 * @param {number} width
 */
function resize(c, width) {
  c.width = width;
  if (c === large) c.height = tall();
  if (width && c.plot && (c.plot.width !== width || c.plot.height !== c.height)) c.plot.setSize({ width, height: c.height });
  drawCharts();
}

/** The large chart's height, in pixels: the rest of the dialog is to be seen too. */
const tall = () => Math.max(180, Math.min(520, innerHeight - 30 * rem()));

/** Opens the chosen chart, or makes it anew with another metric over it. */
function showLarge() {
  const metric = chosen("chart");
  if (!pictures.some((c) => c.metric === metric && !c.box.closest("[hidden]"))) return dialog.close();
  over.value = chosen("over") === metric ? "" : chosen("over");
  Object.assign(large, { metric, over: over.value, height: tall() });
  setText(byId("large-title"), dots(titled(metric), large.over && `dashed: ${titled(large.over)}`));
  showOffered();
  if (!dialog.open) dialog.showModal();
  build(large);
  showMarks();
}

/** @param {string} metric */
const optionOf = (metric) => /** @type {HTMLOptionElement} */ (over.querySelector(`[value=${metric}]`));

/**
 * Its name and unit.
 * @param {string} metric
 */
const titled = (metric) => optionOf(metric).text;

function showMarks() {
  const [from, to] = spanOf(large);
  const away = (/** @type {import("./past.js").Mark} */ m) => Math.abs(m.t - (sought || 9e9));
  const marks = past.marks.filter((m) => visible(m) && (!zoom || (m.t >= from && m.t <= to))).sort((a, b) => away(a) - away(b));
  sync(byId("large-marks"), "t-note", marks, (m) => m.t + m.text, (row, m) => setText(row, `${toSeconds.format(m.t * 1000)} ${m.text}`));
}

/**
 * What is shown of some metrics, for those who save it.
 * @param {string[]} metrics
 * @param {number[]} span
 */
function shownData(metrics, [from, to]) {
  const kept = past.times.flatMap((t, i) => (t >= from && t <= to ? [i] : []));
  return {
    times: kept.map((i) => past.times[i]),
    columns: metrics.flatMap((m) => lines.filter(visible).map((s) => ({ name: `${nameOf(s)} ${m}`, values: kept.map((i) => s.values[m][i]) }))),
  };
}

export const allShown = () => shownData(pictures.filter((c) => !c.box.closest("[hidden]")).map((c) => c.metric), [0, Infinity]);

/**
 * @param {HTMLElement} row
 * @param {Series} s
 */
function showSeries(row, s) {
  setText(slot(row, "label"), nameOf(s));
  const line = /** @type {SVGElement} */ (row.querySelector("line"));
  line.style.stroke = `var(--line-${s.index % colours})`;
  line.style.strokeDasharray = dash(s).join(" ");
  const button = /** @type {HTMLElement} */ (row.querySelector("button"));
  const alone = chosen("line") === String(s.index);
  setAttribute(button, "aria-pressed", String(alone));
  button.onclick = () => {
    choose("line", alone ? "" : String(s.index));
    followed = 0;
    rebuild();
  };
  button.onpointerenter = button.onfocus = () => highlight(lines.findIndex(({ key }) => key === s.key) + 1);
  button.onpointerleave = button.onblur = () => highlight(null);
}

/**
 * Has a line stand out in all charts; none for null.
 * @param {number | null} i
 */
const highlight = (i) => all.forEach((c) => c.plot?.setSeries(i, { focus: true }));

/**
 * Whether a line, or a mark of one, is shown: all are, or one alone.
 * @param {{key: string}} of
 */
const visible = (of) => !single || single.key === of.key;

/** @param {Series} s */
const nameOf = (s) => `GPU ${s.index}`;

/** @param {Series} s */
const dash = (s) => dashes[Math.floor(s.index / colours) % dashes.length];

/** @param {Series} s */
const colour = (s) => style(`--line-${s.index % colours}`);

/** @param {string} name */
const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();

/** The size of the page's text in pixels, which is larger on large screens. */
const rem = () => parseFloat(getComputedStyle(root).fontSize);

const toMinutes = new Intl.DateTimeFormat([], { timeStyle: "short" });
const toSeconds = new Intl.DateTimeFormat([], { timeStyle: "medium" });
const toSpan = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "medium" });

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
      ...(c !== large && { sync: { key: "gpuwhy", setSeries: true } }),
      drag: { x: c === large, setScale: false },
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
 * The value under the cursor, or the newest: of one GPU, or the highest.
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
  const said = (/** @type {Series | undefined} */ s) => dots(...metricsOf(c).map((m) => (s?.values[m][i] == null ? m === c.metric && "no reading" : `${decimals(Number(s.values[m][i]))}\u00a0${units[m]}`)), s && lines.length > 1 && nameOf(s));
  setText(c.readout, dots(`${seen.length > 1 ? "highest " : ""}${said(top)}`, c === large && seen.length > 1 && `lowest ${said(seen.at(-1))}`, t && toSeconds.format(t * 1000)));
  setText(c.stats, dots(c.range, c === large && spanText()));
}

/**
 * The range and mean of all that is shown.
 * @param {Chart} c
 */
function measure(c) {
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
