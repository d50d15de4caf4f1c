//go:build !race

package record

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// However often gpuwhy is killed and started, and whatever the intervals are at which it looks, a device has drawn what it was seen to
// draw: of the time in which nobody looked nothing is known, and no time counts twice. So minutes and quarters of an hour say.
func TestEnergyOverRestarts(t *testing.T) {
	dir := t.TempDir()
	intervals := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, time.Minute}
	for seed := range 20 {
		draw := rand.New(rand.NewPCG(uint64(seed), 10))
		fake := besideSQLite(t, dir, seed)
		defer fake.closeBeside(t)
		var looked, joules float64
		when := start
		end := start.Add(2 * time.Hour)
		interval := intervals[seed%len(intervals)]
		for runs := 1 + draw.IntN(30); runs > 0 && when.Before(end); runs-- {
			r := newRun(t, fake)
			r.cfg.Interval = interval
			if err := r.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range 1 + draw.IntN(40) {
				d := card("GPU-1")
				watts := float64(100 + draw.IntN(11))
				d.Power.Draw = gpu.Of(gpu.Watts(watts))
				r.observe(snapshot(when, d))
				if i > 0 {
					looked, joules = looked+interval.Seconds(), joules+watts*interval.Seconds()
				}
				when = when.Add(interval)
			}
			r.flush()
			when = when.Add(time.Duration(1+draw.IntN(120)) * time.Second)
		}
		p := &history.Past{Store: fake.beside, Now: func() time.Time { return when }, Interval: interval}
		for _, since := range []time.Duration{0, 60 * time.Hour} { // by minutes, and by quarters of an hour
			q := store.Query{From: start.Truncate(15 * time.Minute).Add(-since), To: when}
			list, err := p.Usage(t.Context(), history.ByGPU, q)
			if err != nil {
				t.Fatal(err)
			}
			var known, had float64
			for _, u := range list {
				known, had = u.JoulesKnown*when.Sub(q.From).Seconds(), u.Joules.Or(0)
			}
			if math.Abs(known-looked) > 0.01*looked+0.1 || math.Abs(had-joules) > 0.01*joules+10 {
				t.Fatalf("seed %d, since %v before: %.1f s and %.0f J, want %.1f s and %.0f J", seed, since, known, had, looked, joules)
			}
		}
	}
}
