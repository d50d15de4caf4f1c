// @ts-check
// Puts nodes into an order, whatever they are.

/**
 * Puts nodes into an order with few moves. The node with the focus never moves: a
 * node that moves loses the focus and what somebody types there. The nodes that
 * stay are the longest run that is in order already and has that node.
 * @param {Node} parent
 * @param {Node[]} nodes all children of parent, and new nodes
 */
export function order(parent, nodes) {
  const places = new Map([...parent.childNodes].map((node, i) => [node, i]));
  const held = nodes.findIndex((node) => node.contains(document.activeElement));
  const anchor = places.get(/** @type {ChildNode} */ (nodes[held])) ?? -1;
  /** @type {ChildNode[]} for each length of a run, the earliest node that ends such a run */
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
