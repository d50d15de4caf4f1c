package host

import (
	"cmp"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// minInterval is the least time between two readings of a rate, since ticks are 10 ms long. Closer readings repeat the last rate.
const minInterval = 200 * time.Millisecond

// A counter calculates the rate of a number that only grows.
type counter struct {
	sampled time.Time
	value   float64
	rate    gpu.Reading[float64] // per second
}

// read takes the number and returns its rate, which is absent if the number was not read twice or was reset, as when a device was replaced.
func (c *counter) read(value float64, now time.Time) gpu.Reading[float64] {
	passed := now.Sub(c.sampled)
	switch {
	case c.sampled.IsZero() || passed < 0:
	case passed < minInterval:
		return c.rate
	case value < c.value:
		c.rate = gpu.Reading[float64]{}
	default:
		c.rate = gpu.Of((value - c.value) / passed.Seconds())
	}
	c.sampled, c.value = now, value
	return c.rate
}

// A meter has the counters of one machine, by name.
type meter struct {
	now           time.Time           // of this reading
	before, these map[string]*counter // of the previous reading, and of this one
}

// begin begins a reading. A disk or network that was missing in the last reading starts over: it may be another one, and a rate over the
// gap would not be current.
func (m *meter) begin(now time.Time) {
	m.now, m.before, m.these = now, m.these, map[string]*counter{}
}

func (m *meter) rate(name string, value float64) gpu.Reading[float64] {
	c := cmp.Or(m.these[name], m.before[name], &counter{})
	m.these[name] = c
	return c.read(value, m.now)
}

// bytes returns the rate of a byte counter.
func (m *meter) bytes(name string, value uint64) gpu.Reading[gpu.BytesPerSecond] {
	return gpu.Map(m.rate(name, float64(value)), func(v float64) gpu.BytesPerSecond { return gpu.BytesPerSecond(v) })
}
