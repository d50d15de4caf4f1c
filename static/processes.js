// @ts-check
// The table of processes, sorted, filtered and grouped as a person chose, and the
// dialog with the details of one. views/process.go writes the same in Go.

import {
  absent, between, clean, count, dots, keyOf, list, longestCommand, longestName, memory, percent, programOf, say, show, shown, watts,
} from "./format.js";
import { moment } from "./moments.js";
import { byId, setAttribute, setHidden, setText, setValue } from "./dom.js";
import { setTexts, slot, sync } from "./rows.js";
import { listed } from "./cards.js";
import { valueFor } from "./facts.js";
import { gpuName, idOf, isFleet } from "./fleet.js";
import { choose, chosen } from "./state.js";

/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./message.js").Process} Process */
/** @typedef {{key: string, i: number, g: GPU, p: Process}} Row i counts the GPUs */
/** @typedef {{key: string, user: string, sum: string}} Group */

/** Numbers in names count as numbers. */
const byName = new Intl.Collator("en", { numeric: true }).compare;

/** The most rows in the table. */
const most = 200;

const body = byId("processes");
const details = /** @type {HTMLDialogElement} */ (byId("process"));
const search = /** @type {HTMLInputElement} */ (byId("by-text"));
const grouped = /** @type {HTMLInputElement} */ (byId("by-group"));
const selects = /** @type {Record<string, HTMLSelectElement>} */ (
  Object.fromEntries(["gpu", "user", "place"].map((name) => [name, byId(`by-${name}`)])));

/** The most memory that the page has seen each process hold. */
/** @type {Map<string, number>} */
let peaks = new Map();

/** @type {GPU[]} */
let newest = [];
let now = "";

search.value = chosen("q");
grouped.checked = chosen("group") === "user";
search.oninput = () => change("q", search.value.trim());
grouped.onchange = () => change("group", grouped.checked ? "user" : "");
for (const name in selects) selects[name].onchange = () => change(name, selects[name].value);
byId("show-all").onclick = () => {
  search.value = "";
  for (const name of ["q", "gpu", "user", "place"]) choose(name, "");
  draw();
  search.focus();
};
const heads = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#processes-title, [data-sort]"));
for (const head of heads) {
  const key = head.dataset.sort;
  if (!key) continue;
  const first = ["gpu", "name", "user", "type", "place"].includes(key) ? key : `-${key}`;
  const second = first === key ? `-${key}` : key;
  head.onclick = () => change("sort", chosen("sort") === first ? second : chosen("sort") === second ? "" : first);
}
body.onclick = (/** @type {MouseEvent} */ e) => {
  const row = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (e.target).closest("tr[data-key]"));
  if (!row || row.className || getSelection()?.toString()) return;
  choose("process", row.dataset.key ?? "");
  showDetails();
};
byId("process-close").onclick = () => details.close();
details.onclose = () => choose("process", "");

/**
 * @param {string} name
 * @param {string} value
 */
function change(name, value) {
  choose(name, value);
  draw();
}

/**
 * @param {GPU[]} gpus
 * @param {string} time
 */
export function showProcesses(gpus, time) {
  newest = gpus;
  now = time;
  draw();
}

function draw() {
  const all = newest.flatMap((g, i) => g.processes.map((p) => ({ key: rowKey(g, p), i, g, p })));
  peaks = new Map(all.map(({ key, p }) => [key, Math.max(peaks.get(key) ?? 0, p.used_memory_mb ?? 0)]));
  showChoices(all);
  const rows = sorted(all.filter(wanted));
  const shownRows = rows.slice(0, most);
  sync(body, (item) => ("p" in item ? "t-process" : "t-group"), chosen("group") ? byUser(shownRows) : shownRows, (item) => item.key, showItem);
  const table = body.closest("table");
  if (table) setHidden(table, all.length === 0);
  setHidden(byId("no-process"), all.length > 0);
  setText(byId("process-count"), rows.length > most
    ? say("first processes", most, rows.length)
    : rows.length < all.length ? `${rows.length} ${say("of", count("processes", all.length))}` : "");
  setHidden(byId("show-all"), rows.length === all.length);
  const answering = newest.filter((g) => g.state === "ok");
  const of = (/** @type {string} */ text, /** @type {(g: GPU) => unknown} */ is) => {
    const gpus = answering.filter(is).map(gpuName);
    return gpus.length ? [say(text, list(gpus))] : [];
  };
  setText(byId("unlisted"), [...of("not listed", (g) => !listed(g)), ...of("others hidden", (g) => g.processes_partial)].join(" "));
  showDetails();
}

/**
 * @param {GPU} g
 * @param {Process} p
 */
function rowKey(g, p) {
  const key = `${keyOf(g)}/${p.pid}`;
  return p.gpu_instance_id == null ? key : `${key}/${p.gpu_instance_id}`;
}

/**
 * The pod, container, job or unit of a process; empty if it has none, or if that is
 * not known.
 * @param {Pick<Process, "pod" | "container" | "slurm_job" | "unit">} p
 */
export function placeOf({ pod, container, slurm_job: job, unit }) {
  if (pod?.uid) return say("pod", pod.name || pod.uid);
  if (container?.id) return say("container", container.name || Array.from(container.id).slice(0, 12).join(""));
  return job?.id ? say("job", job.id) : unit?.name ?? "";
}

/** @param {Row} row */
function wanted({ g, p }) {
  const text = chosen("q").toLowerCase();
  return (!chosen("gpu") || idOf(g) === chosen("gpu"))
    && (!chosen("user") || (p.user ?? "") === chosen("user"))
    && (!chosen("place") || placeOf(p) === chosen("place"))
    && (!text || [p.program, p.process_name, p.command, p.pid, placeOf(p)].some((v) => String(v ?? "").toLowerCase().includes(text)));
}

/**
 * Shows the choices of each filter. A filter without a choice is hidden.
 * @param {Row[]} rows
 */
function showChoices(rows) {
  const of = {
    gpu: rows.map(({ g }) => idOf(g)),
    user: rows.map(({ p }) => p.user ?? ""),
    place: rows.map(({ p }) => placeOf(p)),
  };
  for (const [name, values] of Object.entries(of)) {
    const select = selects[name];
    const choices = ["", ...[...new Set([...values, chosen(name)])].filter(Boolean).sort(byName)];
    if (choices.length !== select.length || choices.some((v, i) => select.options[i].value !== v)) {
      const label = name === "gpu" && !isFleet ? "GPU " : "";
      select.replaceChildren(select.options[0], ...choices.slice(1).map((v) => new Option(label + clean(v, longestName), v)));
    }
    if (select.value !== chosen(name)) select.value = chosen(name);
    setHidden(select, choices.length < 3 && !chosen(name));
  }
}

/** @type {Record<string, (row: Row) => string>} */
const texts = { name: ({ p }) => p.program || p.process_name, user: ({ p }) => p.user ?? "", type: ({ p }) => p.type, place: ({ p }) => placeOf(p) };

/** @type {Record<string, (row: Row) => number | null>} */
const figures = {
  gpu: ({ i }) => i,
  pid: ({ p }) => p.pid,
  memory: ({ p }) => p.used_memory_mb,
  sm: ({ p }) => p.sm_percent,
  power: ({ p }) => p.power_watts,
  running: ({ p }) => (p.started_at ? -Date.parse(p.started_at) : null),
};

/**
 * Sorts the rows as a person chose. Rows without a value come last.
 * @param {Row[]} rows
 */
function sorted(rows) {
  const down = chosen("sort").startsWith("-");
  const key = chosen("sort").replace("-", "");
  for (const head of heads) {
    setAttribute(head.closest("th") ?? head, "aria-sort", head.dataset.sort === key && key ? (down ? "descending" : "ascending") : "");
  }
  const sign = down ? -1 : 1;
  const text = texts[key];
  const figure = figures[key];
  if (text) rows.sort((a, b) => Number(!text(a)) - Number(!text(b)) || sign * byName(text(a), text(b)));
  if (figure) {
    rows.sort((a, b) => {
      const [x, y] = [figure(a), figure(b)];
      return x == null || y == null ? Number(x == null) - Number(y == null) : sign * (x - y);
    });
  }
  return rows;
}

/**
 * @param {Row[]} rows
 * @returns {(Row | Group)[]}
 */
function byUser(rows) {
  const groups = Map.groupBy(rows, ({ p }) => p.user ?? "");
  return [...groups].flatMap(([user, of]) => {
    const held = of.map(({ p }) => p.used_memory_mb).filter((v) => v != null);
    const sum = dots(count("processes", of.length), held.length > 0 && memory(held.reduce((a, b) => a + b)),
      count("GPUs", new Set(of.map(({ g }) => g.gpu_uuid)).size));
    return [{ key: `user ${user}`, user: clean(user, longestName) || say("not_reported"), sum }, ...of];
  });
}

/**
 * @param {HTMLElement} row
 * @param {Row | Group} item
 */
function showItem(row, item) {
  if ("p" in item) showProcess(row, item);
  else setTexts(row, { user: item.user, sum: item.sum });
}

/**
 * @param {HTMLElement} row
 * @param {Row} of
 */
function showProcess(row, { g, p }) {
  const q = p.quality ?? {};
  const command = shown(p.command, q.command, longestCommand);
  if (command.mark) command.text = say("command", command.text);
  const gpu = isFleet ? `${clean(g.node, longestName)}/${g.gpu_id}` : `${g.gpu_id}`;
  setTexts(row, {
    gpu: p.gpu_instance_id == null ? gpu : say("MIG", gpu, p.gpu_instance_id),
    pid: `${p.pid}`,
    type: clean(p.type, longestName),
  });
  setValue(slot(row, "name"), programOf(p));
  setValue(slot(row, "command"), command);
  setValue(slot(row, "user"), shown(p.user, q.user, longestName));
  setValue(slot(row, "memory"), show(p.used_memory_mb, q.used_memory_mb, memory));
  setValue(slot(row, "sm"), show(p.sm_percent, q.sm_percent, percent));
  setValue(slot(row, "power"), show(p.power_watts, q.power_watts, watts));
  setValue(slot(row, "place"), shown(placeOf(p) || (p.unit ? say("none") : ""), q.unit, longestName));
  const running = slot(row, "running");
  if (p.started_at == null) {
    setValue(running, absent(q.started_at));
    setAttribute(running, "datetime", "");
    return;
  }
  setValue(running, { text: between(p.started_at, now), mark: "", title: say("since", moment(p.started_at)) });
  setAttribute(running, "datetime", `${p.started_at.slice(0, 19)}Z`);
}

/** Shows the details of the chosen process, or that it has ended. */
function showDetails() {
  const key = chosen("process");
  if (!key || newest.length === 0) return;
  const g = newest.find((of) => key.startsWith(`${of.node}/${of.gpu_uuid}/`));
  const p = g?.processes.find((of) => rowKey(g, of) === key);
  const facts = /** @type {HTMLElement} */ (details.querySelector("dl"));
  if (!g || !p) {
    if (!byId("process-title").textContent) { // a link to a process that has ended
      setText(byId("process-title"), `Process ${clean(key.split("/")[2] ?? "", longestName)}`);
      facts.hidden = true;
    }
    setText(byId("process-state"), `It is no longer on this GPU. ${facts.hidden ? "Nothing else is known of it." : "What is shown is what was last known."}`);
  } else {
    facts.hidden = false;
    const name = programOf(p);
    setText(byId("process-title"), name.mark ? `Process ${p.pid}` : name.text);
    setText(byId("process-state"), dots(gpuName(g), clean(g.gpu_name, longestName), p.started_at && `running for ${between(p.started_at, now)}`));
    for (const el of /** @type {NodeListOf<HTMLElement>} */ (details.querySelectorAll("[data-path]"))) {
      const value = valueFor(el, { ...p, peak_mb: peaks.get(key) || null, slurm_job: p.slurm_job?.id ? p.slurm_job : null }, p.quality);
      setValue(el, value);
      const row = /** @type {HTMLElement} */ (el.parentElement);
      setHidden(row, "optional" in row.dataset && value.mark === "absent");
    }
  }
  if (!details.open) details.showModal();
}
