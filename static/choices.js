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

/** What lasts of this page: names, each with its values. */
const lasting = () => (document.body.dataset.lasting ?? "").split(" ").filter(Boolean).map((choice) => choice.split(/[=,]/));

/** Pages have choices of the same name. @param {string} name */
const ofPage = (name) => `${location.pathname.slice((document.body.dataset.base ?? "/").length).split("/")[0]} ${name}`.trim();

/** @param {URLSearchParams} query */
export function remember(query) {
  for (const [name] of lasting()) store(ofPage(name), query.get(name) ?? "");
}

/**
 * The address with the choices that are remembered and that it lacks; null where it lacks none.
 * @param {URL} url
 */
export function chosen(url) {
  const before = url.href;
  for (const [name, ...values] of lasting()) {
    const value = stored(ofPage(name));
    if (values.includes(value) && !url.searchParams.has(name)) url.searchParams.set(name, value);
  }
  return url.href === before ? null : url;
}
