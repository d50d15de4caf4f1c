// @ts-check
// The display choices that this browser remembers. The address contains all choices.

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
 * @param {string} value empty removes it
 */
export function store(name, value) {
  try {
    if (value) localStorage.setItem(`gpuwhy ${name}`, value);
    else localStorage.removeItem(`gpuwhy ${name}`);
  } catch {
    // storage is blocked: the choice lasts until the page is closed
  }
}

/** The remembered choices of this page: names with their values. */
const lasting = () => (document.body.dataset.lasting ?? "").split(" ").filter(Boolean).map((choice) => choice.split(/[=,]/));

/** Pages may have choices of the same name. theme.js reads them too. @param {string} name */
const ofPage = (name) => `${location.pathname.slice((document.body.dataset.base ?? "/").length).split("/")[0]} ${name}`.trim();

/** @param {URLSearchParams} query */
export function remember(query) {
  for (const [name] of lasting()) store(ofPage(name), query.get(name) ?? "");
}
