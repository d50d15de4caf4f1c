// @ts-check
// One tile for each GPU. views/tile.go writes the same in Go.

import {
  absent, between, celsius, clean, count, dots, keyOf, list, longestName,
  megahertz, memory, missing, part, percent, plain, programOf, rpm, say, sentence, show, watts,
} from "./format.js";
import { gpuName } from "./fleet.js";
import { byId, setAttribute, setHidden, setText, setValue } from "./dom.js";
import { setBar, setTexts, slot, sync } from "./rows.js";

/** @typedef {import("./format.js").Value} Value */
/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./message.js").Process} Process */
/** @typedef {{key: string, value: Value, limit: string, fill: string, level: string}} Meter */

/**
 * @param {import("./message.js").Update} update
 */
export function showCards({ gpus, timestamp, causes }) {
  const cards = byId("cards");
  const lead = gpus.length > 1 ? causes.find((c) => c.gpu_uuid) : undefined;
  const answer = lead && !lead.id.startsWith("idle:") ? keyOf(/** @type {GPU} */ (lead)) : "";
  const seen = standingOut(gpus);
  setAttribute(cards, "data-density", density(gpus.length));
  setText(byId("card-count"), seen.length === gpus.length ? ""
    : say("stand out", seen.length, gpus.length));
  sync(cards, "t-card", seen, keyOf, (row, g) => {
    row.toggleAttribute("data-answer", keyOf(g) === answer);
    showCard(row, g, timestamp);
  });
}

/**
 * The address of a GPU's own page.
 * @param {GPU} g
 */
export const pageOf = (g) => `${document.body.dataset.base}gpu/${encodeURIComponent(g.gpu_uuid).replaceAll("%3A", ":")}`;

/** The most GPUs that each have a card. */
export const mostCards = 128;

/** @param {number} devices */
function density(devices) {
  if (devices <= 2) return "roomy";
  if (devices <= 16) return "compact";
  return devices <= mostCards ? "dense" : "wall";
}

/**
 * The GPUs that have cards: all, or of very many the few that stand out.
 * @param {GPU[]} gpus
 */
export function standingOut(gpus) {
  if (gpus.length <= mostCards) return gpus;
  const rank = (/** @type {GPU} */ g) => (isAway(g) ? 1000 : heat(g));
  return gpus.map((g) => ({ g, r: rank(g) })).sort((a, b) => (a.r === b.r ? 0 : b.r - a.r)).slice(0, 24).map(({ g }) => g);
}

/** @param {GPU} g */
const isAway = (g) => g.state === "lost" || g.state === "not_answering";

/** @param {GPU} g */
const heat = (g) => Number(g.temperature.current_celsius ?? -Infinity) - (heatLimit(g) ?? Infinity);

/** @param {GPU} g */
function heatLimit({ temperature: { current_celsius: now, slowdown_threshold_celsius: slowdown, margin_celsius: margin } }) {
  return slowdown ?? (now != null && margin != null ? now + margin : null);
}

/**
 * @param {HTMLElement} row
 * @param {GPU} g
 * @param {string} now
 */
function showCard(row, g, now) {
  const answers = g.state === "ok";
  const [state, stateText] = cardState(g);
  const before = row.dataset.state ?? "";
  if (before && before !== state && (say(`do ${before}`) || say(`do ${state}`))) setText(byId("said"), `${gpuName(g)} is ${stateText}`);
  setAttribute(row, "data-state", state);
  const [who, detail] = answers ? whoWorks(g) : [plain(""), ""];
  setTexts(row, {
    title: gpuName(g),
    name: clean(g.gpu_name, longestName),
    state: stateText,
    noticeTitle: answers ? "" : say("for", between(g.state_since, now)),
    notice: sentence(g.state_reason) || (answers ? soon(g.next ?? []) : say(`do ${g.state}`)),
    held: answers ? held(g.clock_event_reasons ?? []) : "",
    detail,
    speed: answers ? speed(g) : "",
    bus: answers ? bus(g) : "",
  });
  setAttribute(slot(row, "title"), "href", pageOf(g));
  setValue(slot(row, "who"), who);
  for (const part of row.querySelectorAll(".meters, .by")) setHidden(part, !answers);
  for (const meter of meters(g)) showMeter(row, meter);
}

/**
 * The state of a GPU that does not answer, as part of a sentence.
 * @param {GPU} g
 */
export const awayText = (g) => say(`state ${g.state}`);

/**
 * @param {GPU} g
 * @returns {[string, string]}
 */
export function cardState(g) {
  const util = g.utilization.gpu_percent;
  const state = g.state !== "ok" ? g.state : util == null ? "on" : util >= Number(say("busy from")) ? "busy" : "idle";
  return [state, say(`state ${state}`)];
}

/**
 * @param {HTMLElement} row
 * @param {Meter} m
 */
function showMeter(row, m) {
  const meter = row.querySelector(`[data-meter="${m.key}"]`);
  if (!meter) return;
  const [label, bar, value, limit] = meter.children;
  setAttribute(meter, "data-level", m.level);
  setValue(value, m.value);
  setText(limit, m.limit);
  setBar(meter, m.fill);
  const known = m.fill !== "";
  setAttribute(bar, "aria-hidden", known ? "" : "true");
  setAttribute(bar, "role", known ? "meter" : "");
  setAttribute(bar, "aria-label", known ? label.textContent ?? "" : "");
  setAttribute(bar, "aria-valuenow", m.fill);
  setAttribute(bar, "aria-valuetext", known ? m.value.text + (m.limit && `, ${m.limit}`) : "");
}

/**
 * @param {GPU} g
 * @returns {Meter[]}
 */
export function meters(g) {
  const { power, quality } = g;
  return [
    utilizationMeter(g),
    memoryMeter(g),
    temperatureMeter(g),
    usageMeter("power", power.power_draw_watts, power.power_limit_watts, quality["power.power_draw_watts"], watts),
    fanMeter(g),
  ];
}

/** @param {GPU} g */
function utilizationMeter(g) {
  const util = g.utilization.gpu_percent;
  return {
    key: "utilization", limit: "", level: "", fill: part(util, 100),
    value: show(util, g.quality["utilization.gpu_percent"], percent),
  };
}

/**
 * The meter of a value that is near its limit from 95 % on.
 * @param {string} key
 * @param {number | null} used
 * @param {number | null} limit
 * @param {string} quality
 * @param {(v: number) => string} format
 */
function usageMeter(key, used, limit, quality, format) {
  const fill = part(used, limit);
  return {
    key, fill, level: fill && Number(used) >= 0.95 * Number(limit) ? "near" : "",
    value: show(used, quality, format),
    limit: limit == null ? "" : say("of", format(limit)),
  };
}

/**
 * The meter of the memory: of a GPU without its own that of the machine's, which is never near a limit.
 * @param {GPU} g
 */
function memoryMeter({ memory: own, shared_memory: shared, quality }) {
  if (!shared.unified) return usageMeter("memory", own.used_mb, own.total_mb, quality["memory.used_mb"], memory);
  const meter = { key: "memory", fill: "", level: "", value: missing("unified"), limit: "" };
  if (shared.used_mb != null) {
    meter.value = show((own.used_mb ?? 0) + shared.used_mb, quality["shared_memory.used_mb"], memory);
    meter.limit = say("of the machine");
  }
  return meter;
}

/** @param {GPU} g */
export function temperatureMeter(g) {
  const now = g.temperature.current_celsius;
  const limit = heatLimit(g);
  return {
    key: "temperature", fill: part(now, limit ?? 100),
    level: now == null || limit == null ? "" : level(now - limit, -10, -3),
    value: show(now, g.quality["temperature.current_celsius"], celsius),
    limit: limit == null ? "" : say("slows at", celsius(limit)),
  };
}

/**
 * @param {number} v
 * @param {number} near
 * @param {number} top
 */
function level(v, near, top) {
  if (v >= top) return "over";
  return v >= near ? "near" : "";
}

/** @param {GPU} g */
function fanMeter(g) {
  const speed = g.fan_speed_percent;
  const quality = g.quality.fan_speed_percent;
  const meter = { key: "fan", fill: part(speed, 100), level: "", value: show(speed, quality, percent), limit: "" };
  if (g.fans.length === 0 && speed == null && quality === "not_supported") {
    meter.value = missing("no fan");
    return meter;
  }
  const turns = g.fans.map((f) => f.rpm).filter((v) => v != null);
  const notes = turns.length ? [rpm(Math.max(0, ...turns))] : [];
  if (g.fans.some((f) => f.policy === "manual")) notes.push(say("by hand"));
  meter.limit = notes.join(", ");
  if (speed != null) meter.level = level(speed, 80, 100);
  return meter;
}

/**
 * The process that explains the GPU's work best, and details about it.
 * @param {GPU} g
 * @returns {[Value, string]}
 */
export function whoWorks(g) {
  if (!listed(g)) {
    const why = absent(g.quality.processes);
    return [{ ...why, text: say("unlisted", why.text) }, ""];
  }
  if (g.processes.length === 0) {
    return [missing(g.processes_partial ? "no process seen" : "no process"), ""];
  }
  const p = g.processes.reduce((best, q) => (busier(q, best) < 0 ? q : best));
  const others = g.processes.length - 1;
  const name = programOf(p);
  const who = name.mark ? missing("someone") : name;
  return [who, dots(
    clean(p.user ?? "", longestName),
    say("pid", p.pid),
    p.used_memory_mb != null && memory(p.used_memory_mb),
    others > 0 && count("more processes", others),
  )];
}

/**
 * Whether the driver lists the processes.
 * @param {GPU} g
 */
export const listed = (g) => g.quality.processes === undefined || g.quality.processes === "doubtful";

/**
 * @param {Process} a
 * @param {Process} b
 */
function busier(a, b) {
  return share(b) - share(a) || drawsOnly(a) - drawsOnly(b)
    || (b.used_memory_mb ?? 0) - (a.used_memory_mb ?? 0) || a.pid - b.pid;
}

/** @param {Process} p */
const share = (p) => Math.max(p.sm_percent ?? 0, p.encoder_percent ?? 0, p.decoder_percent ?? 0, p.video_percent ?? 0);

/** @param {Process} p */
const drawsOnly = (p) => (share(p) <= 0 && p.type === "graphics" ? 1 : 0);

/** @param {GPU} g */
function speed(g) {
  const clock = g.clocks.sm_clock_mhz ?? g.clocks.graphics_clock_mhz;
  return dots(
    g.performance_state,
    clock != null && megahertz(clock),
    g.instances.length > 0 && count(g.vendor === "nvidia" ? "MIG instances" : "partitions", g.instances.length),
    ...["encoder", "decoder", "video"].map((engine) => {
      const v = /** @type {any} */ (g.utilization)[`${engine}_percent`];
      return v > 0 && say(engine, percent(v));
    }),
  );
}

/** @param {GPU} g */
function bus({ clocks: { memory_clock_mhz: clock }, pcie: { generation, width } }) {
  return dots(clock != null && say("memory at", megahertz(clock)), generation != null && width != null && say("pcie", generation, width));
}

/**
 * What comes first of what has a time.
 * @param {NonNullable<GPU["next"]>} next
 */
const soon = (next) => next.find((p) => p.left_seconds != null)?.text ?? "";

/**
 * The clock event reasons that slow the work down.
 * @param {string[]} reasons
 */
const held = (reasons) => list([...new Set(reasons.map((name) => say(`held ${name}`)).filter(Boolean))]);
