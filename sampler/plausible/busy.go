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
	lowestClock  = 0.25 // of the highest: the governor of a busy chip raises the clock within a second, unless somebody has set the clocks
	cool         = 60   // °C
	cooler       = 50   // °C, if nobody can say which client works
)

// busy doubts the utilization of a device without a power reading: a counter stuck high while the clocks are low, the clients do hardly
// anything and the chip is cool, and a counter that stays at 0 while clients work. A flag of throttling explains something here only if no
// client is listed; the flag is judged later, by the readings that are left. If the power draw is known, package explain knows better what
// a device at rest looks like.
func (m *memory) busy(d *gpu.Device) {
	counter := trusted(d.Utilization.GPU)
	if counter != m.counter {
		m.counter, m.busySame = counter, m.sampled
	}
	high, low := m.stuckHigh(d, counter), m.stuckLow(d, counter)
	m.note(&m.wrong, high || low)
	lasts := soon
	if list := clients(d); low || !reported(list) {
		lasts = later
	}
	// It must be so for a while, or since the first reading: then nobody has seen the device at work.
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
		return false // one client confirms it
	case reported(used) && !v.maybeHeld():
		return slow || isCool
	default:
		return v.speed() <= lowestClock && v.hottest() < cooler && (reported(used) || !v.held())
	}
}

// held reports whether the driver says that heat, a brake or the hardware holds the clocks down: then low clocks don't mean rest.
func (v *view) held() bool { return v.reasons&(masks[byHeat]|masks[byBrake]|masks[byHardware]) != 0 }

// maybeHeld reports whether the clocks may be held down for work that nobody sees: no client is listed that would be idle.
func (v *view) maybeHeld() bool {
	list, _ := v.AllProcesses()
	return v.held() && len(list) == 0
}

// stuckLow reports whether clients use most of a device that claims to be idle while its clocks are up.
func (m *memory) stuckLow(d *gpu.Device, counter float64) bool {
	v := see(d)
	return counter == 0 && v.clients >= 50 && v.speed() >= 0.6 && !d.Modes.MIG.Or(false)
}
