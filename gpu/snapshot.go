package gpu

import (
	"errors"
	"iter"
	"slices"
	"time"
)

// The names of sources on the wire, which say where readings come from.
const (
	SourceNVML       = "nvml"
	SourceNvidiaSMI  = "nvidia-smi"
	SourceAMD        = "amdgpu"
	SourceIntel      = "intel"
	SourceKubernetes = "kubernetes"
	SourceSimulated  = "simulated"
	SourceRecorded   = "recorded" // see [Identity.RecordedFrom]
	SourceMixed      = "mixed"    // the devices of one snapshot come from several sources
)

// Kind is whether readings show a machine as it is now. If not, every page, document and
// message says so.
type Kind string

// The kinds of readings.
const (
	Live      Kind = "live"
	Simulated Kind = "simulated" // invented; somebody asked for that by name
	Recorded  Kind = "recorded"  // of another time or machine; somebody asked for that by name
)

// KindOf returns the kind of a source's readings.
func KindOf(source string) Kind {
	switch source {
	case SourceSimulated:
		return Simulated
	case SourceRecorded:
		return Recorded
	}
	return Live
}

// Status is what a monitor can say about its machine as a whole.
type Status string

// The statuses of a machine.
const (
	StatusStarting Status = "starting" // no reading yet, and not known yet whether there will be one
	StatusOK       Status = "ok"       // every device answers or sleeps
	// A device does not answer, is lost, or its driver asks for a reset or another action; or one of several sources failed.
	StatusDegraded Status = "degraded"
	StatusNoGPU    Status = "no_gpu" // no device could be found; Failures says what was tried
	StatusSilent   Status = "silent" // a node of a fleet sends nothing any more; no snapshot has this status itself
)

// A Snapshot is everything that was read at one time.
type Snapshot struct {
	// Seq grows with every reading. Gaps are normal, since readings on demand take numbers too.
	Seq  uint64
	Time time.Time // when the reading began, UTC
	// Breaks counts the interruptions of the node's readings so far: the machine slept, or
	// its clock was set. Anything that lasts starts again at a break, unless it moves with
	// the clock. ClockSet is the sum by which the clock was set forward; negative: back.
	Breaks   int
	ClockSet time.Duration
	Node     string // the name of the machine
	// Source is where the devices come from or, without a device, what was tried.
	Source   string
	Devices  []Device  // ordered by Index
	Drivers  []Driver  // one for each source that answered
	Failures []Failure // one for each source that can't be read now
	Tried    []Attempt // what each source found, in order; nil if nobody looked
	Host     *Host     // nil if it was not read
	Notes    []Advice  // what this monitor can't see, and how to change that
}

// Status sums up the snapshot; nil means that nothing was read yet.
func (s *Snapshot) Status() Status {
	broken := func(d Device) bool {
		return d.State == StateNotAnswering || d.State == StateLost || errors.Is(&d.Reason, ErrNeedsAction)
	}
	switch {
	case s == nil:
		return StatusStarting
	case len(s.Devices) == 0:
		return StatusNoGPU
	case len(s.Failures) > 0, slices.ContainsFunc(s.Devices, broken):
		return StatusDegraded
	default:
		return StatusOK
	}
}

// Kind returns the kind of the snapshot's devices: Live only if all of them are.
func (s *Snapshot) Kind() Kind {
	kind := KindOf(s.Source)
	for i := range s.Devices {
		if kind == Live {
			kind = KindOf(s.Devices[i].Source)
		}
	}
	return kind
}

// Device finds a device by UUID.
func (s *Snapshot) Device(uuid string) (*Device, bool) { return Nodes{s}.Device("", uuid) }

// A Driver is the driver that answers for the devices of one source.
type Driver struct {
	Source  string
	Version Reading[string] // of the kernel driver, such as "550.54.15"
	CUDA    Reading[string] // the newest version that the driver supports, such as "12.4"; not the toolkit's
	Library Reading[string] // version of the management library
}

// A Failure is a source that can't be read.
type Failure struct {
	Source string
	Since  time.Time
	Advice Advice
	Next   time.Time // when gpuwhy tries again
}

// An Attempt is a source that was asked for devices.
type Attempt struct {
	Source  string
	Devices int    // how many it reads or knows of
	Advice  Advice // why it has none or can't read them; zero while it can
}

// Totals are sums and averages over devices, without doubtful readings. Devices
// that don't answer count only in Devices.
type Totals struct {
	Devices, Answering      int
	Busy                    int // devices that answer, with a GPU utilization of BusyFrom or more
	Processes               int
	MemoryUsed, MemoryTotal Reading[Bytes]
	// Unified is how many of the devices that answer have no memory of their own: they
	// use the machine's, which is in none of the sums.
	Unified int
	// Averages over the devices that report the reading.
	Utilization       Reading[Percent]
	MemoryUtilization Reading[Percent] // used / total, not the memory controller's activity
	Temperature       Reading[Celsius]
	MaxTemperature    Reading[Celsius]
	PowerDraw         Reading[Watts]
	// MemoryShare is used / total over the devices that report both; the sums
	// above can be over different devices.
	MemoryShare Reading[Percent]
}

const (
	// BusyFrom is the utilization in percent from which a device counts as busy.
	// Drawing a desktop stays below it.
	BusyFrom = 5
	// RestsFrom is the first performance state in which a device rests and saves power.
	RestsFrom = 5
)

// TotalsOf sums up devices. A sum is absent if no device reports the reading.
func TotalsOf(devices iter.Seq[*Device]) Totals {
	var t Totals
	var util, mem mean[Percent]
	var temp mean[Celsius]
	var both Memory // summed over the devices that report both
	for d := range devices {
		t.Devices++
		if d.State != StateOK {
			continue
		}
		t.Answering++
		if v, ok := d.Utilization.GPU.Trusted(); ok && v >= BusyFrom {
			t.Busy++
		}
		t.Processes += len(d.Processes.Or(nil))
		t.MemoryUsed = plus(t.MemoryUsed, d.Memory.Used)
		t.MemoryTotal = plus(t.MemoryTotal, d.Memory.Total)
		if d.Shared.Unified.Or(false) && !d.Memory.Total.Present() {
			t.Unified++
		}
		if d.Memory.Utilization().Present() {
			both.Used, both.Total = plus(both.Used, d.Memory.Used), plus(both.Total, d.Memory.Total)
		}
		t.PowerDraw = plus(t.PowerDraw, d.Power.Draw)
		util.add(d.Utilization.GPU)
		mem.add(d.Memory.Utilization())
		temp.add(d.Thermal.GPU)
		if v, ok := d.Thermal.GPU.Trusted(); ok {
			t.MaxTemperature = Of(max(v, t.MaxTemperature.Or(v)))
		}
	}
	t.MemoryShare = both.Utilization()
	t.Utilization, t.MemoryUtilization, t.Temperature = util.reading(), mem.reading(), temp.reading()
	return t
}

func plus[T Bytes | Watts](sum, r Reading[T]) Reading[T] {
	v, ok := r.Trusted()
	if !ok {
		return sum
	}
	return Of(sum.Or(0) + v)
}

type mean[T Percent | Celsius] struct{ sum, n T }

func (m *mean[T]) add(r Reading[T]) {
	if v, ok := r.Trusted(); ok {
		m.sum += v
		m.n++
	}
}

func (m *mean[T]) reading() Reading[T] {
	if m.n == 0 {
		return Reading[T]{}
	}
	return Of(m.sum / m.n)
}
