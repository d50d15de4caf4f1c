package metrics

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// noon is when the snapshots of these tests were read.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 250_000_000, time.UTC)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// desktop is an RTX 4090 with a game's rest and a model on it: two fans, no
// ECC, no memory temperature.
func desktop() *gpu.Snapshot {
	return &gpu.Snapshot{
		Seq: 7, Time: noon, Node: "desk", Source: gpu.SourceNVML,
		Drivers: []gpu.Driver{{Source: gpu.SourceNVML, Version: gpu.Of("550.54.15"), CUDA: gpu.Of("12.4")}},
		Host: &gpu.Host{
			Hostname: "desk", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64",
			Uptime: gpu.Of(90 * time.Minute), CPUModel: gpu.Of("AMD Ryzen 9 7950X"), Cores: gpu.Of(32), CPU: gpu.Of(gpu.Percent(12.5)),
			Load1: gpu.Of(3.5), Load5: gpu.Of(2.25), Load15: gpu.Of(0.0),
			MemoryTotal: gpu.Of(gpu.Bytes(64 * gib)), MemoryUsed: gpu.Of(gpu.Bytes(20 * gib)), MemoryAvailable: gpu.Of(gpu.Bytes(43 * gib)),
			SwapTotal: gpu.Of(gpu.Bytes(0)), SwapUsed: gpu.Of(gpu.Bytes(0)),
			Disks: []gpu.Disk{
				{Device: "/dev/nvme0n1p2", Mount: "/", FileSystem: "ext4", Total: gpu.Of(gpu.Bytes(900 * gib)), Used: gpu.Of(gpu.Bytes(300 * gib))},
				{Device: "/dev/nvme0n1p2", Mount: "/", FileSystem: "ext4", Total: gpu.Of(gpu.Bytes(900 * gib)), Used: gpu.Of(gpu.Bytes(300 * gib))},
			},
			Networks: []gpu.Interface{{Name: "eth0", ReceivedTotal: gpu.Of(gpu.Bytes(5 * gib)), SentTotal: gpu.Of(gpu.Bytes(1 * gib))}},
		},
		Devices: []gpu.Device{{
			Identity: gpu.Identity{
				UUID: "GPU-4090", Node: "desk", Index: 0, VendorIndex: gpu.Of(0), Vendor: gpu.NVIDIA, Source: gpu.SourceNVML,
				Name: "NVIDIA GeForce RTX 4090", PCI: "0000:0f:00.0", Architecture: gpu.Of("Ada"), Serial: gpu.Absent[string](gpu.NotSupported),
				VBIOS: gpu.Of("95.02.3C.40.A1"), DriverVersion: gpu.Of("550.54.15"),
			},
			State: gpu.StateOK, Since: noon.Add(-time.Hour), SampledAt: noon,
			Readings: gpu.Readings{
				Utilization: gpu.Utilization{GPU: gpu.Of(gpu.Percent(57)), Memory: gpu.Of(gpu.Percent(31)), Encoder: gpu.Of(gpu.Percent(0)), Decoder: gpu.Of(gpu.Percent(4)), JPEG: gpu.Of(gpu.Percent(0)), OFA: gpu.Of(gpu.Percent(0))},
				Encoding:    gpu.Encoding{Sessions: gpu.Of(1), FrameRate: gpu.Of(gpu.FramesPerSecond(119)), Latency: gpu.Of(gpu.Microseconds(4210))},
				Activity:    gpu.AbsentActivity(gpu.NotSupported),
				Memory: gpu.Memory{
					Total: gpu.Of(gpu.Bytes(24564 * mib)), Used: gpu.Of(gpu.Bytes(8200*mib + 4096)), Free: gpu.Of(gpu.Bytes(15996 * mib)), Reserved: gpu.Of(gpu.Bytes(367 * mib)),
					BAR1Total: gpu.Of(gpu.Bytes(32768 * mib)), BAR1Used: gpu.Of(gpu.Bytes(24 * mib)),
				},
				Thermal: gpu.Thermal{GPU: gpu.Of(gpu.Celsius(71)), Memory: gpu.Absent[gpu.Celsius](gpu.NotSupported), Slowdown: gpu.Of(gpu.Celsius(95)), Shutdown: gpu.Of(gpu.Celsius(100)), Target: gpu.Of(gpu.Celsius(83)), Margin: gpu.Of(gpu.Celsius(12))},
				Fans: gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{
					{Commanded: gpu.Of(gpu.Percent(48)), RPM: gpu.Of(gpu.RPM(1560)), Target: gpu.Of(gpu.Percent(48)), Policy: gpu.Of("automatic")},
					{Commanded: gpu.Of(gpu.Percent(104)), RPM: gpu.Of(gpu.RPM(3310)), Target: gpu.Of(gpu.Percent(104)), Policy: gpu.Of("manual")},
				}},
				Power: gpu.Power{Draw: gpu.Of(gpu.Watts(312.471)), EnforcedLimit: gpu.Of(gpu.Watts(450)), DefaultLimit: gpu.Of(gpu.Watts(450)), MinLimit: gpu.Of(gpu.Watts(150)), MaxLimit: gpu.Of(gpu.Watts(600)), Energy: gpu.Of(gpu.Joules(123456.789))},
				Clocks: gpu.Clocks{
					Graphics: gpu.Of(gpu.Megahertz(2730)), SM: gpu.Of(gpu.Megahertz(2730)), Memory: gpu.Of(gpu.Megahertz(10251)), Video: gpu.Of(gpu.Megahertz(2115)),
					MaxGraphics: gpu.Of(gpu.Megahertz(3120)), MaxSM: gpu.Of(gpu.Megahertz(3120)), MaxMemory: gpu.Of(gpu.Megahertz(10501)), MaxVideo: gpu.Of(gpu.Megahertz(2415)),
					PerformanceState: gpu.Of(2), EventReasons: gpu.Of(gpu.ReasonPowerCap),
				},
				PCIe:   gpu.PCIe{Generation: gpu.Of(4), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16), Replays: gpu.Of(uint64(0))},
				Health: gpu.Health{XIDs: gpu.Of([]gpu.XID{{Code: 31, Count: 2, Last: noon.Add(-3 * time.Minute)}, {Code: 13, Count: 1, Last: noon.Add(-time.Minute)}})},
				Modes:  gpu.Modes{Persistence: gpu.Of(false), Compute: gpu.Of("default"), MIG: gpu.Absent[bool](gpu.NotSupported), DisplayActive: gpu.Of(true)},
				Processes: gpu.Of([]gpu.Process{
					process("python", "anna", 6000*mib, 50), process("python", "anna", 2000*mib, 3), process("Xorg", "root", 120*mib, 0),
					{PID: 99, Type: gpu.TypeCompute, Memory: gpu.Absent[gpu.Bytes](gpu.NotReported)},
				}),
			},
		}},
	}
}

func process(name, user string, memory gpu.Bytes, sm gpu.Percent) gpu.Process {
	return gpu.Process{
		PID: 100, Type: gpu.TypeCompute, Memory: gpu.Of(memory), SM: gpu.Of(sm),
		Facts: gpu.ProcessFacts{Name: gpu.Of(name), User: gpu.Of(user)},
	}
}

// h100 is a passive card, at rest.
func h100(index int) gpu.Device {
	letter := string(rune('a' + index))
	return gpu.Device{
		Identity: gpu.Identity{
			UUID: "GPU-h100-" + letter, Node: "dgx", Index: index, VendorIndex: gpu.Of(index), Vendor: gpu.NVIDIA, Source: gpu.SourceNVML,
			Name: "NVIDIA H100 80GB HBM3", PCI: fmt.Sprintf("0000:%xb:00.0", index+1), DriverVersion: gpu.Of("550.54.15"),
		},
		State: gpu.StateOK, Since: noon.Add(-time.Hour), SampledAt: noon,
		Readings: gpu.Readings{
			Utilization: gpu.Utilization{GPU: gpu.Of(gpu.Percent(0)), Memory: gpu.Of(gpu.Percent(0))},
			Activity: gpu.Activity{
				Engine: gpu.Of(gpu.Percent(0.4)), SM: gpu.Of(gpu.Percent(0.2)), Occupancy: gpu.Of(gpu.Percent(0)), Tensor: gpu.Of(gpu.Percent(12.5)),
				FP64: gpu.Of(gpu.Percent(0)), FP32: gpu.Of(gpu.Percent(0)), FP16: gpu.Of(gpu.Percent(0)), Integer: gpu.Of(gpu.Percent(0)),
				MemoryBandwidth: gpu.Of(gpu.Percent(25)),
				PCIeSent:        gpu.Of(gpu.BytesPerSecond(1 << 20)), PCIeReceived: gpu.Of(gpu.BytesPerSecond(0)),
				NVLinkSent: gpu.Of(gpu.BytesPerSecond(1.5e9)), NVLinkReceived: gpu.Of(gpu.BytesPerSecond(0)),
			},
			Memory:  gpu.Memory{Total: gpu.Of(gpu.Bytes(81559 * mib)), Used: gpu.Of(gpu.Bytes(1 * mib)), Free: gpu.Of(gpu.Bytes(81079 * mib)), Reserved: gpu.Of(gpu.Bytes(479 * mib))},
			Thermal: gpu.Thermal{GPU: gpu.Of(gpu.Celsius(31)), Memory: gpu.Of(gpu.Celsius(40)), Slowdown: gpu.Of(gpu.Celsius(87))},
			Fans:    gpu.Fans{Count: gpu.Of(0)},
			Power:   gpu.Power{Draw: gpu.Of(gpu.Watts(72.25)), Energy: gpu.Of(gpu.Joules(1e9))},
			Clocks:  gpu.Clocks{SM: gpu.Of(gpu.Megahertz(345)), Memory: gpu.Of(gpu.Megahertz(2619)), EventReasons: gpu.Of(gpu.ReasonIdle)},
			Health: gpu.Health{
				ECCMode: gpu.Of(true), CorrectedVolatile: gpu.Of(uint64(0)), UncorrectedVolatile: gpu.Of(uint64(0)),
				CorrectedAggregate: gpu.Of(uint64(3)), UncorrectedAggregate: gpu.Of(uint64(0)),
				RemappedCorrectable: gpu.Of(uint64(1)), RemappedUncorrectable: gpu.Of(uint64(0)), RemapPending: gpu.Of(false), RemapFailed: gpu.Of(false),
				XIDs: gpu.Of([]gpu.XID{}),
			},
			Modes:     gpu.Modes{MIG: gpu.Of(false)},
			Processes: gpu.Of([]gpu.Process{}),
		},
	}
}

// server is eight H100: one is lost, one is parted.
func server() *gpu.Snapshot {
	s := &gpu.Snapshot{Time: noon, Node: "dgx", Source: gpu.SourceNVML}
	for i := range 8 {
		s.Devices = append(s.Devices, h100(i))
	}
	lost := &s.Devices[3]
	lost.State, lost.Since, lost.SampledAt = gpu.StateLost, noon.Add(-time.Minute), time.Time{}
	lost.Reason = gpu.Advice{What: "the GPU has fallen off the bus", Try: "restart the machine"}
	lost.Readings = gpu.Readings{}

	parted := &s.Devices[5]
	parted.Modes.MIG = gpu.Of(true)
	parted.Utilization = gpu.Utilization{GPU: gpu.Absent[gpu.Percent](gpu.NotSupported)}
	parted.Activity = gpu.AbsentActivity(gpu.NotSupported)
	for i, name := range []string{"1c.3g.40gb", "2c.3g.40gb", "1g.10gb"} {
		parted.Instances = append(parted.Instances, gpu.Instance{
			UUID: "MIG-" + name, Name: "NVIDIA H100 80GB HBM3 MIG " + name, Profile: gpu.Of(name),
			GPUInstance: gpu.Of(1 + i/2), ComputeInstance: gpu.Of(i % 2),
			Memory: gpu.Memory{Total: gpu.Of(gpu.Bytes(40 * gib)), Used: gpu.Of(gpu.Bytes(i / 2 * 5 * mib))},
		})
	}
	return s
}

// bare is a machine without a GPU.
func bare() *gpu.Snapshot {
	return &gpu.Snapshot{
		Time: noon, Node: "laptop", Source: gpu.SourceNVML,
		Failures: []gpu.Failure{{Source: gpu.SourceNVML, Since: noon, Advice: gpu.Advice{What: "the NVIDIA driver is not loaded"}}},
	}
}

// zeros is a device that reports everything, and everything is zero.
func zeros() *gpu.Snapshot {
	d := gpu.Device{
		Identity: gpu.Identity{UUID: "GPU-0", Node: "zero", Vendor: gpu.NVIDIA, Name: "NVIDIA Zero", Source: gpu.SourceNVML},
		State:    gpu.StateOK, SampledAt: noon, Since: noon,
	}
	d.Fans.Fans = make([]gpu.Fan, 1)
	d.NVLink.Links = make([]gpu.Link, 1)
	d.Instances = []gpu.Instance{{UUID: "MIG-0", Name: "NVIDIA Zero MIG 1g.5gb", Profile: gpu.Of("1g.5gb")}}
	d.Health.XIDs, d.Health.Faults = gpu.Of([]gpu.XID{{}}), gpu.Of([]gpu.Fault{{}})
	processes := make([]gpu.Process, 1)
	report(reflect.ValueOf(processes))
	d.Processes = gpu.Of(processes)
	report(reflect.ValueOf(&d.Readings).Elem())
	d.Health.XIDs = gpu.Of([]gpu.XID{{Last: time.Unix(0, 0)}})
	d.Health.Faults = gpu.Of([]gpu.Fault{{Last: time.Unix(0, 0)}})
	s := &gpu.Snapshot{Time: noon, Node: "zero", Devices: []gpu.Device{d}, Host: &gpu.Host{}}
	report(reflect.ValueOf(s.Host).Elem())
	return s
}

// report makes every absent reading in v a reported zero.
func report(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if zeroReading(v) {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				report(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			report(v.Index(i))
		}
	}
}

// zeroReading reports whether v is a reading, and makes it a zero.
func zeroReading(v reflect.Value) bool {
	switch r := v.Addr().Interface().(type) {
	case *gpu.Reading[gpu.Percent]:
		*r = gpu.Of(gpu.Percent(0))
	case *gpu.Reading[gpu.Bytes]:
		*r = gpu.Of(gpu.Bytes(0))
	case *gpu.Reading[gpu.BytesPerSecond]:
		*r = gpu.Of(gpu.BytesPerSecond(0))
	case *gpu.Reading[gpu.Celsius]:
		*r = gpu.Of(gpu.Celsius(0))
	case *gpu.Reading[gpu.Watts]:
		*r = gpu.Of(gpu.Watts(0))
	case *gpu.Reading[gpu.Joules]:
		*r = gpu.Of(gpu.Joules(0))
	case *gpu.Reading[gpu.Megahertz]:
		*r = gpu.Of(gpu.Megahertz(0))
	case *gpu.Reading[gpu.RPM]:
		*r = gpu.Of(gpu.RPM(0))
	case *gpu.Reading[gpu.FramesPerSecond]:
		*r = gpu.Of(gpu.FramesPerSecond(0))
	case *gpu.Reading[gpu.Microseconds]:
		*r = gpu.Of(gpu.Microseconds(0))
	case *gpu.Reading[gpu.ClockEventReasons]:
		*r = gpu.Of(gpu.ClockEventReasons(0))
	case *gpu.Reading[time.Duration]:
		*r = gpu.Of(time.Duration(0))
	case *gpu.Reading[float64]:
		*r = gpu.Of(0.0)
	case *gpu.Reading[int]:
		*r = gpu.Of(0)
	case *gpu.Reading[uint64]:
		*r = gpu.Of(uint64(0))
	case *gpu.Reading[bool]:
		*r = gpu.Of(false)
	case *gpu.Reading[string]:
		*r = gpu.Of("")
	case *gpu.Reading[time.Time], *gpu.Reading[[]gpu.Process], *gpu.Reading[[]gpu.XID], *gpu.Reading[[]gpu.Fault]:
		// As the test that made them wants them.
	default:
		return false
	}
	return true
}

// silent is a device that reports nothing.
func silent() *gpu.Snapshot {
	return &gpu.Snapshot{Time: noon, Node: "n", Host: &gpu.Host{}, Devices: []gpu.Device{{
		Identity: gpu.Identity{UUID: "GPU-s", Node: "n", Vendor: gpu.NVIDIA}, State: gpu.StateOK, Since: noon,
	}}}
}

// healthy says of the program what is said while all is well.
func healthy() Self {
	return Self{
		Took:    1500 * time.Microsecond,
		Sources: []Source{{Name: gpu.SourceNVML, LastSuccess: noon}},
		Costs: []gpu.Cost{
			{Source: gpu.SourceNVML, Call: "reading", Count: 71, Total: 127 * time.Millisecond, Longest: 41 * time.Millisecond},
			{Source: gpu.SourceNVML, Call: "nvmlDeviceGetPowerUsage", Count: 142, Total: 852 * time.Microsecond, Longest: 97 * time.Microsecond},
		},
		Viewers: 2, Refused: 1, Published: 70, Encodings: 75, Messages: 140, Bytes: 1 << 20, Skipped: 3,
		Ended:   map[string]uint64{"left": 4, "slow": 1},
		Helpers: []Helper{{Name: "fleet", Resident: 41 << 20, CPU: 2500 * time.Millisecond}, {Name: "scribe", Resident: 22 << 20, CPU: 1200 * time.Millisecond}},
		Parts:   Capabilities.Healthy,
	}
}

// selfOf is what the program says of itself beside a snapshot.
func selfOf(s *gpu.Snapshot) Self {
	if s == nil {
		return Self{}
	}
	self := healthy()
	for _, f := range s.Failures {
		self.Sources = []Source{{Name: f.Source, Failing: true}}
	}
	return self
}

// exporterOf serves a snapshot that is fresh, without what differs between
// runs.
func exporterOf(tb testing.TB, s *gpu.Snapshot, families ...string) *Exporter {
	tb.Helper()
	e, err := New(Config{
		Newest:   always(s),
		Self:     func() Self { return selfOf(s) },
		Interval: 5 * time.Second,
		Families: families,
		Node:     "desk", Version: "v1.2.3",
		Now: func() time.Time { return noon.Add(time.Second) },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}
