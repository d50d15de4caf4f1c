package explain

import (
	"math"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// vitals are the readings of one device that the rules use, as plain numbers.
// NaN stands for a reading that is absent or can't be right.
type vitals struct {
	*gpu.Device
	util, video float64 // percent; video: the busiest of the video engines
	temp        float64 // °C
	slowdown    float64 // °C: where it slows itself down, or the nearest that is known
	power       float64 // W
	idleWatts   float64 // W: the power draw at rest
	limit       float64 // W
	fan         float64 // percent, as commanded; the fastest fan's
	rpm         float64 // the fastest fan's
	clock, top  float64 // MHz: of the SMs, now and at most
	state       float64 // the performance state, 0 the fastest
	reasons     gpu.ClockEventReasons
	doing       activity
	culprits    []*gpu.Process // those who work, or could
}

var none = math.NaN()

func has(v float64) bool { return !math.IsNaN(v) }

// believed is the number of a good reading. A reading that can't be right is
// none, whether the source said so or not.
func believed[T ~float64 | ~int](r gpu.Reading[T], least, most float64) float64 {
	v, ok := r.Get()
	if f := float64(v); ok && r.Quality() == gpu.Good && f >= least && f <= most {
		return f
	}
	return none
}

// The limits of what a device can report. A reading beyond them can't be right.
const (
	coldest, hottest = -60, 150 // °C
	mostWatts        = 100_000  // W
	mostPercent      = 1000     // of a fan's noise limit, which it may pass
	mostRPM          = 100_000  // revolutions a minute
	mostMegahertz    = 100_000  // MHz
	mostState        = 15       // P15
	mostBytes        = 1 << 50  // of memory
)

func vitalsOf(d *gpu.Device) vitals {
	v := vitals{
		Device: d, idleWatts: believed(d.IdleFloor, 1, mostWatts),
		util:  believed(d.Utilization.GPU, 0, 100),
		video: highest(believed(d.Utilization.Encoder, 0, 100), believed(d.Utilization.Decoder, 0, 100)),
		temp:  believed(d.Thermal.GPU, coldest, hottest),
		power: believed(d.Power.Draw, 0, mostWatts),
		limit: or(believed(d.Power.EnforcedLimit, 1, mostWatts), believed(d.Power.DefaultLimit, 1, mostWatts)),
		fan:   none, rpm: none,
		clock:   believed(d.Clocks.SM, 0, mostMegahertz),
		top:     believed(d.Clocks.MaxSM, 1, mostMegahertz),
		state:   believed(d.Clocks.PerformanceState, 0, mostState),
		reasons: d.Clocks.EventReasons.Or(0),
	}
	if !has(v.clock) {
		v.clock, v.top = believed(d.Clocks.Graphics, 0, mostMegahertz), believed(d.Clocks.MaxGraphics, 1, mostMegahertz)
	}
	for i := range d.Fans.Fans {
		v.fan = highest(v.fan, commanded(&d.Fans.Fans[i]))
		v.rpm = highest(v.rpm, revolutions(&d.Fans.Fans[i]))
	}
	v.slowdown = or(believed(d.Thermal.Slowdown, 1, hottest), v.temp+believed(d.Thermal.Margin, -hottest, hottest))
	if v.doing = v.activity(); v.doing == working {
		v.culprits = v.workers()
	}
	return v
}

func commanded(f *gpu.Fan) float64   { return believed(f.Commanded, 0, mostPercent) }
func revolutions(f *gpu.Fan) float64 { return believed(f.RPM, 0, mostRPM) }
func target(f *gpu.Fan) float64      { return believed(f.Target, 0, mostPercent) }

// or is a number, or another where it is none.
func or(v, instead float64) float64 {
	if has(v) {
		return v
	}
	return instead
}

// highest is the larger of two numbers, of which either may be none.
func highest(a, b float64) float64 {
	if !has(a) || b > a {
		return b
	}
	return a
}

// lowest is the smaller of two numbers, of which either may be none.
func lowest(a, b float64) float64 {
	if !has(a) || b < a {
		return b
	}
	return a
}

// turning reports whether a tachometer says that a fan turns.
func (v *vitals) turning() bool { return v.rpm > 0 }

// load is the power as a part of the limit, 0 to 1 and somewhat more.
func (v *vitals) load() float64 { return v.power / v.limit }

// speed is the SM clock as a part of the fastest.
func (v *vitals) speed() float64 { return v.clock / v.top }

// An activity is what a device does.
type activity uint8

const (
	unknown activity = iota // it does not report enough to tell
	resting                 // no engine works, or hardly
	working
)

// idleBelow is the utilization under which an engine or a process has no work.
const idleBelow = gpu.BusyFrom

// activity tells work from rest. Where the device doesn't report its utilization,
// the shares of its processes decide. Where they have none either, its power
// decides; who works is then not known.
func (v *vitals) activity() activity {
	busy, complete := highest(v.util, v.video), has(v.util)
	if !complete {
		list := v.Processes.Or(nil)
		complete = len(list) > 0
		for i := range list {
			busy = highest(busy, processShare(&list[i]))
			complete = complete && has(believed(list[i].SM, 0, 100))
		}
	}
	switch {
	case busy >= idleBelow:
		return working
	case has(busy) && complete:
		return resting
	case has(v.idleWatts) && v.power > 1.5*v.idleWatts+10, !has(v.idleWatts) && v.load() > 0.4:
		return working
	case has(v.idleWatts) && has(v.power):
		return resting
	default:
		return unknown
	}
}

// processShare is the largest of a process's engine shares, or none.
func processShare(p *gpu.Process) float64 {
	return highest(believed(p.SM, 0, 100), highest(believed(p.Encoder, 0, 100), believed(p.Decoder, 0, 100)))
}

// contradicted reports whether the busy counter says "all the time" while power
// and clocks are those of rest: either work has just begun, or the counter is
// stuck. idleWatts decides what is at rest, or the power limit where it is none.
func (v *vitals) contradicted() bool {
	const nearlyAlways = 90
	if !(v.util >= nearlyAlways) || !has(v.power) || v.video >= idleBelow {
		return false
	}
	atRest := v.load() < 0.15
	if has(v.idleWatts) {
		atRest = v.power <= 1.15*v.idleWatts+3
	}
	slow := v.speed() < 0.5 || v.state >= gpu.RestsFrom || v.reasons&gpu.ReasonIdle != 0
	return atRest && slow
}

// looksStuck reports whether everything contradicts the busy counter: power,
// clocks, and the shares of all processes.
func (v *vitals) looksStuck() bool {
	list, listed := v.Processes.Get()
	return listed && v.contradicted() && !slices.ContainsFunc(list, func(p gpu.Process) bool {
		return processShare(&p) >= 1 || p.Type != gpu.TypeGraphics && !has(processShare(&p))
	})
}

// workers are the processes that work on a device at work, or could. Where the
// busy counter is contradicted, a process needs a share to be one of them.
func (v *vitals) workers() []*gpu.Process {
	list := v.Processes.Or(nil)
	if v.contradicted() {
		list = slices.DeleteFunc(slices.Clone(list), func(p gpu.Process) bool { return !(processShare(&p) >= idleBelow) })
	}
	return culprits(list)
}
