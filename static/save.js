// @ts-check
// Saves the picture as PNG in the colors of the page, or as SVG if that fails. It is loaded on demand.

/** @param {string} address of the picture as SVG */
export function save(address) {
  const url = new URL(address), image = new Image(2400, 1260), canvas = document.createElement("canvas");
  url.searchParams.set("theme", document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  const follow = (/** @type {string} */ href, /** @type {string} */ download) => Object.assign(document.createElement("a"), { href, download }).click();
  image.onerror = () => follow(url.href, "gpuwhy.svg");
  image.onload = () => {
    [canvas.width, canvas.height] = [2400, 1260];
    canvas.getContext("2d")?.drawImage(image, 0, 0, 2400, 1260);
    canvas.toBlob((blob) => {
      if (!blob) return follow(url.href, "gpuwhy.svg");
      const made = URL.createObjectURL(blob);
      follow(made, "gpuwhy.png");
      setTimeout(() => URL.revokeObjectURL(made), 60_000);
    });
  };
  image.src = url.href;
}
