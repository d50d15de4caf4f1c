package plausible

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	works     = 15 // percent busy: working engines draw power and make heat
	drawsSome = 10 // W
	warmer    = 10 // °C that one sensor must read to rule out another's 0 °C
)

// temperatures judges exact zeros: a missing sensor reads like that, and no working chip does. A chip is some degrees warmer than the air,
// so exactly 0 °C is practically never true.
func temperatures(d *gpu.Device) {
	t := &d.Thermal
	all := []*gpu.Reading[gpu.Celsius]{&t.GPU, &t.HotSpot, &t.Memory}
	v := see(d)
	for _, r := range all {
		if trusted(*r) != 0 {
			continue
		}
		if v.hottest() >= warmer || v.power >= drawsSome || v.busy >= works {
			impossible(r)
		} else {
			doubt(r)
		}
	}
}

// noPower judges a power draw of exactly 0 W: everything that works draws some.
func noPower(d *gpu.Device) {
	v := see(d)
	if v.power == 0 && (v.busy >= works || v.clients >= works || v.temp >= 50 && v.speed() >= 0.5) {
		impossible(&d.Power.Draw)
	}
}

// How fast a temperature can change: between two readings, and per second between them. The die of a big card reaches its power within a
// second or two, and cools no faster.
const (
	mostRise, mostFall = 35.0, 45.0
	perSecond          = 1.0
)

// jumps doubts a single temperature far from the previous one. A second reading at the new temperature is believed, and so is one back at
// the old temperature.
func (m *memory) jumps(d *gpu.Device, newer bool) {
	now := trusted(d.Thermal.GPU)
	if newer {
		rise := now - m.temp
		seconds := 0.0
		if n := len(m.trail); n > 0 {
			seconds = m.sampled.Sub(m.trail[n-1].sampled).Seconds()
		}
		far := rise > mostRise+perSecond*seconds || rise < -mostFall-perSecond*seconds
		m.jumped = far && !m.jumped
		m.temp = now
	}
	if m.jumped {
		doubt(&d.Thermal.GPU)
	}
}

// How far a power draw may exceed the limit in force. Drivers report averages over some milliseconds to a second; in such a time a board
// exceeds its limit by a tenth, and an overclocked laptop by three tenths.
const (
	aboveBy = 1.4
	beyond  = 10       // times the limit: no board survives that
	ofCard  = 1.9e3    // W, without a limit: the biggest package draws 1.4 kW
	ofChip  = 350      // W, for a processor with a GPU, without a limit
	ofBig   = 64 << 30 // bytes of memory: such a processor is made for data centers, and draws as much as a card
)

// aboveLimit judges the power draw by the limits or, without one, by the kind of device.
func aboveLimit(d *gpu.Device) {
	draw := float64(d.Power.Draw.Or(gpu.Watts(none)))
	most, settable := highest(trusted(d.Power.EnforcedLimit), trusted(d.Power.DefaultLimit)), trusted(d.Power.MaxLimit)
	if !(most > 0) {
		most = settable
	}
	big := max(d.Memory.Total.Or(0), d.Shared.Total.Or(0)) >= ofBig
	switch {
	case most > 0 && draw > beyond*highest(most, settable):
		impossible(&d.Power.Draw)
	case most > 0 && draw > aboveBy*most && !(draw <= settable), // a laptop's limit moves up to the highest settable one
		!(most > 0) && draw > ofCard,
		!(most > 0) && d.Shared.Unified.Or(false) && !big && draw > ofChip:
		doubt(&d.Power.Draw)
	}
}

// stands is for how long a power draw must be exactly the same if the sensor beside it is dead.
const stands = 2 * time.Second

// deadSensors judges the power draw of a device whose temperature is exactly 0: both come from one firmware table, which the firmware has
// not filled in. A draw that a limit confirms, or one that changes, may be right.
func (m *memory) deadSensors(d *gpu.Device) {
	raw := float64(d.Power.Draw.Or(gpu.Watts(none)))
	if !(raw == m.watts) {
		m.watts, m.wattsAs = raw, m.sampled
	}
	v := see(d)
	dead := d.Thermal.GPU.Quality() == gpu.Implausible && !reported(v.hottest())
	if !dead || !(raw >= drawsSome) {
		return
	}
	switch limited := raw <= 1.1*v.limit; {
	case m.sampled.Sub(m.wattsAs) >= stands && !limited:
		impossible(&d.Power.Draw)
	case m.sampled.Sub(m.wattsAs) >= stands, !limited:
		doubt(&d.Power.Draw)
	}
}

// energy doubts a counter that grows faster than the device can draw power.
func (m *memory) energy(d *gpu.Device, newer bool) {
	now := trusted(d.Power.Energy)
	if newer {
		most := 3 * or(limit(d), ofCard)
		seconds := 0.0
		if n := len(m.trail); n > 0 {
			seconds = m.sampled.Sub(m.trail[n-1].sampled).Seconds()
		}
		m.leapt = seconds > 0 && now-m.joules > most*(seconds+1)
		m.joules = now
	}
	if m.leapt {
		doubt(&d.Power.Energy)
	}
}

// Changes that must show in the power draw: if it stays exactly the same through one of these, it is doubtful. A change must last: the
// lowest and the highest fifth of a minute must be this far apart.
const (
	standsLong = time.Minute
	tail       = 5    // such parts in a minute
	justAt     = 0.98 // of the limit: a power draw there stays the same for as long as the device works
	busyMoves  = 40.0 // percent
	clockMoves = 0.4  // of the highest clock
	tempMoves  = 12.0 // °C, rising: a cooling device is at rest
)

// standing doubts a power draw that stays exactly the same for a minute in which the work changes, or in which clocks or heat change at
// work. A device at rest draws the same few watts for hours, though it wakes for a moment now and then. This is the last rule before the
// reading goes into the trail.
func (m *memory) standing(d *gpu.Device) {
	v := see(d)
	still := v.power > 0 && m.sampled.Sub(m.wattsAs) >= standsLong
	m.leave(v)
	points, covered := m.within(standsLong)
	if !still || !covered {
		return
	}
	low, high := tails(points, busy)
	slow, fast := tails(points, clock)
	atWork := !reported(high) || low >= works
	warms := atWork && points[len(points)-1].temp-points[0].temp >= tempMoves
	speeds := atWork && fast-slow >= clockMoves*v.top
	limited := v.load() >= justAt && (!reported(low) || low >= works)
	if !limited && (high-low >= busyMoves || warms || speeds) {
		doubt(&d.Power.Draw)
	}
}

// tails returns the upper bound of the lowest fifth of the points, and the lower bound of the highest fifth; NaN if one lacks the reading.
func tails(points []point, value func(*point) float64) (low, high float64) {
	all := make([]float64, len(points))
	for i := range points {
		if all[i] = value(&points[i]); !reported(all[i]) {
			return none, none
		}
	}
	slices.Sort(all)
	return all[(len(all)-1)/tail], all[len(all)-1-(len(all)-1)/tail]
}
