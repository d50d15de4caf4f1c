package plausible

import (
	"regexp"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The classes of reasons that are judged, each by what it must show in.
const (
	byHeat = iota
	byPower
	byBrake
	byHardware
	byBoard
	classes
)

var masks = [classes]gpu.ClockEventReasons{
	byHeat:     gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal,
	byPower:    gpu.ReasonPowerCap,
	byBrake:    gpu.ReasonHardwarePowerBrake,
	byHardware: gpu.ReasonHardwareSlowdown,
	byBoard:    gpu.ReasonBoardLimit | gpu.ReasonReliability,
}

// A verdict is what the readings say of a reason.
type verdict uint8

const (
	untold  verdict = iota // those that would show it are absent
	against                // they show the contrary
	borneBy                // at least one of them bears it out
)

// A flag is what is known of one class of reasons of a device.
type flag struct {
	since  time.Time // since when it is set though the readings contradict it
	stuck  bool      // it was so for a while, and has never been clear since
	clears bool      // it was seen clear while the device worked
	borne  time.Time // of the newest reading that bore it out
}

// sticksAfter so long against the readings a flag is taken to be stuck: then weak signs bear it out no more.
const sticksAfter = 10 * time.Second

// goesOnFor so long a reason that was borne out is believed while the device works: a flag is of a moment, and a draw the mean
// of another.
const goesOnFor = 5 * time.Second

// reasons are those reasons of the driver's that the readings bear out. The set is absent where none is left, and one of
// them can't be judged. Where neither temperature nor power nor clocks can be read, the driver's word stands.
func (m *memory) reasons(v *view) gpu.Reading[gpu.ClockEventReasons] {
	set, ok := v.Clocks.EventReasons.Trusted()
	if !ok {
		return v.Clocks.EventReasons
	}
	if !m.shows(v) {
		return v.Clocks.EventReasons
	}
	kept, open := set, gpu.ClockEventReasons(0)
	for class, mask := range masks {
		part, f := set&mask, &m.flags[class]
		if part == 0 {
			f.since, f.stuck = time.Time{}, false
			f.clears = f.clears || v.busy >= 50
			continue
		}
		said, strong := v.verdict(class, f)
		if class == byHardware && kept&(masks[byHeat]|masks[byBrake]) != 0 {
			said, strong = borneBy, true // it is set with each of them
		}
		if said == borneBy && f.stuck && !strong && v.couldBeSure(class) {
			said = against
		}
		switch {
		case said == borneBy:
			f.borne = m.at
		case !f.borne.IsZero() && m.since(f.borne) <= goesOnFor && !v.rests():
			said = borneBy
		}
		// A flag of a device that is held down is not stuck, though its sensors are cold: they may not be where the heat is.
		m.note(&f.since, said == against && !(class == byHeat && v.heldDown(0.85)))
		f.stuck = f.stuck && !strong || m.since(f.since) >= sticksAfter
		switch said {
		case against:
			kept &^= part
		case untold:
			kept &^= part
			open |= part
		}
	}
	if open != 0 && !kept.Throttled() {
		return gpu.Reading[gpu.ClockEventReasons]{}
	}
	return gpu.Of(kept)
}

// shows reports whether the device has a temperature, a power or a clock that is good, or had one of late.
func (m *memory) shows(v *view) bool {
	had := func(p point) bool { return reported(p.temp) || reported(p.power) || reported(p.clock) }
	return reported(v.hottest()) || reported(v.power) || reported(v.clock) || reported(v.margin) || slices.ContainsFunc(m.trail, had)
}

// How near to a limit of heat a sensor must be, in °C, and where there is no limit how hot.
const (
	nearSlowdown, hotGPU = 15, 80
	nearTarget           = 3
	nearMargin           = 10
	hotJunction          = 95
	nearMemory, hotMem   = 12, 90
	nearSure             = 6  // of a flag that is stuck
	warmAnyway           = 65 // °C: a part without a sensor can be much hotter than the others, and not while they are cold
)

// Parts of the power limit and of the highest clock.
const (
	atLimit    = 0.8
	hardlyMore = 0.92 // a device at its power limit, whose clocks that explains
	farBelow   = 0.6
	fullSpeed  = 0.95
	heldBack   = 0.8 // of a laptop's clock: its machine moves the limit
	littleWork = 5   // percent: more than a device at rest has
	fullyBusy  = 85  // percent: what is held back has work left to do
)

// heldDown reports whether the device has all the work that it can do, at clocks of this part of the highest at most.
func (v *view) heldDown(part float64) bool { return v.busy >= fullyBusy && v.speed() <= part }

// rests reports whether the device has hardly any work, which nothing can hold back.
func (v *view) rests() bool {
	switch {
	case reported(v.busy):
		return v.busy < works && !(v.load() >= 0.5)
	case v.reasons&gpu.ReasonIdle != 0, v.state >= gpu.RestsFrom:
		return true
	case reported(v.state):
		return false // it is awake, and nobody knows for how much work
	case reported(v.load()):
		return v.load() < 0.25 && !(v.speed() > 0.5)
	default:
		return v.speed() <= 0.2
	}
}

// verdict judges one class of reasons, and says whether what bears it out is the strongest that there is.
func (v *view) verdict(class int, f *flag) (said verdict, strong bool) {
	switch class {
	case byHeat:
		return v.heat()
	case byPower:
		return v.powerCap(f)
	case byBrake:
		return v.brake(), false
	case byHardware:
		if near, sure := v.nearHeat(); near {
			return borneBy, sure
		}
		return v.brake(), false
	default:
		return v.board(), false
	}
}

// couldBeSure reports whether the device has the readings that bear a class of reasons out most strongly.
func (v *view) couldBeSure(class int) bool {
	switch class {
	case byHeat:
		return reported(v.hottest())
	case byPower:
		return reported(v.load())
	default:
		return true
	}
}

// nearHeat reports whether a sensor is near its limit, and whether it is at it.
func (v *view) nearHeat() (near, sure bool) {
	is := func(t, limit, by, instead float64) {
		if reported(limit) {
			near, sure = near || t >= limit-by, sure || t >= limit-min(by, nearSure)
			return
		}
		near, sure = near || t >= instead, sure || t >= instead+10
	}
	is(v.temp, v.slowdown, nearSlowdown, hotGPU)
	is(v.hotSpot, none, 0, hotJunction)
	is(v.memTemp, v.memLimit, nearMemory, hotMem)
	if v.Vendor == gpu.NVIDIA && reported(v.target) { // elsewhere it is what the fan steers towards
		is(v.temp, v.target, nearTarget, hotGPU)
	}
	if reported(v.margin) {
		near, sure = near || v.margin <= nearMargin, sure || v.margin <= nearSure
	}
	// What is not at its limit does not slow a device whose clocks are at their highest.
	return near && (sure || !(v.speed() > fullSpeed)), sure
}

// heat is borne out by a sensor near its limit; or by clocks that are held down though the power limit leaves room, where the
// device is warm or the clocks are far down: a part without a sensor may be hot.
func (v *view) heat() (verdict, bool) {
	if near, sure := v.nearHeat(); near {
		return borneBy, sure
	}
	hottest, known := v.hottest(), reported(v.hottest())
	room := !(v.load() >= hardlyMore)
	switch {
	case v.heldDown(farBelow) && room:
		return borneBy, false
	case known && hottest < warmAnyway, v.rests():
		return against, false
	case v.heldDown(0.85) && room:
		return borneBy, false
	case reported(v.speed()) && reported(v.busy), known && reported(v.busy) && v.busy < fullyBusy:
		return against, false
	default:
		return untold, false
	}
}

// powerCap is borne out by a draw at the limit. A draw far below it contradicts it: the limit lowers the clocks until the draw
// is just below it. Only a limit that nobody shows, as of a laptop on its battery, holds a busy device down there: then the
// clocks are low, and the flag has been seen to come and go. Without a limit, full work at many watts bears it out.
func (v *view) powerCap(f *flag) (verdict, bool) {
	load := v.load()
	switch {
	case load >= atLimit:
		return borneBy, true
	case v.rests():
		return against, false
	case load < farBelow:
		if v.heldDown(farBelow) && f.clears || v.heldDown(heldBack) && laptop(v.Name) {
			return borneBy, false
		}
		return against, false
	case v.heldDown(0.9), !reported(load) && v.busy >= fullyBusy && v.power >= manyWatts:
		return borneBy, false
	case reported(v.busy) && v.busy < 50 && (reported(load) || !(v.speed() < 0.9)):
		return against, false
	default:
		return untold, false
	}
}

// brake is a signal from outside, which shows in clocks that are low though the device has work.
func (v *view) brake() verdict {
	awake := v.state <= 3 && v.busy >= littleWork && v.speed() <= 0.5
	switch {
	case v.heldDown(0.7), awake:
		return borneBy
	case v.rests(), v.speed() > 0.8:
		return against
	case reported(v.speed()) && reported(v.busy) && v.busy < 50:
		return against
	default:
		return untold
	}
}

// board is a limit of currents or of the chip's life, which only much power meets.
func (v *view) board() verdict {
	switch {
	case v.rests(), v.load() < 0.4:
		return against
	case v.load() >= 0.7, v.heldDown(0.97):
		return borneBy
	case v.speed() > 0.97:
		return against
	default:
		return untold
	}
}

// mobile is the end of the number of a product for laptops: GTX 960M, RX 6800M, RX 7700S, MX450, RTX 3000 with Max-Q.
var mobile = regexp.MustCompile(`\b(Laptop|Max-Q|Mobile|Notebook|MX\d{3}|[A-Z]?\d{3,4}(M|S|MX|XM))\b`)

// laptop reports whether a product's name is that of one for laptops, whose power limit the machine moves.
func laptop(name string) bool { return mobile.MatchString(name) }
