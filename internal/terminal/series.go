package terminal

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
)

// span is how much of the past charts show at most.
const span = 15 * time.Minute

// A metric is one line of a chart.
type metric int

const (
	utilization metric = iota
	power
	temperature
	fan
	metrics
)

// charted are the metrics by what gpuwhy's answers about the past call them.
var charted = [metrics]string{"utilization_percent", "power_watts", "temperature_celsius", "fan_percent"}

// A point is what a GPU reported at one time.
type point struct {
	at     time.Time
	values [metrics]gpu.Reading[float64]
}

// series are the points of each GPU, by machine and UUID, in the order of time.
type series map[[2]string][]point

func number[T ~float64 | ~uint64](r gpu.Reading[T]) gpu.Reading[float64] {
	return gpu.Map(r, func(v T) float64 { return float64(v) })
}

// add appends an update's points. What is older than the charts show is forgotten.
func (s series) add(u *client.Update) {
	at := moment(u.Timestamp)
	for i := range u.GPUs {
		g := &u.GPUs[i]
		key := [2]string{g.Node, g.UUID}
		points := s[key]
		if n := len(points); n > 0 && !points[n-1].at.Before(at) {
			continue // known already, or the clock was set back
		}
		first, _ := slices.BinarySearchFunc(points, at.Add(-span), func(p point, t time.Time) int { return p.at.Compare(t) })
		s[key] = append(points[first:], point{at, [metrics]gpu.Reading[float64]{
			number(g.Utilization.GPU), number(g.Power.Draw), number(g.Temperature.GPU), number(g.FanSpeedPercent),
		}})
	}
}

// begin puts what was before an update's points, for GPUs without a past.
func (s series) begin(r *client.Recent) {
	start := moment(r.Start)
	for i := range r.GPUs {
		g := &r.GPUs[i]
		key := [2]string{g.Node, g.GPUUUID}
		points := make([]point, 0, len(r.OffsetsSeconds))
		for j, offset := range r.OffsetsSeconds {
			p := point{at: start.Add(time.Duration(offset * float64(time.Second)))}
			for m, name := range charted {
				if list := g.Values[name]; j < len(list) {
					p.values[m] = gpu.Map(list[j], func(v int64) float64 { return float64(v) })
				}
			}
			points = append(points, p)
		}
		s.join(key, points)
	}
}

// join puts points before those that are known.
func (s series) join(key [2]string, points []point) {
	known := s[key]
	if len(known) > 0 {
		n, _ := slices.BinarySearchFunc(points, known[0].at, func(p point, t time.Time) int { return p.at.Compare(t) })
		points = points[:n]
	}
	s[key] = append(points, known...)
}

// lengths are how much of the past charts can show. They show no more than there is, rounded up.
var lengths = []time.Duration{2 * time.Minute, 5 * time.Minute, span}

// length is how much of the past charts show until a time.
func (s series) length(end time.Time) time.Duration {
	oldest := end
	for _, points := range s {
		if len(points) > 0 && points[0].at.Before(oldest) {
			oldest = points[0].at
		}
	}
	for _, l := range lengths {
		if end.Sub(oldest) <= l {
			return l
		}
	}
	return span
}

// clone is for a view that stands still.
func (s series) clone() series {
	out := make(series, len(s))
	for key, points := range s {
		out[key] = slices.Clip(points)
	}
	return out
}

// moment is the time of a timestamp; zero if it is none.
func moment(timestamp string) time.Time {
	t, _ := time.Parse(time.RFC3339, timestamp) // the zero time is shown as "–"
	return t
}

// stored takes in points of the stored past.
func (s series) stored(h *client.History) {
	start, step := moment(h.Start), time.Duration(h.Step*float64(time.Second))
	for i := range h.GPUs {
		g := &h.GPUs[i]
		points := make([]point, h.Points)
		for j := range points {
			points[j].at = start.Add(time.Duration(j)*step + step/2)
			for m, name := range historyNames {
				if list := g.Metrics[name].Mean; j < len(list) {
					points[j].values[m] = list[j]
				}
			}
		}
		s[[2]string{g.Node, g.GPUUUID}] = points
	}
}
