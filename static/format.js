// @ts-check
// Texts for values. views/format.go and views/value.go write the same text for the
// same value.

import { words } from "./words.js";

/** @typedef {{text: string, mark: string, title: string}} Value */
/** @typedef {number | null | undefined} Measured null or undefined: there is none */

/**
 * Rounds half to even.
 * @param {number} v
 * @param {number} [digits]
 */
export function decimals(v, digits = 0) {
  const scale = 10 ** digits;
  const scaled = v * scale;
  let r = Math.round(scaled);
  if (Math.abs(scaled % 1) === 0.5 && r % 2 !== 0) r -= 1;
  return (r / scale + 0).toFixed(digits);
}

/**
 * Makes a function that writes a number with the first unit that is large enough.
 * @param {number} most the number from which the next unit is taken
 * @param {number} step from one unit to the next
 * @param {[string, number?][]} units each with its decimals
 */
const inUnits = (most, step, ...units) => (/** @type {number} */ v) => {
  let i = 0;
  while (units[i + 1] && v >= most * step ** i) i += 1;
  return `${decimals(v / step ** i, units[i][1])}\u00a0${units[i][0]}`;
};

export const percent = inUnits(1, 1, ["%"]);
export const finePercent = inUnits(1, 1, ["%", 1]);
export const celsius = inUnits(1, 1, ["°C"]);
export const watts = inUnits(1e4, 1e3, ["W"], ["kW", 1]);
export const rpm = inUnits(1, 1, ["RPM"]);
export const megahertz = inUnits(1, 1, ["MHz"]);
export const fps = inUnits(1, 1, ["fps"]);
/** Writes MiB. */
export const memory = inUnits(1024, 1024, ["MiB"], ["GiB", 1], ["TiB", 1]);
/** Writes bytes per second. */
export const rate = inUnits(1e3, 1e3, ["B/s"], ["kB/s"], ["MB/s", 1], ["GB/s", 1]);
const wattHours = inUnits(1e3, 1e3, ["Wh"], ["kWh", 1]);
const milliseconds = inUnits(1, 1, ["ms", 1]);
/** @param {number} joules */
export const energy = (joules) => wattHours(joules / 3600);
/** @param {number} microseconds */
export const delay = (microseconds) => milliseconds(microseconds / 1000);
/** @param {number} v */
export const hundredth = (v) => decimals(v, 2);

/** @param {number} seconds */
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const part = (/** @type {number} */ unit, /** @type {number} */ of) => Math.floor(s / unit) % of;
  if (s < 60) return `${s}\u00a0s`;
  if (s < 3600) return `${part(60, 60)}\u00a0min`;
  if (s < 86400) return `${part(3600, 24)}\u00a0h ${part(60, 60)}\u00a0min`;
  return `${Math.floor(s / 86400)}\u00a0d ${part(3600, 24)}\u00a0h`;
}

/**
 * @param {string} from RFC 3339
 * @param {string} to RFC 3339
 */
export function between(from, to) {
  return span((Date.parse(to) - Date.parse(from)) / 1000);
}

/**
 * The filled part of a bar, "0" to "100".
 * @param {number} v
 */
export function width(v) {
  return String(Math.floor(Math.min(Math.max(v, 0), 100) * 10 + 0.5) / 10);
}

/**
 * The part of a bar that value fills if limit fills all of it; empty if one of them
 * is not known.
 * @param {Measured} value
 * @param {Measured} limit
 */
export function part(value, limit) {
  return value != null && limit != null && limit > 0 ? width((100 * value) / limit) : "";
}

export const longestName = 80;
export const longestCommand = 200;
export const longestSentence = 600;

const steering = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Makes reported text safe to show: it cuts what is too long, and puts a visible
 * mark in place of characters that control a terminal or the writing direction.
 * @param {string} text
 * @param {number} limit in characters
 */
export function clean(text, limit) {
  let kept = text;
  if (text.length > limit) {
    const characters = Array.from(text);
    if (characters.length > limit) kept = characters.slice(0, limit).join("") + "…";
  }
  return kept.replace(steering, "\ufffd");
}

/**
 * A sentence of gpuwhy's own, cut if it is too long. No line ends between a number
 * and its unit, or between a name and its number.
 * @param {string | null | undefined} text
 */
export function sentence(text) {
  return clean(text ?? "", longestSentence)
    .replace(/(\d) (%|°C|(?:k?Wh?|RPM|MHz|[KMGT]iB|[kMG]?B\/s|s|min|h|d)\b)/g, "$1\u00a0$2")
    .replace(/\b(GPU|pid) (\d)/g, "$1\u00a0$2");
}

/** @param {string[]} parts */
export function list(parts) {
  if (parts.length < 2) return parts.join("");
  return say("and", parts.slice(0, -1).join(", "), parts[parts.length - 1]);
}

/**
 * The text of that name with the values in it; empty if there is no such text.
 * @param {string} name
 * @param {(string | number)[]} values
 */
export const say = (name, ...values) => fill(words[name] ?? "", values);

/**
 * A number of things: "1 GPU", "2 GPUs".
 * @param {string} name
 * @param {number} n
 */
export const count = (name, n) => fill(words[name].split("|")[n === 1 ? 0 : 1], [n]);

/**
 * Puts the values in the place of the braces.
 * @param {string} text
 * @param {(string | number)[]} values
 */
const fill = (text, [...values]) => text.replace(/{}/g, () => String(values.shift() ?? ""));

/** @param {(string | null | undefined | false)[]} parts */
export const dots = (...parts) => parts.filter(Boolean).join(" · ");

/**
 * @param {string | undefined} quality the reason why there is no value
 * @returns {Value}
 */
export const absent = (quality) => missing(quality && words[`${quality} why`] ? quality : "not_reported");

/**
 * @param {string} name of the text that says why
 * @returns {Value}
 */
export const missing = (name) => ({ text: say(name), mark: "absent", title: say(`${name} why`) });

/**
 * A value without a mark.
 * @param {string} text
 * @returns {Value}
 */
export const plain = (text) => ({ text, mark: "", title: "" });

/**
 * @param {Measured} v
 * @param {string | undefined} quality as in the message, which names exceptions only
 * @param {(v: number) => string} format
 * @returns {Value}
 */
export function show(v, quality, format) {
  if (v == null) return absent(quality);
  if (quality !== "doubtful") return plain(format(v));
  return { text: `${format(v)} ?`, mark: "doubtful", title: say("doubtful why") };
}

/**
 * Text that a process or a device reports about itself.
 * @param {string | null | undefined} text
 * @param {string | undefined} quality
 * @param {number} limit
 * @returns {Value}
 */
export function shown(text, quality, limit) {
  const kept = clean(text ?? "", limit);
  return kept ? plain(kept) : absent(quality);
}

/**
 * What a process runs, as people call it, or else the kernel's name for it.
 * @param {import("./message.js").Process} p
 */
export const programOf = (p) => shown(p.program || p.process_name, p.quality?.process_name, longestName);

/**
 * The key of a GPU, also of a cause's. An index is for people, and other nodes have the same.
 * @param {{node: string | null, gpu_uuid?: string | null}} g
 */
export const keyOf = (g) => `${g.node}/${g.gpu_uuid}`;
