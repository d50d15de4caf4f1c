// @ts-check
// The WebSocket: one connection, tried again for ever, and at once when the
// machine wakes up or the network comes back.

/** @typedef {"connecting" | "live" | "waiting"} State */

const shortestWait = 500;
const longestWait = 30_000;

/**
 * @param {object} options
 * @param {string} options.url
 * @param {() => number} options.silence milliseconds without a message after which the connection counts as dead
 * @param {(event: string, data: any) => void} options.onMessage
 * @param {(state: State) => void} options.onState
 */
export function connect({ url, silence, onMessage, onState }) {
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let retry;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let watchdog;
  let failures = 0;
  let heard = 0;

  function open() {
    clearTimeout(retry);
    onState("connecting");
    const s = new WebSocket(url);
    socket = s;
    heard = Date.now();
    watch();
    s.onmessage = (e) => {
      if (s !== socket) return;
      heard = Date.now();
      failures = 0;
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
    onState("waiting");
    clearTimeout(retry);
    // Half of the wait is by chance, so that the viewers of a server that
    // comes back do not all return in the same moment.
    retry = setTimeout(open, wait / 2 + (Math.random() * wait) / 2);
  }

  function watch() {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => (Date.now() - heard >= silence() ? lost() : watch()), silence() / 2);
  }

  /** Makes sure that what is shown is new: after sleep, in a tab that is shown again. */
  function wake() {
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
