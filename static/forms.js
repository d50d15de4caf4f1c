// @ts-check
// Submits forms about alerts without leaving the page. The effect arrives as an update, as on every other page.

/** @param {() => void} [done] */
export function sendForms(done) {
  addEventListener("submit", async (e) => {
    const form = /** @type {HTMLFormElement} */ (e.target);
    if (!form.matches("[data-say]")) return;
    e.preventDefault();
    if (form.ariaBusy) return; // it was pressed twice
    form.ariaBusy = "true";
    const to = e.submitter?.getAttribute("formaction") ?? form.action;
    const out = form.querySelector("output");
    const around = /** @type {HTMLElement | null} */ (form.closest("[tabindex]")); // the row that was pressed may go before the answer comes
    let said = "gpuwhy isn’t answering: try again";
    try {
      const body = new URLSearchParams(/** @type {any} */ (new FormData(form, e.submitter)));
      // The response redirects to a page, but this page stays.
      const answer = await fetch(to, { method: "POST", body, redirect: "manual", headers: { Accept: "application/json" } });
      said = answer.type === "opaqueredirect" ? "" : (await answer.json()).detail;
    } catch {
      // the text above says so
    }
    form.ariaBusy = null;
    if (out) out.value = said;
    if (said) return;
    form.reset();
    const has = document.activeElement; // nothing, once the row has gone; or what somebody went on to
    if (has === document.body || form.contains(has)) around?.focus({ preventScroll: true });
    done?.();
  });
}
