// @ts-check
// Everything that one GPU reports. views/facts.go writes the same in Go, and
// beside each value its place in the message and its format.

import {
  absent, celsius, clean, count, decimals, delay, energy, fps, longestName, longestSentence, megahertz, memory, part, percent, plain, rate, rpm, say, show, shown, watts,
} from "./format.js";
import { byId, setAttribute, setHidden, setText, setValue } from "./dom.js";
import { moment } from "./moments.js";
import { sync } from "./rows.js";
import { awayText } from "./cards.js";

/** @typedef {import("./message.js").GPU} GPU */
/** @typedef {import("./format.js").Value} Value */

/** @type {Record<string, (v: number) => string>} */
const numbers = { percent, celsius, watts, megahertz, rpm, memory, energy, rate, fps, delay, whole: decimals, parts: (v) => (v ? decimals(v) : say("none")), some: (v) => (v ? memory(v) : "") };

/** @type {Record<string, (v: any) => string>} */
const sayings = {
  moment,
  yesNo: (v) => say(v ? "yes" : "no"),
  kinds: (v) => (v.length ? count("kinds", v.length) : say("none")),
  split: (v) => say(`split ${v}`),
  reasons: (v) => v.map((/** @type {string} */ name) => say(`reason ${name}`)).filter(Boolean).join("; ") || say("nothing"),
};

/**
 * @param {any} object
 * @param {string} path
 */
const at = (object, path) => path.split(".").reduce((o, name) => o?.[name], object);

/**
 * The value of an object that an element shows.
 * @param {HTMLElement} el
 * @param {any} object
 * @param {Record<string, string> | undefined} quality
 * @param {string} [prefix] of the object's paths in quality
 * @returns {Value}
 */
export function valueFor(el, object, quality, prefix = "") {
  const { path = "", format = "" } = el.dataset;
  const v = at(object, path);
  const why = quality?.[prefix + path] ?? quality?.[path.split(".")[0]]; // a group that is null has one reason
  if (numbers[format]) return show(v, why, (n) => numbers[format](n));
  if (format === "text") return shown(v, why, longestSentence);
  return v == null ? absent(why) : plain(clean(sayings[format](v), longestSentence));
}

/** @param {GPU} g */
export function showFacts(g) {
  setText(byId("device"), clean(g.gpu_name, longestName));
  for (const el of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main dd[data-path]"))) {
    const value = valueFor(el, g, g.quality);
    if (value.mark === "absent" && el.dataset.else != null) {
      Object.assign(value, { text: el.dataset.else, mark: el.dataset.else && "absent", title: "" });
    } else if (value.mark === "absent" && g.state !== "ok") {
      value.text = say("not read since", moment(g.state_since));
      value.title = awayText(g);
    } else if (value.text === say("stale") && g.sampled_at) {
      value.text = say("stale since", moment(g.sampled_at));
    }
    setValue(el, value);
  }
  for (const el of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-when]"))) {
    const { when = "", then = "", or = "" } = el.dataset;
    setText(el, at(g, when) == null ? or : then);
  }
  for (const bar of /** @type {NodeListOf<SVGElement>} */ (document.querySelectorAll("[data-sum]"))) {
    const { sum = "", of = "" } = bar.dataset;
    const value = sum.split(" ").reduce((total, path) => total + (at(g, path) ?? 0), 0);
    setAttribute(bar, "width", part(Math.round(value * 100) / 100, Number(of) || at(g, of)) || "0");
  }
  for (const list of /** @type {NodeListOf<HTMLElement>} */ (byId("facts").querySelectorAll("[data-list]"))) {
    const name = list.dataset.list ?? "";
    /** @type {any[]} */
    const items = at(g, name) ?? [];
    const outer = list.closest(".list");
    if (outer) setHidden(outer, items.length === 0);
    sync(list, `t-${name}`, items.map((item, i) => ({ item, i })), ({ i }) => i, (row, { item, i }) => {
      for (const el of /** @type {NodeListOf<HTMLElement>} */ (row.querySelectorAll("[data-path]"))) {
        setValue(el, item.quality ? valueFor(el, item, item.quality) : valueFor(el, item, g.quality, `${name}.${i}.`));
      }
    });
  }
}
