// @ts-check
// Rows put in their order without a word about what they are.

/**
 * Puts nodes in their order by the fewest moves that leave the one with the
 * focus where it is: one that is moved loses it, and what is being typed there.
 * What stays is the longest part that is in order already, with that node in it.
 * @param {Node} parent
 * @param {Node[]} nodes all that it holds, and new ones
 */
export function order(parent, nodes) {
  const places = new Map([...parent.childNodes].map((node, i) => [node, i]));
  const held = nodes.findIndex((node) => node.contains(document.activeElement));
  const anchor = places.get(/** @type {ChildNode} */ (nodes[held])) ?? -1;
  /** @type {ChildNode[]} of the runs of each length, the last node that comes first */
  const ends = [];
  /** @type {Map<Node, ChildNode>} the node before it in its run */
  const previous = new Map();
  nodes.forEach((it, i) => {
    const node = /** @type {ChildNode} */ (it);
    const place = places.get(node);
    if (place === undefined || Math.sign(place - anchor) !== Math.sign(i - held)) return;
    let n = ends.length;
    while (n > 0 && Number(places.get(ends[n - 1])) > place) n -= 1;
    previous.set(node, ends[n - 1]);
    ends[n] = node;
  });
  let stays = ends.at(-1);
  /** @type {Node | null} */
  let next = null;
  for (const node of [...nodes].reverse()) {
    if (node === stays) stays = previous.get(node);
    else parent.insertBefore(node, next);
    next = node;
  }
}
