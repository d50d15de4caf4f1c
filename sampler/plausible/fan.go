package plausible

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	asks      = 20 // percent; every fan turns at this command: some don't start lower
	hotDie    = 65 // °C; a working card has its fan on
	warmDie   = 60 // °C; below it, a fan that stands still whatever the command and a tachometer that does not count look alike
	neverOff  = 75 // °C; no driver turns the fan off
	hotSpot   = 75
	worksHard = 0.3 // of the limit
	somePower = 40  // W, without a limit
)

// fans judges tachometers that report 0. A tachometer that has never counted may be unconnected while the fan turns: its 0 means something
// only if another sign of the fan agrees.
func (m *memory) fans(d *gpu.Device) {
	for len(m.turned) < len(d.Fans.Fans) {
		m.turned = append(m.turned, false)
	}
	for len(m.stopped) < len(d.Fans.Fans) {
		m.stopped = append(m.stopped, false)
	}
	for len(m.still) < len(d.Fans.Fans) {
		m.still = append(m.still, time.Time{})
	}
	v := see(d)
	for i := range d.Fans.Fans {
		f := &d.Fans.Fans[i]
		rpm := trusted(f.RPM)
		m.turned[i] = m.turned[i] || rpm > 0
		m.stopped[i] = m.stopped[i] && rpm == 0
		m.note(&m.still[i], rpm == 0)
		m.notOff(v, f)
		asked := trusted(f.Commanded) >= asks || !reported(trusted(f.Commanded)) && v.hotAtWork()
		if rpm != 0 || !asked || besides(d, i) {
			continue
		}
		if !reported(trusted(f.Commanded)) && othersTurn(d, i) {
			if !m.turned[i] {
				f.RPM = gpu.Reading[gpu.RPM]{} // nobody knows whether this fan exists, and another one cools the device
			}
			continue
		}
		cooled := m.since(m.still[i]) >= coolsFor && m.isCooled(v) && (!m.turned[i] || !m.isUncooled(v, f))
		m.stopped[i] = !cooled && (m.stopped[i] || v.temp >= warmDie || m.warms())
		switch {
		case cooled:
			impossible(&f.RPM)
		case !m.stopped[i], !m.turned[i] && !m.cooks(v) && !m.isUncooled(v, f):
			doubt(&f.RPM)
		}
	}
}

// notOff doubts a command of 0 % for a fan without a tachometer to confirm it, if something cools the device at a temperature at which no
// driver turns the fan off. Products whose driver reports no command read like that.
func (m *memory) notOff(v *view, f *gpu.Fan) {
	if trusted(f.Commanded) != 0 || trusted(f.RPM) > 0 || f.Policy.Or("") == "manual" {
		return
	}
	if v.temp >= neverOff && m.isCooled(v) {
		doubt(&f.Commanded)
		doubt(&f.RPM)
	}
}

// besides reports whether another fan of the device turns and the driver commands this one, too: then this fan exists, the card's
// tachometers work, and the cooling of the card says nothing about this fan.
func besides(d *gpu.Device, i int) bool {
	if !(trusted(d.Fans.Fans[i].Commanded) >= asks) {
		return false
	}
	for k := range d.Fans.Fans {
		if other := &d.Fans.Fans[k]; k != i && trusted(other.Commanded) >= asks && trusted(other.RPM) > 0 {
			return true
		}
	}
	return false
}

// othersTurn reports whether another fan of the device turns.
func othersTurn(d *gpu.Device, i int) bool {
	for k := range d.Fans.Fans {
		if k != i && trusted(d.Fans.Fans[k].RPM) > 0 {
			return true
		}
	}
	return false
}

// hotAtWork reports whether the device is so warm and draws so much that its fan must be on.
func (v *view) hotAtWork() bool {
	hot := v.temp >= hotDie || v.hotSpot >= hotSpot
	switch {
	case reported(v.load()):
		return hot && v.load() >= worksHard
	case reported(v.power):
		return hot && v.power >= somePower
	default:
		return hot && v.busy >= 50
	}
}

const (
	warmsIn = 30 * time.Second
	warmsBy = 3.0 // °C in that time
)

// warms reports whether the device is getting warmer.
func (m *memory) warms() bool {
	points, covered := m.within(warmsIn)
	return covered && points[len(points)-1].temp-points[0].temp >= warmsBy
}

const (
	coolsFor   = 20 * time.Second
	coolsAt    = 50  // °C, at least: a cooler device may be in its zero-RPM mode
	coolsBelow = 85  // °C: above it the chip itself may hold the temperature
	manyWatts  = 60  // no cooler dissipates this at such a temperature without moving air
	ofLimit    = 0.5 // the same for a small card
)

// holdsItself reports whether the device itself may hold its temperature by lowering its clocks: then a steady temperature does not prove a
// fan.
func (v *view) holdsItself() bool {
	switch {
	case v.temp >= coolsBelow, v.temp >= v.slowdown-nearSlowdown, v.hotSpot >= hotJunction, v.memTemp >= or(v.memLimit-nearMemory, hotMem), v.margin <= nearMargin:
		return true
	case v.Vendor == gpu.NVIDIA && v.temp >= v.target-nearTarget:
		return true
	default:
		return v.reasons&(masks[byHeat]|masks[byHardware]) != 0 && v.heldDown(0.85) && !(v.load() >= hardlyMore)
	}
}

// isCooled reports whether the device is cooled as only a fan does: its power stays high, and its temperature stays the same for as long.
func (m *memory) isCooled(v *view) bool {
	points, covered := m.within(coolsFor)
	if !covered || !(v.temp >= coolsAt) || v.holdsItself() {
		return false
	}
	coldest, hottest := span(points, temp)
	least, most := span(points, power)
	enough := least >= manyWatts || least >= ofLimit*v.limit && least >= drawsSome
	return hottest-coldest <= 1.5 && enough && most-least <= 0.2*most
}

const (
	cooksFrom = 80 // °C, well above the point where every fan is on
	cooksIn   = 30 * time.Second
	cooksBy   = 4.0 // °C in that time
	goesOn    = 0.8 // of the rise in the same time before: with a fan each rise is smaller
)

const (
	asksMuch   = 80 // percent; a fan cools as well as it can, or nearly so
	uncooledIn = 10 * time.Second
	muchWorse  = 1.25
	air        = 30.0 // °C, roughly
)

// isUncooled reports whether the device is much hotter than its cooler would let it get at this power with the fan at its commanded speed:
// coolers are made to keep a device at its power limit below its temperature limit.
func (m *memory) isUncooled(v *view, f *gpu.Fan) bool {
	points, _ := m.within(uncooledIn)
	coldest, _ := span(points, temp)
	if !(trusted(f.Commanded) >= asksMuch) || len(points) == 0 || m.sampled.Sub(m.first) < uncooledIn || !(coldest >= cooksFrom) {
		return false
	}
	_, most := span(points, power)
	made := (or(v.slowdown, 95) - air) / or(v.limit, trusted(v.Power.MaxLimit)) // °C per watt, with the fan on
	return coldest-air >= muchWorse*made*most
}

// cooks reports whether the device heats up as only one with a stopped fan does: steadily at the same power, well above the temperature at
// which its fan starts.
func (m *memory) cooks(v *view) bool {
	points, covered := m.within(2 * cooksIn)
	if !covered || !(v.temp >= cooksFrom) {
		return false
	}
	least, most := span(points, power)
	if reported(least) && most-least > 0.25*most {
		return false
	}
	half := len(points) / 2
	before, now := points[half].temp-points[0].temp, points[len(points)-1].temp-points[half].temp
	return now >= cooksBy && now >= goesOn*before
}
