// @ts-check
// The process table: the twin of views/process.go.

import { absent, between, clean, list, longestCommand, longestName, memory, percent, show, shown } from "./format.js";
import { byId, setAttribute, setHidden, setText, setTexts, setValue, slot, sync } from "./dom.js";
import { listed } from "./cards.js";

/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./message.js").Process} Process */

/**
 * @param {GPU[]} gpus
 * @param {string} now
 */
export function showProcesses(gpus, now) {
  const rows = gpus.flatMap((g) => g.processes.map((p) => ({ g, p })));
  const body = byId("processes");
  sync(body, "t-process", rows, keyOf, (row, { g, p }) => showProcess(row, g, p, now));
  const table = body.closest("table");
  if (table) setHidden(table, rows.length === 0);
  setHidden(byId("no-process"), rows.length > 0);
  const unlisted = gpus.filter((g) => g.state === "ok" && !listed(g)).map((g) => `GPU ${g.gpu_id}`);
  setText(byId("unlisted"), unlisted.length ? `The driver does not list the processes of ${list(unlisted)}.` : "");
}

/** @param {{g: GPU, p: Process}} row */
function keyOf({ g, p }) {
  const key = `${g.node}/${g.gpu_uuid}/${p.pid}`;
  return p.gpu_instance_id == null ? key : `${key}/${p.gpu_instance_id}`;
}

/**
 * @param {HTMLElement} row
 * @param {GPU} g
 * @param {Process} p
 * @param {string} now
 */
function showProcess(row, g, p, now) {
  const q = p.quality ?? {};
  const command = shown(p.command, q.command, longestCommand);
  if (command.mark) command.text = `command ${command.text}`;
  setTexts(row, {
    gpu: p.gpu_instance_id == null ? `${g.gpu_id}` : `${g.gpu_id} · MIG ${p.gpu_instance_id}`,
    pid: `${p.pid}`,
    type: clean(p.type, longestName),
  });
  setValue(slot(row, "name"), shown(p.process_name, q.process_name, longestName));
  setValue(slot(row, "command"), command);
  setValue(slot(row, "user"), shown(p.user, q.user, longestName));
  setValue(slot(row, "memory"), show(p.used_memory_mb, q.used_memory_mb, memory));
  setValue(slot(row, "sm"), show(p.sm_percent, q.sm_percent, percent));
  const running = slot(row, "running");
  if (p.started_at == null) {
    setValue(running, absent(q.started_at));
    setAttribute(running, "datetime", "");
    return;
  }
  const started = p.started_at.slice(0, 19);
  setValue(running, { text: between(p.started_at, now), mark: "", title: `since ${started.replace("T", " ")} UTC` });
  setAttribute(running, "datetime", `${started}Z`);
}
