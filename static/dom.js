// @ts-check
// Changes to the page. They touch only what differs, and write only text.

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * @param {Element} el
 * @param {string} text
 */
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

/**
 * Sets an attribute. An empty value removes it.
 * @param {Element} el
 * @param {string} name
 * @param {string} value
 */
export function setAttribute(el, name, value) {
  if (!value) el.removeAttribute(name);
  else if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

/**
 * @param {Element} el
 * @param {boolean} hidden
 */
export function setHidden(el, hidden) {
  el.toggleAttribute("hidden", hidden);
}

/**
 * @param {Element} el
 * @param {import("./format.js").Value} value
 */
export function setValue(el, value) {
  setText(el, value.text);
  setAttribute(el, "data-mark", value.mark);
  setAttribute(el, "title", value.title);
}
