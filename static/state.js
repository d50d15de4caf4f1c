// @ts-check
// What a person chose: in the address, which can be shared, and of the choices
// that say how rather than what to look at, in this browser too.

const query = new URLSearchParams(location.search);

/** Choices that are remembered. */
const lasting = ["sort", "group", "wall", "by", "order"];

for (const name of lasting) {
  const kept = stored(name);
  if (kept && !query.has(name)) query.set(name, kept);
}

/** @param {string} name */
export const chosen = (name) => query.get(name) ?? "";

/**
 * @param {string} name
 * @param {string} value empty: what is usual
 */
export function choose(name, value) {
  if (value) query.set(name, value);
  else query.delete(name);
  if (lasting.includes(name)) store(name, value);
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
}

/**
 * What this browser remembers; empty where it may not.
 * @param {string} name
 */
export function stored(name) {
  try {
    return localStorage.getItem(`gpuwhy ${name}`) ?? "";
  } catch {
    return ""; // storage is blocked
  }
}

/**
 * @param {string} name
 * @param {string} value empty: forget it
 */
export function store(name, value) {
  try {
    if (value) localStorage.setItem(`gpuwhy ${name}`, value);
    else localStorage.removeItem(`gpuwhy ${name}`);
  } catch {
    // storage is blocked: the choice holds until the page is closed
  }
}
