// @ts-check
// Presses what a state of the gallery needs pressed, in its frame.

for (const frame of document.querySelectorAll("iframe")) {
  const press = () => {
    const buttons = frame.dataset.press && frame.contentDocument?.querySelectorAll(frame.dataset.press);
    for (const button of /** @type {Iterable<HTMLElement>} */ (buttons || [])) button.click();
  };
  frame.onload = press;
  if (frame.contentDocument?.readyState === "complete") press();
}
