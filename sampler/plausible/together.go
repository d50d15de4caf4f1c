package plausible

import (
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
	beyond  = 10  // times the limit: no board survives that
	ofCard  = 1e3 // W, without a limit
	ofChip  = 300 // W, of a processor with a GPU, without a limit
)

// aboveLimit judges the draw by the limits, and without one by what there is.
func aboveLimit(d *gpu.Device) {
	draw := float64(d.Power.Draw.Or(gpu.Watts(none)))
	most := highest(trusted(d.Power.EnforcedLimit), trusted(d.Power.DefaultLimit))
	if !(most > 0) {
		most = trusted(d.Power.MaxLimit)
	}
	switch {
	case most > 0 && draw > beyond*most:
		impossible(&d.Power.Draw)
	case most > 0 && draw > aboveBy*most,
		!(most > 0) && draw > ofCard,
		!(most > 0) && d.Shared.Unified.Or(false) && draw > ofChip:
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
	dead := d.Thermal.GPU.Quality() == gpu.Implausible && !has(v.hottest())
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

// What must move a draw for one that stands still to the digit to be none.
const (
	standsLong = time.Minute
	busyMoves  = 40.0 // percent
	clockMoves = 0.4  // of the highest clock
	tempMoves  = 12.0 // °C
)

// standing doubts a draw that stays the same to the digit for a minute in which work, clocks or heat change. It is the last to
// look at what goes into the trail.
func (m *memory) standing(d *gpu.Device) {
	v := see(d)
	still := v.power > 0 && m.at.Sub(m.wattsAs) >= standsLong
	m.leave(v)
	points, covered := m.within(standsLong)
	if !still || !covered {
		return
	}
	moved := func(of func(*point) float64, by float64) bool {
		least, most := span(points, of)
		return most-least >= by
	}
	if moved(busy, busyMoves) || moved(temp, tempMoves) || moved(clock, clockMoves*v.top) {
		doubt(&d.Power.Draw)
	}
}
