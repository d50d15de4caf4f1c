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

// stock is what machines.yaml has, by the names that it uses.
type stock struct {
	Products map[string]*product
	Sites    map[string]site
	Machines map[string]plan
	Jobs     map[string]job
}

// inStock reads it as JSON: only that has package gpu's types.
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

// decode accepts no field that is not used.
func decode(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}

const (
	mib      = 1 << 20
	pageSize = 2 * mib // of a device's memory, as the driver gives it
)

// A product is a model of GPU.
type product struct {
	Name, Architecture, VBIOS string

	Has struct {
		Serial      bool // a board of the data center reports one
		Counters    bool // of what its units do: from Hopper on
		PowerStates bool // P5 and P8 when idle; others stay in P0
		NVLinks     links
	}
	// Always is what reads the same all the time, and the memory before any process.
	// Nothing else is supported but what a device measures.
	Always gpu.Readings
	Power  struct { // W
		Rest float64 // in deep idle: P8, or P0 for products without P8
		Held float64 // with the clocks kept high by an idle context
		Full float64 // under full work without limits
	}
	Graphics    struct{ Idle, Boost float64 } // MHz
	MemoryClock struct {                      // MHz
		Idle    float64 // in deep idle
		Compute float64 // under compute work (P2 on GeForce)
	}
	Video struct{ Idle float64 } // MHz
	Heat  struct {               // °C
		HotSpot   float64 // how far the hottest spot is above the sensor at the power limit; 0: not reported
		Operating float64 // where the driver slows it down, before the hardware does
	}
	Fans struct {
		RPM     float64
		Min     float64 // percent, while they turn
		On, Off float64 // °C: they start and stop; 0 if they always turn
		Least   int     // seconds that they turn, once they have started
		Kick    float64 // percent, for a moment as they start
	}
	Cooling struct {
		Still, Blowing float64 // W/K from the cooler to the air: with the fans stopped, and added at 100 %
		Inertia        float64 // seconds: the time constant of the cooler
	}
	Die struct {
		Above   float64 // K/W: how much hotter it is than the cooler
		Inertia float64 // seconds: the time constant of that
	}
	Instances []gpu.Instance // in MIG mode
}

// links are NVLinks to the switches of a board, which have the addresses.
type links struct {
	Count    int
	Version  string
	Speed    float64 // bytes a second in each direction
	Switches []string
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *product) UnmarshalJSON(text []byte) error {
	type plain product
	gpu.Withdraw(&p.Always, gpu.NotSupported)
	p.Always.Health.XIDs = gpu.Reading[[]gpu.XID]{}
	return decode(text, (*plain)(p))
}

// limit is the most power that it may draw, in W.
func (p *product) limit() float64 { return float64(p.Always.Power.EnforcedLimit.Or(0)) }

// fans is how many it has; 0: the fans of the chassis cool it.
func (p *product) fans() int { return p.Always.Fans.Count.Or(0) }

// A site is where a card is built in, and which chip it has.
type site struct {
	Inlet   float64 // °C of the air that reaches it
	Airflow float64 // 1: as designed; less if something blocks it
	grain   int     // varies the chip and its part of the work
}

// A plan says how a machine is built.
type plan struct {
	Driver gpu.Driver
	Host   host
	Cards  []card
}

// A card is a GPU in a machine, with the work that it has there.
type card struct {
	PCI, Product, Site string
	Displays, MIG      bool
	Jobs               []string  // take turns
	Services           []process // run beside each job
	Remapped           uint64    // rows of its memory
	ErrorEvery         int       // seconds from one corrected memory error to the next; 0: none
}

// A host is the machine around simulated devices, shown instead of the real one. Its
// used memory is that without GPU work, its traffic the mean.
type host struct {
	gpu.Host
	Busy float64 // cores, without GPU work
}

// A job is what happens in one cycle on a device. Times are seconds of the cycle.
type job struct {
	name      string
	Phases    []phase // the device is idle in between
	Processes []process
	Faults    []fault
}

// A phase is a stretch of one kind of work. Shares are percent.
type phase struct {
	From, To   int
	Held       bool    // a context keeps the clocks high, also without work
	GPU        float64 // utilization: the mean, around which it swings
	Swing      float64
	Memory     float64 // of the memory's bandwidth, with the GPU at 100 %
	Enc, Dec   float64
	Intensity  float64 // of the power that full work can draw; 0 is 1
	Every, Dip int     // work pauses for Dip seconds, every so many seconds
}

// A process has a context on each device of its group.
type process struct {
	gpu.Process                              // what stays the same; Memory is the most that it has
	From, To    int                          // To 0: a service that runs since boot
	Ramp        int                          // seconds until it has all that memory
	Share       float64                      // of the device's work, 0 to 1
	CPU         struct{ Busy, Idle float64 } // percent of one core: with the device at 100 %, and at 0 %
	Step        string                       // of the current Slurm job of the device; empty: in none
	Remains     bool                         // the job's first process is dead, and its memory is not freed
}

// A fault is a time in which the device can't be read.
type fault struct {
	From, To int
	State    gpu.State
	Reason   gpu.Advice
}

// complete adds what goes without saying: it exists, and what it is not in.
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
