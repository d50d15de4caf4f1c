// @ts-check
// The machine around the GPUs. views/host.go writes the same in Go.

import { celsius, clean, count, dots, finePercent, hundredth, longestName, memory, part, percent, rate, rpm, say, show, span, watts } from "./format.js";
import { byId, setHidden, setText, setValue } from "./dom.js";
import { placeOf } from "./processes.js";
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
  sync(byId("busiest"), "t-host", (host?.busiest ?? []).map(user), (r) => r.key, showRow);
}

/**
 * @param {HTMLElement} row
 * @param {Row} r
 */
function showRow(row, r) {
  setTexts(row, { label: r.label, note: r.note });
  setValue(slot(row, "value"), r.value);
  setBar(row, r.fill);
  setHidden(/** @type {Element} */ (row.querySelector(".bar")), !r.fill);
}

/**
 * @param {Host} h
 * @returns {Row[]}
 */
function hostRows(h) {
  return [
    row("cpu", say("CPU"), h.cpu_percent, percent, dots(
      h.cpu_cores != null && count("cores", h.cpu_cores), name(h.cpu_model), some(h.cpu_power_watts, watts), h.cpu_throttled && say("slowed"),
    ), 100),
    row("load", say("load"), h.load_1, hundredth, h.load_5 == null || h.load_15 == null ? "" : say("loads", hundredth(h.load_5), hundredth(h.load_15))),
    usage("memory", say("memory"), h.memory_used_mb, h.memory_total_mb),
    h.swap_total_mb === 0 ? row("swap", say("swap"), 0, () => say("none")) : usage("swap", say("swap"), h.swap_used_mb, h.swap_total_mb),
    ...h.fans.map((f) => row(`fan:${f.name}`, name(f.name), f.rpm, rpm)),
    ...h.temperatures.map((t) => row(`temp:${t.name}`, say("temperature", name(t.name)), t.celsius, celsius)),
    ...h.disks.map((d) => usage(
      `disk:${d.device}:${d.mount}`, name(d.mount), d.used_mb, d.total_mb, some(d.read_bytes_per_second, rate, "reads"), some(d.write_bytes_per_second, rate, "writes"),
    )),
    ...h.networks.map((n) => row(`net:${n.name}`, name(n.name), n.received_bytes_per_second, rate, dots(say("in"), some(n.sent_bytes_per_second, rate, "out")))),
    row("self", say("self"), h.self.cpu_percent, finePercent, dots(say("of one core"), some(h.self.memory_mb, memory, "of memory"))),
  ];
}

/** @param {string | null} text */
const name = (text) => clean(text ?? "", longestName);

/**
 * A number in the text of that name, or alone; empty if there is none.
 * @param {number | null} v
 * @param {(v: number) => string} format
 * @param {string} [text]
 */
const some = (v, format, text) => (v == null ? "" : text ? say(text, format(v)) : format(v));

/**
 * @param {string} key
 * @param {string} label
 * @param {number | null} v
 * @param {(v: number) => string} format
 * @param {string} [note]
 * @param {number | null} [limit] that fills the bar
 * @returns {Row}
 */
const row = (key, label, v, format, note = "", limit) => ({ key, label, value: show(v, undefined, format), note, fill: part(v, limit) });

/**
 * @param {string} key
 * @param {string} label
 * @param {number | null} used
 * @param {number | null} total
 * @param {string[]} notes
 */
const usage = (key, label, used, total, ...notes) => row(key, label, used, memory, dots(some(total, memory, "of"), ...notes), total);

/** @param {import("./message.js").HostProcess} p */
const user = (p) => row(String(p.pid), name(p.program || p.process_name || say("someone")), p.cpu_percent, percent, dots(
  say("of one core"), name(p.user), p.process_count > 1 && count("processes", p.process_count), name(placeOf(p)),
));

/** @param {Host} h */
function machine(h) {
  return dots(
    name(h.hostname), name(h.os), name(h.kernel), some(h.uptime_seconds, span, "up"),
  );
}
