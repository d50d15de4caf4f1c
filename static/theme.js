// @ts-check
// Applies the reader's earlier choices before anything is painted: this is a plain script, which the browser waits
// for. Without a choice, colors are the system's. Remembered choices that the address lacks are added to it (choices.js).
{
  const { lasting = "", base = "/" } = document.currentScript?.dataset ?? {};
  const url = new URL(location.href);
  for (const choice of lasting.split(" ").filter(Boolean)) {
    const [name, ...values] = choice.split(/[=,]/);
    const of = `gpuwhy ${`${location.pathname.slice(base.length).split("/")[0]} ${name}`.trim()}`;
    try {
      const value = localStorage.getItem(of) ?? "";
      if (values.includes(value) && !url.searchParams.has(name)) url.searchParams.set(name, value);
    } catch { /* storage is blocked */ }
  }
  if (url.href !== location.href) location.replace(url);
  const root = document.documentElement;
  const key = "gpuwhy-theme";
  const show = (/** @type {string | null} */ theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const meta of document.querySelectorAll("meta[name=theme-color]")) {
      const own = meta.getAttribute("media")?.includes("dark") ? "dark" : "light";
      meta.setAttribute("content", (theme || own) === "dark" ? "#0b0d0e" : "#f6f6f3");
    }
  };
  try {
    show(localStorage.getItem(key));
    addEventListener("storage", (e) => { if (e.key === key) show(e.newValue); });
  } catch { /* the browser keeps nothing: the system's colors */ }
  addEventListener("click", (e) => {
    if (!(e.target instanceof Element) || !e.target.closest("[data-theme-next]")) return;
    const next = { "": "light", light: "dark", dark: "" }[root.dataset.theme ?? ""] ?? "";
    show(next);
    try { localStorage.setItem(key, next); } catch { /* for this page alone */ }
    dispatchEvent(new Event("themechange"));
  });
}
