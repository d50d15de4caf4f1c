package explain

import (
	"slices"
	"time"
)

// Stops are the temperatures at which a device's fans start and stop by themselves. They differ: a fan that starts at 52 °C may stop at 47
// °C. The newest are last.
type stops struct {
	Starts  []float64 `json:"start_celsius,omitempty"`
	Ends    []float64 `json:"stop_celsius,omitempty"`
	Least   *float64  `json:"least_percent,omitempty"` // lowest percent above 0 at which the fans stayed for a while
	turning bool
	known   bool // it is known whether they turn
	since   time.Time
	least   float64
	held    time.Time
}

const maxStops = 6

// learn takes in a reading, before that becomes the memory's newest.
func (s *stops) learn(d *device, m *memory) {
	if !present(d.fan) || d.byHand() != "" {
		s.known = false
		return
	}
	turns := d.fan > 0
	if s.known && turns != s.turning && present(d.temp) && present(m.before) {
		// Between two readings, the temperature was between theirs.
		list := &s.Ends
		if turns {
			list = &s.Starts
		}
		*list = append((*list)[max(0, len(*list)-maxStops+1):], (d.temp+m.before)/2)
	}
	if !s.known || turns != s.turning {
		s.since = d.readAt
	}
	s.known, s.turning = true, turns
	// A speed counts as the lowest after it has lasted for half a minute in which nothing heated the device, or while the device got
	// clearly cooler: otherwise it is the speed that some heat requires.
	rests := !m.work.active && m.cooling == nil && d.doing != unknown && !d.isUp() && !m.rises()
	cools := m.fanMost-d.temp >= 5 && d.fan < 60 && d.readAt.Sub(m.fanSince) >= pause && d.fan >= m.fanSpeed-1 && d.fan <= m.fanSpeed+1
	switch {
	case !turns || s.held.IsZero() || d.fan < s.least-1 || d.fan > s.least+1 || !rests && !cools:
		s.least, s.held = d.fan, d.readAt
	case d.readAt.Sub(s.held) >= pause:
		s.Least = optional(lowest(value(s.Least), s.least))
	}
}

// start and stop return the usual temperatures, or NaN.
func (s *stops) start() float64 { return middle(s.Starts) }
func (s *stops) stop() float64  { return middle(s.Ends) }

func middle(values []float64) float64 {
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (s *stops) copied() stops {
	out := *s
	out.Starts, out.Ends = slices.Clone(s.Starts), slices.Clone(s.Ends)
	return out
}
