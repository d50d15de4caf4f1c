// @ts-check
// The last minutes of every GPU: what the server kept, and what came since.

/** @typedef {import("./message.js").Update} Update */
/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./message.js").Recent} Recent */
/** @typedef {(number | null)[]} Values */
/** @typedef {{key: string, index: number, values: Record<string, Values>}} Series */

/** Seconds that are kept. */
export const reach = 15 * 60;

/** @type {Record<string, (g: GPU) => number | null>} */
const readings = {
  utilization_percent: (g) => g.utilization.gpu_percent,
  memory_percent: (g) => g.memory.utilization_percent,
  temperature_celsius: (g) => g.temperature.current_celsius,
  power_watts: (g) => g.power.power_draw_watts,
  fan_percent: (g) => g.fan_speed_percent,
};

const metrics = Object.keys(readings);

export class Past {
  /** @type {number[]} seconds since 1970 */
  times = [];
  /** @type {Map<string, Series>} */
  series = new Map();

  /** @param {number} gap seconds without a reading from which a line is broken */
  constructor(gap) {
    this.gap = gap;
  }

  /**
   * Starts again from what the server kept; what is newer stays.
   * @param {Recent} recent
   */
  replace(recent) {
    const { times, series } = this;
    this.times = [];
    this.series = new Map();
    const start = Date.parse(recent.start) / 1000;
    recent.offsets_seconds.forEach((offset, i) => {
      this.#moment(start + offset);
      for (const g of recent.gpus) {
        this.#put(`${g.node}/${g.gpu_uuid}`, g.gpu_id, (metric) => g.values[metric]?.[i] ?? null);
      }
    });
    const newest = this.times.at(-1) ?? 0;
    times.forEach((t, i) => {
      if (t <= newest) return;
      this.#moment(t);
      for (const s of series.values()) this.#put(s.key, s.index, (metric) => s.values[metric][i]);
    });
  }

  /** @param {Update} u */
  add(u) {
    const t = Date.parse(u.timestamp) / 1000;
    if (t <= (this.times.at(-1) ?? 0)) return;
    this.#moment(t);
    for (const g of u.gpus) {
      this.#put(`${g.node}/${g.gpu_uuid}`, g.gpu_id, (metric) => readings[metric](g));
    }
  }

  /** Series in the order of their devices. */
  ordered() {
    return [...this.series.values()].sort((a, b) => a.index - b.index);
  }

  /** @param {number} t */
  #moment(t) {
    const last = this.times.at(-1);
    if (last !== undefined && t - last > this.gap) this.#push((last + t) / 2);
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
   * @param {string} key
   * @param {number} index
   * @param {(metric: string) => number | null} value
   */
  #put(key, index, value) {
    let s = this.series.get(key);
    if (!s) {
      s = { key, index, values: {} };
      for (const m of metrics) s.values[m] = this.times.map(() => null);
      this.series.set(key, s);
    }
    s.index = index;
    for (const m of metrics) s.values[m][this.times.length - 1] = value(m);
  }
}
