// @ts-check
// The large chart, in a dialog: one metric or two, of a span that can be chosen.

import { dots } from "./format.js";
import { byId, setHidden, setText } from "./dom.js";
import { saveCSV, savePNG } from "./export.js";
import { gpuName } from "./fleet.js";
import {
  build, chartOf, colour, dash, data, lines, measure, metricsOf, optionOf, past, pictures, pin, pinned, rem, spanOf, spanText, titled, toSeconds, visible,
} from "./plot.js";
import { sync } from "./rows.js";
import { kindText } from "./summary.js";
import { choose, chosen } from "./state.js";

const dialog = /** @type {HTMLDialogElement} */ (byId("large"));
export const large = chartOf(dialog);
const over = /** @type {HTMLSelectElement} */ (byId("large-over"));

/** The buttons in, out and all. The value of each is the factor for the span. */
export const zooms = /** @type {HTMLButtonElement[]} */ ([...dialog.querySelectorAll("button[value]")]);

/** The list of marks begins with those nearest to this moment; 0: with the newest. */
let sought = 0;
/** The newest moment that was drawn. */
let ended = 0;

export function startLarge() {
  over.onchange = () => {
    choose("over", over.value);
    showLarge();
  };
  byId("large-close").onclick = () => dialog.close();
  dialog.onclose = () => {
    choose("chart", "");
    large.plot?.destroy();
    large.plot = large.zoom = null;
    sought = 0;
    pin(0, 0);
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
    notes: [large.range, spanText(large), dots(byId("node").textContent, kindText(), "gpuwhy")],
    plot: large.plot,
    key: lines.filter(visible).map((s) => ({ name: gpuName(s), colour: colour(s), dash: dash(s) })),
  });
  large.box.onclick = () => {
    sought = past.times[large.plot.cursor.idx] ?? 0;
    showMarks();
  };
  let begun = NaN; // the place where a drag began, in pixels from the left
  large.box.onpointerdown = large.box.onpointermove = large.box.onpointerup = large.box.onpointercancel = (/** @type {PointerEvent} */ e) => {
    const { plot } = large;
    const x = Math.max(0, Math.min(plot.rect.width, e.clientX - plot.rect.left));
    if (e.type === "pointerdown") begun = x;
    const left = Math.min(begun, x);
    const width = Math.abs(begun - x);
    if (e.buttons && width > 8) large.box.setPointerCapture(e.pointerId); // to see where it ends
    if (e.type === "pointerup" && width > 8) zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    if (!e.buttons) begun = NaN;
    plot.setSelect({ left, width: e.buttons ? width : 0 }, false);
  };
}

/**
 * Changes the span by a factor, around the cursor or else up to its end.
 * @param {number} factor
 */
function magnify(factor) {
  const [from, to] = spanOf(large);
  const around = pinned || to;
  zoomTo(around + (from - around) * factor, around + (to - around) * factor);
  setText(byId("large-said"), large.stats.textContent ?? "");
}

/**
 * Shows the readings between two moments, or all readings where these are hardly
 * more.
 * @param {number} from
 * @param {number} to
 */
function zoomTo(from, to) {
  const [first, last] = spanOf();
  const width = Math.max(past.gap, to - from);
  const begin = Math.max(first, Math.min(from, last - width));
  large.zoom = width < 0.97 * (last - first) ? [begin, begin + width] : null;
  setHidden(byId("large-all"), !large.zoom);
  measure(large);
  showMarks();
  large.plot.batch(() => large.plot.setData(data(large)));
}

/**
 * Moves the span so that it has the moment to which keys moved the cursor.
 * @param {number} moment
 */
export function seek(moment) {
  sought = moment;
  const [from, until] = spanOf(large);
  const by = moment && (Math.min(0, moment - from) || Math.max(0, moment - until));
  zoomTo(from + by, until + by);
}

/**
 * Draws the new readings. A span that ends with the newest reading moves on.
 * @param {boolean} same whether the lines are the same as before
 */
export function renewLarge(same) {
  const [, to] = spanOf();
  if (chosen("chart") && (!dialog.open || !same)) showLarge();
  else if (dialog.open) {
    const [begin, end] = spanOf(large);
    const by = end < ended ? 0 : to - end;
    zoomTo(begin + by, end + by);
  }
  ended = to;
}

/** The height in pixels that leaves room for the rest of the dialog. */
export const tall = () => Math.max(180, Math.min(520, innerHeight - 30 * rem()));

/** Opens the chosen chart, or draws it again with another metric over it. */
export function showLarge() {
  const metric = chosen("chart");
  if (!pictures.some((c) => c.metric === metric && !c.box.closest("[hidden]"))) return dialog.close();
  over.value = chosen("over") === metric ? "" : chosen("over");
  Object.assign(large, { metric, over: over.value, height: tall() });
  setText(byId("large-title"), dots(titled(metric), large.over && `dashed: ${titled(large.over)}`));
  offerOthers();
  if (!dialog.open) dialog.showModal();
  build(large);
  showMarks();
}

/** Offers the metrics that have a chart to be drawn over the first. */
export function offerOthers() {
  for (const c of pictures) {
    const option = optionOf(c.metric);
    option.hidden = option.disabled = c.box.closest("[hidden]") !== null || c.metric === large.metric;
  }
}

function showMarks() {
  const [from, to] = spanOf(large);
  const away = (/** @type {import("./past.js").Mark} */ m) => Math.abs(m.t - (sought || 9e9));
  const marks = past.marks.filter((m) => visible(m) && (!large.zoom || (m.t >= from && m.t <= to))).sort((a, b) => away(a) - away(b));
  sync(byId("large-marks"), "t-note", marks, (m) => m.t + m.text, (row, m) => setText(row, `${toSeconds.format(m.t * 1000)} ${m.text}`));
}

/**
 * The readings of some metrics that are shown, to be saved.
 * @param {string[]} metrics
 * @param {number[]} span
 */
export function shownData(metrics, [from, to]) {
  const kept = past.times.flatMap((t, i) => (t >= from && t <= to ? [i] : []));
  return {
    times: kept.map((i) => past.times[i]),
    columns: metrics.flatMap((m) => lines.filter(visible).map((s) => ({ name: `${gpuName(s)} ${m}`, values: kept.map((i) => s.values[m][i]) }))),
  };
}

