package history

import (
	"cmp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Points of a grid within a span are made of nothing before it, and lack less than a step of its beginning.
func TestNothingBeforeASpan(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for at := midnight; at.Before(midnight.Add(3 * time.Hour)); at = at.Add(10 * time.Second) {
		m.rows = append(m.rows, reading(gpu3, at, at.Sub(midnight).Seconds()))
	}
	m.settle(power, store.Minute, store.Quarter)
	p := newPast(m, midnight.Add(3*time.Hour))
	rapid.Check(t, func(t *rapid.T) {
		from := midnight.Add(seconds(t, 0, 9000, "from"))
		to := from.Add(seconds(t, 1, 1800, "long"))
		step := time.Duration(rapid.SampledFrom([]int{0, 1, 7, 60, 90, 900, 3600, 21600}).Draw(t, "step")) * time.Second
		g, err := p.Grid(from, to, step)
		if err != nil {
			t.Fatal(err)
		}
		whole := g.From.Add(g.Step)
		g = g.Clip(from)
		late := g.From.Sub(from)
		if late < 0 || late >= g.Step || g.Len() < 1 || late > 0 && g.From.Truncate(g.Step) != g.From || whole.After(to) && late > 0 {
			t.Fatalf("from %v to %v by %v it begins at %v with %d points", from, to, g.Step, g.From, g.Len())
		}
		series, err := p.History(t.Context(), g, nil, false, []int{power})
		if err != nil {
			t.Fatal(err)
		}
		some := false
		for _, s := range series {
			for i, v := range s.Values[0] {
				some = some || v.Count > 0
				if v.Count > 0 && v.Least < g.Time(i).Sub(midnight).Seconds() {
					t.Fatalf("from %v the point at %v has a reading of %v s after midnight", from, g.Time(i), v.Least)
				}
			}
		}
		if !some && to.Sub(g.From) > 10*time.Second {
			t.Fatalf("from %v to %v by %v there is nothing of tier %v", g.From, to, g.Step, g.Tier)
		}
	})
}

// Of the first causes of a span none is missing, however many ended shortly before it.
func TestFirstCauses(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for range 1500 {
		m.causes = append(m.causes, store.Cause{Key: gpu3, From: midnight.Add(-time.Hour), To: midnight.Add(-time.Second)})
	}
	for i := range 30 {
		m.causes = append(m.causes, store.Cause{Key: gpu3, ID: string(rune('a' + i)), From: midnight.Add(time.Duration(i) * time.Second), To: midnight.Add(time.Hour)})
	}
	p := newPast(m, midnight.Add(2*time.Hour))
	for _, first := range []int{0, 1, 10, 29, 30, 31, 5000} {
		n := 0
		for c, err := range p.Causes(t.Context(), store.Query{From: midnight, To: midnight.Add(time.Hour), First: first}) {
			if err != nil || c.ID != string(rune('a'+n)) {
				t.Fatalf("of %d, number %d: %+v, %v", first, n, c, err)
			}
			n++
		}
		if want := min(cmp.Or(first, 30), 30); n != want {
			t.Errorf("of the first %d there are %d, want %d", first, n, want)
		}
	}
}
