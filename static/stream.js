// @ts-check
// The WebSocket: one connection, which the page tries again and again, and at once
// when the machine wakes up or the network returns.

/** @typedef {"connecting" | "live" | "waiting" | "polling"} State */

/** The texts for the states of the connection. */
export const stateWords = { connecting: "connecting", live: "live", waiting: "connection lost, trying again", polling: "asking now and then: no live connection" };

const shortestWait = 500;
const longestWait = 30_000;

/** After this many failures in a row the page asks by HTTP meanwhile. */
const tolerated = 3;

/**
 * @param {object} options
 * @param {object[]} options.greeting the first messages to the server
 * @param {() => number} options.interval milliseconds between readings
 * @param {() => number} options.silence the connection counts as dead after this many milliseconds without a message
 * @param {(event: string, data: any) => void} options.onMessage
 * @param {(state: State) => void} options.onState
 */
export function connect({ greeting, interval, silence, onMessage, onState }) {
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retry;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let watchdog;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let poller;
  let failures = 0;
  let heard = 0;
  let seen = "";
  const root = document.body.dataset.base ?? "/";
  const url = new URL(`${root}ws`, location.href);
  url.protocol = url.protocol.replace("http", "ws");

  function open() {
    clearTimeout(retry);
    if (!poller) onState("connecting"); // a page that asks by HTTP is connected well enough
    const s = new WebSocket(url);
    socket = s;
    heard = Date.now();
    watch();
    s.onopen = () => greeting.forEach((message) => s.send(JSON.stringify(message)));
    s.onmessage = (e) => {
      if (s !== socket) return;
      heard = Date.now();
      failures = 0;
      stopPolling();
      onState("live");
      const message = JSON.parse(e.data);
      onMessage(message.event, message.data);
    };
    s.onclose = () => {
      if (s === socket) lost();
    };
  }

  function lost() {
    clearTimeout(watchdog);
    socket?.close();
    socket = null;
    const wait = Math.min(longestWait, shortestWait * 2 ** failures);
    failures += 1;
    if (!poller && failures < tolerated) onState("waiting");
    else poller ??= setTimeout(poll);
    clearTimeout(retry);
    // Half of the wait is random, so that not all viewers return to a restarted
    // server in the same moment.
    retry = setTimeout(open, wait / 2 + (Math.random() * wait) / 2);
  }

  /** Asks by HTTP for what the socket would send. */
  async function poll() {
    try {
      const summary = await ask("gpu/summary");
      const { alerts } = await ask("alerts");
      const update = summary.timestamp !== seen && summary.status !== "starting" ? await ask("gpu/metrics") : null;
      if (!poller) return; // the socket is back
      if (update) onMessage("gpu_status_update", update);
      seen = summary.timestamp;
      onMessage("standing_alerts", alerts);
      onState("polling");
    } catch {
      if (poller) onState("waiting");
    }
    if (poller) pollIn(interval());
  }

  /** @param {number} wait milliseconds */
  function pollIn(wait) {
    clearTimeout(poller);
    poller = setTimeout(poll, wait);
  }

  /** @param {string} what */
  async function ask(what) {
    const answer = await fetch(`${root}api/${what}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
    return answer.json();
  }

  function stopPolling() {
    clearTimeout(poller);
    poller = undefined;
  }

  function watch() {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => (Date.now() - heard >= silence() ? lost() : watch()), silence() / 2);
  }

  /** Gets new readings: after the machine slept, in a tab that is shown again. */
  function wake() {
    if (poller) pollIn(0);
    if (socket === null || Date.now() - heard >= silence()) {
      failures = 0;
      socket?.close();
      open();
    } else if (socket.readyState === WebSocket.OPEN) {
      socket.send(JSON.stringify({ event: "request_gpu_update" }));
    }
  }

  addEventListener("online", wake);
  open();
  return { wake };
}
