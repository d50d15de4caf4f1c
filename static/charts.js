// @ts-check
// The small charts of the last minutes, side by side, with one line for each GPU.

import { keyOf, span } from "./format.js";
import { byId, setAttribute, setHidden, setText } from "./dom.js";
import { gpuName, idOf } from "./fleet.js";
import { large, offerOthers, renewLarge, seek, showLarge, shownData, startLarge, tall, zooms } from "./large.js";
import { build, colours, dash, data, followed, isReady, lines, measure, past, pick, pictures, pin, pinned, renewLines, root, spanOf, visible } from "./plot.js";
import { slot, sync } from "./rows.js";
import { choose, chosen } from "./state.js";

/** @typedef {import("./past.js").Series} Series */
/** @typedef {import("./plot.js").Chart} Chart */

/**
 * How far a chart that is not on the screen may be behind, in milliseconds: a
 * screenshot of the whole page shows it too.
 */
const mayLag = 30_000;

const all = [...pictures, large];

let dirty = false;
let loaded = false;

/** @param {number} interval milliseconds between readings */
export function startCharts(interval) {
  past.gap = Math.max(3 * interval, 10_000) / 1000;
  // The observers report after a layout. To ask for sizes and places would make
  // the browser lay the page out twice for each reading.
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => resize(chartIn(target), contentRect.width)));
  const sights = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) chartIn(target).seen = isIntersecting;
    drawCharts();
  }, { rootMargin: "200px" });
  for (const c of all) {
    sizes.observe(c.box);
    (c === large ? c.box : c.box.parentElement)?.addEventListener("keydown", (e) => steer(c, e));
    // This comes before the library's own listener: now the pointer has the cursor.
    c.box.addEventListener("mousemove", (e) => {
      if (e.movementX || e.movementY) pin(0, 0);
    }, true);
  }
  for (const c of pictures) {
    sights.observe(c.box);
    /** @type {HTMLElement} */ (c.box.parentElement).onclick = () => {
      choose("chart", c.metric);
      showLarge();
    };
  }
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  startLarge();
}

/**
 * Draws the charts for paper, and again for the screen.
 * @param {boolean} paper
 */
function print(paper) {
  root.toggleAttribute("data-paper", paper);
  rebuild();
  queueMicrotask(() => root.removeAttribute("data-paper")); // by then they are drawn
}

/**
 * Fetches the readings that the server kept: at the start, and after a connection
 * was lost.
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
 * Moves the cursor of the chart that has the focus. In the large chart keys also
 * move it from line to line and change the span.
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
  const moment = times[Math.max(0, Math.min(last, to))] ?? 0;
  const stops = lines.length + 1;
  let line = followed;
  if (beside) do line = (line + beside + stops) % stops; while (line && !visible(lines[line - 1]));
  pin(moment, moment && line);
  if (c === large) seek(moment);
  plot.setCursor({ left: -10, top: -10 }, true, true); // the cursor leaves, or moves to that moment
  setText(byId(c === large ? "large-said" : "said"), pinned ? c.readout.textContent ?? "" : "");
}

/** @param {import("./message.js").Update} u */
export function addToCharts(u) {
  past.add(u);
  dirty = true;
}

/** @param {import("./message.js").Alert} a */
export function markAlert(a) {
  if (a.state === "no_data") return; // it is neither firing nor resolved
  const key = keyOf(a);
  const fired = a.state === "firing";
  const t = Date.parse(fired ? a.since : a.timestamp) / 1000;
  if (past.marks.some((m) => m.t === t && m.key === key)) return; // the server sent it again
  past.mark({ t, key, kind: fired ? "alert" : "over", text: `${fired ? "alert" : "alert over"}${a.gpu_id < 0 ? "" : ` on ${gpuName(a)}`}` });
  dirty = true;
}

/** @param {Element} box */
const chartIn = (box) => /** @type {Chart} */ (all.find((c) => c.box === box));

/** Draws new readings where somebody can see them. */
export function drawCharts() {
  if (document.hidden || !isReady()) return;
  if (dirty) renew();
  for (const c of pictures) {
    if (!c.plot || !c.old || !(c.seen || Date.now() - c.drawn > mayLag)) continue;
    c.old = false;
    c.drawn = Date.now();
    c.plot.setData(data(c));
  }
}

/** Takes new readings. The texts of all charts are new at once, seen or not. */
function renew() {
  dirty = false;
  const same = renewLines();
  if (pinned) pin(Math.max(pinned, past.times[0]), followed); // older readings are forgotten
  const [from, to] = spanOf();
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
  renewLarge(same);
}

/**
 * Hides the charts without a reading. Until the past is loaded, the charts that
 * the server showed stay: the server knows the past.
 */
function showOffered() {
  for (const c of pictures) {
    measure(c);
    const figure = /** @type {HTMLElement} */ (c.box.parentElement);
    const known = lines.some((s) => s.values[c.metric].some((v) => v !== null));
    if (known || loaded) setHidden(figure, !known);
  }
  offerOthers();
}

/** Builds the charts again: for other GPUs, or in other colours. */
function rebuild() {
  pick();
  for (const id of ["series", "large-series"]) sync(byId(id), "t-series", lines, (s) => s.key, showSeries);
  showOffered();
  pictures.forEach(build);
  if (large.plot) showLarge();
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

export const allShown = () => shownData(pictures.filter((c) => !c.box.closest("[hidden]")).map((c) => c.metric), [0, Infinity]);

/**
 * @param {HTMLElement} row
 * @param {Series} s
 */
function showSeries(row, s) {
  setText(slot(row, "label"), gpuName(s));
  const line = /** @type {SVGElement} */ (row.querySelector("line"));
  line.style.stroke = `var(--line-${s.rank % colours})`;
  line.style.strokeDasharray = dash(s).join(" ");
  const button = /** @type {HTMLElement} */ (row.querySelector("button"));
  const alone = chosen("line") === idOf(s);
  setAttribute(button, "aria-pressed", String(alone));
  button.onclick = () => {
    choose("line", alone ? "" : idOf(s));
    pin(pinned, 0);
    rebuild();
  };
  button.onpointerenter = button.onfocus = () => highlight(lines.findIndex(({ key }) => key === s.key) + 1);
  button.onpointerleave = button.onblur = () => highlight(null);
}

/**
 * Makes a line stand out in all charts; null: no line.
 * @param {number | null} i
 */
const highlight = (i) => all.forEach((c) => c.plot?.setSeries(i, { focus: true }));

