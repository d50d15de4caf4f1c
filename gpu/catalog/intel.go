package catalog

// ofIntel are the files of the i915 and xe drivers, by the ID of the reading; i915's file comes first.
var ofIntel = map[string]string{
	"identity.name": "device", "identity.uuid": "the PCI address", "identity.pci": "the device's folder",
	"identity.architecture": "device", "identity.driver_version": "/sys/module/i915/version, or the kernel's version",
	"utilization.gpu":   "fdinfo: drm-engine-*, drm-cycles-*",
	"utilization.video": "fdinfo: drm-engine-video, drm-cycles-vcs",
	"shared.unified":    "device", "shared.used": "fdinfo: drm-resident-system*, drm-resident-gtt",
	"memory.total": "lmem_total_bytes, physical_vram_size_bytes", "memory.used": "lmem_avail_bytes, or fdinfo: drm-resident-*",
	"memory.free": "lmem_avail_bytes", "memory.bar1_total": "resource",
	"thermal.gpu": "hwmon: temp1_input, pkg", "thermal.memory": "hwmon: vram", "thermal.slowdown": "hwmon: crit of pkg",
	"thermal.shutdown": "hwmon: emergency of pkg", "thermal.memory_max": "hwmon: crit of vram",
	"fans.count": "hwmon: fan*_input", "fans.combined": "hwmon: fan*_input", "fan.rpm": "hwmon: fan*_input",
	"power.draw": "hwmon: energy1_input, or powercap: uncore", "power.energy": "hwmon: energy1_input",
	"power.enforced_limit": "hwmon: power1_max, power1_cap, power1_crit", "power.default_limit": "hwmon: power1_rated_max",
	"clocks.graphics": "rps_act_freq_mhz, act_freq", "clocks.sm": "rps_act_freq_mhz, act_freq",
	"clocks.video":        "rps_act_freq_mhz, act_freq of the media gt",
	"clocks.max_graphics": "rps_RP0_freq_mhz, rp0_freq", "clocks.max_sm": "rps_RP0_freq_mhz, rp0_freq",
	"clocks.max_video": "rps_RP0_freq_mhz, rp0_freq of the media gt", "clocks.max_memory": "memory/freq0/max_freq",
	"clocks.event_reasons": "throttle_reason_*, throttle/reason_*",
	"pcie.generation":      "current_link_speed", "pcie.max_generation": "max_link_speed",
	"pcie.width": "current_link_width", "pcie.max_width": "max_link_width",
	"modes.display_active": "enabled and dpms of the outputs",
	"processes":            "fdinfo", "processes.partial": "/proc/*/fd, /proc/*/fdinfo",
}
