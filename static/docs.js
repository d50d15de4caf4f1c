// @ts-check
// The viewer of the API documentation, in the reader's colors.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Gives the viewer the colors of shell.css. */
function paint() {
  const viewer = document.querySelector("rapi-doc");
  if (!(viewer instanceof HTMLElement)) return;
  const colour = (/** @type {string} */ name) => {
    viewer.style.color = `var(--${name})`; // as it is now, of those for light and dark
    return getComputedStyle(viewer).color;
  };
  viewer.setAttribute("theme", (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")));
  for (const [attribute, name] of Object.entries({ bg: "paper", text: "ink", primary: "p1", "nav-bg": "back", "nav-text": "ink", "nav-hover-text": "p1" })) {
    viewer.setAttribute(`${attribute}-color`, colour(name));
  }
  viewer.style.color = "";
}

paint();
dark.addEventListener("change", paint);
addEventListener("themechange", paint);
await import("./vendor/rapidoc/rapidoc-min.js");
