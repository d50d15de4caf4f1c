// @ts-check
// The page of the past. The server has drawn all; this adds the cursor with its
// readings, choosing a span by drag and a time by click, and the replay.
// Everything that somebody chooses is in the address. Another one is fetched, and
// takes the place of what is shown, so that the page stays where it is.

/** @type {XMLHttpRequest | undefined} */
let asked;
let askedAt = performance.now();
let shown = location.href.split("#")[0];
/** The time that is asked for; empty while nothing is. */
let goal = "";
/** The machine is shown at the time that was taken from the picture: keys are meant for it then. */
let taken = false;
/** @type {(() => void) | undefined} ends what listens to a picture that is gone */
let forget;

/**
 * The address of this page with other values; an empty one leaves a name out.
 * @param {Record<string, string>} values
 */
function address(values) {
  const url = new URL(location.href);
  url.hash = "";
  for (const [name, value] of Object.entries(values)) {
    url.searchParams.delete(name);
    if (value) url.searchParams.set(name, value);
  }
  return url.href;
}

/** @param {number} t milliseconds since 1970 */
const iso = (t) => new Date(Math.round(t / 1000) * 1000).toISOString().replace(".000", "");

/**
 * The height of a path at a place from left, and null where it has none. A path has runs: "M" with a place, and "l" with
 * steps from there.
 * @param {string} path
 * @param {number} at
 */
export function heightAt(path, at) {
  for (const run of path.split("M").slice(1)) {
    const [x0, y0, ...steps] = (run.match(/-?\d+/g) ?? []).map(Number);
    let x = x0, y = y0;
    if (at < x) return null;
    for (let i = 0; i < steps.length; i += 2) {
      const [dx, dy] = [steps[i], steps[i + 1]];
      if (at <= x + dx) return y + (dx ? (dy * (at - x)) / dx : dy);
      x += dx;
      y += dy;
    }
  }
  return null;
}

/**
 * What a clock shows at a time, as if it were UTC. The clocks have from when on how much is to be added.
 * @param {string} clocks
 * @param {number} t milliseconds since 1970
 */
export function clockAt(clocks, t) {
  let add = 0;
  for (const [since, more] of clocks.split(" ").map((c) => c.split(":").map(Number))) if (since <= t) add = more;
  return t + add;
}

/**
 * Shows another address of this page.
 * @param {string} href
 * @param {"push" | "replace" | "stay"} how it gets into the history
 */
function show(href, how) {
  asked?.abort();
  askedAt = performance.now();
  goal = new URL(href).searchParams.get("at") ?? "";
  const page = asked = new XMLHttpRequest();
  page.responseType = "document"; // a whole page whose scripts do not run
  page.open("GET", href);
  page.onload = () => {
    goal = "";
    const [main, footer] = ["main", "footer"].map((name) => page.response?.querySelector(name));
    if (!main || !page.response.body.classList.contains("of-past")) return location.assign(href);
    if (how === "push") history.pushState(null, "", href);
    if (how === "replace") history.replaceState(null, "", href);
    shown = href.split("#")[0];
    const focus = document.activeElement, choice = focus?.closest("nav")?.getAttribute("aria-label");
    const before = document.getElementById("past-then");
    const unfolded = [...document.querySelectorAll("main details[id][open]")].map((d) => d.id);
    document.title = page.response.title;
    document.querySelector("main")?.replaceWith(main);
    document.querySelector("footer")?.replaceWith(footer);
    for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
    begin();
    const same = focus?.id ? document.getElementById(focus.id)
      : [...document.querySelectorAll(`nav[aria-label="${choice}"] a`)].find((a) => a.textContent === focus?.textContent);
    const then = document.getElementById("past-then"), picture = document.getElementById("past-picture");
    const to = then && taken ? then : before?.contains(focus) && !then ? picture : same;
    taken = false;
    if (to instanceof HTMLElement || to instanceof SVGElement) to.focus({ preventScroll: true });
    if (!before && how === "push") then?.scrollIntoView();
  };
  page.onerror = () => how === "replace" || location.assign(href);
  page.send();
}

/** @param {Record<string, string>} values */
const choose = (values) => show(address({ play: "", ...values }), "push");

/** @param {HTMLElement} picture */
function listen(picture) {
  const { from, to, step, width, clocks } = /** @type {Record<string, string>} */ (picture.dataset);
  const begins = Number(from), length = Number(to) - begins;
  const byName = (/** @type {string} */ name) => /** @type {SVGPathElement} */ (/** @type {unknown} */ (document.getElementById(name)));
  const cursor = byName("past-cursor"), dragged = byName("past-drag");
  const time = /** @type {HTMLOutputElement} */ (document.getElementById("past-time"));
  const format = new Intl.DateTimeFormat([], {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: length < 7.2e6 ? "2-digit" : undefined,
    year: length > 1.6e10 ? "numeric" : undefined, timeZone: "UTC", // of what a clock shows
  });
  const lanes = [...picture.querySelectorAll("[data-lane]")].map((lane) => {
    const output = /** @type {HTMLOutputElement} */ (lane.querySelector("output"));
    return { svg: /** @type {SVGElement} */ (lane.querySelector("svg")), output, range: output.value, path: lane.querySelector(".line")?.getAttribute("d") ?? "" };
  });
  const axis = /** @type {SVGElement} */ (picture.querySelector(".past-axis > svg"));
  const then = Date.parse(document.getElementById("past-then")?.dataset.at ?? "");
  /** @type {number | null} */
  let now = null; // a part of the width, 0 to 1
  /** @type {number | null} */
  let held = null; // where a span began that is being chosen
  let pressed = false;

  const place = (/** @type {number} */ share) => Math.round(share * Number(width) * 10) / 10;
  const words = (/** @type {number} */ share) => format.format(clockAt(clocks, begins + share * length));
  const clamp = (/** @type {number} */ share) => Math.min(Math.max(share, 0), 1);

  /** @param {number | null} share */
  function move(share) {
    now = share;
    cursor.setAttribute("d", share === null ? "" : `M${place(share)} 0v9999`);
    if (share === null) held = null;
    const span = held === null || now === null ? [] : [held, now].sort((a, b) => a - b);
    dragged.setAttribute("d", span.length ? `M${place(span[0])} 0H${place(span[1])}V9999H${place(span[0])}z` : "");
    time.value = span.length ? `${words(span[0])} – ${words(span[1])}` : share === null ? "" : words(share);
    for (const { svg, output, range, path } of lanes) {
      const y = share === null ? null : heightAt(path, share * Number(width));
      const value = y === null ? "–" : `${Math.round(Number(svg.dataset.top) - y)}\u00a0${svg.dataset.unit}`;
      output.value = share === null ? range : value;
    }
  }

  /** @param {PointerEvent} event */
  const shareOf = (event) => {
    const box = axis.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width);
  };
  const far = 0.008; // less is a click

  // Shows the span from where one was begun, or the machine at the time of the cursor.
  function take() {
    if (now === null) return;
    const [a, b] = [Math.min(held ?? now, now), Math.max(held ?? now, now)].map((s) => iso(begins + s * length));
    const spans = held !== null && Math.abs(now - held) > far;
    move(null);
    taken = !spans;
    choose(spans ? { from: a, to: b, at: "" } : { at: b });
  }

  picture.addEventListener("pointermove", (event) => move(shareOf(event)));
  picture.addEventListener("pointerdown", (event) => {
    if (event.button || event.target instanceof Element && event.target.closest("a")) return;
    pressed = true;
    held = shareOf(event);
    move(held);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointerup", (event) => {
    if (!pressed) return;
    pressed = false;
    now = shareOf(event);
    take();
  });
  picture.addEventListener("pointercancel", () => {
    pressed = false;
    move(null);
  });
  picture.addEventListener("pointerleave", () => pressed || move(null));
  picture.tabIndex = 0;
  picture.addEventListener("keydown", (event) => {
    if (event.target !== picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = Number(step) / length;
    const start = Number.isNaN(then) ? null : clamp((then - begins) / length);
    /** @type {Record<string, () => number>} */
    const to = {
      ArrowLeft: () => (now ?? start ?? 1) - by, ArrowRight: () => (now ?? start ?? 0) + by,
      PageUp: () => (now ?? start ?? 1) - 0.1, PageDown: () => (now ?? start ?? 0) + 0.1,
      Home: () => 0, End: () => 1,
    };
    if (to[event.key]) {
      held = event.shiftKey ? held ?? now ?? start : null;
      move(clamp(to[event.key]()));
    } else if (event.key === "Enter") take();
    else if (event.key === "Escape" && now !== null) move(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

// The machine goes on by a minute a second, until it reaches the end of what is drawn or a time of which nothing is known.
function replay() {
  const then = document.getElementById("past-then");
  if (!then?.hasAttribute("data-playing") || !then.querySelector(".answer")) return;
  const next = Date.parse(then.dataset.at ?? "") + 60_000;
  const end = Math.min(Number(document.getElementById("past-picture")?.dataset.to ?? Infinity), Date.now());
  if (!(next < end)) return choose({});
  const timer = setTimeout(() => show(address({ at: iso(next), play: "60" }), "replace"), Math.max(0, 1000 - (performance.now() - askedAt)));
  forget = () => clearTimeout(timer);
}

function begin() {
  forget?.();
  forget = undefined;
  const picture = document.getElementById("past-picture");
  if (picture) listen(picture);
  replay();
}

// A link to another span, time or device of this page.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("main a") : null;
  if (!(link instanceof HTMLAnchorElement) || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.pathname !== location.pathname || link.hash) return;
  event.preventDefault();
  show(link.href, "push");
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || event.defaultPrevented) return;
  // What has the focus may have uses of its own for arrows; Escape means the machine wherever one is, but in a form or a dialog.
  if (event.target instanceof Element && event.target.closest(event.key === "Escape" ? "input, select, dialog" : "input, select, dialog, summary, [tabindex='0']")) return;
  const then = document.getElementById("past-then");
  const by = { ArrowLeft: -1, ArrowRight: 1, Escape: 0 }[event.key];
  if (!then || by === undefined) return;
  event.preventDefault();
  const at = Date.parse(goal || then.dataset.at || ""); // a key that is held goes on from what it has asked for
  choose({ at: by ? iso(at + by * Number(then.dataset.step)) : "" });
});
addEventListener("popstate", () => location.href.split("#")[0] !== shown && show(location.href, "stay"));
begin();
