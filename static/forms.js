// @ts-check
// Sends the forms about alerts without leaving the page. Their effect arrives on
// the stream, as on every other page.

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
      // The answer redirects to a page, but this page stays.
      const answer = await fetch(to, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json" } });
      said = answer.type === "opaqueredirect" ? "" : (await answer.json()).detail;
    } catch {
      // the text below says so
    }
    const out = form.querySelector("output");
    if (out) out.value = said;
    if (!said) done?.();
  });
}
