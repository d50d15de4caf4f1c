//go:build !race

package method

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var monday = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

// grows is a series that grows from a point on, or warms up again and again.
func grows(r *rand.Rand, n int, again bool) Series {
	s := Series{Gap: 3 * time.Minute}
	for i := range n {
		v := 0.2*float64(max(i-n/4, 0)) + 0.1*r.NormFloat64()
		if again {
			v = 20*(1-math.Exp(-float64(i%40)/10)) + 0.1*r.NormFloat64()
		}
		s.Points = append(s.Points, Point{monday.Add(time.Duration(i) * time.Minute), v})
	}
	return s
}

// What a trial said does not change with what came later, though how good it was does.
func TestTrialsDoNotKnowWhatComesLater(t *testing.T) {
	compared := map[Kind]int{}
	ahead := map[Kind]float64{KindMemoryFull: 600, KindLimitReached: 0.5} // seconds; time constants
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for kind, way := range map[Kind]*reading{KindMemoryFull: memory, KindLimitReached: temperature} {
			s := grows(r, 600, kind == KindLimitReached)
			cut := rapid.IntRange(100, 500).Draw(t, "from")
			other := Series{Gap: s.Gap, Points: append([]Point(nil), s.Points...)}
			for i := cut; i < len(other.Points); i++ {
				other.Points[i].Value = 1000 * r.NormFloat64()
			}
			x, y := s.samples(), other.samples()
			for n := 2; n <= cut; n += 3 {
				a, okA := way.try(x, n, ahead[kind], 1)
				b, okB := way.try(y, n, ahead[kind], 1)
				if okA != okB || a.said != b.said || a.now != b.now || a.yesterday != b.yesterday || a.ahead != b.ahead {
					t.Fatalf("%s after %d points: %+v, and with another future from %d on %+v", kind, n, a, cut, b)
				}
				if okA {
					compared[kind]++
				}
			}
		}
	})
	if compared[KindMemoryFull] == 0 || compared[KindLimitReached] == 0 {
		t.Errorf("no trials to compare: %v", compared)
	}
}

func TestHabitsDoNotKnowWhatComesLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		o := rapid.IntRange(week, 5*week).Draw(t, "origin")
		var s, other Series
		for i := range 6 * week {
			p := Point{monday.Add(time.Duration(i) * time.Hour), r.Float64()}
			s.Points = append(s.Points, p)
			if i >= o {
				p.Value = 50 * r.Float64()
			}
			other.Points = append(other.Points, p)
		}
		x, y := hourly(s, time.UTC), hourly(other, time.UTC)
		if x.habit(o) != y.habit(o) || x.counts(o) != y.counts(o) {
			t.Fatalf("what is usual before hour %d depends on what came later", o)
		}
		a, _ := x.trial(o, 2*day)
		b, _ := y.trial(o, 2*day)
		if a.said != b.said || a.now != b.now || a.yesterday != b.yesterday {
			t.Fatalf("a trial at hour %d: %+v, and with another future %+v", o, a, b)
		}
	})
}

// How the hours of a day were called does not change with what that day and later ones were.
func TestCallsDoNotKnowWhatComesLater(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s, other Series
	for i := range 8 * week {
		p := Point{monday.Add(time.Duration(i) * time.Hour), float64(r.IntN(2))}
		s.Points = append(s.Points, p)
		if i >= 7*week {
			p.Value = 1 - p.Value
		}
		other.Points = append(other.Points, p)
	}
	a, b := hourly(s, time.UTC).calls(), hourly(other, time.UTC).calls()
	// hourly keeps what is above the first value, which both have in common.
	if len(a) != 28*day || len(b) != len(a) {
		t.Fatalf("%d and %d calls", len(a), len(b))
	}
	for i := 6 * day; i < len(a); i++ { // the newest are first; from the seventh day on, both knew the same
		if a[i].said != b[i].said || a[i].now != b[i].now {
			t.Fatalf("call %d: %+v and %+v", i, a[i], b[i])
		}
	}
}

// A warming is a curve: what it says ahead is neither the tangent nor a line through the past.
func TestWarmingIsACurve(t *testing.T) {
	for _, tau := range []float64{30, 100, 300} {
		s := Series{}
		for i := range 60 {
			in := tau * float64(i) / 40
			s.Points = append(s.Points, Point{monday.Add(time.Duration(in * 1e9)), 90 - 50*math.Exp(-in/tau) + 0.01*float64(i%2)})
		}
		x := s.samples()
		c, why := heating(x)
		if why != "" {
			t.Fatalf("tau %g: %s", tau, why)
		}
		got, ok := c.reach(85 - x.level)
		want := tau*math.Log(10) - x.now()
		if !ok || math.Abs(got-want) > 0.1*want {
			t.Errorf("tau %g: at 85 °C in %.0f s, want %.0f", tau, got, want)
		}
		if reached, ok := c.reach(92 - x.level); ok {
			t.Errorf("tau %g: at 92 °C in %.0f s, but it ends at 90", tau, reached)
		}
	}
}

func TestAFewStepsAreNoLine(t *testing.T) {
	filled := func(value func(i int) float64) (b buckets) {
		for i := range parts {
			b.place, b.mean = append(b.place, (float64(i)+0.5)/parts), append(b.mean, value(i))
		}
		return b
	}
	for steps := 2; steps <= 7; steps++ {
		b := filled(func(i int) float64 { return float64(i*steps/parts) + 0.001*float64(i) })
		if l, ok := b.line(); ok {
			t.Errorf("%d steps are a line: %+v", steps, l)
		}
	}
	b := filled(func(i int) float64 { return 3*float64(i) + float64(i%3) })
	if l, ok := b.line(); !ok || math.Abs(l.slope-72) > 4 {
		t.Errorf("a line with noise is none, or another: %+v", l)
	}
	b = filled(func(i int) float64 { return math.Pow(1.3, float64(i)) })
	if l, ok := b.line(); ok {
		t.Errorf("a line that gets ever steeper is one: %+v", l)
	}
}

func TestInterval(t *testing.T) {
	scores := func(n int) (out []float64) {
		for i := range n {
			out = append(out, float64((i*7)%n)) // 0 … n−1, in some order
		}
		return out
	}
	for _, tt := range []struct {
		n, apart  int
		low, high float64
	}{{9, 9, 0, 8}, {19, 19, 1, 17}, {99, 99, 9, 89}, {99, 8, 0, 98}} {
		if low, high := interval(scores(tt.n), tt.apart); low != tt.low || high != tt.high {
			t.Errorf("of %d, %d apart: %g … %g, want %g … %g", tt.n, tt.apart, low, high, tt.low, tt.high)
		}
	}
}

func TestMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 60).Draw(t, "v")
		below, above := 0, 0
		m := median(append([]float64(nil), v...))
		for _, x := range v {
			if x < m {
				below++
			} else if x > m {
				above++
			}
		}
		if 2*below > len(v) || 2*above > len(v) {
			t.Fatalf("median of %v is %g", v, m)
		}
	})
}
