// @ts-check
// The search palette: finds a GPU, a process, a user or a page (Ctrl K). The server
// searches and renders the list; without this script, its page does the same.

/** @type {HTMLDialogElement | undefined} */
let dialog;
/** @type {HTMLInputElement} */
let input;
/** @type {HTMLElement} */
let list;
let timer = 0;
/** @type {AbortController | undefined} */
let asking;

const links = () => /** @type {HTMLAnchorElement[]} */ ([...list.querySelectorAll("a")]);

/** @param {number} n which of the links Enter follows */
function choose(n) {
  const all = links();
  all.forEach((a, i) => { a.id = `found-${i}`; a.toggleAttribute("data-chosen", i === n); a.setAttribute("aria-selected", String(i === n)); });
  if (all[n]) input.setAttribute("aria-activedescendant", all[n].id);
  else input.removeAttribute("aria-activedescendant");
  all[n]?.scrollIntoView({ block: "nearest" });
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const at = new URL(base());
  at.searchParams.set("q", input.value);
  at.searchParams.set("part", "list");
  try {
    const answer = await fetch(at, { signal });
    if (!answer.ok) throw new Error(String(answer.status));
    // The server rendered the list; a parsed document runs no scripts.
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    list.replaceChildren(...found.body.children);
    for (const part of list.querySelectorAll("h2, ul, li")) part.setAttribute("role", "presentation");
    for (const a of links()) { a.setAttribute("role", "option"); a.tabIndex = -1; }
    choose(0);
  } catch {
    if (signal.aborted) return;
    list.replaceChildren(Object.assign(document.createElement("p"), { className: "note", role: "alert", textContent: "gpuwhy isn’t answering: try again" }));
    choose(0);
  }
}

const base = () => /** @type {HTMLAnchorElement} */ (document.getElementById("find")).href;

function open() {
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.id = "palette";
    dialog.setAttribute("aria-label", "Find");
    document.getElementById("palette-place")?.append(dialog); // where the page is patched around it
    input = dialog.appendChild(document.createElement("input"));
    Object.assign(input, { type: "search", placeholder: "GPU, process, user or page", autocomplete: "off", spellcheck: false });
    for (const [name, value] of [["role", "combobox"], ["aria-label", "Find"], ["aria-controls", "found"], ["aria-expanded", "true"], ["aria-autocomplete", "list"]]) input.setAttribute(name, value);
    list = dialog.appendChild(document.createElement("div"));
    list.id = "found";
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Results");
    input.addEventListener("input", () => { clearTimeout(timer); timer = window.setTimeout(ask, 120); });
    dialog.addEventListener("keydown", (e) => {
      const all = links();
      const now = all.findIndex((a) => a.hasAttribute("data-chosen"));
      if (e.key === "ArrowDown" || e.key === "ArrowUp") choose((now + (e.key === "ArrowDown" ? 1 : all.length - 1)) % all.length);
      else if (e.key === "Enter" && !e.isComposing) all[now]?.click();
      else return;
      e.preventDefault();
    });
    dialog.addEventListener("click", (e) => { if (e.target === dialog || (e.target instanceof Element && e.target.closest("a"))) dialog?.close(); });
  }
  input.value = "";
  list.replaceChildren();
  dialog.showModal();
  ask();
}

addEventListener("keydown", (e) => {
  if (e.key.toLowerCase() !== "k" || !(e.ctrlKey || e.metaKey) || e.altKey || e.shiftKey || !document.getElementById("find")) return;
  e.preventDefault();
  if (dialog?.open) dialog.close();
  else open();
});
document.getElementById("find")?.addEventListener("click", (e) => {
  if (e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  open();
});
