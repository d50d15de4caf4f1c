// @ts-check
// The cursor of the picture and its charts, and saving the picture. The server has drawn all: values are read from the paths, of which a unit is
// so many of the reading as data-scale says. What this adds stands in elements with data-own.

/** The moment of the cursor, in seconds as the picture counts them. @type {number | undefined} */
let at;
/** The GPU whose line the pointer is near to; empty: that of the picture. */
let near = "";
const tip = document.createElement("div");
tip.className = "tip";

const picture = () => document.getElementById("picture");
/** @param {ParentNode | null | undefined} within @param {string} what */
const all = (within, what) => /** @type {HTMLElement[]} */ ([...(within?.querySelectorAll(what) ?? [])]);
/** @param {Element} el */
const viewOf = (el) => (el.getAttribute("viewBox") ?? "").split(" ").map(Number);

/**
 * The height of a path at a place from left; null where it has none. Runs are "M" with a place, and "l" with steps from there. A wave has bars
 * instead: "m" to where one begins, and "v" up.
 * @param {string} d
 * @param {number} place
 */
export function heightAt(d, place) {
  const apart = 30;
  let x = 0, y = 0, bar = null;
  for (const [, dx, , up] of d.matchAll(/[Mm](-?\d+) (-?\d+)v(\d+)/g)) {
    x += Number(dx);
    if (x <= place && place - x < apart) bar = Number(up) > 2 ? Number(up) / 2 : 0;
  }
  if (/v/.test(d)) return bar;
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
 * The value of a path where the cursor is, as the server writes it: figure and unit.
 * @param {HTMLElement} of
 * @param {Element | undefined} path
 */
function said(of, path) {
  const y = path ? heightAt(path.getAttribute("d") ?? "", at ?? 0) : null;
  return y === null ? ["–", ""] : [(y * Number(of.dataset.scale)).toFixed(Number(of.dataset.digits)), of.dataset.unit ?? ""];
}

const clock = () => new Date((Number(picture()?.dataset.base) + (at ?? 0)) * 1000).toLocaleTimeString([], { hourCycle: "h23" });

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

/** The charts, each with the line of the same GPU. */
const charts = () => all(document, ".chart").map((chart) => {
  const paths = all(chart, ".lines [data-key]"), of = near || picture()?.dataset.of;
  return { chart, path: paths.find((p) => p.dataset.key === of) ?? paths.find((p) => p.matches(".strong, .median")) };
});

/** Shows the cursor where it is, or takes it away. */
function show() {
  const p = picture();
  for (const own of all(document, "#picture .drawn > [data-own], .lines > [data-own], .readings > div > [data-own]")) own.replaceChildren();
  for (const path of all(document, ".lines .at")) path.classList.remove("at");
  p?.toggleAttribute("data-cursor", at !== undefined);
  if (at === undefined) return tip.remove();
  const words = [clock()], drawn = p?.querySelector(".drawn > [data-own]"), lanes = p?.querySelector(".lanes");
  if (drawn && lanes) {
    const [from, , span] = viewOf(lanes), share = (at - from) / span, x = `${100 * share}%`, left = share < 0.06 ? 0 : share > 0.94 ? -60 : -30;
    draw(drawn, "line", { class: "cursor", x1: x, x2: x, y1: 0, y2: "93%" });
    const pill = draw(drawn, "svg", { x, y: "94%", overflow: "visible" });
    draw(pill, "rect", { class: "pill", x: left, width: 60, height: 18, rx: 4 });
    draw(pill, "text", { x: left + 30, y: 13 }).textContent = clock();
  }
  for (const reading of all(p, ".readings > [data-lane]")) {
    const [lane] = all(p, `.lanes [data-lane="${reading.dataset.lane}"]`);
    if (!lane) continue;
    const [value, unit] = said(lane, lane.querySelector(".line, .heat, .wave") ?? undefined), b = document.createElement("b"), i = document.createElement("i");
    [b.textContent, i.textContent] = [value, unit];
    reading.querySelector("[data-own]")?.replaceChildren(b, i);
    words.push(`${lane.dataset.label} ${value} ${unit}`);
  }
  const status = p?.querySelector("[role=status][data-own]");
  if (status && document.activeElement?.matches(".timeline")) status.textContent = words.join(", ");
  for (const { chart, path } of charts()) {
    for (const own of all(chart, ".lines > [data-own]")) draw(own, "path", { class: "cursor", d: `M${at} 0V100` });
    if (near) path?.classList.add("at");
  }
}

/**
 * Says beside the pointer all values of the moment, of one GPU.
 * @param {PointerEvent} e
 */
function tell(e) {
  const table = document.createElement("table");
  const named = all(document, "#picture-choice option").find((o) => near.endsWith(`/${/** @type {HTMLOptionElement} */ (o).value}`)); // lines may share a name
  const name = named ?? all(document, ".chart .ends [data-key]").find((t) => t.dataset.key === near) ?? picture()?.querySelector("h2 b");
  const rows = charts().map(({ chart, path }) => [chart.dataset.label ?? "", said(chart, path).join(" ")]);
  for (const [label, value] of [[name?.textContent ?? "", clock()], ...rows]) {
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
  const target = /** @type {Element} */ (e.target), small = target.closest?.(".chart .small"), field = small?.querySelector(".lines") ?? target.closest?.("#picture .timeline");
  const box = field?.getBoundingClientRect(), area = small ? field : field?.querySelector(".lanes");
  if (!area || !box || e.clientX > box.right) {
    if (at !== undefined && !document.activeElement?.matches(".timeline")) end();
    return;
  }
  const [from, , span] = viewOf(area);
  at = Math.round(from + (span * Math.max(0, e.clientX - box.left)) / box.width);
  near = "";
  const [, scale, zero] = /1 0 0 (\S+) 0 (\S+)\)/.exec(area.firstElementChild?.getAttribute("transform") ?? "") ?? [];
  let closest = 16;
  for (const path of small ? all(area, "path[data-key]:not(.spread, .median)") : []) {
    const y = heightAt(path.getAttribute("d") ?? "", at), away = Math.abs(box.top + ((Number(y) * Number(scale) + Number(zero)) * box.height) / 100 - e.clientY);
    if (y !== null && away < closest) [closest, near] = [away, path.dataset.key ?? ""];
  }
  show();
  if (small) tell(e);
  else tip.remove();
}

function end() {
  [at, near] = [undefined, ""];
  show();
}

/** @param {KeyboardEvent} e */
function pressed(e) {
  const lanes = picture()?.querySelector(".lanes");
  if (!lanes || !(/** @type {Element} */ (e.target).matches("#picture .timeline")) || e.ctrlKey || e.altKey || e.metaKey) return;
  const [from, , span] = viewOf(lanes), last = Math.min(from + span, Number(picture()?.dataset.end || Infinity));
  const step = { ArrowLeft: -3, ArrowRight: 3, PageUp: -60, PageDown: 60, Home: -1e9, End: 1e9 }[e.key];
  if (e.key !== "Escape" && !step) return;
  e.preventDefault();
  if (!step) return end();
  at = Math.max(from, Math.min(last, (at ?? last) + step));
  show();
}

/**
 * Saves the picture as PNG, in the colours of the page; as SVG where that fails.
 * @param {MouseEvent} e
 */
function save(e) {
  const a = /** @type {Element} */ (e.target).closest?.("#picture-share");
  if (!(a instanceof HTMLAnchorElement) || e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  const url = new URL(a.href), image = new Image(2400, 1260), canvas = document.createElement("canvas");
  url.searchParams.set("theme", document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  const follow = (/** @type {string} */ href, /** @type {string} */ download) => Object.assign(document.createElement("a"), { href, download }).click();
  image.onerror = () => follow(url.href, "gpuwhy.svg");
  image.onload = () => {
    [canvas.width, canvas.height] = [2400, 1260];
    canvas.getContext("2d")?.drawImage(image, 0, 0, 2400, 1260);
    canvas.toBlob((blob) => {
      if (!blob) return follow(url.href, "gpuwhy.svg");
      const made = URL.createObjectURL(blob);
      follow(made, "gpuwhy.png");
      setTimeout(() => URL.revokeObjectURL(made), 60_000);
    });
  };
  image.src = url.href;
}

/** Begins to listen, to whatever pictures there will be. */
export function begin() {
  for (const of of /** @type {const} */ (["pointermove", "pointerdown"])) document.addEventListener(of, moved, { passive: true });
  document.addEventListener("keydown", pressed);
  document.addEventListener("click", save);
  document.addEventListener("focusout", (e) => /** @type {Element} */ (e.target).matches("#picture .timeline") && end());
  new MutationObserver(() => at !== undefined && show()).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["viewBox"] });
}
