package gpu

import "time"

// Vendor is who made a device.
type Vendor string

// The vendors that gpuwhy can read.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
)

// State is whether a device can be read.
type State string

// The states of a device. Only a device in StateOK has readings; what the
// driver reported as events ([Health].XIDs) stays known in the others.
const (
	StateOK           State = "ok"
	StateNotAnswering State = "not_answering" // a driver call has not come back, or every call fails
	StateLost         State = "lost"          // the driver says that it is gone from the bus, or no longer lists it
	StateAsleep       State = "asleep"        // powered down by the system, and left asleep
)

// A Device is one GPU: who it is, whether it answers, and what it reports, in
// the groups in which drivers group it.
type Device struct {
	Identity
	State State
	// Since is when State began; for StateOK, when the device was first
	// seen or came back.
	Since time.Time
	// Reason says why State is not StateOK, and what to do. For a device in
	// StateOK it is usually empty; it is set while the readings are absent
	// on purpose, such as when the device is left alone to fall asleep.
	Reason Advice
	// SampledAt is when the reading of the values below began; zero where
	// there are none. It is older than the snapshot's Time where the device
	// was slow to answer.
	SampledAt time.Time
	// IdleFloor is the lowest steady draw that this very device was seen to
	// have while it had no work. No source reports it: it is learned while
	// gpuwhy runs, absent until then.
	IdleFloor Reading[Watts]
	// Reservations are for whom the machine's scheduler keeps the device,
	// used or not, as the kubelet tells (v1.PodResourcesLister/List); an
	// empty list where it keeps it for nobody. Absent where there is no
	// kubelet or it has not answered (NotReported), where its socket is
	// closed to us (NotPermitted), and where it names devices in a way that
	// does not tell which they are (NotSupported).
	Reservations Reading[[]Reservation]
	Readings
}

// Identity is what stays the same about a device while it is in the machine.
type Identity struct {
	// UUID is the device's key, such as "GPU-5c8f…"
	// (nvmlDeviceGetUUID; a source whose devices have none makes a stable one of
	// the PCI address, or, until the device answers, of the driver's index).
	UUID string
	// Node is the name of the machine that the device is in.
	Node string
	// Index is the device's place by PCI address, never given to another
	// device while gpuwhy runs. The sampler gives it.
	Index int
	// VendorIndex is the driver's own index, which may change when the
	// machine restarts (nvmlDeviceGetIndex).
	VendorIndex Reading[int]
	Vendor      Vendor
	// Source is where the readings come from, such as SourceNVML.
	Source string
	Name   string
	// PCI is the bus address as the kernel writes it, such as
	// "0000:01:00.0"; empty where there is none.
	PCI          string
	Architecture Reading[string] // "Hopper" (nvmlDeviceGetArchitecture)
	Serial       Reading[string] // the board's serial number
	VBIOS        Reading[string]
	// DriverVersion is the kernel driver's that serves this device.
	DriverVersion Reading[string]
}

// Readings are what a device reports, group by group.
type Readings struct {
	Utilization Utilization
	Encoding    Encoding
	Activity    Activity
	Memory      Memory
	Thermal     Thermal
	Fans        Fans
	Power       Power
	Clocks      Clocks
	PCIe        PCIe
	Health      Health
	Modes       Modes
	// Processes that have a context on the device, busiest first; an empty
	// list where the driver says there are none, absent where it can't say.
	Processes Reading[[]Process]
	// Instances are the device's MIG instances; empty unless MIG mode is on.
	Instances []Instance
}

// Utilization is the share of the last sample period (1/6 s to 1 s, by
// product) in which an engine had work. 100 % can be one small kernel.
type Utilization struct {
	GPU     Reading[Percent] // any kernel ran (nvmlDeviceGetUtilizationRates)
	Memory  Reading[Percent] // memory was read or written (the same call)
	Encoder Reading[Percent] // nvmlDeviceGetEncoderUtilization
	Decoder Reading[Percent] // nvmlDeviceGetDecoderUtilization
	JPEG    Reading[Percent] // nvmlDeviceGetJpgUtilization
	OFA     Reading[Percent] // optical flow (nvmlDeviceGetOfaUtilization)
}

// Encoding is what the video encoder is asked to do by those who have opened a
// session on it: recording, streaming, transcoding (nvmlDeviceGetEncoderStats).
// The rate and the latency are over all sessions, and a reported 0 while there is
// none. Absent together where the driver or the device does not tell, as with MIG.
type Encoding struct {
	Sessions  Reading[int]             // open now
	FrameRate Reading[FramesPerSecond] // mean of the sessions, over the driver's own trailing time
	Latency   Reading[Microseconds]    // mean time to encode a picture
}

// Activity is how much of the chip worked, and what went over its links: means
// of the time between the reading before and this one, from counters of the
// hardware that need neither a profiling session nor special rights (NVML's GPM:
// nvmlGpmSampleGet, nvmlGpmMetricsGet). NVIDIA has them from Hopper on; they are
// not supported on other products and while MIG mode is on, and not reported at
// a device's first reading, which has nothing to compare with. Traffic over PCIe
// alone can be had otherwise there, see PCIeMeasuredAt.
type Activity struct {
	Engine    Reading[Percent] // of the time, a compute or graphics engine worked (NVML_GPM_METRIC_GRAPHICS_UTIL)
	SM        Reading[Percent] // of the SMs had work, over the time (NVML_GPM_METRIC_SM_UTIL)
	Occupancy Reading[Percent] // of the warps that the SMs can hold were there (NVML_GPM_METRIC_SM_OCCUPANCY)
	// Of the time, the SMs' tensor cores (NVML_GPM_METRIC_ANY_TENSOR_UTIL) or
	// their units for other arithmetic worked (NVML_GPM_METRIC_FP64_UTIL,
	// …_FP32_UTIL, …_FP16_UTIL, …_INTEGER_UTIL).
	Tensor, FP64, FP32, FP16, Integer Reading[Percent]
	// MemoryBandwidth is the share of the device memory's bandwidth in use
	// (NVML_GPM_METRIC_DRAM_BW_UTIL).
	MemoryBandwidth Reading[Percent]
	// Traffic over PCIe (NVML_GPM_METRIC_PCIE_TX_PER_SEC, …_RX_…) and over all
	// NVLinks together (NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, …_RX_…), as the
	// device sends and receives.
	PCIeSent, PCIeReceived     Reading[BytesPerSecond]
	NVLinkSent, NVLinkReceived Reading[BytesPerSecond]
	// PCIeMeasuredAt is there where PCIeSent and PCIeReceived are no such means:
	// on a device without the counters they can be measured, each for 20 ms, by
	// a call that keeps the driver busy for so long and is made each ten seconds
	// at most, and only where it was asked for (nvmlDeviceGetPcieThroughput). It
	// is when that began; between two measurements the last is given with its
	// time.
	PCIeMeasuredAt Reading[time.Time]
}

// AbsentActivity is an activity of which nothing is there, for one reason.
func AbsentActivity(q Quality) Activity {
	part, rate := Absent[Percent](q), Absent[BytesPerSecond](q)
	return Activity{
		Engine: part, SM: part, Occupancy: part, Tensor: part, FP64: part, FP32: part, FP16: part, Integer: part,
		MemoryBandwidth: part, PCIeSent: rate, PCIeReceived: rate, NVLinkSent: rate, NVLinkReceived: rate,
		PCIeMeasuredAt: Absent[time.Time](q),
	}
}

// PCIeMeasured reports whether the traffic over PCIe was measured for a moment
// and not counted, see PCIeMeasuredAt.
func (a Activity) PCIeMeasured() bool { return a.PCIeMeasuredAt.Present() }

// Memory is the device's own memory, as nvidia-smi reports it: what the
// driver reserves for itself is not in Used (nvmlDeviceGetMemoryInfo_v2).
type Memory struct {
	Total, Used, Free, Reserved Reading[Bytes]
	// BAR1 is the window through which the host maps device memory
	// (nvmlDeviceGetBAR1MemoryInfo).
	BAR1Total, BAR1Used Reading[Bytes]
}

// Utilization is used / total; absent where one of them is, or can't be right.
func (m Memory) Utilization() Reading[Percent] {
	used, ok := m.Used.Trusted()
	total, ok2 := m.Total.Trusted()
	if !ok || !ok2 || total == 0 || used > total {
		return Reading[Percent]{}
	}
	return Of(Percent(100 * float64(used) / float64(total)))
}

// Thermal is how hot the device is, and the limits it knows of itself.
type Thermal struct {
	GPU    Reading[Celsius] // the die (nvmlDeviceGetTemperatureV, or nvmlDeviceGetTemperature)
	Memory Reading[Celsius] // NVML_FI_DEV_MEMORY_TEMP; HBM products mostly
	// Slowdown is where the hardware slows itself down, Shutdown where it
	// switches off, Target what the driver steers towards, MemoryMax where
	// memory makes it slow down (nvmlDeviceGetTemperatureThreshold).
	Slowdown, Shutdown, Target, MemoryMax Reading[Celsius]
	// Margin is how many degrees are left to the nearest slowdown limit; it
	// can be negative (nvmlDeviceGetMarginTemperature).
	Margin Reading[Celsius]
}

// Fans are the device's own. Passive products have none: Count is a reported
// 0, or not supported, and the chassis does the blowing.
type Fans struct {
	Count Reading[int] // nvmlDeviceGetNumFans
	Fans  []Fan        // by fan index
}

// Commanded is the highest commanded speed of the fans, the number that
// nvidia-smi shows for a whole card; absent where no fan reports one.
func (f Fans) Commanded() Reading[Percent] {
	var out Reading[Percent]
	for _, fan := range f.Fans {
		v, ok := fan.Commanded.Get()
		switch {
		case ok && (!out.Present() || v > out.Or(0)):
			out = fan.Commanded
		case !ok && !out.Present():
			out = fan.Commanded
		}
	}
	if len(f.Fans) == 0 {
		if f.Count.Present() {
			return Absent[Percent](NotSupported) // it has no fan
		}
		if q := f.Count.Quality(); q != NotReported {
			return Absent[Percent](q)
		}
	}
	return out
}

// A Fan is one fan of a device.
type Fan struct {
	// Commanded is the speed that the driver asks for, in percent of a
	// noise limit; it may pass 100, and a blocked fan still shows it
	// (nvmlDeviceGetFanSpeed_v2).
	Commanded Reading[Percent]
	// RPM is what the fan's tachometer says (nvmlDeviceGetFanSpeedRPM).
	RPM Reading[RPM]
	// Target is the speed that the driver steers towards
	// (nvmlDeviceGetTargetFanSpeed).
	Target Reading[Percent]
	// Policy is who decides: "automatic" or "manual"
	// (nvmlDeviceGetFanControlPolicy_v2).
	Policy Reading[string]
}

// Power is what the device draws and may draw.
type Power struct {
	Draw          Reading[Watts] // nvmlDeviceGetPowerUsage: over the last second on Ampere and newer
	EnforcedLimit Reading[Watts] // the lowest of all limits in force (nvmlDeviceGetEnforcedPowerLimit)
	DefaultLimit  Reading[Watts] // nvmlDeviceGetPowerManagementDefaultLimit
	MinLimit      Reading[Watts] // what a limit may be set to (nvmlDeviceGetPowerManagementLimitConstraints)
	MaxLimit      Reading[Watts]
	Energy        Reading[Joules] // since the driver was loaded (nvmlDeviceGetTotalEnergyConsumption)
}

// Clocks are frequencies now and at most, the performance state, and what
// holds the clocks down.
type Clocks struct {
	Graphics, SM, Memory, Video             Reading[Megahertz] // nvmlDeviceGetClockInfo
	MaxGraphics, MaxSM, MaxMemory, MaxVideo Reading[Megahertz] // nvmlDeviceGetMaxClockInfo
	// PerformanceState is 0 (P0, fastest) to 15
	// (nvmlDeviceGetPerformanceState).
	PerformanceState Reading[int]
	// EventReasons is what holds the clocks where they are; an empty set is
	// a reading too (nvmlDeviceGetCurrentClocksEventReasons).
	EventReasons Reading[ClockEventReasons]
}

// PCIe is the device's link to the host.
type PCIe struct {
	Generation, MaxGeneration Reading[int] // nvmlDeviceGetCurrPcieLinkGeneration, …MaxPcie…
	Width, MaxWidth           Reading[int] // lanes
	// Replays counts packets sent again since the driver was loaded
	// (nvmlDeviceGetPcieReplayCounter).
	Replays Reading[uint64]
}

// Health is what has gone wrong in the device's memory.
type Health struct {
	ECCMode        Reading[bool] // nvmlDeviceGetEccMode, current
	ECCModePending Reading[bool] // after the next restart
	// Errors since the driver was loaded (volatile) and in the device's
	// life (aggregate), all memories (nvmlDeviceGetTotalEccErrors).
	CorrectedVolatile, UncorrectedVolatile   Reading[uint64]
	CorrectedAggregate, UncorrectedAggregate Reading[uint64]
	// Remapped rows: spares in use (nvmlDeviceGetRemappedRows).
	RemappedCorrectable, RemappedUncorrectable Reading[uint64]
	RemapPending, RemapFailed                  Reading[bool]
	// Retired pages on products before row remapping
	// (nvmlDeviceGetRetiredPages_v2).
	RetiredSingleBit, RetiredDoubleBit Reading[uint64]
	RetirementPending                  Reading[bool]
	// XIDs are the driver's error events since gpuwhy began to listen, by
	// code; an empty list where it listens and there were none
	// (nvmlEventTypeXidCriticalError).
	XIDs Reading[[]XID]
}

// An XID counts one kind of error that the driver reported about a device, such
// as 79, "GPU has fallen off the bus".
type XID struct {
	Code  int
	Count uint64
	Last  time.Time // of the newest
}

// Modes are switches that an administrator can set.
type Modes struct {
	Persistence   Reading[bool]   // the driver stays loaded without clients (nvmlDeviceGetPersistenceMode)
	Compute       Reading[string] // "default", "exclusive_process", "prohibited" (nvmlDeviceGetComputeMode)
	MIG           Reading[bool]   // nvmlDeviceGetMigMode, current
	MIGPending    Reading[bool]
	DisplayActive Reading[bool] // a display server draws on it (nvmlDeviceGetDisplayActive)
}

// An Instance is a MIG instance: a part of a device with memory and engines of
// its own. It never counts in totals.
type Instance struct {
	UUID              string // "MIG-…"
	Name              string // such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	GPUInstance       Reading[int]
	ComputeInstance   Reading[int]
	Memory            Memory
	Multiprocessors   Reading[int]
	MemorySlices      Reading[int]
	ComputeSliceCount Reading[int]
}
