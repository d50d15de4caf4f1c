// @ts-check
// The cursor of a page's pictures, and selecting a span or a time with it. The server draws everything: values are read from the
// paths, whose step is data-scale units of the reading. This script adds only to elements with data-own.

import { choose } from "./live.js";

/** The moment of the cursor, and the start of the span being selected, in units of the picture. @type {number | undefined} */
let moment, held;
/** A pointer is selecting the span. */
let pressed = false;
/** The GPU whose line is near the pointer; empty for the picture's GPU. */
let near = "";
const tip = document.createElement("div");
tip.className = "tip";

const picture = () => /** @type {HTMLElement | null} */ (document.querySelector("[data-picture]"));
/** @param {ParentNode | null | undefined} within @param {string} what */
const all = (within, what) => /** @type {HTMLElement[]} */ ([...(within?.querySelectorAll(what) ?? [])]);
/** Start and length of a field. @param {Element | null | undefined} within */
function viewOf(within) {
  const [from, , span] = (within?.querySelector(".lanes")?.getAttribute("viewBox") ?? "0 0 1 1").split(" ").map(Number);
  return { from, span };
}
/** Seconds per unit of the pictures. */
const unit = () => Number(picture()?.dataset.unit ?? 1);
/** @param {number} x @returns milliseconds since 1970 */
const timeOf = (x) => 1000 * Math.round(Number(picture()?.dataset.base) + x * unit());
/** When the picture ends, in milliseconds since 1970. */
export function ends() {
  const { from, span } = viewOf(picture());
  return picture() ? timeOf(from + span) : Infinity;
}

/** A time as written in addresses. @param {number} t milliseconds since 1970 */
export const iso = (t) => new Date(t).toISOString().replace(".000", "");

/**
 * The address of this page with other parameters; an empty value drops the name.
 * @param {Record<string, string>} values
 */
export function addressWith(values) {
  const url = new URL(location.href);
  url.hash = "";
  for (const [name, value] of Object.entries(values)) {
    url.searchParams.delete(name);
    if (value) url.searchParams.set(name, value);
  }
  return url;
}

/**
 * The local time, as if it were UTC. Clocks lists the offsets and when they start.
 * @param {string} clocks
 * @param {number} t milliseconds since 1970
 */
export function clockAt(clocks, t) {
  let add = 0;
  for (const [since, more] of clocks.split(" ").map((c) => c.split(":").map(Number))) if (since <= t) add = more;
  return t + add;
}

/**
 * The height of a path at an x position; null if it has none. Runs are "M" with a position and "l" with relative steps. A wave has bars
 * instead: "m" to the start of a bar, and "v" up.
 * @param {string} d
 * @param {number} place
 */
export function heightAt(d, place) {
  const apart = 30;
  let x = 0, y = 0, bar = null;
  if (d.includes("v")) {
    for (const [, dx, , up] of d.matchAll(/[Mm](-?\d+) ?(-?\d+)v(\d+)/g)) {
      x += Number(dx);
      if (x <= place && place - x < apart) bar = Number(up) > 2 ? Number(up) / 2 : 0;
    }
    return bar;
  }
  for (const run of d.split("M").slice(1)) {
    const n = (run.match(/-?\d+/g) ?? []).map(Number);
    [x, y] = n;
    if (place < x) return null;
    for (let i = 2; i < n.length; i += 2) {
      if (place <= x + n[i]) return y + (n[i] ? (n[i + 1] * (place - x)) / n[i] : n[i + 1]);
      [x, y] = [x + n[i], y + n[i + 1]];
    }
  }
  return null;
}

/**
 * The value of a path at the cursor, formatted like the server's: figure and unit.
 * @param {HTMLElement | null} lane
 * @param {Element | null | undefined} path
 */
function said(lane, path) {
  const y = path ? heightAt(path.getAttribute("d") ?? "", moment ?? 0) : null;
  return y === null ? ["–", ""] : [(y * Number(lane?.dataset.scale)).toFixed(Number(lane?.dataset.digits)), lane?.dataset.unit ?? ""];
}

/** A moment as text, in the picture's time zone or else the reader's. @param {number} x */
function clock(x) {
  const { clocks } = picture()?.dataset ?? {}, length = viewOf(picture()).span * unit();
  if (!clocks) return new Date(timeOf(x)).toLocaleTimeString([], { hourCycle: "h23" });
  return new Intl.DateTimeFormat([], {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: length < 7200 ? "2-digit" : undefined,
    year: length > 1.6e7 ? "numeric" : undefined, timeZone: "UTC", // of what a clock shows
  }).format(clockAt(clocks, timeOf(x)));
}

/**
 * @param {Element} parent
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function draw(parent, name, attributes) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, String(v));
  parent.append(el);
  return el;
}

/** Lines with one value per moment. */
const lines = ".line, .heat, .wave, .hotline, .median";

/** The charts, each with its lane and the line of the GPU. */
const charts = () => all(document, ".chart").map((chart) => {
  const lane = /** @type {HTMLElement | null} */ (chart.querySelector("[data-scale]"));
  const paths = all(lane, lines), gpu = near || picture()?.dataset.picture;
  return { lane, path: paths.find((p) => p.dataset.key === gpu) ?? paths.find((p) => p.matches(".strong, .median")) };
});

/** Whether keys move the cursor, independent of the pointer. */
const keyed = () => Boolean(picture()?.matches(":focus-visible"));

/** Shows or removes the cursor. */
function show() {
  for (const own of all(document, ".plot > [data-own], [data-reading] > [data-own]")) own.replaceChildren();
  for (const path of all(document, ".lines .at")) path.classList.remove("at");
  if (moment === undefined) return tip.remove();
  const [first, last] = [moment, held ?? moment].sort((a, b) => a - b), words = [held === undefined ? clock(moment) : `${clock(first)} – ${clock(last)}`];
  for (const own of all(document, ".plot > [data-own]")) {
    const plot = /** @type {Element} */ (own.parentElement), { from, span } = viewOf(plot), foot = own.dataset.clock;
    const percent = (/** @type {number} */ units) => `${(100 * units) / span}%`, x = percent(moment - from);
    if (held !== undefined) draw(own, "rect", { class: "span", x: percent(first - from), width: percent(last - first), height: "100%" });
    draw(own, "line", { class: "cursor", x1: x, x2: x, y1: 0, y2: foot ?? "100%" });
    if (!foot) continue;
    const pill = draw(own, "svg", { x, y: foot, overflow: "visible" }), rect = draw(pill, "rect", { class: "pill", height: 18, rx: 4 });
    const text = /** @type {SVGTextElement} */ (draw(pill, "text", { y: 13 }));
    text.textContent = words[0];
    const wide = plot.getBoundingClientRect().width, left = ((moment - from) / span) * wide, width = Math.max(60, 12 + text.getComputedTextLength());
    const shift = Math.max(-left, Math.min(-width / 2, wide - left - width));
    rect.setAttribute("x", String(shift));
    rect.setAttribute("width", String(width));
    text.setAttribute("x", String(shift + width / 2));
  }
  for (const strip of all(document, "[data-strip]")) {
    for (const reading of all(strip, "[data-reading]")) {
      const lane = /** @type {HTMLElement | null} */ (strip.querySelector(`[data-key="lane-${reading.dataset.reading}"]`));
      if (!lane) continue;
      const [value, name] = said(lane, lane.querySelector(".line, .heat, .wave")), b = document.createElement("b"), i = document.createElement("i");
      [b.textContent, i.textContent] = [value, name];
      reading.querySelector("[data-own]")?.replaceChildren(b, i);
      words.push(`${lane.dataset.label} ${value} ${name}`);
    }
  }
  const status = document.getElementById("picture-says");
  if (status && document.activeElement === picture()) status.textContent = words.slice(0, 5).join(", "); // of many GPUs nobody would listen to all
  if (near) for (const { path } of charts()) path?.classList.add("at");
}

/**
 * Shows all values of one GPU at the moment, beside the pointer.
 * @param {PointerEvent} e
 */
function tell(e) {
  const table = document.createElement("table");
  const named = all(document, "#picture-choice option").find((o) => near.endsWith(`/${/** @type {HTMLOptionElement} */ (o).value}`)); // lines may share a name
  const name = named ?? all(document, ".chart .ends [data-key]").find((t) => t.dataset.key === near) ?? document.querySelector("#picture h2 b");
  const rows = charts().map(({ lane, path }) => [lane?.dataset.label ?? "", said(lane, path).join(" ")]);
  for (const [label, value] of [[name?.textContent ?? "", clock(moment ?? 0)], ...rows]) {
    const tr = table.insertRow(), th = document.createElement("th");
    th.textContent = label;
    tr.append(th);
    tr.insertCell().textContent = value;
  }
  tip.replaceChildren(table);
  document.querySelector("#charts > [data-own]")?.append(tip);
  const { offsetWidth: width, offsetHeight: height } = tip, x = e.clientX + (e.clientX + 16 + width > innerWidth ? -16 - width : 16);
  tip.style.transform = `translate(${Math.max(0, x)}px, ${Math.max(0, Math.min(e.clientY - height / 2, innerHeight - height))}px)`;
}

/** @param {PointerEvent} e */
function moved(e) {
  const target = /** @type {Element} */ (e.target), small = target.closest?.(".chart .small"), plot = (small ?? target.closest?.("[data-picture]"))?.querySelector(".plot");
  const box = plot?.getBoundingClientRect();
  if (!plot || !box || (small && e.clientX > box.right)) {
    if (moment !== undefined && !keyed()) end();
    return;
  }
  const { from, span } = viewOf(plot), share = Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
  moment = Math.round((from + span * share) * unit()) / unit();
  near = "";
  const [, scale, zero] = /1 0 0 (\S+) 0 (\S+)\)/.exec(plot.querySelector("[data-scale]")?.getAttribute("transform") ?? "") ?? [];
  let closest = 16;
  for (const path of small ? all(plot, lines) : []) {
    const y = heightAt(path.getAttribute("d") ?? "", moment), away = Math.abs(box.top + ((Number(y) * Number(scale) + Number(zero)) * box.height) / 100 - e.clientY);
    if (y !== null && away < closest && !path.matches(".median")) [closest, near] = [away, path.dataset.key ?? ""];
  }
  show();
  if (small) tell(e);
  else tip.remove();
}

function end() {
  [moment, held, near, pressed] = [undefined, undefined, "", false];
  show();
}

/** Whether spans and times of the picture can be selected. */
const offers = () => picture()?.dataset.spans !== undefined;

/** @param {PointerEvent} e */
function down(e) {
  const target = /** @type {Element} */ (e.target), root = target.closest?.("[data-picture]"); // asked first: a cursor that was pressed is drawn anew
  moved(e);
  if (!root || !offers() || e.button || target.closest("a")) return;
  pressed = true;
  held = moment;
  root.setPointerCapture(e.pointerId);
}

/** Goes to the selected span, or to the time of the cursor. */
function take() {
  if (moment === undefined || !offers()) return;
  const far = 0.008 * viewOf(picture()).span; // less is a click
  const [first, last] = [moment, held ?? moment].sort((a, b) => a - b).map((x) => iso(timeOf(x)));
  const spans = Math.abs((held ?? moment) - moment) > far;
  end();
  if (!spans) document.body.dispatchEvent(new Event("taken"));
  choose(addressWith(spans ? { from: first, to: last, at: "", play: "" } : { at: last, play: "" }), true);
}

/** @param {KeyboardEvent} e */
function key(e) {
  const p = picture();
  if (!p || e.target !== p || e.ctrlKey || e.altKey || e.metaKey) return;
  const { from, span } = viewOf(p), last = Math.min(from + span, Number(p.dataset.end || Infinity));
  const little = Number(p.dataset.step), page = Number(p.dataset.page);
  const step = { ArrowLeft: -little, ArrowRight: little, PageUp: -page, PageDown: page, Home: -1e9, End: 1e9 }[e.key];
  if (step) {
    const start = moment ?? Number(p.dataset.shown ?? (step < 0 ? last : offers() ? from : last));
    held = e.shiftKey && offers() ? held ?? start : undefined;
    moment = Math.max(from, Math.min(last, start + step));
    show();
  } else if (e.key === "Enter" && offers()) take();
  else if (e.key === "Escape" && moment !== undefined) end();
  else return;
  e.preventDefault();
}

/** Starts listening, also for pictures that come later. */
export function begin() {
  document.addEventListener("pointermove", moved, { passive: true });
  document.addEventListener("pointerdown", down, { passive: true });
  document.addEventListener("pointerup", (e) => {
    if (!pressed) return;
    moved(e);
    take();
  });
  document.addEventListener("pointercancel", () => pressed && end());
  document.documentElement.addEventListener("pointerleave", () => !pressed && !keyed() && end());
  document.addEventListener("keydown", key);
  document.addEventListener("click", (e) => {
    const a = /** @type {Element} */ (e.target).closest?.("#picture-share");
    if (!(a instanceof HTMLAnchorElement) || e.ctrlKey || e.metaKey || e.shiftKey) return;
    e.preventDefault();
    import("./save.js").then(({ save }) => save(a.href), () => location.assign(a.href));
  });
  document.addEventListener("focusout", (e) => e.target === picture() && end());
  // The cursor keeps its time while the picture moves on, and ends when positions get other times.
  new MutationObserver((records) => moment !== undefined && (records.some((r) => r.target === picture()) ? end() : show()))
    .observe(document.body, { subtree: true, attributes: true, attributeFilter: ["viewBox", "data-base", "data-unit"] });
}
