package metrics

import (
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A device is one of a snapshot, with what its series share.
type device struct {
	*gpu.Device
	groups []group
	labels []*dto.LabelPair // of our family
	// Of the DCGM family; the parts are those of MIG mode.
	dcgmLabels []*dto.LabelPair
	parts      []part
}

// devices prepares a snapshot's devices. One that is listed twice, which would
// spoil the whole answer, is taken once.
func (b *builder) devices(s *gpu.Snapshot, dcgm bool) []*device {
	out := make([]*device, 0, len(s.Devices))
	type key struct{ node, uuid string }
	seen := make(map[key]bool, len(s.Devices))
	for i := range s.Devices {
		d := &device{Device: &s.Devices[i]}
		if k := (key{d.Node, d.UUID}); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		d.groups = groupsOf(d.Processes.Or(nil))
		d.labels = []*dto.LabelPair{b.pair("node", d.Node), b.pair("uuid", d.UUID)}
		if dcgm {
			d.dcgmLabels = b.dcgmLabels(d.Device, "", "")
			d.parts = b.parts(d.Device)
		}
		out = append(out, d)
	}
	return out
}

var states = []gpu.State{gpu.StateOK, gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep}

// allReasons has the name of every clock event reason.
var allReasons = gpu.ClockEventReasons(^uint64(0)).Names()

// doubtfulRow is filled in from all others.
var doubtfulRow = row[*device]{
	name: "gpuwhy_gpu_reading_doubtful", unit: yesNo, labels: []string{"metric"},
	help:   "The device reported a value for this metric that can't be right, and which therefore has no series. Always 1.",
	absent: "no value of the metric is doubtful",
}

const (
	noMemory   = "the driver can't say, as on products that share the host's memory"
	noECC      = "the product has no ECC, or it is off"
	noFan      = "the product has no fan, as most of the data center"
	noEngine   = "the product has no such engine"
	noCounters = "the product is older than Hopper, MIG mode is on, or it is the first reading"
	noTraffic  = noCounters + ", without --pcie-throughput"
	noRetired  = "the product remaps rows instead"
	noRemap    = "the product retires pages instead, or neither"
	noMIG      = "the product has no MIG"
	noXID      = "gpuwhy can't listen to the driver's events"
	noProcess  = "the driver can't list processes, or there are none"
)

// counted is traffic that the hardware's counters tell: what DCGM's names promise.
func counted(d *device, r gpu.Reading[gpu.BytesPerSecond]) gpu.Reading[float64] {
	if d.Activity.PCIeMeasured() {
		return gpu.Absent[float64](gpu.NotSupported)
	}
	return num(r)
}

// deviceRows are the metrics of a device, as docs/metrics.md lists them.
var deviceRows = []row[*device]{
	{
		name: "gpuwhy_gpu_info", always: true, unit: number,
		labels: []string{"gpu", "name", "vendor", "source", "pci_bus_id", "driver_version", "architecture", "vbios", "serial"},
		help:   "Who a device is; gpu is its index, source is simulated where it is invented. Always 1.",
		from:   "nvmlDeviceGetName and others", otel: "hw.id, hw.name, hw.vendor, hw.serial_number, hw.driver_version, hw.firmware_version",
		each: func(d *device, emit emit) {
			emit(one, strconv.Itoa(d.Index), d.Name, string(d.Vendor), d.Source, d.PCI,
				d.DriverVersion.Or(""), d.Architecture.Or(""), d.VBIOS.Or(""), d.Serial.Or(""))
		},
	},
	{
		name: "gpuwhy_gpu_state", always: true, unit: yesNo, labels: []string{"state"},
		help: "Whether the device is in this state: ok, not_answering, lost or asleep.",
		otel: "hw.status",
		each: func(d *device, emit emit) {
			for _, s := range states {
				emit(gpu.Of(zeroOne(d.State == s)), string(s))
			}
		},
	},
	{
		name: "gpuwhy_gpu_state_since_timestamp_seconds", always: true, unit: timestamp,
		help:  "When the device came into its state.",
		value: func(d *device) gpu.Reading[float64] { return unix(d.Since) },
	},
	{
		name: "gpuwhy_gpu_sampled_timestamp_seconds", unit: timestamp,
		help:  "When the reading of the device's values began.",
		value: func(d *device) gpu.Reading[float64] { return unix(d.SampledAt) },
	},

	// Utilization.
	{
		name: "gpuwhy_gpu_utilization_ratio", unit: percent,
		help: "Share of the last sample period in which a kernel ran.",
		from: "nvmlDeviceGetUtilizationRates", dcgm: &dcgmForm{name: "DCGM_FI_DEV_GPU_UTIL"}, otel: "hw.gpu.utilization{hw.gpu.task=general}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.GPU) },
	},
	{
		name: "gpuwhy_gpu_memory_activity_ratio", unit: percent,
		help: "Share of the last sample period in which memory was read or written.",
		from: "nvmlDeviceGetUtilizationRates", dcgm: &dcgmForm{name: "DCGM_FI_DEV_MEM_COPY_UTIL"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.Memory) },
	},
	{
		name: "gpuwhy_gpu_encoder_utilization_ratio", unit: percent, absent: noEngine,
		help: "Share of the last sample period in which the video encoder worked.",
		from: "nvmlDeviceGetEncoderUtilization", dcgm: &dcgmForm{name: "DCGM_FI_DEV_ENC_UTIL"}, otel: "hw.gpu.utilization{hw.gpu.task=encoder}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.Encoder) },
	},
	{
		name: "gpuwhy_gpu_decoder_utilization_ratio", unit: percent, absent: noEngine,
		help: "Share of the last sample period in which the video decoder worked.",
		from: "nvmlDeviceGetDecoderUtilization", dcgm: &dcgmForm{name: "DCGM_FI_DEV_DEC_UTIL"}, otel: "hw.gpu.utilization{hw.gpu.task=decoder}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.Decoder) },
	},
	{
		name: "gpuwhy_gpu_jpeg_utilization_ratio", unit: percent, absent: noEngine,
		help: "Share of the last sample period in which the JPEG engine worked.", from: "nvmlDeviceGetJpgUtilization",
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.JPEG) },
	},
	{
		name: "gpuwhy_gpu_ofa_utilization_ratio", unit: percent, absent: noEngine,
		help: "Share of the last sample period in which the optical flow engine worked.", from: "nvmlDeviceGetOfaUtilization",
		value: func(d *device) gpu.Reading[float64] { return num(d.Utilization.OFA) },
	},

	{
		name: "gpuwhy_gpu_encoder_sessions", unit: number, absent: noEngine,
		help: "Sessions open on the video encoder.", from: "nvmlDeviceGetEncoderStats",
		value: func(d *device) gpu.Reading[float64] { return num(d.Encoding.Sessions) },
	},
	{
		name: "gpuwhy_gpu_encoder_frames_per_second", unit: frames, absent: noEngine,
		help: "Pictures that a session encodes, as a mean of all; 0 while there is none.", from: "nvmlDeviceGetEncoderStats",
		value: func(d *device) gpu.Reading[float64] { return num(d.Encoding.FrameRate) },
	},
	{
		name: "gpuwhy_gpu_encoder_latency_seconds", unit: micros, absent: noEngine,
		help: "Time until a picture is encoded, as a mean of all sessions; 0 while there is none.", from: "nvmlDeviceGetEncoderStats",
		value: func(d *device) gpu.Reading[float64] { return num(d.Encoding.Latency) },
	},

	// Activity.
	{
		name: "gpuwhy_gpu_engine_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which a compute or graphics engine worked.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_GRAPHICS_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.Engine) },
	},
	{
		name: "gpuwhy_gpu_sm_active_ratio", unit: active, absent: noCounters,
		help: "Share of the SMs that had work, over the time since the reading before.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_SM_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_SM_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.SM) },
	},
	{
		name: "gpuwhy_gpu_sm_occupancy_ratio", unit: active, absent: noCounters,
		help: "Share of the warps that the SMs can hold that were there, over the time since the reading before.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_SM_OCCUPANCY",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_SM_OCCUPANCY"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.Occupancy) },
	},
	{
		name: "gpuwhy_gpu_tensor_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which the tensor cores worked.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_ANY_TENSOR_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.Tensor) },
	},
	{
		name: "gpuwhy_gpu_fp64_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which the units for 64-bit floating point worked.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_FP64_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.FP64) },
	},
	{
		name: "gpuwhy_gpu_fp32_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which the units for 32-bit floating point worked.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_FP32_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.FP32) },
	},
	{
		name: "gpuwhy_gpu_fp16_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which the units for 16-bit floating point worked, tensor cores aside.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_FP16_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.FP16) },
	},
	{
		name: "gpuwhy_gpu_integer_active_ratio", unit: active, absent: noCounters,
		help: "Share of the time since the reading before in which the units for integers worked.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_INTEGER_UTIL",
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.Integer) },
	},
	{
		name: "gpuwhy_gpu_memory_bandwidth_ratio", unit: active, absent: noCounters,
		help: "Share of the memory's bandwidth in use, over the time since the reading before.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_DRAM_BW_UTIL",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_DRAM_ACTIVE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.MemoryBandwidth) },
	},
	{
		name: "gpuwhy_gpu_pcie_sent_bytes_per_second", unit: rate, absent: noTraffic,
		help: "Traffic over PCIe from the device, over the time since the reading before; with --pcie-throughput, where no hardware counts it, over 20 ms.",
		from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_PCIE_TX_PER_SEC; nvmlDeviceGetPcieThroughput",
		dcgm: &dcgmForm{
			name: "DCGM_FI_PROF_PCIE_TX_BYTES", help: "Traffic over PCIe from the device, over the time since the reading before. In bytes/s.",
			value: func(d *device) gpu.Reading[float64] { return counted(d, d.Activity.PCIeSent) },
		},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.PCIeSent) },
	},
	{
		name: "gpuwhy_gpu_pcie_received_bytes_per_second", unit: rate, absent: noTraffic,
		help: "Traffic over PCIe to the device, over the time since the reading before; with --pcie-throughput, where no hardware counts it, over 20 ms.",
		from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_PCIE_RX_PER_SEC; nvmlDeviceGetPcieThroughput",
		dcgm: &dcgmForm{
			name: "DCGM_FI_PROF_PCIE_RX_BYTES", help: "Traffic over PCIe to the device, over the time since the reading before. In bytes/s.",
			value: func(d *device) gpu.Reading[float64] { return counted(d, d.Activity.PCIeReceived) },
		},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.PCIeReceived) },
	},
	{
		name: "gpuwhy_gpu_pcie_measured_timestamp_seconds", unit: timestamp, absent: "the traffic over PCIe is counted by the hardware, or not there",
		help: "When the traffic over PCIe was measured, each ten seconds at most.", from: "nvmlDeviceGetPcieThroughput",
		value: func(d *device) gpu.Reading[float64] { return gpu.Map(d.Activity.PCIeMeasuredAt, seconds1970) },
	},
	{
		name: "gpuwhy_gpu_nvlink_sent_bytes_per_second", unit: rate, absent: noCounters,
		help: "Traffic over all NVLinks from the device, over the time since the reading before.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_NVLINK_TX_BYTES"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.NVLinkSent) },
	},
	{
		name: "gpuwhy_gpu_nvlink_received_bytes_per_second", unit: rate, absent: noCounters,
		help: "Traffic over all NVLinks to the device, over the time since the reading before.", from: "nvmlGpmMetricsGet: NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC",
		dcgm:  &dcgmForm{name: "DCGM_FI_PROF_NVLINK_RX_BYTES"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Activity.NVLinkReceived) },
	},

	// Memory.
	{
		name: "gpuwhy_gpu_memory_total_bytes", unit: bytesUnit, absent: noMemory,
		help: "The device's own memory.", from: "nvmlDeviceGetMemoryInfo_v2", otel: "hw.gpu.memory.limit",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_FB_TOTAL",
			part: func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Total) }},
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.Total) },
	},
	{
		name: "gpuwhy_gpu_memory_used_bytes", unit: bytesUnit, absent: noMemory,
		help: "Memory in use, without what the driver reserves for itself.", from: "nvmlDeviceGetMemoryInfo_v2", otel: "hw.gpu.memory.usage",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_FB_USED",
			part: func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Used) }},
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.Used) },
	},
	{
		name: "gpuwhy_gpu_memory_free_bytes", unit: bytesUnit, absent: noMemory,
		help: "Memory that can be had.", from: "nvmlDeviceGetMemoryInfo_v2",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_FB_FREE",
			part: func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Free) }},
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.Free) },
	},
	{
		name: "gpuwhy_gpu_memory_reserved_bytes", unit: bytesUnit, absent: "the driver is older than 510",
		help: "Memory that the driver reserves for itself.", from: "nvmlDeviceGetMemoryInfo_v2",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_FB_RESERVED",
			part: func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Reserved) }},
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.Reserved) },
	},
	{
		name: "gpuwhy_gpu_bar1_total_bytes", unit: bytesUnit,
		help: "The window through which the host maps device memory.", from: "nvmlDeviceGetBAR1MemoryInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.BAR1Total) },
	},
	{
		name: "gpuwhy_gpu_bar1_used_bytes", unit: bytesUnit,
		help: "What of that window is in use.", from: "nvmlDeviceGetBAR1MemoryInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Memory.BAR1Used) },
	},

	// Temperature.
	{
		name: "gpuwhy_gpu_temperature_celsius", unit: celsius,
		help: "Temperature of the die.", from: "nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperature",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_GPU_TEMP"}, otel: "hw.temperature",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.GPU) },
	},
	{
		name: "gpuwhy_gpu_memory_temperature_celsius", unit: celsius, absent: "the memory has no sensor that the driver shows: most cards without HBM",
		help: "Temperature of the memory.", from: "NVML_FI_DEV_MEMORY_TEMP",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_MEMORY_TEMP"}, otel: "hw.temperature{hw.sensor_location=memory}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.Memory) },
	},
	{
		name: "gpuwhy_gpu_slowdown_temperature_celsius", unit: celsius,
		help: "Where the hardware slows itself down.", from: "nvmlDeviceGetTemperatureThreshold",
		otel:  "hw.temperature.limit{hw.limit_type=high.degraded}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.Slowdown) },
	},
	{
		name: "gpuwhy_gpu_shutdown_temperature_celsius", unit: celsius,
		help: "Where the hardware switches itself off.", from: "nvmlDeviceGetTemperatureThreshold",
		otel:  "hw.temperature.limit{hw.limit_type=high.critical}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.Shutdown) },
	},
	{
		name: "gpuwhy_gpu_target_temperature_celsius", unit: celsius,
		help: "What the driver steers towards.", from: "nvmlDeviceGetTemperatureThreshold",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.Target) },
	},
	{
		name: "gpuwhy_gpu_memory_max_temperature_celsius", unit: celsius,
		help: "Where hot memory makes the device slow down.", from: "nvmlDeviceGetTemperatureThreshold",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.MemoryMax) },
	},
	{
		name: "gpuwhy_gpu_temperature_margin_celsius", unit: celsius, absent: "the driver is too old for it",
		help: "Degrees left to the nearest slowdown limit; can be negative.", from: "nvmlDeviceGetMarginTemperature",
		value: func(d *device) gpu.Reading[float64] { return num(d.Thermal.Margin) },
	},

	// Fans.
	{
		name: "gpuwhy_gpu_fans", unit: number,
		help: "Fans that the device has of its own; 0 where the chassis blows.", from: "nvmlDeviceGetNumFans",
		value: func(d *device) gpu.Reading[float64] { return num(d.Fans.Count) },
	},
	{
		name: "gpuwhy_gpu_fan_commanded_ratio", unit: percent, labels: []string{"fan"}, absent: noFan,
		help: "Speed that the driver asks of the fan, as a share of a noise limit; may pass 1, and a blocked fan still shows it.",
		from: "nvmlDeviceGetFanSpeed_v2", otel: "hw.fan.speed_ratio",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_FAN_SPEED", help: "Highest speed that the driver asks of the device's fans. In %.",
			value: func(d *device) gpu.Reading[float64] { return num(d.Fans.Commanded()) }},
		each: eachFan(func(f *gpu.Fan) gpu.Reading[float64] { return num(f.Commanded) }),
	},
	{
		name: "gpuwhy_gpu_fan_rpm", unit: rpm, labels: []string{"fan"}, absent: noFan + ", or its driver no tachometer",
		help: "Revolutions per minute that the fan's tachometer counts.", from: "nvmlDeviceGetFanSpeedRPM", otel: "hw.fan.speed",
		each: eachFan(func(f *gpu.Fan) gpu.Reading[float64] { return num(f.RPM) }),
	},
	{
		name: "gpuwhy_gpu_fan_target_ratio", unit: percent, labels: []string{"fan"}, absent: noFan,
		help: "Speed that the driver steers the fan towards.", from: "nvmlDeviceGetTargetFanSpeed",
		each: eachFan(func(f *gpu.Fan) gpu.Reading[float64] { return num(f.Target) }),
	},
	{
		name: "gpuwhy_gpu_fan_manual", unit: yesNo, labels: []string{"fan"}, absent: noFan,
		help: "Whether the fan's speed is set by hand.", from: "nvmlDeviceGetFanControlPolicy_v2",
		each: eachFan(func(f *gpu.Fan) gpu.Reading[float64] {
			return gpu.Map(f.Policy, func(p string) float64 { return zeroOne(p == "manual") })
		}),
	},

	// Power.
	{
		name: "gpuwhy_gpu_power_watts", unit: watts,
		help: "Power drawn, over the last second on Ampere and newer.", from: "nvmlDeviceGetPowerUsage",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_POWER_USAGE"}, otel: "hw.power{hw.type=gpu}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.Draw) },
	},
	{
		name: "gpuwhy_gpu_power_limit_watts", unit: watts,
		help: "The lowest of all power limits in force.", from: "nvmlDeviceGetEnforcedPowerLimit",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.EnforcedLimit) },
	},
	{
		name: "gpuwhy_gpu_power_default_limit_watts", unit: watts,
		help: "The power limit as the device comes.", from: "nvmlDeviceGetPowerManagementDefaultLimit",
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.DefaultLimit) },
	},
	{
		name: "gpuwhy_gpu_power_min_limit_watts", unit: watts,
		help: "What the power limit may be set to at least.", from: "nvmlDeviceGetPowerManagementLimitConstraints",
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.MinLimit) },
	},
	{
		name: "gpuwhy_gpu_power_max_limit_watts", unit: watts,
		help: "What the power limit may be set to at most.", from: "nvmlDeviceGetPowerManagementLimitConstraints",
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.MaxLimit) },
	},
	{
		name: "gpuwhy_gpu_energy_joules_total", kind: counter, unit: joules, absent: "the product is older than Volta",
		help: "Energy used since the driver was loaded.", from: "nvmlDeviceGetTotalEnergyConsumption",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kind: counter}, otel: "hw.energy{hw.type=gpu}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Power.Energy) },
	},

	// Clocks.
	{
		name: "gpuwhy_gpu_graphics_clock_hertz", unit: megahertz, help: "Clock of the graphics engines.", from: "nvmlDeviceGetClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.Graphics) },
	},
	{
		name: "gpuwhy_gpu_sm_clock_hertz", unit: megahertz, help: "Clock of the streaming multiprocessors.", from: "nvmlDeviceGetClockInfo",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_SM_CLOCK"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.SM) },
	},
	{
		name: "gpuwhy_gpu_memory_clock_hertz", unit: megahertz, help: "Clock of the memory.", from: "nvmlDeviceGetClockInfo",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_MEM_CLOCK"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.Memory) },
	},
	{
		name: "gpuwhy_gpu_video_clock_hertz", unit: megahertz, help: "Clock of the video engines.", from: "nvmlDeviceGetClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.Video) },
	},
	{
		name: "gpuwhy_gpu_graphics_max_clock_hertz", unit: megahertz, help: "Highest clock of the graphics engines.", from: "nvmlDeviceGetMaxClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.MaxGraphics) },
	},
	{
		name: "gpuwhy_gpu_sm_max_clock_hertz", unit: megahertz, help: "Highest clock of the streaming multiprocessors.", from: "nvmlDeviceGetMaxClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.MaxSM) },
	},
	{
		name: "gpuwhy_gpu_memory_max_clock_hertz", unit: megahertz, help: "Highest clock of the memory.", from: "nvmlDeviceGetMaxClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.MaxMemory) },
	},
	{
		name: "gpuwhy_gpu_video_max_clock_hertz", unit: megahertz, help: "Highest clock of the video engines.", from: "nvmlDeviceGetMaxClockInfo",
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.MaxVideo) },
	},
	{
		name: "gpuwhy_gpu_performance_state", unit: number,
		help: "Performance state, 0 (P0, fastest) to 15.", from: "nvmlDeviceGetPerformanceState",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_PSTATE"},
		value: func(d *device) gpu.Reading[float64] { return num(d.Clocks.PerformanceState) },
	},
	{
		name: "gpuwhy_gpu_clock_event", unit: yesNo, labels: []string{"reason"},
		help: "Whether this is among the reasons that hold the clocks where they are.", from: "nvmlDeviceGetCurrentClocksEventReasons",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", help: "What holds the clocks where they are, as the driver's own bits.",
			value: func(d *device) gpu.Reading[float64] {
				return gpu.Map(d.Clocks.EventReasons, func(r gpu.ClockEventReasons) float64 { return float64(r) })
			}},
		each: eachReason,
	},

	// PCIe.
	{
		name: "gpuwhy_gpu_pcie_generation", unit: number, help: "Generation of the PCIe link now; lower at rest.", from: "nvmlDeviceGetCurrPcieLinkGeneration",
		value: func(d *device) gpu.Reading[float64] { return num(d.PCIe.Generation) },
	},
	{
		name: "gpuwhy_gpu_pcie_max_generation", unit: number, help: "Highest generation of the PCIe link.", from: "nvmlDeviceGetMaxPcieLinkGeneration",
		value: func(d *device) gpu.Reading[float64] { return num(d.PCIe.MaxGeneration) },
	},
	{
		name: "gpuwhy_gpu_pcie_lanes", unit: number, help: "Lanes of the PCIe link now.", from: "nvmlDeviceGetCurrPcieLinkWidth",
		value: func(d *device) gpu.Reading[float64] { return num(d.PCIe.Width) },
	},
	{
		name: "gpuwhy_gpu_pcie_max_lanes", unit: number, help: "Lanes of the PCIe link at most.", from: "nvmlDeviceGetMaxPcieLinkWidth",
		value: func(d *device) gpu.Reading[float64] { return num(d.PCIe.MaxWidth) },
	},
	{
		name: "gpuwhy_gpu_pcie_replays_total", kind: counter, unit: number,
		help: "Packets sent again over PCIe since the driver was loaded.", from: "nvmlDeviceGetPcieReplayCounter",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.PCIe.Replays) },
	},

	// Health.
	{
		always: true,
		name:   "gpuwhy_gpu_xid_errors_total", kind: counter, unit: number, labels: []string{"xid"}, absent: noXID + ", or heard none of this code",
		help: "Error events of the driver about the device since gpuwhy began to listen, by code.",
		from: "nvmlEventTypeXidCriticalError", otel: "hw.errors",
		each: func(d *device, emit emit) {
			for _, x := range d.Health.XIDs.Or(nil) {
				emit(gpu.Of(float64(x.Count)), strconv.Itoa(x.Code))
			}
		},
	},
	{
		always: true,
		name:   "gpuwhy_gpu_xid_last_timestamp_seconds", unit: timestamp, labels: []string{"xid"}, absent: noXID + ", or heard none of this code",
		help: "When the newest error event of this code was.", from: "nvmlEventTypeXidCriticalError",
		each: func(d *device, emit emit) {
			for _, x := range d.Health.XIDs.Or(nil) {
				emit(unix(x.Last), strconv.Itoa(x.Code))
			}
		},
	},
	{
		always: true,
		name:   "gpuwhy_gpu_xids_total", kind: counter, unit: number, absent: noXID,
		help: "Error events of the driver about the device, of all codes; 0 while there were none.", from: "nvmlEventTypeXidCriticalError",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_XID_ERRORS", help: "Code of the driver's newest error event about the device, 0 where there was none.",
			value: func(d *device) gpu.Reading[float64] { return gpu.Map(d.Health.XIDs, lastXID) }},
		value: func(d *device) gpu.Reading[float64] { return gpu.Map(d.Health.XIDs, countXIDs) },
	},
	{
		name: "gpuwhy_gpu_ecc_enabled", unit: yesNo, absent: "the product has no ECC", help: "Whether ECC is on.", from: "nvmlDeviceGetEccMode",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Health.ECCMode) },
	},
	{
		name: "gpuwhy_gpu_ecc_enabled_pending", unit: yesNo, absent: "the product has no ECC", help: "Whether ECC is on after the next restart.", from: "nvmlDeviceGetEccMode",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Health.ECCModePending) },
	},
	{
		name: "gpuwhy_gpu_ecc_corrected_errors_total", kind: counter, unit: number, absent: noECC,
		help: "Memory errors that ECC corrected since the driver was loaded.", from: "nvmlDeviceGetTotalEccErrors",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", kind: counter}, otel: "hw.errors{error.type=corrected}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.CorrectedVolatile) },
	},
	{
		name: "gpuwhy_gpu_ecc_uncorrected_errors_total", kind: counter, unit: number, absent: noECC,
		help: "Memory errors that ECC could not correct since the driver was loaded.", from: "nvmlDeviceGetTotalEccErrors",
		dcgm: &dcgmForm{name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", kind: counter}, otel: "hw.errors{error.type=uncorrected}",
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.UncorrectedVolatile) },
	},
	{
		name: "gpuwhy_gpu_ecc_corrected_lifetime_errors_total", kind: counter, unit: number, absent: noECC,
		help: "Memory errors that ECC corrected in the device's life.", from: "nvmlDeviceGetTotalEccErrors",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.CorrectedAggregate) },
	},
	{
		name: "gpuwhy_gpu_ecc_uncorrected_lifetime_errors_total", kind: counter, unit: number, absent: noECC,
		help: "Memory errors that ECC could not correct in the device's life.", from: "nvmlDeviceGetTotalEccErrors",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.UncorrectedAggregate) },
	},
	{
		name: "gpuwhy_gpu_remapped_correctable_rows", unit: number, absent: noRemap,
		help: "Spare rows in use because of correctable errors.", from: "nvmlDeviceGetRemappedRows",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.RemappedCorrectable) },
	},
	{
		name: "gpuwhy_gpu_remapped_uncorrectable_rows", unit: number, absent: noRemap,
		help: "Spare rows in use because of uncorrectable errors.", from: "nvmlDeviceGetRemappedRows",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.RemappedUncorrectable) },
	},
	{
		name: "gpuwhy_gpu_row_remap_pending", unit: yesNo, absent: noRemap,
		help: "Whether a row is replaced at the next reset.", from: "nvmlDeviceGetRemappedRows",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_ROW_REMAP_PENDING"},
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Health.RemapPending) },
	},
	{
		name: "gpuwhy_gpu_row_remap_failed", unit: yesNo, absent: noRemap,
		help: "Whether a row could not be replaced.", from: "nvmlDeviceGetRemappedRows",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_ROW_REMAP_FAILURE"},
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Health.RemapFailed) },
	},
	{
		name: "gpuwhy_gpu_retired_single_bit_pages", unit: number, absent: noRetired,
		help: "Pages retired because of single-bit errors.", from: "nvmlDeviceGetRetiredPages_v2",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_RETIRED_SBE", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.RetiredSingleBit) },
	},
	{
		name: "gpuwhy_gpu_retired_double_bit_pages", unit: number, absent: noRetired,
		help: "Pages retired because of double-bit errors.", from: "nvmlDeviceGetRetiredPages_v2",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_RETIRED_DBE", kind: counter},
		value: func(d *device) gpu.Reading[float64] { return num(d.Health.RetiredDoubleBit) },
	},
	{
		name: "gpuwhy_gpu_page_retirement_pending", unit: yesNo, absent: noRetired,
		help: "Whether pages are retired at the next restart.", from: "nvmlDeviceGetRetiredPagesPendingStatus",
		dcgm:  &dcgmForm{name: "DCGM_FI_DEV_RETIRED_PENDING"},
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Health.RetirementPending) },
	},

	// Modes.
	{
		name: "gpuwhy_gpu_persistence_mode", unit: yesNo, help: "Whether the driver stays loaded without clients.", from: "nvmlDeviceGetPersistenceMode",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Modes.Persistence) },
	},
	{
		name: "gpuwhy_gpu_compute_mode", unit: number, labels: []string{"mode"},
		help: "Who may compute: default, exclusive_process or prohibited. Always 1.", from: "nvmlDeviceGetComputeMode",
		each: func(d *device, emit emit) {
			emit(gpu.Map(d.Modes.Compute, func(string) float64 { return 1 }), d.Modes.Compute.Or(""))
		},
	},
	{
		name: "gpuwhy_gpu_display_active", unit: yesNo, help: "Whether a display server draws on the device.", from: "nvmlDeviceGetDisplayActive",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Modes.DisplayActive) },
	},
	{
		name: "gpuwhy_gpu_mig_enabled", unit: yesNo, absent: noMIG, help: "Whether MIG mode is on.", from: "nvmlDeviceGetMigMode",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Modes.MIG) },
	},
	{
		name: "gpuwhy_gpu_mig_enabled_pending", unit: yesNo, absent: noMIG, help: "Whether MIG mode is on after the next reset.", from: "nvmlDeviceGetMigMode",
		value: func(d *device) gpu.Reading[float64] { return boolean(d.Modes.MIGPending) },
	},

	// MIG instances.
	{
		name: "gpuwhy_gpu_mig_info", unit: number, labels: []string{"mig_uuid", "name", "gpu_instance", "compute_instance"}, absent: "MIG mode is off",
		help: "A MIG instance of the device. Always 1.", from: "nvmlDeviceGetMigDeviceHandleByIndex", otel: "hw.parent",
		each: func(d *device, emit emit) {
			for i := range d.Instances {
				in := &d.Instances[i]
				emit(one, in.UUID, in.Name, id(in.GPUInstance), id(in.ComputeInstance))
			}
		},
	},
	{
		name: "gpuwhy_gpu_mig_memory_total_bytes", unit: bytesUnit, labels: []string{"mig_uuid"}, absent: "MIG mode is off",
		help: "Memory of the MIG instance; compute instances of one GPU instance share it.", from: "nvmlDeviceGetMemoryInfo_v2",
		each: eachInstance(func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Total) }),
	},
	{
		name: "gpuwhy_gpu_mig_memory_used_bytes", unit: bytesUnit, labels: []string{"mig_uuid"}, absent: "MIG mode is off",
		help: "Memory of the MIG instance in use.", from: "nvmlDeviceGetMemoryInfo_v2",
		each: eachInstance(func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Used) }),
	},
	{
		name: "gpuwhy_gpu_mig_memory_free_bytes", unit: bytesUnit, labels: []string{"mig_uuid"}, absent: "MIG mode is off",
		help: "Memory of the MIG instance that can be had.", from: "nvmlDeviceGetMemoryInfo_v2",
		each: eachInstance(func(in *gpu.Instance) gpu.Reading[float64] { return num(in.Memory.Free) }),
	},

	// Processes.
	{
		name: "gpuwhy_gpu_processes", unit: number, absent: "the driver can't list processes",
		help: "Processes with a context on the device.", from: "nvmlDeviceGetComputeRunningProcesses and others",
		value: func(d *device) gpu.Reading[float64] {
			return gpu.Map(d.Processes, func(p []gpu.Process) float64 { return float64(len(p)) })
		},
	},
	{
		name: "gpuwhy_gpu_process_pids", unit: number, labels: []string{"name", "user"}, absent: noProcess,
		help: "Processes of this name and user on the device.", from: "as above, /proc",
		each: eachGroup(func(g *group) gpu.Reading[float64] { return gpu.Of(float64(g.pids)) }),
	},
	{
		name: "gpuwhy_gpu_process_memory_bytes", unit: bytesUnit, labels: []string{"name", "user"}, absent: noProcess + ", or does not say it of any of them",
		help: "Device memory that processes of this name and user hold, those of which the driver says it.", from: "as above, /proc",
		each: eachGroup(func(g *group) gpu.Reading[float64] { return g.memory }),
	},
	{
		name: "gpuwhy_gpu_process_sm_ratio", unit: percent, labels: []string{"name", "user"}, absent: noProcess + ", or takes no samples",
		help: "Share of the SMs' time that processes of this name and user had.", from: "nvmlDeviceGetProcessUtilization",
		each: eachGroup(func(g *group) gpu.Reading[float64] { return g.sm }),
	},
}

func eachFan(value func(*gpu.Fan) gpu.Reading[float64]) func(*device, emit) {
	return func(d *device, emit emit) {
		for i := range d.Fans.Fans {
			emit(value(&d.Fans.Fans[i]), strconv.Itoa(i))
		}
	}
}

func eachInstance(value func(*gpu.Instance) gpu.Reading[float64]) func(*device, emit) {
	return func(d *device, emit emit) {
		for i := range d.Instances {
			emit(value(&d.Instances[i]), d.Instances[i].UUID)
		}
	}
}

func eachGroup(value func(*group) gpu.Reading[float64]) func(*device, emit) {
	return func(d *device, emit emit) {
		for i := range d.groups {
			emit(value(&d.groups[i]), d.groups[i].name, d.groups[i].user)
		}
	}
}

func eachReason(d *device, emit emit) {
	reasons, ok := d.Clocks.EventReasons.Get()
	if !ok {
		return
	}
	names := reasons.Names() // in the order of allReasons
	for _, name := range allReasons {
		in := len(names) > 0 && names[0] == name
		if in {
			names = names[1:]
		}
		emit(gpu.Map(d.Clocks.EventReasons, func(gpu.ClockEventReasons) float64 { return zeroOne(in) }), name)
	}
}

func countXIDs(xids []gpu.XID) float64 {
	n := uint64(0)
	for _, x := range xids {
		n += x.Count
	}
	return float64(n)
}

// lastXID is the code of the newest error event, 0 where there was none.
func lastXID(xids []gpu.XID) float64 {
	var last gpu.XID
	for _, x := range xids {
		if x.Last.After(last.Last) || last.Code == 0 {
			last = x
		}
	}
	return float64(last.Code)
}

func id(r gpu.Reading[int]) string {
	if v, ok := r.Get(); ok {
		return strconv.Itoa(v)
	}
	return ""
}
