package sim

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
)

//go:embed machines.yaml
var machinesYAML []byte

// stock is the content of machines.yaml, by the names that it uses.
type stock struct {
	Products map[string]*product
	Sites    map[string]site
	Machines map[string]plan
	Jobs     map[string]job
}

// inStock reads it as JSON: package gpu's types only support that.
var inStock = sync.OnceValue(func() *stock {
	s := new(stock)
	var tree any
	err := yaml.Unmarshal(machinesYAML, &tree)
	if err == nil {
		var text []byte
		text, err = json.Marshal(tree)
		err = cmp.Or(err, decode(text, s))
	}
	if err != nil {
		panic("sim: " + err.Error())
	}
	for name, j := range s.Jobs {
		j.name = name
		s.Jobs[name] = j
	}
	return s
})

// decode rejects unused fields.
func decode(text []byte, out any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(out)
}

const (
	mib      = 1 << 20
	pageSize = 2 * mib // of a device's memory, as the driver allocates it
)

// A product is a GPU model.
type product struct {
	Name, Architecture, VBIOS string

	Has struct {
		Serial      bool // data center boards report one
		Counters    bool // activity counters: from Hopper on
		PowerStates bool // P5 and P8 when idle; others stay in P0
		NVLinks     links
	}
	// Always are readings that never change, and the memory use without any process. Beyond these a device only supports what it measures.
	Always gpu.Readings
	Power  struct { // W
		Rest float64 // in deep idle: P8, or P0 for products without P8
		Held float64 // with an idle context that keeps the clocks high
		Full float64 // under full work without limits
	}
	Graphics    struct{ Idle, Boost float64 } // MHz
	MemoryClock struct {                      // MHz
		Idle    float64 // in deep idle
		Compute float64 // under compute work (P2 on GeForce)
	}
	Video struct{ Idle float64 } // MHz
	Heat  struct {               // °C
		HotSpot   float64 // how much hotter the hot spot is than the sensor at the power limit; 0: not reported
		Operating float64 // the driver slows it down here, before the hardware does
	}
	Fans struct {
		RPM     float64
		Min     float64 // percent, while turning
		On, Off float64 // °C at which they start and stop; 0 if they always turn
		Least   int     // seconds that they turn at least, once started
		Kick    float64 // percent, briefly as they start
	}
	Cooling struct {
		Still, Blowing float64 // W/K from the cooler to the air: with the fans stopped, and added at 100 %
		Inertia        float64 // seconds: the time constant of the cooler
	}
	Die struct {
		Above   float64 // K/W: how much hotter the die is than the cooler
		Inertia float64 // seconds: the time constant of the die
	}
	Instances []gpu.Instance // in MIG mode
}

// links are NVLinks to a board's switches, which have the addresses.
type links struct {
	Count    int
	Version  string
	Speed    float64 // bytes per second in each direction
	Switches []string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *product) UnmarshalJSON(text []byte) error {
	type plain product
	gpu.Withdraw(&p.Always, gpu.NotSupported)
	p.Always.Health.XIDs = gpu.Reading[[]gpu.XID]{}
	return decode(text, (*plain)(p))
}

// limit returns the product's power limit, in W.
func (p *product) limit() float64 { return float64(p.Always.Power.EnforcedLimit.Or(0)) }

// fans returns the number of its fans; 0: the chassis fans cool it.
func (p *product) fans() int { return p.Always.Fans.Count.Or(0) }

// A site is a card's place and its individual chip.
type site struct {
	Inlet   float64 // °C of the incoming air
	Airflow float64 // 1: as designed; less if something blocks it
	grain   int     // varies the chip and its share of the work
}

// A plan says how a machine is built.
type plan struct {
	Driver gpu.Driver
	Host   host
	Cards  []card
	// Begins is the second of the cycle at which a simulation of it begins, so that it always plays the same; 0: that of the clock.
	Begins int
	Past   int // seconds before, of which [Source.Earlier] tells
}

// A card is a GPU in a machine, with its work there.
type card struct {
	PCI, Product, Site string
	Displays, MIG      bool
	Jobs               []string  // take turns
	Services           []process // run beside each job
	Remapped           uint64    // remapped rows of its memory
	ErrorEvery         int       // seconds between corrected memory errors; 0: none
}

// A host is the machine around simulated devices, shown instead of the real one. Its used memory excludes GPU work, and its traffic is the
// average.
type host struct {
	gpu.Host
	Busy float64 // cores, without GPU work
}

// A job is one cycle of work on a device. Times are seconds of the cycle.
type job struct {
	name      string
	Phases    []phase // the device is idle between them
	Processes []process
	Faults    []fault
}

// A phase is a period of one kind of work. Shares are percent.
type phase struct {
	From, To   int
	Held       bool    // a context keeps the clocks high even without work
	GPU        float64 // average utilization; the value varies around it
	Swing      float64
	Memory     float64 // of the memory bandwidth, with the GPU at 100 %
	Enc, Dec   float64
	Intensity  float64 // part of the power that full work can draw; 0 means 1
	Every, Dip int     // work pauses for Dip seconds, once every Every seconds
}

// A process has a context on each device of its group.
type process struct {
	gpu.Process                              // the constant facts; Memory is its peak
	From, To    int                          // To 0: a service that runs since boot
	Ramp        int                          // seconds until it has allocated that memory
	Share       float64                      // of the device's work, 0 to 1
	CPU         struct{ Busy, Idle float64 } // percent of one core: with the device at 100 %, and at 0 %
	Step        string                       // in the device's current Slurm job; empty: in none
	Remains     bool                         // the job's first process is dead, and its memory is not freed
}

// A fault is a period in which the device can't be read.
type fault struct {
	From, To int
	State    gpu.State
	Reason   gpu.Advice
}

// complete fills in the obvious: that it exists, and what it does not belong to.
func (p *process) complete() {
	f := &p.Facts
	f.Exists = gpu.Of(!p.Remains)
	if !p.Remains {
		f.Container, f.Pod = gpu.Of(f.Container.Or(gpu.Container{})), gpu.Of(f.Pod.Or(gpu.Pod{}))
		f.Unit, f.Job = gpu.Of(f.Unit.Or(gpu.Unit{})), gpu.Of(gpu.Job{})
	}
	if !p.GPUInstance.Present() {
		p.GPUInstance, p.ComputeInstance = gpu.Absent[int](gpu.NotSupported), gpu.Absent[int](gpu.NotSupported)
	}
}
