package fakenvml

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// A Key names a reading of a device, in NVML's own unit. A device supports the readings
// that have a value.
type Key string

// The readings, each with the call that gives it.
const (
	UUID         Key = "uuid"
	Name         Key = "name"
	PCI          Key = "pci" // "0000:01:00.0"
	Serial       Key = "serial"
	VBIOS        Key = "vbios"
	Architecture Key = "architecture" // nvmlDeviceArchitecture_t

	Utilization       Key = "utilization"        // percent (nvmlDeviceGetUtilizationRates)
	MemoryUtilization Key = "memory_utilization" // percent
	Encoder           Key = "encoder"
	Decoder           Key = "decoder"
	JPEG              Key = "jpeg"
	OFA               Key = "ofa"

	// What nvmlDeviceGetEncoderStats gives: a device without EncoderSessions does
	// not support it.
	EncoderSessions Key = "encoder_sessions"
	EncoderFPS      Key = "encoder_fps"
	EncoderLatency  Key = "encoder_latency" // microseconds

	// GPM is 1 if the device has counters (nvmlGpmSampleGet), from Hopper on.
	// The metrics are in percent or MiB a second, and may have decimals
	// (nvmlGpmMetricsGet).
	GPM            Key = "gpm"
	EngineActive   Key = "gpm1"
	SMActive       Key = "gpm2"
	SMOccupancy    Key = "gpm3"
	IntegerActive  Key = "gpm4"
	TensorActive   Key = "gpm5"
	DRAMActive     Key = "gpm10"
	FP64Active     Key = "gpm11"
	FP32Active     Key = "gpm12"
	FP16Active     Key = "gpm13"
	PCIeSent       Key = "gpm20"
	PCIeReceived   Key = "gpm21"
	NVLinkReceived Key = "gpm60"
	NVLinkSent     Key = "gpm61"

	MemoryTotal    Key = "memory_total" // bytes (nvmlDeviceGetMemoryInfo_v2)
	MemoryUsed     Key = "memory_used"  // without the reserved ones
	MemoryReserved Key = "memory_reserved"
	BAR1Total      Key = "bar1_total"
	BAR1Used       Key = "bar1_used"

	Temperature       Key = "temperature" // degrees Celsius
	MemoryTemperature Key = "field82"     // NVML_FI_DEV_MEMORY_TEMP
	ShutdownThreshold Key = "threshold0"
	SlowdownThreshold Key = "threshold1"
	MemoryThreshold   Key = "threshold2"
	TargetThreshold   Key = "threshold5" // acoustic
	Margin            Key = "margin"

	Fans Key = "fans" // their number

	Power             Key = "power" // milliwatts
	PowerLimit        Key = "power_limit"
	PowerDefaultLimit Key = "power_default_limit"
	PowerMinLimit     Key = "power_min_limit"
	PowerMaxLimit     Key = "power_max_limit"
	Energy            Key = "energy" // millijoules

	GraphicsClock    Key = "clock0" // megahertz
	SMClock          Key = "clock1"
	MemoryClock      Key = "clock2"
	VideoClock       Key = "clock3"
	MaxGraphicsClock Key = "max_clock0"
	MaxSMClock       Key = "max_clock1"
	MaxMemoryClock   Key = "max_clock2"
	MaxVideoClock    Key = "max_clock3"
	PerformanceState Key = "pstate"
	EventReasons     Key = "event_reasons"

	PCIeGeneration    Key = "pcie_generation"
	PCIeWidth         Key = "pcie_width"
	PCIeMaxGeneration Key = "pcie_max_generation"
	PCIeMaxWidth      Key = "pcie_max_width"
	PCIeReplays       Key = "pcie_replays"
	PCIeThroughputTX  Key = "pcie_throughput0" // KB a second (nvmlDeviceGetPcieThroughput)
	PCIeThroughputRX  Key = "pcie_throughput1"

	ECC                   Key = "ecc" // 0 or 1
	ECCPending            Key = "ecc_pending"
	CorrectedVolatile     Key = "ecc_errors.0.0"
	CorrectedAggregate    Key = "ecc_errors.0.1"
	UncorrectedVolatile   Key = "ecc_errors.1.0"
	UncorrectedAggregate  Key = "ecc_errors.1.1"
	RemappedCorrectable   Key = "remapped_correctable"
	RemappedUncorrectable Key = "remapped_uncorrectable"
	RemapPending          Key = "remap_pending"
	RemapFailed           Key = "remap_failed"
	RetiredSingleBit      Key = "retired0"
	RetiredDoubleBit      Key = "retired1"
	RetirementPending     Key = "retirement_pending"

	Persistence   Key = "persistence"
	ComputeMode   Key = "compute_mode"
	DisplayActive Key = "display_active"
	MIG           Key = "mig"
	MIGMax        Key = "mig_max"

	// ProcessLists and ProcessSamples have any value if the device supports
	// them.
	ProcessLists   Key = "processes"
	ProcessSamples Key = "samples"
)

// FanSpeed is the i-th fan's commanded speed in percent.
func FanSpeed(i int) Key { return Key(fmt.Sprintf("fan%d.speed", i)) }

// FanRPM is the i-th fan's tachometer.
func FanRPM(i int) Key { return Key(fmt.Sprintf("fan%d.rpm", i)) }

// FanTarget is the target speed of the i-th fan in percent.
func FanTarget(i int) Key { return Key(fmt.Sprintf("fan%d.target", i)) }

// FanPolicy is who controls the i-th fan: 0 the driver, 1 a person.
func FanPolicy(i int) Key { return Key(fmt.Sprintf("fan%d.policy", i)) }

// Error is a value: a call for the reading returns this NVML code.
func Error(code int) string { return fmt.Sprintf("!%d", code) }

const (
	mib = 1 << 20
	gib = 1 << 30
	// NotAvailable is NVML's mark for the unknown memory of a process.
	NotAvailable = 1<<64 - 1
	// NoInstance is the MIG instance of a process where there is no MIG.
	NoInstance = 1<<32 - 1
)

// A GPU describes a device at the beginning.
type GPU map[Key]string

// With returns a copy in which a reading is different.
func (g GPU) With(key Key, value any) GPU {
	out := maps.Clone(g)
	out[key] = fmt.Sprint(value)
	return out
}

// Without returns a copy that does not support the readings.
func (g GPU) Without(keys ...Key) GPU {
	out := maps.Clone(g)
	for _, k := range keys {
		delete(out, k)
	}
	return out
}

// At returns a copy with another bus address and a UUID made of it, so that a machine can
// have several GPUs of one model.
func (g GPU) At(bus int) GPU {
	return g.With(PCI, fmt.Sprintf("0000:%02x:00.0", bus)).
		With(UUID, fmt.Sprintf("GPU-%s%012x", strings.TrimSuffix(g[UUID][len("GPU-"):], g[UUID][len(g[UUID])-12:]), bus))
}

// RTX4090 is a desktop card, idle with a display: two fans that stand still.
func RTX4090() GPU {
	return describe(map[Key]any{
		UUID: "GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001", Name: "NVIDIA GeForce RTX 4090", PCI: "0000:01:00.0",
		VBIOS: "95.02.18.80.87", Architecture: 8,
		Utilization: 0, MemoryUtilization: 0, Encoder: 0, Decoder: 0, JPEG: 0, OFA: 0,
		EncoderSessions: 0, EncoderFPS: 0, EncoderLatency: 0,
		MemoryTotal: 24564 * mib, MemoryUsed: 421 * mib, MemoryReserved: 345 * mib, BAR1Total: 32 * gib, BAR1Used: 6 * mib,
		Temperature: 34, ShutdownThreshold: 98, SlowdownThreshold: 95, TargetThreshold: 83, Margin: 49,
		Fans: 2, FanSpeed(0): 0, FanRPM(0): 0, FanTarget(0): 0, FanPolicy(0): 0,
		FanSpeed(1): 0, FanRPM(1): 0, FanTarget(1): 0, FanPolicy(1): 0,
		Power: 17340, PowerLimit: 450000, PowerDefaultLimit: 450000, PowerMinLimit: 150000, PowerMaxLimit: 600000, Energy: 912_345_678,
		GraphicsClock: 210, SMClock: 210, MemoryClock: 405, VideoClock: 1185,
		MaxGraphicsClock: 3120, MaxSMClock: 3120, MaxMemoryClock: 10501, MaxVideoClock: 2415, PerformanceState: 8, EventReasons: 1,
		PCIeGeneration: 1, PCIeWidth: 16, PCIeMaxGeneration: 4, PCIeMaxWidth: 16, PCIeReplays: 0,
		PCIeThroughputTX: 350, PCIeThroughputRX: 2000,
		Persistence: 0, ComputeMode: 0, DisplayActive: 1, ProcessLists: 1, ProcessSamples: 1,
	}, Process{PID: 1612, Type: "graphics", Memory: 262 * mib})
}

// H100 is a data center card at work: no fan of its own, ECC, MIG capable.
func H100() GPU {
	return describe(map[Key]any{
		UUID: "GPU-8c1d2f70-77aa-4b21-b1d4-000000000018", Name: "NVIDIA H100 80GB HBM3", PCI: "0000:18:00.0",
		Serial: "1652123456789", VBIOS: "96.00.61.00.01", Architecture: 9,
		Utilization: 97, MemoryUtilization: 54, Encoder: 0, Decoder: 0, JPEG: 0, OFA: 0,
		EncoderSessions: 0, EncoderFPS: 0, EncoderLatency: 0,
		GPM: 1, EngineActive: 96.8, SMActive: 88.4, SMOccupancy: 41.7, TensorActive: 52.3, DRAMActive: 54.9,
		FP64Active: 0, FP32Active: 3.1, FP16Active: 1.2, IntegerActive: 12.6,
		PCIeSent: 212.5, PCIeReceived: 1184, NVLinkSent: 41250, NVLinkReceived: 41262.25,
		MemoryTotal: 81559 * mib, MemoryUsed: 61440 * mib, MemoryReserved: 551 * mib, BAR1Total: 128 * gib, BAR1Used: 61444 * mib,
		Temperature: 58, MemoryTemperature: 66, ShutdownThreshold: 92, SlowdownThreshold: 89, MemoryThreshold: 95, Margin: 29,
		Fans:  Error(NotSupported),
		Power: 612480, PowerLimit: 700000, PowerDefaultLimit: 700000, PowerMinLimit: 200000, PowerMaxLimit: 700000, Energy: 8_123_456_789,
		GraphicsClock: 1755, SMClock: 1755, MemoryClock: 2619, VideoClock: 1395,
		MaxGraphicsClock: 1980, MaxSMClock: 1980, MaxMemoryClock: 2619, MaxVideoClock: 1545, PerformanceState: 0, EventReasons: 0,
		PCIeGeneration: 5, PCIeWidth: 16, PCIeMaxGeneration: 5, PCIeMaxWidth: 16, PCIeReplays: 0,
		PCIeThroughputTX: 222_800, PCIeThroughputRX: 1_241_500,
		ECC: 1, CorrectedVolatile: 0, CorrectedAggregate: 3, UncorrectedVolatile: 0, UncorrectedAggregate: 0,
		RemappedCorrectable: 0, RemappedUncorrectable: 0, RemapPending: 0, RemapFailed: 0,
		Persistence: 1, ComputeMode: 0, DisplayActive: 0, MIG: 0, MIGMax: 7, ProcessLists: 1, ProcessSamples: 1,
	}, Process{PID: 48211, Type: "compute", Memory: 61_000 * mib, SM: 96, MemoryBandwidth: 53})
}

func describe(readings map[Key]any, processes ...Process) GPU {
	g := GPU{}
	for k, v := range readings {
		g[k] = fmt.Sprint(v)
	}
	g.setProcesses(processes)
	return g
}

// A Process has a context on a device.
type Process struct {
	PID  uint32
	Type string // "compute", "graphics" or "mps"
	// Memory in bytes, or NotAvailable.
	Memory uint64
	// What it uses, in percent, also outside 0 to 100.
	SM, MemoryBandwidth, Encoder, Decoder uint32
	// MIG says that the process runs in the instance that the next two name.
	MIG                          bool
	GPUInstance, ComputeInstance uint32
}

// A Sample is what a process used at a time, in percent.
type Sample struct {
	PID                                   uint32
	Time                                  time.Time // zero: whenever the driver is asked
	SM, MemoryBandwidth, Encoder, Decoder uint32
}

// An Instance is a MIG instance.
type Instance struct {
	UUID, Name                                   string
	GPUInstance, ComputeInstance                 uint32
	MemoryTotal, MemoryUsed                      uint64
	Multiprocessors, MemorySlices, ComputeSlices uint32
}

func (g GPU) drop(prefix string) {
	maps.DeleteFunc(g, func(k Key, _ string) bool { return strings.HasPrefix(string(k), prefix) })
}

func (g GPU) setProcesses(processes []Process) {
	g.drop("process0")
	var samples []Sample
	for i, p := range processes {
		gi, ci := uint32(NoInstance), uint32(NoInstance)
		if p.MIG {
			gi, ci = p.GPUInstance, p.ComputeInstance
		}
		g[Key(fmt.Sprintf("process%03d", i))] = fmt.Sprint(p.Type, " ", p.PID, " ", p.Memory, " ", gi, " ", ci)
		if p.SM+p.MemoryBandwidth+p.Encoder+p.Decoder > 0 {
			samples = append(samples, Sample{PID: p.PID, SM: p.SM, MemoryBandwidth: p.MemoryBandwidth, Encoder: p.Encoder, Decoder: p.Decoder})
		}
	}
	g.setSamples(samples)
}

func (g GPU) setSamples(samples []Sample) {
	g.drop("sample0")
	for i, s := range samples {
		var at int64
		if !s.Time.IsZero() {
			at = s.Time.UnixMicro()
		}
		g[Key(fmt.Sprintf("sample%03d", i))] = fmt.Sprint(s.PID, " ", at, " ", s.SM, " ", s.MemoryBandwidth, " ", s.Encoder, " ", s.Decoder)
	}
}

func (g GPU) setInstances(instances []Instance) {
	for i := range 8 {
		g.drop(fmt.Sprintf("mig%d.", i))
	}
	g[MIG] = "0"
	if len(instances) > 0 {
		g[MIG] = "1"
	}
	for i, in := range instances {
		for k, v := range map[string]any{
			"uuid": in.UUID, "name": in.Name, "gi": in.GPUInstance, "ci": in.ComputeInstance,
			"memory_total": in.MemoryTotal, "memory_used": in.MemoryUsed,
			"multiprocessors": in.Multiprocessors, "slices": in.MemorySlices, "compute_slices": in.ComputeSlices,
		} {
			g[Key(fmt.Sprintf("mig%d.%s", i, k))] = fmt.Sprint(v)
		}
	}
}
