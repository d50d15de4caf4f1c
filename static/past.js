// @ts-check
// The last minutes of every GPU: what the server kept, and what arrived since.

import { byText, gpuName } from "./fleet.js";
import { clean, keyOf, longestName } from "./format.js";

/** @typedef {import("./message.js").Update} Update */
/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./message.js").Recent} Recent */
/** @typedef {(number | null)[]} Values */
/** @typedef {{node: string | null, gpu_uuid?: string, gpu_id?: number}} Whose a machine without a GPU has none */
/** @typedef {Whose & {key: string, rank: number, values: Record<string, Values>, limits: Record<string, number | null>}} Series */
/** @typedef {{t: number, key: string, kind: "alert" | "over" | "came" | "went", text: string}} Mark t in seconds, key of the GPU */

/** How long readings are kept, in seconds. */
export const reach = 15 * 60;

/** @type {Record<string, (g: GPU) => number | null>} */
const readings = {
  utilization_percent: (g) => g.utilization.gpu_percent,
  memory_percent: (g) => g.memory.utilization_percent,
  temperature_celsius: (g) => g.temperature.current_celsius,
  power_watts: (g) => g.power.power_draw_watts,
  fan_percent: (g) => g.fan_speed_percent,
  sm_clock_mhz: (g) => g.clocks.sm_clock_mhz,
  memory_bandwidth_percent: (g) => g.activity?.memory_bandwidth_percent ?? null,
};

/**
 * The limits of the readings.
 * @param {GPU} g
 */
function limits({ temperature: t, power, clocks }) {
  const margin = t.current_celsius != null && t.margin_celsius != null ? t.current_celsius + t.margin_celsius : null;
  return {
    temperature_celsius: t.slowdown_threshold_celsius ?? margin,
    power_watts: power.power_limit_watts,
    sm_clock_mhz: clocks.max_sm_clock_mhz,
  };
}

/** Those of a GPU, and of a machine without one where they have charts. */
const metrics = [...new Set([...Object.keys(readings), ...[...document.querySelectorAll(".chart")].map((el) => /** @type {HTMLElement} */ (el).dataset.metric ?? "")])];

export class Past {
  /** @type {number[]} seconds since 1970 */
  times = [];
  /** @type {Map<string, Series>} */
  series = new Map();
  /** @type {Mark[]} in the order in which they were seen */
  marks = [];
  /** @type {Map<string, {g: string, text: string}> | undefined} processes of the newest update */
  #running;
  /** @type {Map<string, Series["limits"]>} of the newest update, by GPU */
  #limits = new Map();
  /** @type {Set<number>} times that stand for none, and break the lines */
  #breaks = new Set();

  /** @param {number} gap a line is broken after this many seconds without a reading */
  constructor(gap) {
    this.gap = gap;
  }

  /**
   * Takes what the server kept. Where it kept nothing, as before its start, the
   * page's own readings stay.
   * @param {Recent} recent
   */
  replace(recent) {
    const { times, series } = this;
    const breaks = this.#breaks;
    this.times = [];
    this.series = new Map();
    this.#breaks = new Set();
    const start = Date.parse(recent.start) / 1000;
    const kept = recent.offsets_seconds.map((offset) => start + offset);
    let own = 0;
    /** @param {number} from @param {number} to exclusive */
    const fill = (from, to) => {
      for (; times[own] < to; own += 1) {
        if (times[own] <= from || breaks.has(times[own])) continue;
        this.#moment(times[own]);
        for (const s of series.values()) this.#put(s, (metric) => s.values[metric][own]);
      }
    };
    kept.forEach((t, i) => {
      const before = kept[i - 1] ?? 0;
      fill(t - before > this.gap ? before : t, t);
      this.#moment(t);
      for (const g of [...recent.gpus, ...(recent.machines ?? [])]) {
        this.#put(g, (metric) => g.values[metric]?.[i] ?? null);
      }
    });
    fill(kept.at(-1) ?? 0, Infinity);
  }

  /** @param {Update} u */
  add(u) {
    const t = Date.parse(u.timestamp) / 1000;
    for (const g of u.gpus) Object.assign(this.#limitsOf(keyOf(g)), limits(g));
    if (t <= (this.times.at(-1) ?? 0)) return;
    this.#moment(t);
    for (const g of u.gpus) {
      this.#put(g, (metric) => readings[metric]?.(g) ?? null);
    }
    if (u.host?.kept) this.#put(u, (metric) => u.host?.kept?.[metric] ?? null);
    this.#compare(u.gpus, t);
  }

  /**
   * Marks the processes that began and ended. In the first update these are the
   * processes with a known start.
   * @param {GPU[]} gpus
   * @param {number} t
   */
  #compare(gpus, t) {
    /** @type {Map<string, {g: string, text: string}>} */
    const running = new Map();
    for (const g of gpus) {
      const gKey = keyOf(g);
      for (const p of g.processes) {
        const key = `${gKey}/${p.pid}`;
        const text = `${clean(p.program || p.process_name, longestName) || "a process"} (pid ${p.pid}${p.user ? `, ${clean(p.user, longestName)}` : ""}) on ${gpuName(g)}`;
        running.set(key, { g: gKey, text });
        if (this.#running?.has(key)) continue;
        const began = p.started_at ? Date.parse(p.started_at) / 1000 : this.#running ? t : 0;
        if (began > t - reach) this.mark({ t: this.#running ? Math.max(began, t - 60) : began, key: gKey, kind: "came", text: `came: ${text}` });
      }
    }
    for (const [key, { g, text }] of this.#running ?? []) {
      if (!running.has(key)) this.mark({ t, key: g, kind: "went", text: `went: ${text}` });
    }
    this.#running = running;
  }

  /** @param {Mark} mark */
  mark(mark) {
    this.marks = [...this.marks.slice(-200), mark].filter((m) => m.t > (this.times.at(-1) ?? 0) - reach);
  }

  /**
   * The path of a line, 60 wide and 100 high, with the highest utilization of a GPU
   * in each quarter of a minute. The line is broken where there was no reading.
   * @param {string} key
   */
  trend(key) {
    const last = this.times.at(-1) ?? 0;
    /** @type {{pen: string, x: number, v: number}[]} */
    const points = [];
    let pen = "M";
    this.series.get(key)?.values.utilization_percent.forEach((v, i) => {
      if (v !== null) {
        const x = Math.floor((60 * (this.times[i] - last + reach)) / (reach + 1));
        const before = points.at(-1);
        if (before?.x === x) before.v = Math.max(before.v, v);
        else points.push({ pen, x, v });
      }
      pen = v === null ? "M" : "L";
    });
    return points.map((p) => `${p.pen}${p.x} ${100 - Math.round(p.v)}`).join("");
  }

  /** Series by node and index. */
  ordered() {
    return [...this.series.values()].sort((a, b) => byText(a.node ?? "", b.node ?? "") || Number(a.gpu_id) - Number(b.gpu_id));
  }

  /** @param {string} key */
  #limitsOf(key) {
    const known = this.#limits.get(key) ?? {};
    this.#limits.set(key, known);
    return known;
  }

  /** @param {number} t */
  #moment(t) {
    const last = this.times.at(-1);
    if (last !== undefined && t - last > this.gap) {
      this.#breaks.add((last + t) / 2);
      this.#push((last + t) / 2);
    }
    this.#push(t);
    let old = 0;
    while (this.times[old] < t - reach) old += 1;
    if (old > 0) this.#forget(old);
  }

  /** @param {number} t */
  #push(t) {
    this.times.push(t);
    for (const s of this.series.values()) for (const m of metrics) s.values[m].push(null);
  }

  /** @param {number} n */
  #forget(n) {
    this.times.splice(0, n);
    for (const s of this.series.values()) {
      for (const m of metrics) s.values[m].splice(0, n);
      if (metrics.every((m) => s.values[m].every((v) => v === null))) this.series.delete(s.key);
    }
  }

  /**
   * @param {Whose} g
   * @param {(metric: string) => number | null} value
   */
  #put(g, value) {
    const key = keyOf(g);
    let s = this.series.get(key);
    if (!s) {
      s = { key, node: g.node, gpu_uuid: g.gpu_uuid, gpu_id: g.gpu_id, rank: 0, values: {}, limits: this.#limitsOf(key) };
      for (const m of metrics) s.values[m] = this.times.map(() => null);
      this.series.set(key, s);
    }
    s.gpu_id = g.gpu_id;
    for (const m of metrics) s.values[m][this.times.length - 1] = value(m);
  }
}
