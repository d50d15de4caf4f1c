// @ts-check
// The choices about how to look, which this browser remembers. The address has all choices.

/** @param {string} name */
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

const lasting = () => (document.body.dataset.lasting ?? "").split(" ").filter(Boolean);

/** @param {URLSearchParams} query */
export function remember(query) {
  for (const name of lasting()) store(name, query.get(name) ?? "");
}

/**
 * The address with the choices that are remembered and that it lacks; null where it lacks none.
 * @param {URL} url
 */
export function chosen(url) {
  const before = url.href;
  for (const name of lasting()) {
    const value = stored(name);
    if (value && !url.searchParams.has(name)) url.searchParams.set(name, value);
  }
  return url.href === before ? null : url;
}
