// @ts-check
// Keeps the page as the server would render it now, and says how old it is. The server
// renders; this script asks for the page that the address names, and for another
// one when a person chooses something.

import { rewriteMoments } from "./moments.js";
import { become, patch } from "./patch.js";
import { chosen, remember } from "./choices.js";

/** @typedef {"connecting" | "live" | "silent" | "lost" | "polling" | "paused" | "gone" | "starting" | "none"} State */

const { body } = document;
const root = body.dataset.root ?? "/";
const version = body.dataset.version;
/** Says how new the page is; the server says there of when its readings are. */
const sign = /** @type {HTMLElement} */ (document.getElementById("state"));
const interval = () => 1000 * Number(sign.dataset.interval);
const addressed = () => location.pathname.slice(root.length) + location.search;

const shortestWait = 500;
const longestWait = 30_000;

/** After this many failures in a row the page asks by HTTP meanwhile. */
const tolerated = 3;
/** A connection that takes longer never opens: something on the way swallows it. */
const longestOpening = 5000;
/** How long the page waits until it is loaded once more for another version. */
const reloadWait = 30_000;

let address = addressed();
/** The version of the page that is shown. */
const have = /** @type {HTMLMetaElement} */ (document.querySelector('meta[name="version"]') ?? document.head.appendChild(Object.assign(document.createElement("meta"), { name: "version" })));

/** @type {WebSocket | null} */
let socket = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
let failures = 0;
/** When something was heard, and when the newest reading on the page was taken, by {@link performance.now}. */
let heard = 0;
let taken = readAt();
let reading = sign.dataset.taken;
let gone = false;
/** The server is of another version than the page, and loading it has not helped. */
let outdated = false;
/** When the last connection was tried, and when the next one is. */
let tried = 0;
let next = 0;
let pausedAt = "";
/** A choice waits for its page, also while the page is paused. */
let awaited = false;
/** The last question by HTTP was answered. */
let answered = false;

/** When the reading on the page was taken: the server says how old it was, and no clocks are compared. */
function readAt() {
  return performance.now() - Math.max(0, Number(have.dataset.now ?? sign.dataset.taken) - Number(sign.dataset.taken));
}

/** Nobody sees the page, and nobody is to be told. */
const unseen = () => document.hidden && !body.hasAttribute("data-told");

function open() {
  clearTimeout(retry);
  if (unseen()) return;
  const of = address;
  const url = new URL(`${root}ws?page=${encodeURIComponent(address)}&have=${encodeURIComponent(have.content)}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const s = new WebSocket(url);
  socket = s;
  tried = performance.now();
  s.onopen = () => {
    heard = performance.now();
    if (s === socket && of !== address) show(address, have.content); // chosen meanwhile
  };
  s.onmessage = (e) => {
    if (s !== socket) return;
    heard = performance.now();
    failures = 0;
    const { event, data } = JSON.parse(e.data);
    if (event === "page") take(data);
    else if (event === "error") gone = data.code === "unavailable";
    showState();
  };
  s.onclose = () => {
    if (s === socket) lost();
  };
}

function lost() {
  socket?.close();
  socket = null;
  failures += 1;
  if (failures >= tolerated) ask();
  const longest = Math.min(longestWait, shortestWait * 2 ** failures);
  // Half of the wait is random, so that not all viewers return to a restarted server in the same moment.
  const wait = longest / 2 + (Math.random() * longest) / 2;
  clearTimeout(retry);
  retry = setTimeout(open, wait);
  next = performance.now() + wait;
  showState();
}

/**
 * @param {{page: string, from?: string, to: string, now: number, title: string, patches?: any[], html?: string}} data
 */
function take(data) {
  if (data.page !== address || (isPaused() && !awaited)) return;
  if (data.html) {
    if (!whole(data.html)) return;
  } else if (data.from === have.content) {
    try {
      for (const p of data.patches ?? []) patch(body, p);
    } catch (problem) {
      console.warn("the page is fetched anew:", problem); // something else changed it
      return show(address, "");
    }
  } else {
    return show(address, "");
  }
  have.content = data.to;
  have.dataset.now = String(data.now);
  document.title = data.title;
  changed();
}

/**
 * @param {string} html
 * @returns whether the page is that now; one of another version is loaded
 */
function whole(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (fresh.body.dataset.version !== version) {
    const wait = Math.min(reloadWait, (history.state?.loaded ?? 0) + reloadWait - Date.now());
    outdated = wait > 0;
    next = performance.now() + wait;
    if (outdated) return false;
    history.replaceState({ loaded: Date.now() }, "");
    location.reload();
    return false;
  }
  outdated = false;
  become(body, fresh.body);
  document.title = fresh.title;
  const is = /** @type {HTMLMetaElement | null} */ (fresh.querySelector('meta[name="version"]'));
  have.content = is?.content ?? "";
  if (is) have.dataset.now = is.dataset.now;
  return true;
}

/** @type {Element | null} what had the focus before a dialog opened */
let began = null;

function changed() {
  gone = awaited = false;
  if (sign.dataset.taken !== reading) {
    reading = sign.dataset.taken;
    taken = readAt();
  }
  if (isPaused()) pause();
  rewriteMoments(body);
  for (const d of /** @type {NodeListOf<HTMLDialogElement>} */ (document.querySelectorAll("dialog[data-modal]"))) {
    if (d.matches(":modal")) continue;
    began = document.activeElement;
    d.open = false;
    d.showModal();
  }
  if (began instanceof HTMLElement && !document.querySelector("dialog[data-modal]")) {
    began.focus(); // the dialog has gone without closing
    began = null;
  }
  foreign.takeRecords();
  body.dispatchEvent(new Event("patched"));
}

// Patches find elements by their place. Where another script has moved some, as a translator does, the page is fetched anew.
const foreign = new MutationObserver((records) => {
  if (records.some(({ target }) => !(target instanceof Element && target.closest("[data-own]")))) have.content = "";
});
foreign.observe(body, { childList: true, subtree: true });

/**
 * Asks for a page in place of the one that is shown.
 * @param {string} page
 * @param {string} version of the page that is shown, if it is that page
 * @param {boolean} [fresh] from a reading that begins now
 */
function show(page, version, fresh) {
  if (page !== address) {
    have.content = ""; // versions are of one page
    awaited = true;
  }
  address = page;
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ event: "show", data: { page, have: version, fresh } }));
  else ask();
}

/** Asks for the page by HTTP. */
async function ask() {
  const of = address;
  try {
    const answer = await fetch(root + of, { headers: { Accept: "text/html" }, cache: "no-store" });
    const html = await answer.text();
    if (of !== address || (isPaused() && !awaited)) return;
    if (!answer.ok) throw new Error(String(answer.status));
    heard = performance.now();
    answered = true;
    if (whole(html)) changed();
  } catch (problem) {
    answered = false;
    console.warn("the page:", problem); // its state says that it is old
  }
  showState();
}

const isPaused = () => body.hasAttribute("data-paused");

/** @param {boolean} paused */
function setPaused(paused) {
  body.toggleAttribute("data-paused", paused);
  const url = new URL(location.href);
  if (paused) url.searchParams.set("paused", "1");
  else url.searchParams.delete("paused");
  if (url.href !== location.href) history.replaceState(null, "", url);
  address = addressed();
}

function pause() {
  pausedAt = new Date(Date.now() - performance.now() + taken).toLocaleTimeString();
  setPaused(true);
  showState();
}

function resume() {
  setPaused(false);
  show(address, "");
  showState();
}

/** @returns {State} */
function state() {
  const connected = socket?.readyState === WebSocket.OPEN;
  if (isPaused()) return "paused";
  if (gone) return "gone";
  if (outdated) return "lost";
  // Less than two intervals, and more than a reading and its way may take.
  if (sign.dataset.taken && performance.now() - taken > Math.max(1.7 * interval(), interval() + 700)) return connected || failures < 1 ? "silent" : "lost";
  if (connected && sign.dataset.is === "starting") return "starting";
  if (connected && sign.dataset.is === "none") return "none";
  if (connected) return "live";
  if (failures === 0) return "connecting";
  return answered ? "polling" : "lost";
}

/** @param {number} ms */
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 60 ? `${s}\u00a0s` : s < 3600 ? `${Math.floor(s / 60)}\u00a0min` : `${Math.floor(s / 3600)}\u00a0h`;
}

function showState() {
  const now = state();
  body.toggleAttribute("data-stale", now === "silent" || now === "lost" || now === "gone");
  if (sign.dataset.state !== now) sign.dataset.state = now;
  const fill = sign.querySelector(`[data-of="${now}"] [data-fill]`);
  const text = now === "lost" ? span(next - performance.now()) : now === "paused" ? pausedAt : span(performance.now() - taken);
  if (fill && fill.textContent !== text) fill.textContent = text;
}

function tick() {
  if (unseen()) return;
  const now = performance.now();
  const opening = socket?.readyState === WebSocket.CONNECTING;
  if (opening && now - tried > longestOpening) {
    failures = Math.max(failures, tolerated - 1);
    lost();
  } else if (socket && !opening && now - heard > 4 * interval() + 10_000) lost();
  else if ((opening || !socket) && failures >= tolerated && now - heard > interval()) ask();
  showState();
}

/** Connects at once: the machine woke up, the network is back, or somebody looks again. */
function wake() {
  failures = 0;
  if (socket && performance.now() - Math.max(heard, tried) < 2 * interval()) return;
  socket?.close();
  open();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) wake();
  else if (unseen()) {
    const s = socket;
    socket = null;
    s?.close();
  }
});
addEventListener("online", wake);

/**
 * Goes to another choice of this page.
 * @param {URL} url
 * @param {boolean} [back] whether Back leads here again
 */
function choose(url, back) {
  if (back) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  remember(url.searchParams);
  show(addressed(), "");
}

addEventListener("click", (e) => {
  const el = /** @type {Element} */ (e.target);
  const link = /** @type {HTMLAnchorElement | null} */ (el.closest("a[data-choice]"));
  if (link && !e.ctrlKey && !e.metaKey && !e.shiftKey && e.button === 0) {
    e.preventDefault();
    choose(new URL(link.href), link.dataset.choice !== "replace");
    undo();
  }
  const button = el.closest("button");
  if (button?.id === "pause") {
    if (isPaused()) resume();
    else pause();
  }
  if (button?.id === "ask") {
    if (isPaused()) resume();
    show(address, have.content, true);
  }
});

/** @param {HTMLFormElement} form */
function sent(form) {
  const url = new URL(form.action);
  url.search = ""; // as browsers do
  for (const [name, value] of new FormData(form)) if (value) url.searchParams.append(name, String(value));
  choose(url);
}

/** Makes forms show what the server says: what a person chose in them is not what is chosen now. */
function undo() {
  clearTimeout(typed);
  for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll("form[data-choice]"))) form.reset();
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let typed;
addEventListener("input", (e) => {
  const form = /** @type {Element} */ (e.target).closest("form");
  if (!form?.matches("[data-choice]")) return;
  clearTimeout(typed);
  typed = setTimeout(() => sent(form), e.target instanceof HTMLInputElement && e.target.type !== "checkbox" ? 200 : 0);
});
addEventListener("submit", (e) => {
  const form = /** @type {HTMLFormElement} */ (e.target);
  if (!form.matches("[data-choice]")) return;
  e.preventDefault();
  clearTimeout(typed);
  sent(form);
});
addEventListener("popstate", () => {
  if (addressed() === address) return; // another part of the page
  show(addressed(), "");
  undo();
});
// Escape closes a dialog by its link, so that the address has it no more.
addEventListener("cancel", (e) => {
  const close = /** @type {HTMLElement | null} */ (/** @type {Element} */ (e.target).querySelector("a[data-close]"));
  if (!close) return;
  e.preventDefault();
  close.click();
}, true);

const kept = chosen(new URL(location.href));
if (kept) {
  history.replaceState(history.state, "", kept);
  address = addressed();
  have.content = "";
}
changed();
if (new URLSearchParams(location.search).has("paused")) pause();
open();
setInterval(tick, 250);
tick();
