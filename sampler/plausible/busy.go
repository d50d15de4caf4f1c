package plausible

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	nearlyAlways = 90              // percent busy
	soon         = 3 * time.Second // work may begin a moment before its clocks rise
	later        = 10 * time.Second
	littleUsed   = 10   // percent, of all clients together
	lowClock     = 0.5  // of the highest
	lowestClock  = 0.25 // of the highest: the governor of a busy chip goes up within a second, unless somebody has set its clocks
	cool         = 60   // °C
	cooler       = 50   // °C, where nobody can say who works
)

// busy doubts a busy counter of a device that does not say what it draws: one that is stuck high while the clocks are low, the
// clients do hardly anything and the chip is cool, and one that stays at 0 while clients work. A flag of throttling
// explains something here only where no client is listed: it is judged later, by what is left. Where the draw is known, package explain knows better what rest is.
func (m *memory) busy(d *gpu.Device) {
	counter := trusted(d.Utilization.GPU)
	if counter != m.counter {
		m.counter, m.busySame = counter, m.at
	}
	high, low := m.stuckHigh(d, counter), m.stuckLow(d, counter)
	m.note(&m.wrong, high || low)
	lasts := soon
	if list := clients(d); low || !reported(list) {
		lasts = later
	}
	// It must be so for a time, or from the first reading on: then nobody has seen the device at work.
	if m.wrong.IsZero() || m.since(m.wrong) < lasts && (!high || !m.wrong.Equal(m.first)) {
		return
	}
	doubt(&d.Utilization.GPU)
}

func (m *memory) stuckHigh(d *gpu.Device, counter float64) bool {
	v := see(d)
	if reported(v.power) || !(counter >= nearlyAlways) && !(counter >= 50 && m.since(m.busySame) >= later) {
		return false
	}
	if video := highest(trusted(d.Utilization.Encoder), trusted(d.Utilization.Decoder), trusted(d.Utilization.Video)); video >= works {
		return false
	}
	slow, isCool := v.speed() <= lowClock, v.hottest() < cool
	switch used := v.clients; {
	case used > littleUsed, v.speed() > lowClock, v.hottest() >= cool:
		return false // one of them bears it out
	case reported(used) && !v.maybeHeld():
		return slow || isCool
	default:
		return v.speed() <= lowestClock && v.hottest() < cooler && (reported(used) || !v.held())
	}
}

// held reports whether the driver says that heat, a brake or the hardware holds the clocks: low clocks are no rest then.
func (v *view) held() bool { return v.reasons&(masks[byHeat]|masks[byBrake]|masks[byHardware]) != 0 }

// maybeHeld reports whether that may be so of work that nobody sees: no client is listed that would be idle.
func (v *view) maybeHeld() bool {
	list, _ := v.AllProcesses()
	return v.held() && len(list) == 0
}

// stuckLow: clients use most of a device that says it is idle, with its clocks up.
func (m *memory) stuckLow(d *gpu.Device, counter float64) bool {
	v := see(d)
	return counter == 0 && v.clients >= 50 && v.speed() >= 0.6 && !d.Modes.MIG.Or(false)
}
