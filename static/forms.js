// @ts-check
// Forms that say something of alerts, sent without leaving the page. What
// becomes of it comes to this page as it does to all others: as news.

/** @param {() => void} [done] */
export function sendForms(done) {
  addEventListener("submit", async (e) => {
    const form = /** @type {HTMLFormElement} */ (e.target);
    if (!form.matches(".say")) return;
    e.preventDefault();
    const to = e.submitter?.getAttribute("formaction") ?? form.action;
    let said = "gpuwhy does not answer: try again";
    try {
      const body = new URLSearchParams(/** @type {any} */ (new FormData(form, e.submitter)));
      // It leads back to a page, where this one stays.
      const answer = await fetch(to, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json" } });
      said = answer.type === "opaqueredirect" ? "" : (await answer.json()).detail;
    } catch {
      // it is said below
    }
    const out = form.querySelector("output");
    if (out) out.value = said;
    if (!said) done?.();
  });
}
