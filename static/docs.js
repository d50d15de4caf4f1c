// @ts-check
// The viewer of the API's documentation, in the reader's own colours.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Gives the viewer the colours of app.css. */
function paint() {
  const viewer = document.querySelector("rapi-doc");
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  viewer?.setAttribute("theme", dark.matches ? "dark" : "light");
  viewer?.setAttribute("bg-color", colour("--paper"));
  viewer?.setAttribute("text-color", colour("--ink"));
  viewer?.setAttribute("primary-color", colour("--bar"));
  viewer?.setAttribute("nav-bg-color", colour("--back"));
  viewer?.setAttribute("nav-text-color", colour("--ink"));
  viewer?.setAttribute("nav-hover-text-color", colour("--bar"));
}

paint();
dark.addEventListener("change", paint);
await import("./vendor/rapidoc/rapidoc-min.js");
