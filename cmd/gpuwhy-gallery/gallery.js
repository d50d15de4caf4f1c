// @ts-check
// Presses the button that a state of the gallery needs, in its frame, scrolls to
// the relevant part, and keeps dialogs in frames from taking the focus or the
// reader's scroll position.

for (const frame of document.querySelectorAll("iframe")) {
  const inside = () => /** @type {typeof globalThis | null} */ (/** @type {unknown} */ (frame.contentWindow));
  const guard = () => {
    const dialogs = frame.contentDocument && inside()?.HTMLDialogElement.prototype;
    const open = dialogs?.showModal;
    if (!dialogs || !open || open.name === "openAside") return;
    dialogs.showModal = function openAside() {
      const [x, y] = [scrollX, scrollY];
      open.call(this);
      if (inside()?.event?.type === "click") return; // somebody asked for it
      frame.blur();
      scrollTo(x, y);
    };
  };
  const ready = () => {
    const page = inside();
    if (!page || !frame.contentDocument) return; // as with a page about an error
    guard();
    if (document.activeElement === frame) frame.blur(); // a dialog was open from the beginning
    page.scrollTo(0, page.document.getElementById(frame.dataset.at ?? "")?.getBoundingClientRect().top ?? 0);
    const buttons = frame.dataset.press && page.document.querySelectorAll(frame.dataset.press);
    for (const button of /** @type {Iterable<HTMLElement>} */ (buttons || [])) button.click();
  };
  frame.onload = ready;
  guard(); // the first page of a frame has the window of the empty page before it, and opens its dialogs before it has loaded
  if (frame.contentDocument?.readyState === "complete" && frame.contentDocument.URL !== "about:blank") ready();
}
