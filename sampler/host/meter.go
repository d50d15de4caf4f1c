package host

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A meter calculates the rates of counters that only grow.
type meter struct {
	at           time.Time
	passed       time.Duration // since the reading before; 0 if this one repeats its rates
	before, last map[string]float64
	rates        map[string]float64 // a second
}

// begin begins a reading. Within minInterval after the last one the rates stay.
func (m *meter) begin(now time.Time) {
	m.passed = now.Sub(m.at)
	if m.last != nil && m.passed >= 0 && m.passed < minInterval {
		m.passed = 0
		return
	}
	m.at, m.before = now, m.last
	m.last, m.rates = map[string]float64{}, map[string]float64{}
}

// rate takes a counter and returns its rate, absent if the counter was not read twice
// or was reset, as that of a device that was replaced.
func (m *meter) rate(counter string, v float64) gpu.Reading[float64] {
	if m.passed != 0 {
		m.last[counter] = v
		if before, ok := m.before[counter]; ok && v >= before && m.passed > 0 {
			m.rates[counter] = (v - before) / m.passed.Seconds()
		}
	}
	if rate, ok := m.rates[counter]; ok {
		return gpu.Of(rate)
	}
	return gpu.Reading[float64]{}
}

// bytes is the rate of a counter of bytes.
func (m *meter) bytes(counter string, v uint64) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Map(m.rate(counter, float64(v)), func(v float64) gpu.BytesPerSecond { return gpu.BytesPerSecond(v) })
}
