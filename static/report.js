// @ts-check
// The text for bug reports. It is loaded on demand.

/** The fields of a GPU in a report. Their texts name no person, process or machine. */
const members = ["gpu_id", "gpu_name", "driver_version", "source", "vendor", "state", "state_since", "state_reason", "sampled_at", "architecture", "vbios_version",
  "utilization", "encoder", "activity", "memory", "temperature", "power", "clocks", "performance_state", "fan_speed_percent", "fans", "clock_event_reasons", "throttled",
  "pcie", "health", "modes", "quality"];

/** A report to share, without names of users and commands. */
export async function report() {
  const { base = "/", version } = document.body.dataset;
  const u = await (await fetch(`${base}api/gpu/metrics`)).json().catch(() => ({}));
  return [
    `gpuwhy ${version}, ${navigator.userAgent}`,
    u.timestamp ? `${u.timestamp}, source ${u.source}, status ${u.status}` : "no reading yet",
    ...(u.drivers ?? []).map((/** @type {any} */ d) => `driver ${d.driver_version}, CUDA ${d.cuda_driver_version}`),
    u.host ? `${u.host.os}, ${u.host.kernel}` : "",
    ...(u.failures ?? []).map((/** @type {any} */ f) => `${f.source} failed: ${f.what}`),
    ...(u.notes ?? []),
    ...(u.gpus ?? []).map((/** @type {any} */ g) => JSON.stringify({
      ...Object.fromEntries(members.map((name) => [name, g[name]])), processes: g.processes.length, instances: g.instances.length,
    }, (name, value) => (name === "process" || name === "pid" ? undefined : value))), // who caused an error
  ].filter(Boolean).join("\n");
}
