package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// spansOf makes the rows of all spans of a tier of the readings of one device, by time.
func spansOf(raw []store.Row, tier store.Tier) (out []store.Row) {
	for i := 0; i < len(raw); {
		when, j := raw[i].Time.Truncate(tier.Span()), i
		for j < len(raw) && raw[j].Time.Before(when.Add(tier.Span())) {
			j++
		}
		if row, some := over(gpu3, tier, when, raw[i:j], power); some {
			out = append(out, row)
		}
		i = j
	}
	return out
}

// Whatever the interval was, also where it changed with a restart, energy is that of the readings, each for its interval; what is
// known of a time in which nobody looked does not grow with the length of the span.
func TestEnergyOfEachInterval(t *testing.T) {
	t.Parallel()
	intervals := []time.Duration{5 * time.Second, 7 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, 90 * time.Second, 2 * time.Minute, 10 * time.Minute, 20 * time.Minute, time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]time.Duration{49 * time.Hour, 51 * time.Hour}).Draw(t, "length")
		end, tier := midnight.Add(length), store.Minute
		if length > fine {
			tier = store.Quarter
		}
		var raw []store.Row
		var joules, known, blurred float64
		interval := rapid.SampledFrom(intervals)
		every := interval.Draw(t, "interval")
		late := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "late"), 0))
		for at := midnight; at.Before(end); {
			every = rapid.OneOf(rapid.Just(every), interval).Draw(t, "interval")
			watts := float64(rapid.IntRange(10, 700).Draw(t, "watts"))
			run := max(4*every, 4*tier.Span()) + seconds(t, 0, 20*3600, "run")
			for over := at.Add(run); at.Before(over) && at.Before(end); at = at.Add(every) {
				raw = append(raw, reading(gpu3, at.Add(time.Duration(late.IntN(500))*time.Millisecond), watts))
				stands := min(every, end.Sub(at)).Seconds()
				joules, known = joules+watts*stands, known+stands
			}
			blurred += 3 * max(tier.Span(), every).Seconds() // at its begin and end
			at = at.Add(max(3*every, 3*tier.Span()) + seconds(t, 0, 4*3600, "gap"))
		}
		p := newPast(&memory{rows: spansOf(raw, tier)}, end)
		p.Interval = every
		energy := func(from, to time.Time) Energy {
			e, err := p.Energy(t.Context(), store.Query{From: from, To: to})
			if err != nil {
				t.Fatal(err)
			}
			return e[gpu3]
		}
		whole := energy(midnight, end)
		if off := whole.Known*length.Seconds() - known; math.Abs(off) > blurred || math.Abs(whole.Joules-joules) > 700*blurred {
			t.Fatalf("%+v for %.0f s and %.0f J: %.0f s off, and %.0f s may be", whole, known, joules, off, blurred)
		}
		if length > fine { // a part would be of minutes
			return
		}
		cut := midnight.Add(seconds(t, 1, int(length/time.Second)-1, "cut"))
		if a, b := energy(midnight, cut), energy(cut, end); math.Abs(a.Joules+b.Joules-whole.Joules) > 1e-6*max(1, whole.Joules) {
			t.Fatalf("until %v %v J, then %v J, want %v", cut, a.Joules, b.Joules, whole.Joules)
		}
	})
}

// Where devices are read more seldom while nobody looks, each reading stands until the next, also beside those of somebody who looked.
func TestEnergyWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	var raw []store.Row
	for at := midnight; at.Before(midnight.Add(51 * time.Hour)); at = at.Add(2 * time.Minute) {
		for _, later := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 70 * time.Second} { // somebody asks every two minutes
			raw = append(raw, reading(gpu3, at.Add(later), 100))
		}
	}
	m := &memory{rows: slices.Concat(raw, spansOf(raw, store.Minute), spansOf(raw, store.Quarter))}
	p := newPast(m, midnight.Add(51*time.Hour))
	p.Interval, p.Seldom = time.Minute, time.Minute
	for _, length := range []time.Duration{time.Hour, 49 * time.Hour, 51 * time.Hour} {
		e, err := p.Energy(t.Context(), store.Query{From: midnight, To: midnight.Add(length)})
		want := 100 * length.Seconds()
		if got := e[gpu3]; err != nil || math.Abs(got.Joules-want) > 0.02*want || math.Abs(got.Known-1) > 0.02 {
			t.Errorf("%v: %+v, want %v J; %v", length, got, want, err)
		}
	}
}

// Of a time in which gpuwhy looked for moments only, not more is known because it is asked for with more.
func TestEnergyOfMoments(t *testing.T) {
	t.Parallel()
	var raw []store.Row
	for hour := range 51 {
		for second := 0; second < 60*(1+hour%7); second += 5 {
			raw = append(raw, reading(gpu3, midnight.Add(time.Duration(hour)*time.Hour+time.Duration(second)*time.Second), 100))
		}
	}
	m := &memory{rows: append(spansOf(raw, store.Minute), spansOf(raw, store.Quarter)...)}
	p := newPast(m, midnight.Add(51*time.Hour))
	p.Interval = 5 * time.Second
	for _, length := range []time.Duration{49 * time.Hour, 51 * time.Hour} {
		e, err := p.Energy(t.Context(), store.Query{From: midnight, To: midnight.Add(length)})
		want := 0.0
		for _, r := range raw {
			if r.Time.Before(midnight.Add(length)) {
				want += 100 * 5
			}
		}
		if got := e[gpu3]; err != nil || math.Abs(got.Joules-want) > 0.01*want || math.Abs(got.Known*length.Seconds()-want/100) > 0.01*want/100 {
			t.Errorf("%v: %+v, want %v J; %v", length, got, want, err)
		}
	}
}
