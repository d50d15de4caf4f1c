// @ts-check
// Rows of tables and lists, cloned from the page's templates.

import { byId, setAttribute, setText } from "./dom.js";
import { order } from "./order.js";

/** @type {WeakMap<Element, Map<string, HTMLElement>>} */
const known = new WeakMap();

/**
 * The element of a row that shows the named value.
 * @param {Element} row
 * @param {string} name
 */
export function slot(row, name) {
  let slots = known.get(row);
  if (!slots) {
    slots = new Map();
    for (const el of row.querySelectorAll("[data-f]")) {
      slots.set(/** @type {HTMLElement} */ (el).dataset.f ?? "", /** @type {HTMLElement} */ (el));
    }
    known.set(row, slots);
  }
  return /** @type {HTMLElement} */ (slots.get(name));
}

/**
 * @param {Element} row
 * @param {Record<string, string>} texts by slot
 */
export function setTexts(row, texts) {
  for (const name in texts) setText(slot(row, name), texts[name]);
}

/**
 * A copy of the first row in a template.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function clone(id) {
  const template = /** @type {HTMLTemplateElement} */ (byId(id));
  return /** @type {HTMLElement} */ (document.importNode(/** @type {Node} */ (template.content.firstElementChild), true));
}

/**
 * Makes the children of parent match the items and their order. A row stays while
 * there is an item with its key. The row with the focus keeps it.
 * @template T
 * @param {Element} parent
 * @param {string | ((item: T) => string)} template
 * @param {T[]} items
 * @param {(item: T) => string | number} keyOf
 * @param {(row: HTMLElement, item: T) => void} update
 */
export function sync(parent, template, items, keyOf, update) {
  /** @type {Map<string, HTMLElement[]>} */
  const old = new Map();
  for (const row of /** @type {Iterable<HTMLElement>} */ (parent.children)) {
    const key = row.dataset.key ?? "";
    const same = old.get(key);
    if (same) same.push(row);
    else old.set(key, [row]);
  }
  const rows = items.map((item) => {
    const key = String(keyOf(item));
    const row = old.get(key)?.shift() ?? clone(typeof template === "string" ? template : template(item));
    setAttribute(row, "data-key", key);
    update(row, item);
    return row;
  });
  for (const gone of old.values()) for (const row of gone) row.remove();
  order(parent, rows);
}

/**
 * @param {Element} row with one bar
 * @param {string} fill "0" to "100", or empty
 */
export function setBar(row, fill) {
  const rect = row.querySelector("rect");
  if (rect) setAttribute(rect, "width", fill || "0");
}
