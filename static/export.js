// @ts-check
// Files and texts of what is shown, made in the browser.

/** @typedef {{title: string, stats: string, plot: any, times: number[], columns: {name: string, values: (number | null)[]}[]}} Shown */

/**
 * @param {Blob} blob
 * @param {string} ending
 */
function save(blob, ending) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = `gpuwhy-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${ending}`;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

/** @param {Shown} shown */
export function saveCSV({ times, columns }) {
  const rows = times.map((t, i) => [new Date(t * 1000).toISOString(), ...columns.map((c) => c.values[i] ?? "")]);
  save(new Blob([[["time", ...columns.map((c) => c.name)], ...rows].map((row) => `${row.join(",")}\r\n`).join("")], { type: "text/csv" }), "csv");
}

/** @param {Shown} shown */
export function savePNG({ title, stats, plot }) {
  const chart = /** @type {HTMLCanvasElement} */ (plot.ctx.canvas);
  const canvas = document.createElement("canvas");
  const px = devicePixelRatio;
  canvas.width = chart.width + 32 * px;
  canvas.height = chart.height + 72 * px;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const { backgroundColor, color, fontFamily } = getComputedStyle(/** @type {Element} */ (chart.closest("dialog")));
  ctx.fillStyle = backgroundColor;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = color;
  ctx.font = `600 ${15 * px}px ${fontFamily}`;
  ctx.fillText(title, 16 * px, 26 * px);
  ctx.font = `${12 * px}px ${fontFamily}`;
  ctx.fillText(stats, 16 * px, canvas.height - 14 * px);
  ctx.drawImage(chart, 16 * px, 36 * px);
  canvas.toBlob((blob) => blob && save(blob, "png"));
}

/** @param {import("./message.js").Update | null} u */
export function saveJSON(u) {
  save(new Blob([JSON.stringify(u, null, 2)], { type: "application/json" }), "json");
}

/** What is told of a GPU: members whose texts name no one and nothing of a person's. */
const told = ["gpu_id", "gpu_name", "driver_version", "source", "vendor", "state", "state_since", "state_reason", "sampled_at", "architecture", "vbios_version",
  "utilization", "activity", "memory", "temperature", "power", "clocks", "performance_state", "fan_speed_percent", "fans", "clock_event_reasons", "throttled",
  "pcie", "health", "modes", "quality"];

/**
 * Copies what others need to know, without names of users and commands.
 * @param {import("./message.js").Update | null} u
 */
export async function copyReport(u) {
  const lines = [
    `gpuwhy ${document.body.dataset.version}, ${navigator.userAgent}`,
    u ? `${u.timestamp}, source ${u.source}, status ${u.status}` : "no reading yet",
    ...(u?.drivers ?? []).map((d) => `driver ${d.driver_version}, CUDA ${d.cuda_driver_version}`),
    u?.host ? `${u.host.os}, ${u.host.kernel}` : "",
    ...(u?.failures ?? []).map((f) => `${f.source} failed: ${f.what}`),
    ...(u?.notes ?? []),
    ...(u?.gpus ?? []).map((/** @type {any} */ g) => JSON.stringify({
      ...Object.fromEntries(told.map((name) => [name, g[name]])), processes: g.processes.length, instances: g.instances.length,
    })),
  ];
  try {
    await navigator.clipboard.writeText(lines.filter(Boolean).join("\n"));
    return "Copied. It has no names of users, processes or machines.";
  } catch {
    save(new Blob([lines.filter(Boolean).join("\n")], { type: "text/plain" }), "txt");
    return "The browser does not let pages copy here: it was saved as a file.";
  }
}
