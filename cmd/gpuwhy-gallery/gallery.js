// @ts-check
// Presses what a state of the gallery needs pressed, in its frame, scrolls to
// what it is about, and keeps
// dialogs in frames from taking the focus and the place where somebody reads.

for (const frame of document.querySelectorAll("iframe")) {
  const ready = () => {
    const inside = /** @type {typeof globalThis | null} */ (/** @type {unknown} */ (frame.contentWindow));
    if (!inside?.document) return;
    const dialogs = inside.HTMLDialogElement.prototype;
    const open = dialogs.showModal;
    dialogs.showModal = function () {
      const [x, y] = [scrollX, scrollY];
      open.call(this);
      if (inside.event?.type === "click") return; // somebody asked for it
      frame.blur();
      scrollTo(x, y);
    };
    if (document.activeElement === frame) frame.blur(); // a dialog was open from the beginning
    inside.scrollTo(0, inside.document.getElementById(frame.dataset.at ?? "")?.getBoundingClientRect().top ?? 0);
    const buttons = frame.dataset.press && inside.document.querySelectorAll(frame.dataset.press);
    for (const button of /** @type {Iterable<HTMLElement>} */ (buttons || [])) button.click();
  };
  frame.onload = ready;
  if (frame.contentDocument?.readyState === "complete" && frame.contentDocument.URL !== "about:blank") ready();
}
