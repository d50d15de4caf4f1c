// @ts-check
// The cursor of the picture and its charts. The server has drawn all; values are read from the paths, where one unit is so many of
// the reading as the server says. Elements of its own stand where there is data-own.

/** @typedef {{xs: number[], ys: (number | null)[]}} Course */

/** @type {WeakMap<Element, {d: string, course: Course}>} */
const courses = new WeakMap();
const svg = "http://www.w3.org/2000/svg";
/** The moment of the cursor, in seconds as the picture counts them; none while it is not shown.
 * @type {number | undefined} */
let at;
/** @type {string} the line that the pointer is near to; empty: that of the picture */
let line = "";
/** @type {HTMLElement | undefined} */
let tip;

const picture = () => document.getElementById("picture");

/**
 * Where a path goes. It has runs, each "M" with a place and "l" with steps from there; the bars of a wave are "m" to a place and "v" down.
 * @param {string} d
 * @returns {Course}
 */
export function courseOf(d) {
  /** @type {Course} */
  const out = { xs: [], ys: [] };
  let x = 0, y = 0;
  for (const [, how, rest] of d.matchAll(/([MmlvhV])([^MmlvhVz]*)/g)) {
    const n = (rest.match(/-?[\d.]+/g) ?? []).map(Number);
    if (how === "v") { // a bar, from below to above
      out.xs.push(x);
      out.ys.push(n[0] > 2 ? n[0] / 2 : 0);
      y += n[0];
      continue;
    }
    for (let i = 0; i + 1 < n.length; i += 2) {
      if (how === "M") {
        if (out.xs.length) { // a gap
          out.xs.push(x, n[i]);
          out.ys.push(null, null);
        }
        [x, y] = [n[i], n[i + 1]];
      } else [x, y] = [x + n[i], y + n[i + 1]];
      if (how !== "m" && !/v/.test(d)) {
        out.xs.push(x);
        out.ys.push(y);
      }
    }
  }
  return out;
}

/**
 * The height of a path at a place; null where it has none.
 * @param {Element} path
 * @param {number} x
 */
function heightAt(path, x) {
  const d = path.getAttribute("d") ?? "";
  let known = courses.get(path);
  if (known?.d !== d) courses.set(path, known = { d, course: courseOf(d) });
  const { xs, ys } = known.course;
  let i = 0, end = xs.length;
  while (i < end) {
    const middle = (i + end) >> 1;
    if (xs[middle] < x) i = middle + 1;
    else end = middle;
  }
  if (xs[i] === x && ys[i] !== null) return ys[i];
  if (i === 0 || i === xs.length || ys[i] === null || ys[i - 1] === null) return null;
  const [y0, y1] = [Number(ys[i - 1]), Number(ys[i])];
  return y0 + ((y1 - y0) * (x - xs[i - 1])) / (xs[i] - xs[i - 1] || 1);
}

/**
 * A value as the server writes it: figure and unit.
 * @param {HTMLElement | SVGElement} of
 * @param {number | null} y
 */
function said(of, y) {
  if (y === null) return ["–", ""];
  return [(y * Number(of.dataset.scale)).toFixed(Number(of.dataset.digits)), of.dataset.unit ?? ""];
}

/** @param {Element} el */
const viewOf = (el) => (el.getAttribute("viewBox") ?? "").split(" ").map(Number);

/** @param {number} x */
function clock(x) {
  const t = new Date((Number(picture()?.dataset.base) + x) * 1000);
  return t.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

/**
 * An element of our own.
 * @param {Element} parent
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function draw(parent, name, attributes) {
  const el = document.createElementNS(svg, name);
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, String(v));
  parent.append(el);
  return el;
}

/** The lines of all charts that belong to the GPU of the cursor. */
function chosen() {
  const charts = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".chart[data-metric]")]);
  const of = line || (picture()?.dataset.of ?? "");
  return charts.map((chart) => {
    const paths = [...chart.querySelectorAll(".lines path[data-key]")];
    return { chart, path: paths.find((p) => p.getAttribute("data-key") === of) ?? paths.find((p) => p.matches(".strong, .median")) };
  });
}

/** Shows the cursor, or takes it away. */
function show() {
  const p = picture();
  const owns = document.querySelectorAll("#picture .drawn > [data-own], .chart [data-own]");
  for (const own of owns) own.replaceChildren();
  for (const path of document.querySelectorAll(".lines .at")) path.classList.remove("at");
  p?.toggleAttribute("data-cursor", at !== undefined);
  const thens = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#picture .then")]);
  if (at === undefined) {
    for (const el of thens) el.replaceChildren();
    return tip?.remove();
  }
  const x = at, drawn = p?.querySelector(".drawn > [data-own]"), lanes = p?.querySelector(".lanes");
  if (p && drawn && lanes) {
    const [from, , span] = viewOf(lanes), share = (x - from) / span;
    const place = `${(100 * share).toFixed(2)}%`;
    draw(drawn, "line", { class: "cursor", x1: place, x2: place, y1: 0, y2: "93%" });
    const pill = draw(drawn, "svg", { x: place, y: "94%", overflow: "visible" });
    const left = share < 0.06 ? 0 : share > 0.94 ? -60 : -30;
    draw(pill, "rect", { class: "pill", x: left, width: 60, height: 18, rx: 4 });
    draw(pill, "text", { x: left + 30, y: 13 }).textContent = clock(x);
  }
  const words = [clock(x)];
  for (const el of thens) {
    const lane = /** @type {SVGGElement | null} */ (p?.querySelector(`.lanes [data-lane="${el.parentElement?.dataset.lane}"]`));
    const path = lane?.querySelector(".line, .heat, .wave");
    if (!lane || !path) continue;
    let y = heightAt(path, x);
    const other = path.matches(".wave") && lane.querySelector(".more"); // every second bar
    if (y !== null && other && !heightAt(other, x)) y = y < 1 ? 0 : y;
    const [value, unit] = said(lane, y), b = document.createElement("b"), i = document.createElement("i");
    b.textContent = value;
    i.textContent = unit;
    el.replaceChildren(b, i);
    words.push(`${lane.dataset.label} ${value} ${unit}`);
  }
  const status = p?.querySelector("[role=status][data-own]");
  if (status && document.activeElement?.matches(".timeline")) status.textContent = words.join(", ");
  for (const { chart, path } of chosen()) {
    const own = chart.querySelector("[data-own]");
    if (own) draw(own, "path", { class: "cursor", d: `M${x} 0V100` });
    if (line) path?.classList.add("at");
  }
}

/**
 * All values of the moment, of one GPU, beside the pointer.
 * @param {PointerEvent} e
 */
function tell(e) {
  tip ??= document.createElement("div");
  tip.className = "tip";
  const table = document.createElement("table"), list = chosen(), name = [...document.querySelectorAll(".chart .ends [data-key]")].find((t) => t.getAttribute("data-key") === line)?.textContent;
  const row = (/** @type {string} */ label, /** @type {string} */ value) => {
    const tr = table.insertRow(), th = document.createElement("th");
    th.textContent = label;
    tr.append(th);
    tr.insertCell().textContent = value;
  };
  row(name ?? picture()?.querySelector("h2 b")?.textContent ?? "", clock(at ?? 0));
  for (const { chart, path } of list) if (path) row(chart.dataset.label ?? "", said(chart, heightAt(path, at ?? 0)).join(" "));
  tip.replaceChildren(table);
  document.body.append(tip);
  const width = tip.offsetWidth, height = tip.offsetHeight;
  const x = e.clientX + 16 + width > innerWidth ? e.clientX - 16 - width : e.clientX + 16;
  tip.style.transform = `translate(${Math.max(0, x)}px, ${Math.max(0, Math.min(e.clientY - height / 2, innerHeight - height))}px)`;
}

/** @param {PointerEvent} e */
function moved(e) {
  const target = /** @type {Element} */ (e.target);
  const small = target.closest?.(".chart .small"), plot = small ? null : target.closest?.("#picture .timeline");
  const area = small?.querySelector(".lines") ?? plot?.querySelector(".lanes");
  const box = (small?.querySelector(".lines") ?? plot)?.getBoundingClientRect();
  if (!area || !box || e.clientX > box.right) {
    if (at !== undefined && !document.activeElement?.matches(".timeline")) [at, line] = [undefined, ""], show();
    return;
  }
  const [from, , span] = viewOf(area);
  at = Math.round(from + (span * Math.max(0, e.clientX - box.left)) / box.width);
  line = small ? nearest(small, box, e.clientY) : "";
  show();
  if (small) tell(e);
  else tip?.remove();
}

/**
 * The line of a chart that is near the pointer; empty where none is.
 * @param {Element} small
 * @param {DOMRect} box
 * @param {number} y
 */
function nearest(small, box, y) {
  let best = "", distance = 16;
  const m = /matrix\(1 0 0 (\S+) 0 (\S+)\)/.exec(small.querySelector(".lines > g")?.getAttribute("transform") ?? "");
  for (const path of small.querySelectorAll(".lines path[data-key]")) {
    const height = path.matches(".spread, .median") ? null : heightAt(path, at ?? 0);
    if (height === null || !m) continue;
    const away = Math.abs(box.top + ((height * Number(m[1]) + Number(m[2])) * box.height) / 100 - y);
    if (away < distance) [best, distance] = [path.getAttribute("data-key") ?? "", away];
  }
  return best;
}

/** @param {KeyboardEvent} e */
function pressed(e) {
  const lanes = picture()?.querySelector(".lanes");
  if (!lanes || !(/** @type {Element} */ (e.target).matches("#picture .timeline")) || e.ctrlKey || e.altKey || e.metaKey) return;
  const [from, , span] = viewOf(lanes), path = lanes.querySelector(".line"), last = path ? courseOf(path.getAttribute("d") ?? "").xs.at(-1) : undefined;
  const step = { ArrowLeft: -3, ArrowRight: 3, PageUp: -60, PageDown: 60, Home: -1e9, End: 1e9 }[e.key], end = Math.min(last ?? 1e9, from + span);
  if (e.key === "Escape") at = undefined;
  else if (step) at = Math.max(from, Math.min(end, (at ?? end) + step));
  else return;
  e.preventDefault();
  show();
}

/**
 * Saves the picture as PNG, in the colours that the page has.
 * @param {MouseEvent} e
 */
function save(e) {
  const a = /** @type {Element} */ (e.target).closest?.("#picture-share");
  if (!(a instanceof HTMLAnchorElement) || e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  const theme = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const url = new URL(a.href);
  url.searchParams.set("theme", theme);
  const image = new Image(), follow = (/** @type {string} */ href, /** @type {string} */ name) => Object.assign(document.createElement("a"), { href, download: name }).click();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2400, 1260];
    canvas.getContext("2d")?.drawImage(image, 0, 0, 2400, 1260);
    canvas.toBlob((blob) => {
      const of = blob ? URL.createObjectURL(blob) : url.href;
      follow(of, blob ? "gpuwhy.png" : "gpuwhy.svg");
      if (blob) setTimeout(() => URL.revokeObjectURL(of), 10_000);
    });
  };
  image.onerror = () => follow(url.href, "gpuwhy.svg");
  image.src = url.href;
}

/** Begins to listen. It may be called once. */
export function begin() {
  document.addEventListener("pointermove", moved, { passive: true });
  document.addEventListener("pointerdown", moved, { passive: true });
  document.addEventListener("keydown", pressed);
  document.addEventListener("click", save);
  document.addEventListener("focusout", (e) => {
    if (/** @type {Element} */ (e.target).matches("#picture .timeline")) [at, line] = [undefined, ""], show();
  });
  new MutationObserver((list) => {
    if (at !== undefined && list.some((m) => !(/** @type {Element} */ (m.target).closest?.("[data-own]")))) show();
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["d", "viewBox"] });
}
