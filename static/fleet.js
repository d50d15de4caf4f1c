// @ts-check
// Several nodes. The server sends an update for each node. The page asks for the
// totals and the sentence about all nodes, once after a burst of updates.

import { clean, longestName, say } from "./format.js";

/** @typedef {import("./message.js").Update} Update */

/** Whether the server has several nodes. */
export let isFleet = false;

/** @type {Map<string, Update>} the newest update of each node; with the name "", of all nodes */
const newest = new Map();
/** @type {any} the newest summary of all nodes; null: there is none yet */
let whole = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let asking;

/**
 * A connection begins: the server will send the update of each node again.
 * @param {import("./message.js").Status} status
 */
export function expectNodes({ nodes }) {
  isFleet = nodes != null;
  newest.clear();
  whole = null;
}

/**
 * Keeps the update of one of several nodes, or the answer about all nodes.
 * @param {Update} u
 * @returns whether there are several nodes
 */
export function keep(u) {
  if (!isFleet && u.node != null) return false;
  if (u.node == null) newest.clear();
  isFleet = true;
  newest.set(u.node ?? "", u);
  return true;
}

/**
 * Asks for the summary of all nodes.
 * @param {number} wait time for other nodes to send their updates, in milliseconds
 * @param {() => void} then
 */
export function askSummary(wait, then) {
  asking ??= setTimeout(async () => {
    asking = undefined;
    try {
      const answer = await fetch(`${document.body.dataset.base}api/gpu/summary`, { cache: "no-store" });
      if (answer.ok) whole = await answer.json();
    } catch {
      // the next update asks again
    }
    then();
  }, wait);
}

/**
 * The GPUs of all nodes, by node and index, with the newest summary.
 * @returns {Update | null}
 */
export function merged() {
  const updates = [...newest.values()].sort((a, b) => byText(a.node ?? "", b.node ?? ""));
  const all = (/** @type {"gpus" | "notes" | "failures"} */ name) => updates.flatMap((u) => /** @type {any[]} */ (u[name]));
  return whole && updates.length ? {
    ...whole, gpus: all("gpus"), failures: all("failures"), notes: [...new Set(all("notes"))], drivers: [], found: "", host: null,
    timestamp: updates.map((u) => u.timestamp).sort().at(-1),
  } : null;
}

/**
 * @param {string} a
 * @param {string} b
 */
export const byText = (a, b) => (a < b ? -1 : Number(a > b));

/**
 * The name of a GPU for people, or of a machine without one. With several nodes an index alone is ambiguous.
 * @param {{node: string | null, gpu_id?: number}} g
 */
export const gpuName = (g) => (g.gpu_id == null ? clean(g.node ?? "", longestName) : (isFleet ? `${clean(g.node ?? "", longestName)} ` : "") + say("gpu", g.gpu_id));

/**
 * How the address names a GPU.
 * @param {{node: string | null, gpu_id?: number}} g
 */
export const idOf = (g) => (isFleet ? `${g.node}/` : "") + g.gpu_id;
