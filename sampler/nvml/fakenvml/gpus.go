package fakenvml

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Key names a reading of a device, in NVML's own unit. A device supports exactly the readings that have a value.
type Key string

// The readings that tests of several packages change. A model has more, under the keys that library/fake.c looks up; a number at the end of
// a key is NVML's own.
const (
	UUID Key = "uuid"
	Name Key = "name"
	PCI  Key = "pci" // "0000:01:00.0"

	Utilization      Key = "utilization" // percent
	Temperature      Key = "temperature" // degrees Celsius
	Power            Key = "power"       // milliwatts
	SMClock          Key = "clock1"      // megahertz
	PerformanceState Key = "pstate"
	Accounting       Key = "accounting"      // 1 where the mode is on
	AccountingSize   Key = "accounting_size" // how many processes the driver remembers
	EventReasons     Key = "event_reasons"
)

// Fan names a reading of the i-th fan: its commanded "speed" and its "target" in percent, its "rpm", or its "policy", which is 0 if the
// driver controls the fan and 1 if a person does.
func Fan(i int, reading string) Key { return Key(fmt.Sprintf("fan%d.%s", i, reading)) }

// Error returns a value that makes a call for the reading return this NVML code.
func Error(code int) string { return fmt.Sprintf("!%d", code) }

// A GPU describes a device in its initial state.
type GPU map[Key]string

// NoProcess is the only pid that gpuwhy accepts and no process has: Linux only assigns lower ones. The models' processes use it. A test
// about the facts of a process starts one and uses its pid.
const NoProcess = 1 << 22

// The models have one reading per line, like the state file that the library reads.
var (
	//go:embed models/rtx4090.txt
	rtx4090 string
	//go:embed models/h100.txt
	h100 string
)

// RTX4090 returns an idle desktop card with a display and two fans that stand still.
func RTX4090() GPU { return parse(rtx4090) }

// H100 returns a busy data center card: no fan of its own, ECC, MIG capable, 18 NVLinks to the four switches of its board.
func H100() GPU { return parse(h100).WithNVLinks(18) }

// WithNVLinks returns a copy with n NVLinks of version 4.0 to switches, without errors.
func (g GPU) WithNVLinks(n int) GPU {
	out := g.With("field91", n)
	for i := range n {
		for name, v := range map[string]any{
			"state": 1, "version": 6, "speed": 26562, "peer": 2, "pci": fmt.Sprintf("0000:%02x:00.0", 5+i%4),
			"errors0": 0, "errors1": 0, "errors2": 0, "errors3": 0,
		} {
			out[Link(i, name)] = fmt.Sprint(v)
		}
	}
	return out
}

// Link names a reading of the i-th NVLink: its "state", "version", "speed" in MB/s, "peer", "pci", or "errors0" to "errors3" by NVML's
// number of the counter.
func Link(i int, reading string) Key { return Key(fmt.Sprintf("link%d.%s", i, reading)) }

func parse(model string) GPU {
	g := GPU{}
	for line := range strings.Lines(model) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			g[Key(key)] = value
		}
	}
	return g
}

// With returns a copy with one reading changed.
func (g GPU) With(key Key, value any) GPU {
	out := maps.Clone(g)
	out[key] = fmt.Sprint(value)
	return out
}

// Without returns a copy that does not support the readings.
func (g GPU) Without(keys ...Key) GPU {
	out := maps.Clone(g)
	maps.DeleteFunc(out, func(k Key, _ string) bool { return slices.Contains(keys, k) })
	return out
}

// At returns a copy with another bus address, and a UUID made from it.
func (g GPU) At(bus int) GPU {
	prefix := g[UUID][:len(g[UUID])-12]
	return g.With(PCI, fmt.Sprintf("0000:%02x:00.0", bus)).With(UUID, fmt.Sprintf("%s%012x", prefix, bus))
}

const (
	// NotAvailable is NVML's mark for a process's unknown memory.
	NotAvailable = 1<<64 - 1
	noInstance   = 1<<32 - 1 // the MIG instance of a process without MIG
)

// A Process has a context on a device.
type Process struct {
	PID  uint32
	Type string // "compute", "graphics" or "mps"
	// Memory is in bytes, or NotAvailable.
	Memory uint64
	// What it uses, in percent; may be outside 0 to 100.
	SM, MemoryBandwidth, Encoder, Decoder uint32
	Sampled                               time.Time // zero: whenever the driver is asked
	// MIG means that the process runs in the instance named by the next two fields.
	MIG                          bool
	GPUInstance, ComputeInstance uint32
}

func (g GPU) drop(prefix string) {
	maps.DeleteFunc(g, func(k Key, _ string) bool { return strings.HasPrefix(string(k), prefix) })
}

func (g GPU) setProcesses(processes []Process) {
	g.drop("process0")
	g.drop("sample0")
	samples := 0
	for i, p := range processes {
		if !p.MIG {
			p.GPUInstance, p.ComputeInstance = noInstance, noInstance
		}
		g[Key(fmt.Sprintf("process%03d", i))] = p.Type + " " + fmt.Sprint(p.PID, p.Memory, p.GPUInstance, p.ComputeInstance)
		stamp := int64(0)
		if !p.Sampled.IsZero() {
			stamp = p.Sampled.UnixMicro()
		}
		if p.SM+p.MemoryBandwidth+p.Encoder+p.Decoder > 0 {
			g[Key(fmt.Sprintf("sample%03d", samples))] = fmt.Sprint(p.PID, stamp, p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder)
			samples++
		}
	}
}

// An Accounted process is one that the driver's accounting mode remembers.
type Accounted struct {
	PID         uint32
	Utilization uint32 // percent
	Memory      uint64 // peak, in bytes, or NotAvailable
	Started     time.Time
	Ran         time.Duration // 0 while it runs
	Running     bool
}

// setAccounted replaces the remembered processes; it does not turn the mode on.
func (g GPU) setAccounted(processes []Accounted) {
	g.drop("accounted")
	for i, p := range processes {
		running := 0
		if p.Running {
			running = 1
		}
		g[Key(fmt.Sprintf("accounted%03d", i))] = fmt.Sprint(p.PID, p.Utilization, 0, p.Memory, p.Ran.Milliseconds(), p.Started.UnixMicro(), running)
	}
}
