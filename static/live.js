// @ts-check
// Keeps the page identical to what the server would render now, and shows how old it is.
// The server renders; this script requests the page that the address names, and another
// one when a person chooses something. A page without a freshness sign, such as the page
// of the past, is still: it changes only when a person chooses something, and has no socket.
//
// The server says when its readings were taken and how old they were when it rendered
// (#state). The script counts from there by its own clock. After less than two intervals
// without news the page says so and turns grey, even while the connection is open. A hidden
// tab has no socket, unless it announces alerts.
//
// Without a WebSocket the script asks for the page by HTTP, soon after the next reading is
// due, and keeps trying to connect. If anything on the way asks for a sign-in (a redirect,
// 401, 403, or a page that isn't gpuwhy's), the page says so, with a link that loads it. If gpuwhy itself
// has ended the session, the page loads at once, and so asks for a sign-in.

import { rewriteMoments } from "./moments.js";
import { become, patch } from "./patch.js";
import { remember } from "./choices.js";

/** @typedef {"connecting" | "live" | "silent" | "lost" | "polling" | "signedout" | "paused" | "gone" | "starting" | "none"} State */

const { body } = document;
const root = body.dataset.root ?? "/";
const version = body.dataset.version;
/** Shows how fresh the page is. The server puts the time of the readings there. */
const sign = /** @type {HTMLElement} */ (document.getElementById("state"));
const still = !sign;
const interval = () => 1000 * Number(sign.dataset.interval);
const addressed = () => location.pathname.slice(root.length) + location.search;

const shortestWait = 500;
const longestWait = 30_000;

/** After this many failures in a row the page polls over HTTP meanwhile. */
const tolerated = 3;
/** A connection that takes longer won't open: something in between swallows it. */
const longestOpening = 5000;
/** An HTTP request that takes longer is aborted. */
const longestAnswer = 10_000;
/** If the wall clock gains more than this between two ticks, or the page did not run for longer, the machine slept. */
const longestLead = 2000;
const longestPause = 10_000;
/** The close code for somebody who may no longer look. */
const policyViolation = 1008;
/** How long the page waits before it reloads again for another version. */
const reloadWait = 30_000;

let address = addressed();
/** The version of the shown page. */
const have = /** @type {HTMLMetaElement} */ (document.querySelector('meta[name="version"]') ?? document.head.appendChild(Object.assign(document.createElement("meta"), { name: "version" })));

/** @type {WebSocket | null} */
let socket = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
let failures = 0;
/** When the last message came, and when the page's newest reading was taken, by {@link performance.now}. */
let heard = 0;
let taken = still ? 0 : readAt();
let reading = sign?.dataset.taken;
/** The machine slept or its clock was set: only the server can say how old the reading is. */
let doubtful = false;
/** When the page last checked both clocks. */
let looked = { wall: Date.now(), now: performance.now() };
let gone = false;
/** The server has another version than the page, and reloading did not help. */
let outdated = false;
/** When the last connection attempt was, and when the next one is due. */
let tried = 0;
let next = 0;
let pausedAt = "";
/** A choice is waiting for its page, even while the page is paused. */
let awaited = false;
/** HTTP requests succeed; a single failure may be an accident. */
let answered = false;
let unanswered = 0;
/** When the last HTTP request was sent, and its abort controller until it is answered. */
let asked = 0;
/** @type {AbortController | undefined} */
let question;
/** Something in between asks for a sign-in instead of returning the page. */
let signedOut = false;
/** The server has closed the socket because this person may no longer look: the page to sign in leads back here. */
let ended = false;
/** A socket has opened since the page was loaded. */
let opened = false;

/** When the page's reading was taken. The server says how old it was, so clocks are not compared. */
function readAt() {
  return performance.now() - Math.max(0, Number(have.dataset.now ?? sign.dataset.taken) - Number(sign.dataset.taken));
}

/** Nobody sees the page, and nobody wants notifications. */
const unseen = () => document.hidden && !body.hasAttribute("data-told");

function open() {
  clearTimeout(retry);
  if (still || unseen()) return;
  const of = address;
  const url = new URL(`${root}ws?page=${encodeURIComponent(address)}&have=${encodeURIComponent(have.content)}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const s = new WebSocket(url);
  socket = s;
  tried = performance.now();
  s.onopen = () => {
    opened = true;
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
  s.onclose = (e) => {
    if (s !== socket) return;
    ended = e.code === policyViolation;
    lost();
    if (ended) ask();
  };
}

function drop() {
  const s = socket;
  socket = null;
  s?.close();
}

function lost() {
  drop();
  failures += 1;
  // If no socket has opened yet, sockets may be blocked: the page doesn't wait to be sure.
  if (failures >= tolerated || !opened) ask();
  const longest = Math.min(longestWait, shortestWait * 2 ** failures);
  // Half of the wait is random, so that viewers don't all return to a restarted server at once.
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
      console.warn("fetching the whole page again:", problem); // something else changed it
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
 * @returns whether the page now shows it; a page of another version is reloaded
 */
function whole(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  if (fresh.body.dataset.version === undefined) {
    signedOut = true; // gpuwhy has not written this
    return false;
  }
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
  coming = gone = awaited = signedOut = false;
  if (!still && (doubtful || sign.dataset.taken !== reading)) {
    doubtful = false;
    reading = sign.dataset.taken;
    taken = readAt();
  }
  if (isPaused()) pause();
  if (!body.matches(".of-past")) rewriteMoments(body); // the past is in the zone that its page names
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

// Patches find elements by position. If another script, such as a translator, has moved some, the whole page is fetched again.
const foreign = new MutationObserver((records) => {
  if (records.some(({ target }) => !(target instanceof Element && target.closest("[data-own]")))) have.content = "";
});
foreign.observe(body, { childList: true, subtree: true });

/**
 * Requests a page to replace the shown one.
 * @param {string} page
 * @param {string} version version of the shown page, if it is the same page
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

/** Requests the page over HTTP, and aborts an unanswered request. */
async function ask() {
  const of = address, mine = new AbortController();
  question?.abort();
  question = mine;
  asked = performance.now();
  const limit = setTimeout(() => mine.abort(), still ? 1e9 : longestAnswer); // the past of a year takes its time
  try {
    // A redirect to a sign-in is not followed: it may belong to another site.
    const answer = await fetch(root + of, { headers: { Accept: "text/html" }, cache: "no-store", redirect: "manual", signal: mine.signal });
    const html = await answer.text();
    if (question !== mine || of !== address || (isPaused() && !awaited)) return;
    if (still) { // also where the page says that it can't be made
      if (whole(html)) changed();
      else location.reload();
      return;
    }
    signedOut = answer.type === "opaqueredirect" || [401, 403, 407].includes(answer.status);
    if (signedOut && ended) return location.reload();
    gone = answer.status === 404;
    if (!signedOut && !answer.ok) throw new Error(String(answer.status));
    heard = performance.now();
    answered = true;
    unanswered = 0;
    if (!signedOut && whole(html)) changed();
  } catch (problem) {
    if (question !== mine) return;
    if (still) return location.reload(); // the browser says what is wrong
    if (++unanswered > 1) answered = false;
    if (!mine.signal.aborted) console.warn("the page:", problem); // its state says that it is old
  } finally {
    clearTimeout(limit);
    if (question === mine) question = undefined;
  }
  showState();
}

/** Whether it is time to poll again: soon after the next reading is due, then twice as often. */
const isDue = (/** @type {number} */ now) => !question && now > Math.max(taken + interval() + 400, asked + interval() / 2);

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
  if (signedOut && !connected) return "signedout";
  if (gone) return "gone";
  if (outdated) return "lost";
  const asking = !connected && answered;
  const first = !opened && !answered && unanswered === 0; // nothing was tried to its end yet
  // Less than two intervals, but more than a reading and its delivery may take; polled readings come later.
  const oldest = asking ? 2 * interval() + 2000 : Math.max(1.7 * interval(), interval() + 700);
  if (sign.dataset.taken && performance.now() - taken > oldest) return connected || asking || first || failures < 1 ? "silent" : "lost";
  if (connected && sign.dataset.is === "starting") return "starting";
  if (connected && sign.dataset.is === "none") return "none";
  if (connected) return "live";
  if (failures === 0 || first) return "connecting";
  return answered ? "polling" : "lost";
}

/** @param {number} ms */
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  return s < 60 ? `${s}\u00a0s` : s < 3600 ? `${Math.floor(s / 60)}\u00a0min` : `${Math.floor(s / 3600)}\u00a0h`;
}

function showState() {
  if (still) return;
  const now = state();
  body.toggleAttribute("data-stale", ["silent", "lost", "gone", "signedout"].includes(now));
  if (sign.dataset.state !== now) sign.dataset.state = now;
  const fill = sign.querySelector(`[data-of="${now}"] [data-fill]`);
  const text = now === "lost" ? span(next - performance.now()) : now === "paused" ? pausedAt : span(performance.now() - taken);
  if (fill && fill.textContent !== text) fill.textContent = text;
}

/** Whether the machine slept, or did not run the page, since the last check of the clocks. Then everything received is older. */
function hasSlept() {
  const wall = Date.now(), now = performance.now();
  const lead = wall - looked.wall - (now - looked.now), pause = now - looked.now;
  looked = { wall, now };
  if (lead > longestLead) {
    // The clock that measures ages stood still, as it does on Linux and macOS.
    taken -= lead;
    heard -= lead;
    tried -= lead;
    doubtful = true;
    have.content = ""; // the whole page says how old its reading is
  }
  return lead > longestLead || (pause > longestPause && !document.hidden);
}

function tick() {
  const slept = hasSlept();
  if (unseen()) return;
  const now = performance.now();
  const opening = socket?.readyState === WebSocket.CONNECTING;
  if (slept) reconnect();
  else if (opening && now - tried > longestOpening) {
    failures = Math.max(failures, tolerated - 1);
    lost();
  } else if (socket && !opening && now - heard > 4 * interval() + 10_000) lost();
  else if ((opening || !socket) && failures >= tolerated && isDue(now)) ask();
  showState();
}

/** Connects at once: the old connection is useless, or there was none. */
function reconnect() {
  failures = 0;
  drop();
  open();
}

/** Connects if needed: the network is back, or somebody is watching again. */
function wake() {
  const slept = hasSlept();
  failures = 0;
  const works = socket?.readyState === WebSocket.OPEN && performance.now() - Math.max(heard, tried) < 2 * interval();
  if (slept || !works) reconnect();
  showState();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) wake();
  else if (unseen()) drop();
});
// The page was frozen, or Back restored it as it was.
document.addEventListener("resume", wake);
addEventListener("pageshow", (e) => {
  if (e.persisted) wake();
});
addEventListener("online", wake);

/** Nobody has seen the page of the newest history entry yet. */
let coming = false;

/**
 * Goes to another choice of this page.
 * @param {URL} url
 * @param {boolean} [back] whether Back returns here, if somebody has seen this page
 */
export function choose(url, back) {
  if (back && !coming) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  if (still) {
    coming ||= Boolean(back);
    undo();
  }
  remember(url.searchParams);
  show(addressed(), "");
}

addEventListener("click", (e) => {
  const el = /** @type {Element} */ (e.target);
  if (el.closest("[data-reload]")) {
    e.preventDefault();
    location.reload();
  }
  const link = /** @type {HTMLAnchorElement | null} */ (el.closest(still ? "main a" : "a[data-choice]"));
  const here = !still || (link?.origin === location.origin && link.pathname === location.pathname && !link.hash);
  if (link && here && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.altKey && e.button === 0) {
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

/** Resets forms to what the server says: a person's unsent choice no longer applies. */
function undo() {
  clearTimeout(typed);
  for (const form of /** @type {NodeListOf<HTMLFormElement>} */ (document.querySelectorAll(still ? "main form" : "form[data-choice]"))) form.reset();
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
  coming = false;
  show(addressed(), "");
  undo();
});
// Escape closes a dialog through its link, so that the address drops it.
addEventListener("cancel", (e) => {
  const close = /** @type {HTMLElement | null} */ (/** @type {Element} */ (e.target).querySelector("a[data-close]"));
  if (!close) return;
  e.preventDefault();
  close.click();
}, true);

changed();
if (!still) {
  if (new URLSearchParams(location.search).has("paused")) pause();
  open();
  setInterval(tick, 250);
  tick();
}
