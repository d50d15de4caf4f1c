// @ts-check
// The wall of very many GPUs: a canvas with a cell for each, or a list of them.

import { clean, decimals, dots, keyOf, longestName } from "./format.js";
import { byId, setAttribute, setHidden, setText, setValue } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";
import { cardState, meters, pageOf, whoWorks } from "./cards.js";
import { gpuName, isFleet } from "./fleet.js";
import { choose, chosen } from "./state.js";

/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {{g: GPU, text: string, part: number, level: string}} Cell */

const canvas = /** @type {HTMLCanvasElement} */ (byId("wall-canvas"));
const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const inputs = /** @type {Record<string, any>} */ ({ by: byId("wall-by"), order: byId("wall-order"), wall: byId("wall-list") });

/** @type {GPU[]} */
let gpus = [];
/** @type {Cell[]} */
let cells = [];
let columns = 1;
let wide = 0;
let high = 0;
/** The space for all cells, from the last layout of the page. */
const room = { width: 0, height: 0 };
/** The left edge of the cells. Before it stands the index of each row's first GPU. */
let left = 0;
/** The cell under the pointer, and the cell that a finger has touched. */
let pointed = -1;
let touched = -1;
let rowsListed = 100;

inputs.by.value = chosen("by") || "utilization";
inputs.order.value = chosen("order");
inputs.wall.checked = chosen("wall") === "list";
for (const [name, input] of Object.entries(inputs)) {
  input.onchange = () => {
    choose(name, name === "wall" ? (input.checked ? "list" : "") : input.value);
    showWall(gpus);
  };
}
byId("wall-more").onclick = () => {
  rowsListed += 100;
  showWall(gpus);
};
canvas.onmousemove = (/** @type {MouseEvent} */ e) => point(Math.floor(e.offsetY / high) * columns + Math.max(0, Math.floor((e.offsetX - left) / wide)));
canvas.onmouseleave = () => point(-1);
canvas.onclick = (/** @type {any} */ e) => {
  if (e.pointerType !== "touch" || touched === pointed) open();
  touched = pointed;
};
canvas.onkeydown = (/** @type {KeyboardEvent} */ e) => {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[e.key];
  if (e.key === "Enter") open();
  if (!step) return;
  e.preventDefault();
  point(pointed < 0 ? 0 : Math.min(Math.max(pointed + step, 0), cells.length - 1));
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawWall);
new ResizeObserver(() => {
  room.width = byId("wall").clientWidth;
  room.height = Math.min(0.8 * innerHeight, Math.max(400, innerHeight - 40 - canvas.getBoundingClientRect().top - scrollY));
  drawWall();
}).observe(byId("wall"));

/** @param {GPU[]} newest */
export function showWall(newest) {
  gpus = newest;
  cells = gpus.map((g) => {
    const { key, value, fill, level } = /** @type {ReturnType<typeof meters>[0]} */ (meters(g).find((m) => m.key === inputs.by.value));
    return { g, text: value.mark === "absent" ? "" : key === "memory" ? decimals(Number(fill)) : value.text, part: fill === "" ? -1 : Number(fill), level };
  });
  if (inputs.order.value) cells.sort((a, b) => b.part - a.part);
  setHidden(canvas, inputs.wall.checked);
  setHidden(byId("wall-table"), !inputs.wall.checked);
  setHidden(byId("wall-more"), cells.length <= rowsListed);
  sync(byId("wall-rows"), "t-wall", inputs.wall.checked ? cells.slice(0, rowsListed) : [], ({ g }) => keyOf(g), showWallRow);
  drawWall();
}

/**
 * @param {HTMLElement} row
 * @param {Cell} cell
 */
function showWallRow(row, { g }) {
  setTexts(row, { title: gpuName(g), name: clean(g.gpu_name, longestName), state: cardState(g)[1], who: g.state === "ok" ? dots(whoWorks(g)[0].text, whoWorks(g)[1]) : "" });
  setAttribute(slot(row, "title"), "href", pageOf(g));
  for (const m of meters(g)) setValue(slot(row, m.key), m.value);
}

function open() {
  if (cells[pointed]) location.href = pageOf(cells[pointed].g);
}

/** @param {number} i */
function point(i) {
  if (i === pointed) return;
  pointed = cells[i] ? i : -1;
  drawWall();
}

/**
 * The red, green and blue of a colour, 0 to 255, and its opacity if it is
 * translucent.
 * @param {string} colour
 */
function channels(colour) {
  ctx.fillStyle = colour;
  const text = String(ctx.fillStyle); // "#rrggbb" or "rgba(…)"
  return text[0] === "#" ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : (text.match(/[\d.]+/g) ?? []).map(Number);
}

/**
 * The lightness of a colour for the eye, 0 to 1.
 * @param {number[]} rgb
 */
const light = (rgb) => rgb.reduce((sum, v, n) => sum + [0.2126, 0.7152, 0.0722][n] * (v / 255) ** 2.2, 0);

function drawWall() {
  const { width } = room;
  if (canvas.hidden || !width || !cells.length) return;
  const all = getComputedStyle(document.documentElement);
  const size = parseFloat(all.fontSize);
  left = 2.6 * size;
  for (wide = 5 * size; wide > (width < 700 ? 30 : 12); wide -= 1) {
    high = Math.round(0.55 * wide);
    columns = Math.floor((width - left) / wide);
    if (Math.ceil(cells.length / columns) * high <= room.height) break;
  }
  wide = (width - left) / columns;
  const px = devicePixelRatio;
  const height = Math.ceil(cells.length / columns) * high;
  canvas.width = Math.round(width * px);
  canvas.height = Math.round(height * px); // this also clears the canvas
  ctx.scale(px, px);
  const [track, bar, near, over, ink, muted] = ["track", "bar", "near", "over", "ink", "muted"].map((name) => all.getPropertyValue(`--${name}`));
  ctx.font = `${Math.min(0.87 * size, high * 0.55)}px ${all.getPropertyValue("--font")}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const ground = channels(track);
  const shades = { near: channels(near), over: channels(over), "": channels(bar) };
  cells.forEach(({ g, text, part, level }, i) => {
    const x = left + (i % columns) * wide;
    const y = Math.floor(i / columns) * high;
    const asleep = g.state === "asleep";
    const away = g.state !== "ok" && !asleep;
    ctx.fillStyle = muted;
    if (x === left && !isFleet) ctx.fillText(String(g.gpu_id), left / 2, y + high / 2);
    ctx.fillStyle = track;
    ctx.fillRect(x, y, wide - 1, high - 1);
    const fill = { near, over }[level] ?? bar;
    const [red, green, blue, opaque = 1] = shades[/** @type {"near"} */ (level)];
    const share = part < 0 ? 0 : level ? 1 : Math.min(1, 0.1 + part / 111);
    ctx.globalAlpha = share;
    ctx.fillStyle = fill;
    ctx.fillRect(x, y, wide - 1, high - 1);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = away ? over : ink;
    ctx.lineWidth = 2;
    if (away || i === pointed) ctx.strokeRect(x + 1, y + 1, wide - 3, high - 3);
    if (wide < 22) return;
    const under = light([red, green, blue].map((v, n) => ground[n] + share * opaque * (v - ground[n])));
    ctx.fillStyle = asleep ? muted : away ? over : under > 0.18 ? "#000" : "#fff"; // on lighter ground black is easier to read than white
    ctx.fillText({ lost: "×", not_answering: "!", asleep: "z" }[g.state] ?? (text.split(/\s/)[0] || "–"), x + wide / 2, y + high / 2);
  });
  const at = cells[pointed];
  setText(byId("wall-readout"), !at ? "\u00a0" : dots(gpuName(at.g), clean(at.g.gpu_name, longestName), cardState(at.g)[1],
    ...meters(at.g).filter((m) => !m.value.mark).map((m) => `${m.key} ${m.value.text}`), at.g.state === "ok" && whoWorks(at.g)[0].text));
}
