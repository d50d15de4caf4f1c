// @ts-check
// The guide: a button that copies a block of code, and the search of a guide that is a folder of files. A plain script, since browsers load
// no module from a file.
{
  for (const block of document.querySelectorAll(".prose pre")) {
    const code = block.querySelector("code");
    if (!code) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.innerText.trimEnd());
        button.textContent = "Copied";
      } catch { // over plain HTTP, browsers only copy the selection
        getSelection()?.selectAllChildren(code);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl C";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    const frame = Object.assign(document.createElement("div"), { className: "code" });
    block.replaceWith(frame);
    frame.append(block, button);
  }

  // [address, title of the page, heading, text] of each part of a page
  /** @type {[string, string, string, string][] | undefined} */
  const index = /** @type {any} */ (globalThis).guideIndex;
  const results = document.getElementById("guide-results"), count = document.getElementById("guide-count");
  if (index && results && count) {
    const asked = (new URLSearchParams(location.search).get("q") ?? "").trim();
    for (const field of document.querySelectorAll("input[type=search]")) /** @type {HTMLInputElement} */ (field).value = asked;
    const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
    const worth = (/** @type {string[]} */ [, page, heading, text]) => {
      let sum = 0;
      for (const word of words) {
        const has = (/** @type {string} */ of) => of.toLowerCase().includes(word);
        const n = Math.min(text.toLowerCase().split(word).length - 1, 4) + (has(heading) ? 9 : 0) + (has(page) ? (heading ? 1 : 13) : 0);
        if (!n) return 0;
        sum += n;
      }
      return sum;
    };
    const found = words.length ? index.map((part) => ({ part, n: worth(part) })).filter(({ n }) => n).sort((a, b) => b.n - a.n) : [];
    count.textContent = !words.length ? "Write some words into the field above." : found.length ? `${found.length} ${found.length === 1 ? "place" : "places"}` : "Nothing in the guide has all these words. Try fewer.";
    for (const { part: [address, page, heading, text] } of found.slice(0, 30)) {
      const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
      const link = Object.assign(document.createElement("a"), { href: address, textContent: heading ? `${page} › ${heading}` : page });
      const line = document.createElement("li");
      line.append(link, Object.assign(document.createElement("p"), { textContent: `${at ? "… " : ""}${text.slice(at, at + 220)}${text.length > at + 220 ? " …" : ""}` }));
      results.append(line);
    }
  }
}
