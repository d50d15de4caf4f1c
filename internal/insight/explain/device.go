package explain

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A device is everything that a rule looks at: the current readings as plain numbers, the past, and the devices beside it. NaN means a
// reading that is absent or impossible.
type device struct {
	*gpu.Device
	s      *gpu.Snapshot
	all    []*device // all devices of the snapshot
	m      *memory
	readAt time.Time // of the reading
	name   string

	util, video float64 // percent; video: the busiest of the video engines
	temp        float64 // °C
	hotSpot     float64 // °C: the hottest of the die's sensors, which AMD's fans follow
	slowdown    float64 // °C at which it slows itself down, or the closest known limit
	power       float64 // W
	idleWatts   float64 // W: the power draw at rest
	limit       float64 // W
	fan         float64 // percent, as commanded, of the fastest fan; see byRPM
	rpm         float64 // of the fastest fan
	clock, top  float64 // MHz, of the SMs: current and highest
	state       float64 // the performance state; 0 is the fastest
	traffic     float64 // bytes per second over PCIe, in the busier direction
	reasons     gpu.ClockEventReasons

	figures  string // the main readings, for a sentence
	steady   bool   // temperature and power have settled
	stuck    bool   // the busy counter is stuck
	doing    activity
	byRPM    bool           // the driver reports no command: fan is the measured speed as a part of fullRPM
	culprits []*gpu.Process // those that work, or could
	silent   []*gpu.Process // the driver does not report their usage, but the work must be theirs
	worth    []*gpu.Process // those of them that named returns
}

// newDevice prepares a device for the rules. learn gives it its memory.
func newDevice(raw *gpu.Device, s *gpu.Snapshot, all []*device, learn func(*device)) *device {
	d := &device{
		Device: raw, s: s, all: all, readAt: cmp.Or(raw.SampledAt, s.Time), name: DeviceName(raw),
		util:      believed(raw.Utilization.GPU, 0, 100),
		video:     video(raw.Utilization.Encoder, raw.Utilization.Decoder, raw.Utilization.Video),
		temp:      believed(raw.Thermal.GPU, coldest, hottest),
		hotSpot:   believed(raw.Thermal.HotSpot, coldest, hottest),
		slowdown:  believed(raw.Thermal.Slowdown, 1, hottest),
		power:     believed(raw.Power.Draw, 0, mostWatts),
		idleWatts: believed(raw.IdleFloor, 1, mostWatts),
		limit:     orElse(believed(raw.Power.EnforcedLimit, 1, mostWatts), believed(raw.Power.DefaultLimit, 1, mostWatts)),
		fan:       none, rpm: none,
		clock:   believed(raw.Clocks.SM, 0, mostMegahertz),
		top:     believed(raw.Clocks.MaxSM, 1, mostMegahertz),
		state:   believed(raw.Clocks.PerformanceState, 0, mostState),
		reasons: reported(raw.Clocks.EventReasons),
		traffic: trafficOf(raw, cmp.Or(raw.SampledAt, s.Time)),
	}
	if highest(d.util, d.video) >= strong { // no device works at 0 °C, or without power
		d.temp, d.power = positive(d.temp), positive(d.power)
	}
	d.slowdown = orElse(d.slowdown, d.temp+believed(raw.Thermal.Margin, -hottest, hottest))
	if !present(d.clock) {
		d.clock, d.top = believed(raw.Clocks.Graphics, 0, mostMegahertz), believed(raw.Clocks.MaxGraphics, 1, mostMegahertz)
	}
	for i := range raw.Fans.Fans {
		d.fan = highest(d.fan, commanded(&raw.Fans.Fans[i]))
		d.rpm = highest(d.rpm, revolutions(&raw.Fans.Fans[i]))
	}
	if d.byRPM = !present(d.fan) && present(d.rpm); d.byRPM {
		d.fan = min(100*d.rpm/fullRPM, mostPercent)
	}
	d.figures = d.summary()
	if d.doing = d.activity(); d.doing == working {
		d.silent = d.unmeasured()
		d.culprits = d.workers()
	}
	learn(d)
	d.steady = raw.State == gpu.StateOK && d.settled()
	// It must be so for a while, or for as long as the device has been seen.
	d.stuck = d.looksStuck() && d.age(d.m.stuck) >= min(stuckFor, d.m.readAt.Sub(d.m.first))
	switch {
	case raw.State != gpu.StateOK:
	case d.stuck, d.doing == working && !d.m.work.active:
		d.doing, d.culprits = resting, nil
	case d.m.work.active:
		d.doing, d.culprits = working, d.m.lately(d)
	}
	return d
}

var none = math.NaN()

// trafficOf returns the PCIe traffic in the busier direction, in bytes per second. An old measurement says nothing.
func trafficOf(d *gpu.Device, now time.Time) float64 {
	if measured, ok := d.Activity.PCIeMeasuredAt.Get(); ok && now.Sub(measured).Abs() > settling {
		return none
	}
	return highest(believed(d.Activity.PCIeSent, 0, mostTraffic), believed(d.Activity.PCIeReceived, 0, mostTraffic))
}

func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return none
}

func present(v float64) bool { return !math.IsNaN(v) }

// believed returns the number of a good reading, or NaN if it is impossible.
func believed[T ~float64 | ~int](r gpu.Reading[T], least, most float64) float64 {
	v, ok := r.Get()
	if f := float64(v); ok && r.Quality() == gpu.Good && f >= least && f <= most {
		return f
	}
	return none
}

// The limits of what a device can report. A reading beyond them is impossible.
const (
	coldest, hottest = -60, 150 // °C
	mostWatts        = 100_000  // W
	mostPercent      = 150      // of a fan's noise limit, which it may exceed
	mostRPM          = 100_000  // RPM
	fullRPM          = 3300     // RPM of a card's fan at full speed, roughly
	mostMegahertz    = 100_000  // MHz
	mostState        = 15       // P15
	mostBytes        = 1 << 50  // of memory
	mostTraffic      = 1e12     // bytes per second over PCIe
)

// reported returns the set in a good reading; empty if there is none.
func reported(r gpu.Reading[gpu.ClockEventReasons]) gpu.ClockEventReasons {
	if set, ok := r.Trusted(); ok {
		return set
	}
	return 0
}

func commanded(f *gpu.Fan) float64   { return believed(f.Commanded, 0, mostPercent) }
func revolutions(f *gpu.Fan) float64 { return believed(f.RPM, 0, mostRPM) }
func target(f *gpu.Fan) float64      { return believed(f.Target, 0, mostPercent) }

func orElse(v, instead float64) float64 {
	if present(v) {
		return v
	}
	return instead
}

// highest and lowest compare two numbers, either of which may be NaN.
func highest(a, b float64) float64 { return max(orElse(a, b), orElse(b, a)) }
func lowest(a, b float64) float64  { return min(orElse(a, b), orElse(b, a)) }

// video returns the share of the busiest video engine.
func video(encoder, decoder, both gpu.Reading[gpu.Percent]) float64 {
	return highest(highest(believed(encoder, 0, 100), believed(decoder, 0, 100)), believed(both, 0, 100))
}

// load and speed are the power and the SM clock as parts of their maximum.
func (d *device) load() float64  { return d.power / d.limit }
func (d *device) speed() float64 { return d.clock / d.top }

type activity uint8

const (
	unknown activity = iota // its readings don't show it
	resting                 // no engine works, or hardly any
	working
)

// idleBelow is the utilization below which an engine or a process counts as idle, unless it costs considerable power.
const idleBelow = gpu.BusyFrom

// copies is the PCIe traffic that counts as work by itself, in bytes per second: a program copies data. A device at rest has almost none.
const copies = 1e9

// activity tells work from rest: by the utilization, otherwise by the shares of processes, otherwise by the power.
func (d *device) activity() activity {
	busy, complete := highest(d.util, d.video), present(d.util)
	if !complete {
		list := d.Processes.Or(nil)
		complete = len(list) > 0
		for i := range list {
			busy = highest(busy, processShare(&list[i]))
			complete = complete && present(believed(list[i].SM, 0, 100))
		}
	}
	switch {
	case busy >= idleBelow, busy >= 1 && d.costs(), d.traffic >= copies:
		return working
	case present(busy) && complete:
		return resting
	case d.drawsLikeWork():
		return working
	case present(d.idleWatts) && present(d.power):
		return resting
	default:
		return unknown
	}
}

// drawsLikeWork reports whether the power alone shows work. The power draw at rest changes with the clocks, so a few watts more don't count
// on a device with a limit of hundreds.
func (d *device) drawsLikeWork() bool {
	if !present(d.idleWatts) {
		return d.load() > 0.4
	}
	return d.power > 1.5*d.idleWatts+10 && !(d.power <= d.idleWatts+0.12*d.limit)
}

// processShare returns the largest of a process's engine shares, or NaN.
func processShare(p *gpu.Process) float64 {
	sm, video := believed(p.SM, 0, 100), video(p.Encoder, p.Decoder, p.Video)
	if !present(sm) && video == 0 {
		return none // it may be doing anything
	}
	return highest(sm, video)
}

// contradicted reports whether the busy counter says "all the time" while power and clocks are as at rest: work has just begun, or the
// counter is stuck.
func (d *device) contradicted() bool {
	const nearlyAlways = 90
	if !(d.util >= nearlyAlways) || !present(d.power) || d.video >= idleBelow || d.reasons&(reasonsOfHeat|reasonsOfPower|gpu.ReasonHardwareSlowdown) != 0 {
		return false
	}
	atRest := d.load() < 0.15
	if present(d.idleWatts) {
		atRest = d.power <= 1.25*d.idleWatts+10
	}
	slow := d.speed() < 0.5 || d.state >= gpu.RestsFrom || d.reasons&gpu.ReasonIdle != 0
	return atRest && slow
}

// byClock reports whether a device's clock alone shows whether it rests: only NVIDIA has performance states, and reports that it is idle.
func (d *device) byClock() bool { return d.Vendor == gpu.AMD || d.Vendor == gpu.Intel }

// upFrom returns the part of its highest clock from which a device counts as not resting. Some AMD devices rest at half of it.
func (d *device) upFrom() float64 {
	if d.byClock() {
		return 0.6
	}
	return 0.4
}

// slow reports whether a device says that it has lowered its clocks.
func (d *device) slow() bool {
	if !present(d.state) && (d.byClock() || !d.Clocks.EventReasons.Present()) {
		return !(d.speed() >= d.upFrom())
	}
	return d.state >= gpu.RestsFrom || d.reasons&gpu.ReasonIdle != 0
}

// looksStuck reports whether power, clocks and the shares of all processes contradict the counter.
func (d *device) looksStuck() bool {
	list, listed := d.AllProcesses()
	return listed && d.contradicted() && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		return processShare(&p) >= 1 || p.Type != gpu.TypeGraphics && !present(processShare(&p))
	})
}

// workers returns the processes that work, or could. If the busy counter is contradicted, they need a share.
func (d *device) workers() []*gpu.Process {
	if len(d.silent) > 0 {
		return d.silent
	}
	contradicted := d.contradicted()
	return Culprits(d.Processes.Or(nil), func(p *gpu.Process) bool { return !contradicted || processShare(p) >= idleBelow })
}

// unmeasured returns the living processes whose usage the driver does not report, such as ROCm's, or does not report yet: if the others
// don't explain how busy the device is, the work is theirs. The first holds most memory.
func (d *device) unmeasured() []*gpu.Process {
	if !d.byClock() { // NVIDIA's samples leave out processes that do little
		return nil
	}
	if present(d.util) && (d.util < 20 || d.together() >= 0.5*d.util || d.contradicted()) {
		return nil
	}
	found := those(d.Processes.Or(nil), func(p *gpu.Process) bool {
		begins := p.SM.Quality() == gpu.NotReported
		return !gone(p) && !present(processShare(p)) && (begins || present(d.util) && p.Type != gpu.TypeGraphics)
	})
	slices.SortStableFunc(found, byMemory)
	return found
}

// shareOf returns what a process uses: as the driver reports it or, for processes without a report, what is left over.
func (d *device) shareOf(p *gpu.Process) float64 {
	if slices.Contains(d.silent, p) {
		return max(orElse(d.util, 0)-d.together(), 0) / float64(len(d.silent))
	}
	return processShare(p)
}

// unified reports whether a device is part of a processor: heat and power then belong to both.
func (d *device) unified() bool { return d.Shared.Unified.Or(false) }
