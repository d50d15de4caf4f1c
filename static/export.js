// @ts-check
// Files and texts that the browser makes of what the page shows.

/** @typedef {{times: number[], columns: {name: string, values: (number | null)[]}[]}} Shown */

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

/**
 * Saves a chart as a picture that explains itself: with its title, the names of
 * its lines, and notes below.
 * @param {{title: string, notes: string[], plot: any, key: {name: string, colour: string, dash: number[]}[]}} chart
 */
export function savePNG({ title, notes, plot, key }) {
  const picture = /** @type {HTMLCanvasElement} */ (plot.ctx.canvas);
  const { backgroundColor, color, fontFamily, fontSize } = getComputedStyle(/** @type {Element} */ (picture.closest("dialog")));
  const px = devicePixelRatio;
  const size = parseFloat(fontSize) * px;
  const row = 1.4 * size;
  const columns = Math.floor(picture.width / size / 5.5);
  const above = row * (2 + Math.ceil(key.length / columns));
  const canvas = document.createElement("canvas");
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  canvas.width = picture.width + 2 * size;
  canvas.height = picture.height + above + row * (notes.length + 1);
  ctx.fillStyle = backgroundColor;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.drawImage(picture, size, above - row / 2);
  ctx.fillStyle = color;
  ctx.textBaseline = "middle";
  ctx.lineWidth = 2 * px;
  ctx.font = `600 ${size}px ${fontFamily}`;
  ctx.fillText(title, size, row, picture.width);
  ctx.font = `${0.8 * size}px ${fontFamily}`;
  key.forEach(({ name, colour, dash }, i) => {
    const x = size * (1 + 5.5 * (i % columns));
    const y = row * (2 + Math.floor(i / columns));
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash.map((d) => d * px));
    stroke(ctx, x, y, x + 1.6 * size, y);
    ctx.fillText(name, x + 2 * size, y);
  });
  notes.forEach((note, i) => ctx.fillText(note, size, above + picture.height + row * i, picture.width));
  canvas.toBlob((blob) => blob && save(blob, "png"));
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 */
export function stroke(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

/** @param {import("./message.js").Update | null} u */
export function saveJSON(u) {
  save(new Blob([JSON.stringify(u, null, 2)], { type: "application/json" }), "json");
}

/** The members of a GPU that a report has. Their texts name no person, process or machine. */
const told = ["gpu_id", "gpu_name", "driver_version", "source", "vendor", "state", "state_since", "state_reason", "sampled_at", "architecture", "vbios_version",
  "utilization", "encoder", "activity", "memory", "temperature", "power", "clocks", "performance_state", "fan_speed_percent", "fans", "clock_event_reasons", "throttled",
  "pcie", "health", "modes", "quality"];

/**
 * Copies a report for others, without names of users and commands.
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
    }, (name, value) => (name === "process" || name === "pid" ? undefined : value))), // who caused an error
  ];
  try {
    await navigator.clipboard.writeText(lines.filter(Boolean).join("\n"));
    return "Copied. It has no names of users, processes or machines.";
  } catch {
    save(new Blob([lines.filter(Boolean).join("\n")], { type: "text/plain" }), "txt");
    return "The browser does not allow it here: it was saved as a file.";
  }
}
