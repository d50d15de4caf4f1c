// @ts-check
// The machine around the GPUs. views/host.go writes the same in Go.

import {
  clean, count, dots, finePercent, hundredth, longestName, memory, part, percent, plain, rate, say, show, span,
} from "./format.js";
import { byId, setHidden, setText, setValue } from "./dom.js";
import { setBar, setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./message.js").Host} Host */
/** @typedef {import("./format.js").Value} Value */
/** @typedef {{key: string, label: string, value: Value, note: string, fill: string}} Row */

/** @param {Host | null} host */
export function showHost(host) {
  if (!document.getElementById("host")) return; // a GPU's own page
  setHidden(byId("host"), host == null);
  setText(byId("machine"), host ? machine(host) : "");
  sync(byId("host-rows"), "t-host", host ? hostRows(host) : [], (r) => r.key, showRow);
}

/**
 * @param {HTMLElement} row
 * @param {Row} r
 */
function showRow(row, r) {
  setTexts(row, { label: r.label, note: r.note });
  setValue(slot(row, "value"), r.value);
  setBar(row, r.fill);
  const bar = row.querySelector(".bar");
  if (bar) setHidden(bar, r.fill === "");
}

/**
 * @param {Host} h
 * @returns {Row[]}
 */
function hostRows(h) {
  return [
    {
      key: "cpu", label: say("CPU"), value: show(h.cpu_percent, undefined, percent), fill: part(h.cpu_percent, 100),
      note: dots(h.cpu_cores != null && count("cores", h.cpu_cores), clean(h.cpu_model ?? "", longestName)),
    },
    {
      key: "load", label: say("load"), value: show(h.load_1, undefined, hundredth), fill: "",
      note: h.load_5 == null || h.load_15 == null ? ""
        : say("loads", hundredth(h.load_5), hundredth(h.load_15)),
    },
    usage("memory", say("memory"), h.memory_used_mb, h.memory_total_mb),
    h.swap_total_mb === 0
      ? { key: "swap", label: say("swap"), value: plain(say("none")), note: "", fill: "" }
      : usage("swap", say("swap"), h.swap_used_mb, h.swap_total_mb),
    ...h.disks.map(disk),
    ...h.networks.map(network),
    {
      key: "self", label: say("self"), value: show(h.self.cpu_percent, undefined, finePercent), fill: "",
      note: dots(say("of one core"), h.self.memory_mb != null && say("of memory", memory(h.self.memory_mb))),
    },
  ];
}

/**
 * @param {string} key
 * @param {string} label
 * @param {number | null} used
 * @param {number | null} total
 * @returns {Row}
 */
function usage(key, label, used, total) {
  return {
    key, label, value: show(used, undefined, memory), fill: part(used, total),
    note: total == null ? "" : say("of", memory(total)),
  };
}

/** @param {import("./message.js").Disk} d */
function disk(d) {
  const row = usage(`disk:${d.device}:${d.mount}`, clean(d.mount, longestName), d.used_mb, d.total_mb);
  row.note = dots(
    row.note,
    d.read_bytes_per_second != null && say("reads", rate(d.read_bytes_per_second)),
    d.write_bytes_per_second != null && say("writes", rate(d.write_bytes_per_second)),
  );
  return row;
}

/**
 * @param {import("./message.js").Network} n
 * @returns {Row}
 */
function network(n) {
  return {
    key: `net:${n.name}`, label: clean(n.name, longestName), fill: "",
    value: show(n.received_bytes_per_second, undefined, rate),
    note: dots(say("in"), n.sent_bytes_per_second != null && say("out", rate(n.sent_bytes_per_second))),
  };
}

/** @param {Host} h */
function machine(h) {
  return dots(
    clean(h.hostname, longestName), clean(h.os, longestName), clean(h.kernel, longestName),
    h.uptime_seconds != null && say("up", span(h.uptime_seconds)),
  );
}
