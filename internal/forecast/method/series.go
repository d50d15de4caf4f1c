package method

import (
	"math"
	"slices"
	"sort"
	"time"
)

// A Point is what something was at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// A Series is what something was over time. What was not read is not there: it is never a zero.
// Steps may be irregular. Points that are not finite, beyond ±1e15, or not later than the one before don't count.
type Series struct {
	Points []Point
	// Gap is how far apart two points may be at most for nothing to be missing between them. 0: no distance is a gap.
	Gap time.Duration
}

// most is beyond what any reading of a machine is; sums of it stay finite.
const most = 1e15

// samples is a series as numbers: seconds and values since the first point, so that neither the date nor the
// level of a series changes what comes out.
type samples struct {
	begin time.Time
	level float64 // the first value
	gap   float64 // s
	t, v  []float64
	sum   []float64 // sum[i] is that of v[:i]
	run   []int     // run[i] is the first point from which to i there is no gap
	grain []float64 // grain[i] is the smallest change from a point to the next until i; 0: none
}

func (s Series) samples() *samples {
	n := len(s.Points)
	x := &samples{
		gap: s.Gap.Seconds(), t: make([]float64, 0, n), v: make([]float64, 0, n), sum: make([]float64, 1, n+1),
		run: make([]int, 0, n), grain: make([]float64, 0, n),
	}
	if s.Gap <= 0 {
		x.gap = math.Inf(1)
	}
	for _, p := range s.Points {
		if math.Abs(p.Value) <= most { // not of a NaN either
			x.add(p)
		}
	}
	return x
}

func (x *samples) add(p Point) {
	n := len(x.t)
	if n == 0 {
		x.begin, x.level = p.Time, p.Value
	}
	seconds, value := p.Time.Sub(x.begin).Seconds(), p.Value-x.level
	begin, grain := 0, 0.0
	if n > 0 {
		if seconds <= x.t[n-1] {
			return
		}
		begin, grain = x.run[n-1], x.grain[n-1]
		if seconds-x.t[n-1] > x.gap {
			begin = n
		}
		if change := distance(value, x.v[n-1]); change > 0 && (grain == 0 || change < grain) {
			grain = change
		}
	}
	x.t, x.v, x.sum = append(x.t, seconds), append(x.v, value), append(x.sum, x.sum[n]+value)
	x.run, x.grain = append(x.run, begin), append(x.grain, grain)
}

// until returns the samples as they were when there were n points. Nothing in them depends on a later point.
func (x *samples) until(n int) *samples {
	y := *x
	y.t, y.v, y.sum, y.run, y.grain = x.t[:n], x.v[:n], x.sum[:n+1], x.run[:n], x.grain[:n]
	return &y
}

func (x *samples) len() int { return len(x.t) }

// now is the time of the newest point.
func (x *samples) now() float64 { return x.t[len(x.t)-1] }

func (x *samples) newest() float64 { return x.v[len(x.v)-1] }

func (x *samples) time(seconds float64) time.Time {
	return x.begin.Add(time.Duration(seconds * float64(time.Second)))
}

// firstSince is the number of the first point not before a time.
func (x *samples) firstSince(t float64) int { return sort.SearchFloat64s(x.t, t) }

// valueAt is the value at a time: that of the last point until then, unless that is farther off than a gap.
func (x *samples) valueAt(t float64) (v float64, ok bool) {
	i := x.firstSince(t)
	if i == len(x.t) || x.t[i] > t {
		i--
	}
	if i < 0 || t-x.t[i] > x.gap {
		return 0, false
	}
	return x.v[i], true
}

// buckets are means of a window that ends with the newest point, over equal parts of it. Their places are from 0,
// where it begins, to 1. Parts without a point are left out.
type buckets struct{ place, mean []float64 }

// most buckets of a window
const parts = 24

// cut fills the buckets with the last seconds, and reports whether they are enough, and spread over the window.
func (b *buckets) cut(x *samples, seconds float64, least int) bool {
	b.place, b.mean = b.place[:0], b.mean[:0]
	begin := x.now() - seconds
	i, n := x.firstSince(begin), x.len()
	if n-i < least {
		return false
	}
	count := min(parts, max((n-i)/2, least))
	for k := range count {
		end := n
		if k < count-1 {
			end = x.firstSince(begin + seconds*float64(k+1)/float64(count))
		}
		if end > i {
			b.place = append(b.place, (float64(k)+0.5)/float64(count))
			b.mean = append(b.mean, (x.sum[end]-x.sum[i])/float64(end-i))
			i = end
		}
	}
	enough := 5*len(b.mean) >= 3*count && 4*len(b.mean) >= 3*least
	return enough && b.place[0] < 0.2 // a window that begins before the series is none
}

func distance(a, b float64) float64 { return math.Abs(a - b) }

// median changes the order of what it is given.
func median(v []float64) float64 {
	n := len(v)
	upper := nth(v, n/2)
	if n%2 == 1 {
		return upper
	}
	return (slices.Max(v[:n/2]) + upper) / 2
}

// nth puts the value with k smaller ones before it to its place, the smaller ones before it, and returns it.
func nth(v []float64, k int) float64 {
	low, high := 0, len(v)-1
	for low < high {
		pivot := v[(low+high)/2]
		i, j := low, high
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return v[k]
		}
	}
	return v[k]
}

// interval is that of [Share] which the scores of trials give for another one of the same kind, as conformal prediction has it.
// It sorts them. apart is how many of the trials say something of their own; with fewer than [fewest], the interval is that of
// all.
func interval(scores []float64, apart int) (low, high float64) {
	slices.Sort(scores)
	n := len(scores)
	tail := (1 - Share) / 2 * (1 + 1/float64(apart)) // of the scores that is below a new one, of which there is one more
	k := 1
	if apart >= fewest {
		k = max(int(tail*float64(n)+1e-9), 1)
	}
	return scores[k-1], scores[n-k]
}
