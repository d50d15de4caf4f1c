package views

import (
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	utilizationRates = "nvmlDeviceGetUtilizationRates"
	memoryInfo       = "nvmlDeviceGetMemoryInfo_v2"
	thresholds       = "nvmlDeviceGetTemperatureThreshold"
	clockInfo        = "nvmlDeviceGetClockInfo"
	maxClockInfo     = "nvmlDeviceGetMaxClockInfo"
	eccErrors        = "nvmlDeviceGetTotalEccErrors"
	remappedRows     = "nvmlDeviceGetRemappedRows"
	throughput       = "nvmlDeviceGetPcieThroughput"
	encoderStats     = "nvmlDeviceGetEncoderStats"
	retiredPages     = "nvmlDeviceGetRetiredPages_v2"
)

// measuredAt is there while traffic over PCIe is measured, and not counted.
const measuredAt = "activity.pcie_measured_at"

type dev = gpu.Device

// factSpecs are all readings of a device, in the groups of package gpu, with
// what a person should know of each. The calls are NVIDIA's; other sources
// read the same from their own.
var factSpecs = []struct {
	title string
	facts []factSpec
	list  func(*gpu.Device) *FactList
}{
	{title: "Utilization", facts: []factSpec{
		reads("utilization.gpu_percent", "GPU", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.GPU },
			"How much of the last sample period any kernel ran. 100 % can be one small kernel: it says nothing of how much of the chip worked.", utilizationRates),
		reads("utilization.memory_percent", "Memory controller", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.Memory },
			"How much of that time memory was read or written, not how full it is.", utilizationRates),
		reads("utilization.encoder_percent", "Encoder", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.Encoder },
			"The video encoder (NVENC): recording, streaming.", "nvmlDeviceGetEncoderUtilization"),
		reads("encoder.session_count", "Encoder sessions", func(d *dev) gpu.Reading[int] { return d.Encoding.Sessions },
			"Videos being encoded now. Consumer cards allow a few at once.", encoderStats),
		reads("encoder.average_fps", "Encoder pace", func(d *dev) gpu.Reading[gpu.FramesPerSecond] { return d.Encoding.FrameRate },
			"Pictures a second in each session, as a mean. Below a live recording’s own rate, pictures are dropped.", encoderStats),
		reads("encoder.average_latency_us", "Encoder delay", func(d *dev) gpu.Reading[gpu.Microseconds] { return d.Encoding.Latency },
			"From a picture to its code, as a mean. In a stream this is lag.", encoderStats),
		reads("utilization.decoder_percent", "Decoder", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.Decoder },
			"The video decoder (NVDEC): playback, data loaders.", "nvmlDeviceGetDecoderUtilization"),
		reads("utilization.jpeg_percent", "JPEG", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.JPEG },
			"The JPEG engine.", "nvmlDeviceGetJpgUtilization"),
		reads("utilization.ofa_percent", "Optical flow", func(d *dev) gpu.Reading[gpu.Percent] { return d.Utilization.OFA },
			"The optical flow engine: frame generation.", "nvmlDeviceGetOfaUtilization"),
	}},
	{title: "Activity", facts: []factSpec{
		reads("activity.engine_percent", "Engines", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.Engine },
			"How much of the time since the reading before a compute or graphics engine had work.", "nvmlGpmMetricsGet (GRAPHICS_UTIL)"),
		reads("activity.sm_percent", "SMs", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.SM },
			"How many of the multiprocessors had work, as a mean of that time. Far below the engines: the work is too small for the chip.", "nvmlGpmMetricsGet (SM_UTIL)"),
		reads("activity.sm_occupancy_percent", "Occupancy", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.Occupancy },
			"How many threads were there of those that the multiprocessors can hold. Good programs can do with few.", "nvmlGpmMetricsGet (SM_OCCUPANCY)"),
		reads("activity.tensor_percent", "Tensor cores", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.Tensor },
			"How much of that time they worked. Most of a model’s arithmetic should be here; 60 % is a lot.", "nvmlGpmMetricsGet (ANY_TENSOR_UTIL)"),
		reads("activity.fp64_percent", "64-bit arithmetic", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.FP64 },
			"Simulations.", "nvmlGpmMetricsGet (FP64_UTIL)"),
		reads("activity.fp32_percent", "32-bit arithmetic", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.FP32 },
			"High beside idle tensor cores: a model computes in a format that they do not take.", "nvmlGpmMetricsGet (FP32_UTIL)"),
		reads("activity.fp16_percent", "16-bit arithmetic", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.FP16 },
			"Outside the tensor cores.", "nvmlGpmMetricsGet (FP16_UTIL)"),
		reads("activity.integer_percent", "Integers", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.Integer },
			"Addresses and indexes, mostly.", "nvmlGpmMetricsGet (INTEGER_UTIL)"),
		reads("activity.memory_bandwidth_percent", "Memory bandwidth", func(d *dev) gpu.Reading[gpu.Percent] { return d.Activity.MemoryBandwidth },
			"What was moved of what the memory can move. Near 80 % it is the memory that work waits for.", "nvmlGpmMetricsGet (DRAM_BW_UTIL)"),
		reads("activity.pcie_sent_bytes_per_second", "Sent over PCIe", func(d *dev) gpu.Reading[gpu.BytesPerSecond] { return d.Activity.PCIeSent },
			"To the host, or to other cards through it.", "nvmlGpmMetricsGet (PCIE_TX_PER_SEC)").measured(),
		reads("activity.pcie_received_bytes_per_second", "Received over PCIe", func(d *dev) gpu.Reading[gpu.BytesPerSecond] { return d.Activity.PCIeReceived },
			"Data being loaded.", "nvmlGpmMetricsGet (PCIE_RX_PER_SEC)").measured(),
		reads(measuredAt, "PCIe measured at", func(d *dev) gpu.Reading[time.Time] { return d.Activity.PCIeMeasuredAt },
			"Where no hardware counts, --pcie-throughput has both measured each ten seconds, for 20 ms: a sample, no mean.", throughput).or("not measured"),
		reads("activity.nvlink_sent_bytes_per_second", "Sent over NVLink", func(d *dev) gpu.Reading[gpu.BytesPerSecond] { return d.Activity.NVLinkSent },
			"To other GPUs, over all links.", "nvmlGpmMetricsGet (NVLINK_TOTAL_TX_PER_SEC)"),
		reads("activity.nvlink_received_bytes_per_second", "Received over NVLink", func(d *dev) gpu.Reading[gpu.BytesPerSecond] { return d.Activity.NVLinkReceived },
			"From other GPUs, over all links.", "nvmlGpmMetricsGet (NVLINK_TOTAL_RX_PER_SEC)"),
	}},
	{title: "Memory", facts: []factSpec{
		reads("memory.used_mb", "Used", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.Used },
			"What programs hold, used or not: many take most of it at once and keep it.", memoryInfo),
		reads("memory.free_mb", "Free", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.Free },
			"What the next program can have.", memoryInfo),
		reads("memory.reserved_mb", "Reserved", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.Reserved },
			"What the driver keeps for itself. It is not in “used”.", memoryInfo),
		reads("memory.total_mb", "Total", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.Total },
			"All memory on the card, in binary units: 24 GB in a shop are 24 GiB here.", memoryInfo),
		reads("memory.bar1_used_mb", "BAR1 used", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.BAR1Used },
			"Used of the window through which the CPU and other cards reach the memory.", "nvmlDeviceGetBAR1MemoryInfo"),
		reads("memory.bar1_total_mb", "BAR1 total", func(d *dev) gpu.Reading[gpu.Bytes] { return d.Memory.BAR1Total },
			"The window’s size; as large as the memory with resizable BAR.", "nvmlDeviceGetBAR1MemoryInfo"),
	}},
	{title: "Temperature", facts: []factSpec{
		reads("temperature.current_celsius", "GPU", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.GPU },
			"The chip’s own sensor. Spots of the chip may be hotter.", "nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperature"),
		reads("temperature.memory_celsius", "Memory", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.Memory },
			"Cards with stacked memory (HBM) report it; most others do not.", "NVML_FI_DEV_MEMORY_TEMP"),
		reads("temperature.margin_celsius", "Left until it slows", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.Margin },
			"Degrees to the nearest limit at which the hardware slows itself down; below 0 it is past it.", "nvmlDeviceGetMarginTemperature"),
		reads("temperature.slowdown_threshold_celsius", "Slows at", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.Slowdown },
			"From here on the hardware slows itself down.", thresholds),
		reads("temperature.shutdown_threshold_celsius", "Switches off at", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.Shutdown },
			"From here on it switches itself off.", thresholds),
		reads("temperature.target_celsius", "Steered towards", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.Target },
			"The driver turns the fan and the clocks to stay here.", thresholds),
		reads("temperature.memory_max_celsius", "Memory slows at", func(d *dev) gpu.Reading[gpu.Celsius] { return d.Thermal.MemoryMax },
			"From here on hot memory slows the card down.", thresholds),
	}},
	{title: "Fans", facts: []factSpec{
		reads("fan_count", "Fans", func(d *dev) gpu.Reading[int] { return d.Fans.Count },
			"The card’s own. Cards without any are cooled by the chassis, whose fans gpuwhy can’t see.", "nvmlDeviceGetNumFans"),
		reads("fan_speed_percent", "Asked for", func(d *dev) gpu.Reading[gpu.Percent] { return d.Fans.Commanded() },
			"The fastest fan, as nvidia-smi shows it: what the driver asks for, not what it turns.", "nvmlDeviceGetFanSpeed_v2"),
	}, list: fanList},
	{title: "Power", facts: []factSpec{
		reads("power.power_draw_watts", "Drawn", func(d *dev) gpu.Reading[gpu.Watts] { return d.Power.Draw },
			"Of the whole card. All of it becomes heat. Mean of the last second on Ampere and newer.", "nvmlDeviceGetPowerUsage"),
		reads("power.power_limit_watts", "Limit", func(d *dev) gpu.Reading[gpu.Watts] { return d.Power.EnforcedLimit },
			"The lowest of all limits in force. At it, the clocks go down.", "nvmlDeviceGetEnforcedPowerLimit"),
		reads("power.default_limit_watts", "Limit by default", func(d *dev) gpu.Reading[gpu.Watts] { return d.Power.DefaultLimit },
			"What the maker set.", "nvmlDeviceGetPowerManagementDefaultLimit"),
		reads("power.min_limit_watts", "Lowest limit", func(d *dev) gpu.Reading[gpu.Watts] { return d.Power.MinLimit },
			"An administrator may set the limit down to here (nvidia-smi -pl): less noise for a little less speed.", "nvmlDeviceGetPowerManagementLimitConstraints"),
		reads("power.max_limit_watts", "Highest limit", func(d *dev) gpu.Reading[gpu.Watts] { return d.Power.MaxLimit },
			"And up to here.", "nvmlDeviceGetPowerManagementLimitConstraints"),
		reads("power.total_energy_joules", "Energy", func(d *dev) gpu.Reading[gpu.Joules] { return d.Power.Energy },
			"Used since the driver was loaded.", "nvmlDeviceGetTotalEnergyConsumption"),
	}},
	{title: "Clocks", facts: []factSpec{
		reads("clock_event_reasons", "Held by", func(d *dev) gpu.Reading[gpu.ClockEventReasons] { return d.Clocks.EventReasons },
			"What keeps the clocks where they are. The power limit is usual under full load; heat costs speed.", "nvmlDeviceGetCurrentClocksEventReasons"),
		reads("performance_state", "Performance state", func(d *dev) gpu.Reading[string] { return gpu.Map(d.Clocks.PerformanceState, pstate) },
			"P0 is the fastest, P8 and above are for rest. An idle card that stays in P0 is held there by a program.", "nvmlDeviceGetPerformanceState"),
		reads("clocks.sm_clock_mhz", "SM", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.SM },
			"The multiprocessors, where the work is done.", clockInfo),
		reads("clocks.max_sm_clock_mhz", "SM, at most", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.MaxSM },
			"Cool and lightly loaded cards come near it.", maxClockInfo),
		reads("clocks.graphics_clock_mhz", "Graphics", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.Graphics },
			"The same as SM on cards of today.", clockInfo),
		reads("clocks.max_graphics_clock_mhz", "Graphics, at most", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.MaxGraphics }, "", maxClockInfo),
		reads("clocks.memory_clock_mhz", "Memory", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.Memory },
			"High while a display with many pixels is on, even at rest: that alone can keep a fan running.", clockInfo),
		reads("clocks.max_memory_clock_mhz", "Memory, at most", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.MaxMemory }, "", maxClockInfo),
		reads("clocks.video_clock_mhz", "Video", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.Video },
			"The encoder and decoder.", clockInfo),
		reads("clocks.max_video_clock_mhz", "Video, at most", func(d *dev) gpu.Reading[gpu.Megahertz] { return d.Clocks.MaxVideo }, "", maxClockInfo),
	}},
	{title: "PCIe", facts: []factSpec{
		reads("pcie.generation", "Generation", func(d *dev) gpu.Reading[int] { return d.PCIe.Generation },
			"A resting card goes down to 1 to save power; under load it should be at its highest.", "nvmlDeviceGetCurrPcieLinkGeneration"),
		reads("pcie.max_generation", "Highest generation", func(d *dev) gpu.Reading[int] { return d.PCIe.MaxGeneration },
			"That card and slot can do together.", "nvmlDeviceGetMaxPcieLinkGeneration"),
		reads("pcie.width", "Lanes", func(d *dev) gpu.Reading[int] { return d.PCIe.Width },
			"Fewer than it has: another slot shares them, or the card sits badly.", "nvmlDeviceGetCurrPcieLinkWidth"),
		reads("pcie.max_width", "Most lanes", func(d *dev) gpu.Reading[int] { return d.PCIe.MaxWidth }, "", "nvmlDeviceGetMaxPcieLinkWidth"),
		reads("pcie.replay_count", "Replays", func(d *dev) gpu.Reading[uint64] { return d.PCIe.Replays },
			"Packets sent again since the driver was loaded. A number that grows means a bad contact or riser.", "nvmlDeviceGetPcieReplayCounter"),
	}},
	{title: "Health", facts: []factSpec{
		reads("health.ecc_enabled", "ECC", func(d *dev) gpu.Reading[bool] { return d.Health.ECCMode },
			"Memory that finds and corrects its errors.", "nvmlDeviceGetEccMode"),
		reads("health.ecc_pending", "ECC after a restart", func(d *dev) gpu.Reading[bool] { return d.Health.ECCModePending }, "", "nvmlDeviceGetEccMode"),
		reads("health.ecc_corrected_volatile", "Corrected errors", func(d *dev) gpu.Reading[uint64] { return d.Health.CorrectedVolatile },
			"Since the driver was loaded. A few are normal.", eccErrors),
		reads("health.ecc_uncorrected_volatile", "Uncorrected errors", func(d *dev) gpu.Reading[uint64] { return d.Health.UncorrectedVolatile },
			"Since the driver was loaded. Each one ended the work that met it.", eccErrors),
		reads("health.ecc_corrected_aggregate", "Corrected, ever", func(d *dev) gpu.Reading[uint64] { return d.Health.CorrectedAggregate },
			"In the card’s life.", eccErrors),
		reads("health.ecc_uncorrected_aggregate", "Uncorrected, ever", func(d *dev) gpu.Reading[uint64] { return d.Health.UncorrectedAggregate },
			"In the card’s life.", eccErrors),
		reads("health.remapped_rows_correctable", "Rows remapped, correctable", func(d *dev) gpu.Reading[uint64] { return d.Health.RemappedCorrectable },
			"Spare rows in use in place of rows that often needed correcting.", remappedRows),
		reads("health.remapped_rows_uncorrectable", "Rows remapped, uncorrectable", func(d *dev) gpu.Reading[uint64] { return d.Health.RemappedUncorrectable },
			"Spare rows in use in place of broken rows.", remappedRows),
		reads("health.remapped_rows_pending", "Remapping waits", func(d *dev) gpu.Reading[bool] { return d.Health.RemapPending },
			"Yes: the GPU must be reset for it.", remappedRows),
		reads("health.remapped_rows_failed", "Remapping failed", func(d *dev) gpu.Reading[bool] { return d.Health.RemapFailed },
			"Yes: no spare rows are left. It is a case for the maker’s warranty.", remappedRows),
		reads("health.retired_pages_single_bit", "Pages retired, single bit", func(d *dev) gpu.Reading[uint64] { return d.Health.RetiredSingleBit },
			"On cards older than row remapping.", retiredPages),
		reads("health.retired_pages_double_bit", "Pages retired, double bit", func(d *dev) gpu.Reading[uint64] { return d.Health.RetiredDoubleBit },
			"On cards older than row remapping.", retiredPages),
		reads("health.retired_pages_pending", "Retirement waits", func(d *dev) gpu.Reading[bool] { return d.Health.RetirementPending },
			"Yes: the machine must be restarted for it.", "nvmlDeviceGetRetiredPagesPendingStatus"),
		reads("health.xids", "Driver errors (Xid)", func(d *dev) gpu.Reading[[]gpu.XID] { return d.Health.XIDs },
			"Since gpuwhy began to listen.", "nvmlEventTypeXidCriticalError"),
	}, list: xidList},
	{title: "Modes", facts: []factSpec{
		reads("modes.persistence", "Persistence", func(d *dev) gpu.Reading[bool] { return d.Modes.Persistence },
			"The driver stays loaded while no program uses the card. Without it, each start takes a second or more.", "nvmlDeviceGetPersistenceMode"),
		reads("modes.compute", "Compute mode", func(d *dev) gpu.Reading[string] { return d.Modes.Compute },
			"Whether several programs may compute on it at once.", "nvmlDeviceGetComputeMode"),
		reads("modes.display_active", "Display", func(d *dev) gpu.Reading[bool] { return d.Modes.DisplayActive },
			"A display server draws on it, which keeps it from resting deeply.", "nvmlDeviceGetDisplayActive"),
		reads("modes.mig", "MIG", func(d *dev) gpu.Reading[bool] { return d.Modes.MIG },
			"Divided into instances. Utilization of the whole is then often not offered.", "nvmlDeviceGetMigMode"),
		reads("modes.mig_pending", "MIG after a reset", func(d *dev) gpu.Reading[bool] { return d.Modes.MIGPending }, "", "nvmlDeviceGetMigMode"),
	}, list: instanceList},
	{title: "Identity", facts: []factSpec{
		told("gpu_name", "Product", func(d *dev) string { return d.Name }, "", "nvmlDeviceGetName"),
		told("gpu_uuid", "UUID", func(d *dev) string { return d.UUID },
			"Stays the same when cards are moved. CUDA_VISIBLE_DEVICES takes it.", "nvmlDeviceGetUUID"),
		told("gpu_id", "Number", func(d *dev) string { return strconv.Itoa(d.Index) },
			"gpuwhy’s own: the place by PCI address. No other card gets it while gpuwhy runs.", "").as("whole"),
		reads("vendor_index", "The driver’s number", func(d *dev) gpu.Reading[int] { return d.VendorIndex },
			"May change when the machine restarts.", "nvmlDeviceGetIndex"),
		told("pci_bus_id", "PCI address", func(d *dev) string { return d.PCI }, "Where it sits, as lspci shows it.", "nvmlDeviceGetPciInfo_v3"),
		reads("architecture", "Architecture", func(d *dev) gpu.Reading[string] { return d.Architecture }, "", "nvmlDeviceGetArchitecture"),
		reads("serial", "Serial number", func(d *dev) gpu.Reading[string] { return d.Serial }, "On professional cards.", "nvmlDeviceGetSerial"),
		reads("vbios_version", "VBIOS", func(d *dev) gpu.Reading[string] { return d.VBIOS }, "", "nvmlDeviceGetVbiosVersion"),
		reads("driver_version", "Driver", func(d *dev) gpu.Reading[string] { return d.DriverVersion }, "", "nvmlSystemGetDriverVersion"),
		reads("reserved_by", "Kept for", func(d *dev) gpu.Reading[string] { return d.ReservedBy() },
			"The pod that Kubernetes has given it to, whether it uses it or not.", "v1.PodResourcesLister/List"),
		told("source", "Read through", func(d *dev) string { return d.Source }, "", ""),
		told("node", "Machine", func(d *dev) string { return d.Node }, "", ""),
		reads("state_since", "Like this since", func(d *dev) gpu.Reading[time.Time] { return gpu.Of(d.Since) }, "When it was first seen, came back or went away.", ""),
		reads("sampled_at", "Read at", sampled, "When the reading of these values began.", ""),
	}},
}

func (f factSpec) as(format string) factSpec {
	f.format = format
	return f
}

// or has a text in place of a value that is missing.
func (f factSpec) or(text string) factSpec {
	f.instead = &text
	return f
}

// measured names the call that traffic over PCIe comes from where it is measured.
func (f factSpec) measured() factSpec {
	f.then = throughput
	return f
}

func sampled(d *gpu.Device) gpu.Reading[time.Time] {
	if d.SampledAt.IsZero() {
		return gpu.Reading[time.Time]{}
	}
	return gpu.Of(d.SampledAt)
}
