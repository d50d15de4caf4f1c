package plausible

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	works     = 15 // percent busy: engines draw power and make heat then
	drawsSome = 10 // W
	warmer    = 10 // °C: what one sensor must say for 0 °C of another to be none
)

// temperatures judges exact zeros: so reads a sensor that is not there, and no chip that works. A chip is some degrees warmer than
// the air, so that 0 °C to the digit is next to never true.
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

// noPower judges a draw of exactly 0 W: nothing that works draws none.
func noPower(d *gpu.Device) {
	v := see(d)
	if v.power == 0 && (v.busy >= works || v.clients >= works || v.temp >= 50 && v.speed() >= 0.5) {
		impossible(&d.Power.Draw)
	}
}

// How fast a temperature can change: between two readings, and for each second between them. The die of a big card takes its
// power up in a second or two, and cools no faster.
const (
	mostRise, mostFall = 35.0, 45.0
	perSecond          = 1.0
)

// jumps doubts a single temperature that is far from the one before. The next one is believed, so that a second one like it is, and so is one that is back.
func (m *memory) jumps(d *gpu.Device, newer bool) {
	now := trusted(d.Thermal.GPU)
	if newer {
		by := now - m.temp
		seconds := 0.0
		if n := len(m.trail); n > 0 {
			seconds = m.at.Sub(m.trail[n-1].at).Seconds()
		}
		far := by > mostRise+perSecond*seconds || by < -mostFall-perSecond*seconds
		m.jumped = far && !m.jumped
		m.temp = now
	}
	if m.jumped {
		doubt(&d.Thermal.GPU)
	}
}

// How far a draw may be above the limit in force. Drivers tell means of some milliseconds to a second, in which a board
// passes its limit by a tenth, and an overclocked laptop by three.
const (
	aboveBy = 1.4
	beyond  = 10       // times the limit: no board survives that
	ofCard  = 1.9e3    // W, without a limit: the biggest package draws 1.4 kW
	ofChip  = 350      // W, of a processor with a GPU, without a limit
	ofBig   = 64 << 30 // bytes of memory, with which such a processor is one for data centers, and draws what a card does
)

// aboveLimit judges the draw by the limits, and without one by what there is.
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
	case most > 0 && draw > aboveBy*most && !(draw <= settable), // a laptop's limit moves up to what it may be set to
		!(most > 0) && draw > ofCard,
		!(most > 0) && d.Shared.Unified.Or(false) && !big && draw > ofChip:
		doubt(&d.Power.Draw)
	}
}

// stands is for how long a draw must be the same to the digit where the sensor beside it is dead.
const stands = 2 * time.Second

// deadSensors judges the draw of a device whose temperature is exactly 0: both are of one table of the firmware, which it has
// not filled in. A draw that a limit bears out and that moves may be right.
func (m *memory) deadSensors(d *gpu.Device) {
	raw := float64(d.Power.Draw.Or(gpu.Watts(none)))
	if !(raw == m.watts) {
		m.watts, m.wattsAs = raw, m.at
	}
	v := see(d)
	dead := d.Thermal.GPU.Quality() == gpu.Implausible && !reported(v.hottest())
	if !dead || !(raw >= drawsSome) {
		return
	}
	switch limited := raw <= 1.1*v.limit; {
	case m.at.Sub(m.wattsAs) >= stands && !limited:
		impossible(&d.Power.Draw)
	case m.at.Sub(m.wattsAs) >= stands, !limited:
		doubt(&d.Power.Draw)
	}
}

// energy doubts a counter that grows faster than the device can draw.
func (m *memory) energy(d *gpu.Device, newer bool) {
	now := trusted(d.Power.Energy)
	if newer {
		most := 3 * or(limit(d), ofCard)
		seconds := 0.0
		if n := len(m.trail); n > 0 {
			seconds = m.at.Sub(m.trail[n-1].at).Seconds()
		}
		m.leapt = seconds > 0 && now-m.joules > most*(seconds+1)
		m.joules = now
	}
	if m.leapt {
		doubt(&d.Power.Energy)
	}
}

// What must move a draw for one that stands still to the digit to be none. It must last: each of the lowest and the highest
// fifth of a minute must be so far from the other.
const (
	standsLong = time.Minute
	tail       = 5    // one such part of a minute
	justAt     = 0.98 // of the limit: a draw there stands still for as long as the device works
	busyMoves  = 40.0 // percent
	clockMoves = 0.4  // of the highest clock
	tempMoves  = 12.0 // °C, upwards: a device that cools rests
)

// standing doubts a draw that stays the same to the digit for a minute in which work changes, or in which clocks or heat change
// at work. A device at rest draws the same few watts for hours, though it wakes for a moment now and then. It is the last to look
// at what goes into the trail.
func (m *memory) standing(d *gpu.Device) {
	v := see(d)
	still := v.power > 0 && m.at.Sub(m.wattsAs) >= standsLong
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

// tails are what a fifth of the points are at most, and what a fifth of them are at least; NaN where one has none.
func tails(points []point, of func(*point) float64) (low, high float64) {
	all := make([]float64, len(points))
	for i := range points {
		if all[i] = of(&points[i]); !reported(all[i]) {
			return none, none
		}
	}
	slices.Sort(all)
	return all[(len(all)-1)/tail], all[len(all)-1-(len(all)-1)/tail]
}
