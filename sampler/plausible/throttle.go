package plausible

import (
	"regexp"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The classes of reasons that are judged, each by the readings in which it must show.
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

// A verdict is what the readings say about a reason.
type verdict uint8

const (
	untold  verdict = iota // the readings that would show it are absent
	against                // the readings contradict it
	borneBy                // at least one reading confirms it
)

// A flag is what is known about one class of reasons of a device.
type flag struct {
	since  time.Time // since when it is set although the readings contradict it
	stuck  bool      // it was so for a while, and the flag has never been clear since
	clears bool      // it was seen clear while the device worked
	borne  time.Time // when a reading last confirmed it
}

// sticksAfter is how long a flag must contradict the readings before it counts as stuck: then weak signs no longer confirm it.
const sticksAfter = 10 * time.Second

// goesOnFor is how long a confirmed reason is believed while the device works: the flag is a momentary value, and the power draw may be
// averaged over another moment.
const goesOnFor = 5 * time.Second

// reasons returns those of the driver's reasons that the readings confirm. The set is absent if none is left and one of them can't be
// judged. If neither temperature nor power nor clocks can be read, the driver's reasons are returned unchanged.
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
			said, strong = borneBy, true // it is set together with each of them
		}
		if said == borneBy && f.stuck && !strong && v.couldBeSure(class) {
			said = against
		}
		switch {
		case said == borneBy:
			f.borne = m.sampled
		case !f.borne.IsZero() && m.since(f.borne) <= goesOnFor && !v.rests():
			said = borneBy
		}
		// A flag is not stuck if its device is held down, even if its sensors are cold: the heat may be elsewhere.
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

// shows reports whether the device has a good temperature, power or clock reading, or had one recently.
func (m *memory) shows(v *view) bool {
	had := func(p point) bool { return reported(p.temp) || reported(p.power) || reported(p.clock) }
	return reported(v.hottest()) || reported(v.power) || reported(v.clock) || reported(v.margin) || slices.ContainsFunc(m.trail, had)
}

// How close to a temperature limit a sensor must be, in °C, and how hot if there is no limit.
const (
	nearSlowdown, hotGPU = 15, 80
	nearTarget           = 3
	nearMargin           = 10
	hotJunction          = 95
	nearMemory, hotMem   = 12, 90
	nearSure             = 6  // for a stuck flag
	warmAnyway           = 65 // °C: a part without a sensor can be much hotter than the others, but not while they are cold
)

// Parts of the power limit and of the highest clock.
const (
	atLimit    = 0.8
	hardlyMore = 0.92 // at its power limit, which explains the device's clocks
	farBelow   = 0.6
	fullSpeed  = 0.95
	heldBack   = 0.8 // of a laptop's clock: the laptop moves the limit
	littleWork = 5   // percent: more than a device at rest has
	fullyBusy  = 85  // percent: a device that is held back has work left to do
)

// heldDown reports whether the device is fully busy with clocks of at most this part of the highest clock.
func (v *view) heldDown(part float64) bool { return v.busy >= fullyBusy && v.speed() <= part }

// rests reports whether the device has hardly any work, so that nothing can hold it back.
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

// verdict judges one class of reasons, and says whether the strongest possible evidence confirms it.
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

// couldBeSure reports whether the device has the readings that would confirm a class of reasons most strongly.
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

// nearHeat reports whether a sensor is close to its limit, and whether it is at its limit.
func (v *view) nearHeat() (near, sure bool) {
	is := func(t, limit, margin, instead float64) {
		if reported(limit) {
			near, sure = near || t >= limit-margin, sure || t >= limit-min(margin, nearSure)
			return
		}
		near, sure = near || t >= instead, sure || t >= instead+10
	}
	is(v.temp, v.slowdown, nearSlowdown, hotGPU)
	is(v.hotSpot, none, 0, hotJunction)
	is(v.memTemp, v.memLimit, nearMemory, hotMem)
	if v.Vendor == gpu.NVIDIA && reported(v.target) { // for other vendors it is the temperature that the fan aims at
		is(v.temp, v.target, nearTarget, hotGPU)
	}
	if reported(v.margin) {
		near, sure = near || v.margin <= nearMargin, sure || v.margin <= nearSure
	}
	// A device whose clocks are at their highest is only slowed by a sensor at its limit.
	return near && (sure || !(v.speed() > fullSpeed)), sure
}

// heat is confirmed by a sensor close to its limit, or by clocks that are held down although the power limit leaves room, if the device is
// warm or the clocks are far down: a part without a sensor may be hot.
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

// powerCap is confirmed by a power draw at the limit. A draw far below the limit contradicts it: the limit lowers the clocks until the draw
// is just below it. Only a limit that is not reported, such as a laptop's on battery, holds a busy device lower: then the clocks are low,
// and the flag has been seen to come and go. Without a limit, full work at many watts confirms it.
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

// brake is a signal from outside, which shows in low clocks although the device has work.
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

// board is a limit for currents or for the chip's lifetime, which only high power reaches.
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

// mobile matches product names for laptops: GTX 960M, RX 6800M, RX 7700S, MX450, RTX 3000 with Max-Q.
var mobile = regexp.MustCompile(`\b(Laptop|Max-Q|Mobile|Notebook|MX\d{3}|[A-Z]?\d{3,4}(M|S|MX|XM))\b`)

// laptop reports whether a product's name is a laptop product's. Laptops move the power limit.
func laptop(name string) bool { return mobile.MatchString(name) }
