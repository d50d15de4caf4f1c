// @ts-check
// What a person chose. The address has all choices, so that it can be shared. This
// browser also remembers those about how to look, such as sorting.

const query = new URLSearchParams(location.search);

/** The choices that this browser remembers. */
const lasting = ["sort", "group", "wall", "by", "order"];

for (const name of lasting) {
  const kept = stored(name);
  if (kept && !query.has(name)) query.set(name, kept);
}

/** @param {string} name */
export const chosen = (name) => query.get(name) ?? "";

/**
 * @param {string} name
 * @param {string} value empty: the default
 */
export function choose(name, value) {
  if (value) query.set(name, value);
  else query.delete(name);
  if (lasting.includes(name)) store(name, value);
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
}

/**
 * A choice that this browser remembers; empty if there is none.
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
    // storage is blocked: the choice lasts until the page is closed
  }
}
