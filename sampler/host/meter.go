package host

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// counters are values that only grow.
type counters map[counter]float64

type counter struct{ what, of string }

var (
	cpuBusy = counter{"cpu", "busy"} // seconds, of all processors together
	cpuAll  = counter{"cpu", "all"}
	selfCPU = counter{"self", "cpu"} // ticks
)

func diskRead(name string) counter    { return counter{"read", name} } // bytes
func diskWrite(name string) counter   { return counter{"written", name} }
func netReceived(name string) counter { return counter{"received", name} }
func netSent(name string) counter     { return counter{"sent", name} }

// A meter calculates the rates of counters.
type meter struct {
	at    time.Time
	last  counters
	rates map[counter]float64 // a second
}

// take records a reading. It ignores a reading within minInterval after the last one,
// and the rates stay.
func (m *meter) take(now time.Time, c counters) {
	passed := now.Sub(m.at)
	if m.last != nil && passed >= 0 && passed < minInterval {
		return
	}
	rates := make(map[counter]float64, len(c))
	for k, v := range c {
		// A counter that went back was reset: the device was replaced.
		if before, ok := m.last[k]; ok && v >= before && passed > 0 {
			rates[k] = (v - before) / passed.Seconds()
		}
	}
	m.at, m.last, m.rates = now, c, rates
}

// of returns the rate of a counter, absent if it was not read twice.
func (m *meter) of(c counter) gpu.Reading[float64] {
	if v, ok := m.rates[c]; ok {
		return gpu.Of(v)
	}
	return gpu.Reading[float64]{}
}
