// @ts-check
// Makes the page what the server would render now: by a patch, as internal/serve/live
// describes it, or from the whole page. It touches only what differs.

/** Attributes that scripts and people set; a page from the server never changes them. */
const own = new Set(["open", "data-stale", "data-paused", "data-told", "data-done", "data-failed"]);

/**
 * @param {Node} node
 * @param {any} by
 */
export function patch(node, by) {
  if (by === null) return;
  if (typeof by === "string") {
    node.nodeValue = by;
    return;
  }
  const el = /** @type {Element} */ (node);
  const [attributes, children, ...inner] = by;
  for (let i = 0; i < attributes.length; i += 2) set(el, attributes[i], attributes[i + 1]);
  if (children) place(el, children.flatMap((/** @type {any} */ child) => made(el, child)));
  const kids = inner.length > 2 ? [...el.childNodes] : el.childNodes;
  for (let i = 0; i < inner.length; i += 2) patch(kids[inner[i]], inner[i + 1]);
}

/**
 * @param {Element} el
 * @param {string} name
 * @param {string | null | (string | number)[]} value a list is spliced from the old value
 */
function set(el, name, value) {
  if (value === null) {
    el.removeAttribute(name);
    return;
  }
  if (Array.isArray(value)) {
    const old = el.getAttribute(name) ?? "";
    let text = "";
    for (let i = 0; i < value.length; i++) {
      const part = value[i];
      text += typeof part === "string" ? part : old.substr(part, Number(value[++i]));
    }
    value = text;
  }
  el.setAttribute(name, value);
}

/**
 * The children that an entry of a patch stands for.
 * @param {Element} parent
 * @param {any} child
 * @returns {Node[]}
 */
function made(parent, child) {
  if (typeof child === "number") return [parent.childNodes[child]];
  if (Array.isArray(child)) return [...parent.childNodes].slice(child[0], child[0] + child[1]);
  if (typeof child !== "string") return [document.createTextNode(child.t)];
  const template = document.createElement("template");
  const svg = parent.namespaceURI === "http://www.w3.org/2000/svg" && parent.localName !== "foreignObject";
  template.innerHTML = svg ? `<svg>${child}</svg>` : child;
  const top = /** @type {Node} */ (template.content.firstChild);
  return [document.importNode(svg ? /** @type {Node} */ (top.firstChild) : top, true)];
}

/**
 * Makes these the children, in this order. The focused element keeps the focus.
 * @param {Element} parent
 * @param {Node[]} children
 */
function place(parent, children) {
  const kept = new Set(children);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

/**
 * Makes an element equal to another one, whose nodes it takes over.
 * @param {Element} now
 * @param {Element} next
 */
export function become(now, next) {
  const theirs = (/** @type {string} */ name) => !own.has(name) && !(name === "data-state" && now.id === "state");
  for (const { name, value } of next.attributes) if (theirs(name) && now.getAttribute(name) !== value) now.setAttribute(name, value);
  for (const { name } of [...now.attributes]) if (theirs(name) && !next.hasAttribute(name)) now.removeAttribute(name);
  if (next.hasAttribute("data-own") || next.localName === "noscript") return; // what that has is a text here, and elements there
  /** @type {Map<string, ChildNode[]>} */
  const old = new Map();
  for (const child of now.childNodes) {
    const list = old.get(kind(child));
    if (list) list.push(child);
    else old.set(kind(child), [child]);
  }
  place(now, [...next.childNodes].map((child) => {
    const same = old.get(kind(child))?.shift();
    if (!same) return document.importNode(child, true);
    if (same instanceof Element) become(same, /** @type {Element} */ (child));
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
    return same;
  }));
}

/**
 * The identity of a node among its siblings: nodes of a kind match in order.
 * @param {Node} node
 */
function kind(node) {
  if (!(node instanceof Element)) return String(node.nodeType);
  return `${node.localName} ${node.getAttribute("data-key") ?? node.id}`;
}
