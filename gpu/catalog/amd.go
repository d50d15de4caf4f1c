package catalog

// ofAMD are the files of the amdgpu driver, by the ID of the reading. Files without a folder belong to the PCI device.
var ofAMD = map[string]string{
	"identity.name":           "product_name, or AMD's list of products",
	"identity.uuid":           "unique_id",
	"identity.pci":            "/sys/class/drm/card*/device",
	"identity.architecture":   "kfd/topology: gfx_target_version",
	"identity.serial":         "serial_number",
	"identity.vbios":          "vbios_version",
	"identity.driver_version": "/sys/module/amdgpu/version, or the kernel's",

	"utilization.gpu":     "gpu_busy_percent, gpu_metrics, or fdinfo: drm-engine-gfx",
	"utilization.memory":  "mem_busy_percent",
	"utilization.encoder": "fdinfo: drm-engine-enc",
	"utilization.decoder": "fdinfo: drm-engine-dec",
	"utilization.jpeg":    "fdinfo: drm-engine-jpeg",

	"utilization.video": "vcn_busy_percent, or fdinfo: drm-engine-enc",

	"shared.unified": "PCI id, hwmon: vddnb, gpu_metrics: format",
	"shared.total":   "mem_info_gtt_total",
	"shared.used":    "mem_info_gtt_used",

	"memory.total":      "mem_info_vram_total",
	"memory.used":       "mem_info_vram_used",
	"memory.free":       "mem_info_vram_total - mem_info_vram_used",
	"memory.bar1_total": "mem_info_vis_vram_total",
	"memory.bar1_used":  "mem_info_vis_vram_used",

	"thermal.gpu":        "hwmon: edge",
	"thermal.hot_spot":   "hwmon: junction",
	"thermal.memory":     "hwmon: mem",
	"thermal.slowdown":   "hwmon: temp*_crit",
	"thermal.shutdown":   "hwmon: temp*_emergency",
	"thermal.memory_max": "hwmon: temp*_crit of mem",
	"thermal.target":     "gpu_od/fan_ctrl/fan_target_temperature",

	"fans.count":     "hwmon: fan1_input, pwm1",
	"fans.combined":  "hwmon: fan1_input, pwm1",
	"fans.commanded": "hwmon: pwm1 of pwm1_max",
	"fan.commanded":  "hwmon: pwm1 of pwm1_max",
	"fan.rpm":        "hwmon: fan1_input",
	"fan.policy":     "hwmon: pwm1_enable",
	"fan.manual":     "hwmon: pwm1_enable",

	"power.draw":           "hwmon: power1_average, power1_input",
	"power.enforced_limit": "hwmon: power1_cap",
	"power.default_limit":  "hwmon: power1_cap_default",
	"power.min_limit":      "hwmon: power1_cap_min",
	"power.max_limit":      "hwmon: power1_cap_max",
	"power.energy":         "gpu_metrics: energy_accumulator",

	"clocks.graphics":      "hwmon: sclk",
	"clocks.sm":            "hwmon: sclk",
	"clocks.memory":        "hwmon: mclk",
	"clocks.video":         "gpu_metrics: current_vclk0, pp_dpm_vclk",
	"clocks.max_graphics":  "pp_dpm_sclk",
	"clocks.max_sm":        "pp_dpm_sclk",
	"clocks.max_memory":    "pp_dpm_mclk",
	"clocks.max_video":     "pp_dpm_vclk",
	"clocks.event_reasons": "gpu_metrics: indep_throttle_status, residencies",

	"pcie.generation":     "current_link_speed",
	"pcie.max_generation": "max_link_speed",
	"pcie.width":          "current_link_width",
	"pcie.max_width":      "max_link_width",
	"pcie.replays":        "pcie_replay_count",

	"health.corrected_volatile":   "ras/*_err_count: ce",
	"health.uncorrected_volatile": "ras/*_err_count: ue",
	"health.retired_double_bit":   "ras/gpu_vram_bad_pages",
	"health.retirement_pending":   "ras/gpu_vram_bad_pages: P",

	"modes.display_active":    "drm/card*/card*-*/enabled",
	"modes.instances":         "kfd/topology: nodes",
	"modes.compute_partition": "current_compute_partition",
	"modes.memory_partition":  "current_memory_partition",

	"instance.name":            "current_compute_partition",
	"instance.uuid":            "unique_id",
	"instance.profile":         "current_compute_partition",
	"instance.gpu_instance":    "kfd/topology: nodes",
	"instance.memory.total":    "kfd/topology: mem_banks",
	"instance.multiprocessors": "kfd/topology: simd_count",
	"instance.compute_slices":  "kfd/topology: num_xcc",
	"instance.processes":       "/proc/*/fdinfo, kfd/proc",

	"processes":         "/proc/*/fdinfo, kfd/proc",
	"processes.partial": "/proc/*/fd, /proc/*/fdinfo",
}
