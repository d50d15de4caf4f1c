package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// cpu is the processor time of this program until now.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAt asks what a machine with 8 GPUs was like, of which there is a snapshot each 5 s.
func BenchmarkAt(b *testing.B) {
	node, _, frames := live(b, "dgx-h100", midnight, before, func(*insight.Moment) {})
	s, err := sqlite.Open(b.Context(), sqlite.Options{File: filepath.Join(b.TempDir(), "history.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if err := s.Write(b.Context(), &store.Batch{Frames: frames}); err != nil {
		b.Fatal(err)
	}
	p := &Past{Store: s}
	begun := cpu()
	for b.Loop() {
		if _, err := p.Moment(b.Context(), node, midnight.Add(before), insight.NewStage()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// filled is a database with rows of spans of 8 GPUs, in which all that a driver reports wanders.
func filled(b *testing.B, length time.Duration, tiers ...store.Tier) *Past {
	b.Helper()
	s, err := sqlite.Open(b.Context(), sqlite.Options{File: filepath.Join(b.TempDir(), "history.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	random := rand.New(rand.NewPCG(1, 1))
	var batch store.Batch
	row := func(tier store.Tier, when time.Time) {
		for i := range 8 {
			r := store.Row{Key: keyOf(i), Tier: tier, Time: when, Readings: 12, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
			for j := range r.Values {
				if c := &store.DeviceColumns[j]; c.Kept != "" || j%2 == 0 {
					mean := math.Round(100*random.Float64()*c.Scale) / c.Scale
					r.Values[j] = store.Value{Least: mean / 2, Mean: mean, Most: mean * 2, Count: 12}
				}
			}
			batch.Rows = append(batch.Rows, r)
		}
	}
	write := func() {
		if err := s.Write(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
		batch.Rows = batch.Rows[:0]
	}
	for at := midnight; at.Before(midnight.Add(length)); at = at.Add(tiers[0].Span()) {
		for _, tier := range tiers {
			if at.Truncate(tier.Span()).Equal(at) {
				row(tier, at)
			}
		}
		if len(batch.Rows) > 4000 {
			write()
		}
	}
	write()
	return &Past{Store: s, Now: func() time.Time { return midnight.Add(length) }}
}

func keyOf(i int) store.Key { return store.Key{Node: "a", UUID: fmt.Sprintf("GPU-%d", i)} }

// BenchmarkHistory asks for what a picture shows: one quantity, and the seven that the page draws.
func BenchmarkHistory(b *testing.B) {
	columns := func(names ...string) (out []int) {
		for _, name := range names {
			out = append(out, store.DeviceColumns.Find(name))
		}
		return out
	}
	one := columns("power_draw")
	page := columns("utilization_gpu", "power_draw", "thermal_gpu", "memory_used", "fans_commanded", "clocks_sm", "processes")
	const day, year = 24 * time.Hour, 365*24*time.Hour + 5*time.Hour // so that six hours go on
	aDay, aYear := filled(b, day, store.Minute), filled(b, year, store.Quarter, store.SixHours)
	for _, tt := range []struct {
		name    string
		past    *Past
		span    time.Duration
		step    time.Duration // 0: as a page chooses it
		tier    store.Tier
		devices int
		columns []int
	}{
		{"24 h of 8 GPUs, a quantity", aDay, day, 0, store.Minute, 8, one},
		{"24 h of 8 GPUs, seven quantities", aDay, day, 0, store.Minute, 8, page},
		{"a year of a GPU, a quantity", aYear, year, 0, store.SixHours, 1, one},
		{"a year of 8 GPUs, a quantity", aYear, year, 0, store.SixHours, 8, one},
		{"a year of 8 GPUs, seven quantities", aYear, year, 0, store.SixHours, 8, page},
		{"a year of 8 GPUs by 6 h, seven quantities", aYear, year, 6 * time.Hour, store.SixHours, 8, page},
		{"a year of a GPU by 15 h, a quantity", aYear, year, 15 * time.Hour, store.Quarter, 1, one},
		{"a year of 8 GPUs by 15 h, a quantity", aYear, year, 15 * time.Hour, store.Quarter, 8, one},
		{"a year of 8 GPUs by 15 h, seven quantities", aYear, year, 15 * time.Hour, store.Quarter, 8, page},
	} {
		p := tt.past
		g, err := p.Grid(midnight, midnight.Add(tt.span), tt.step)
		if err != nil {
			b.Fatal(err)
		}
		if g.Tier != tt.tier {
			b.Fatalf("%s is asked of rows of %s", tt.name, g.Tier)
		}
		var keys []store.Key
		for i := range tt.devices {
			keys = append(keys, keyOf(i))
		}
		b.Run(tt.name, func(b *testing.B) {
			begun := cpu()
			for b.Loop() {
				series, err := p.History(b.Context(), g, keys, false, tt.columns)
				if err != nil || len(series) != tt.devices {
					b.Fatal(len(series), err)
				}
			}
			b.ReportMetric(float64((cpu()-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkWhy asks what went on, where work begins and ends all the time.
func BenchmarkWhy(b *testing.B) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name        string
		span        time.Duration
		each, works time.Duration
		tiers       []store.Tier
	}{
		{"30 days of 8 GPUs, at work for 50 min each hour", 30 * day, time.Hour, 50 * time.Minute, []store.Tier{store.Minute, store.Quarter, store.SixHours}},
		{"a year of 8 GPUs, at work for 20 h each day", 365 * day, day, 20 * time.Hour, []store.Tier{store.Quarter, store.SixHours}},
	} {
		p := filled(b, tt.span, tt.tiers...)
		now := p.Now()
		p.Keeps = store.Retention{store.Raw: 2 * day, store.Minute: 30 * day, store.Quarter: 730 * day}
		var batch store.Batch
		for i := range 8 {
			for at := midnight; at.Before(now); at = at.Add(tt.each) {
				batch.Causes = append(batch.Causes, store.Cause{
					ID: fmt.Sprintf("%d-%d", i, at.Unix()), Key: keyOf(i), From: at, To: at.Add(tt.works), Kind: string(explain.Work),
				})
			}
		}
		if err := p.Store.Write(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
		b.Run(tt.name, func(b *testing.B) {
			begun := cpu()
			for b.Loop() {
				s, err := p.Why(b.Context(), store.Query{From: midnight, To: now}, Names(nil))
				measured := tt.span <= long // otherwise utilization comes from sessions, of which there are none here
				if err != nil || len(s.Chapters) != len(batch.Causes) || s.Chapters[0].Utilization.Present() != measured {
					b.Fatal(s, err)
				}
			}
			b.ReportMetric(float64((cpu()-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// live reads a simulated machine each 5 s, as gpuwhy does, and calls said with each Moment. It returns what a store keeps of it.
func live(t testing.TB, profile string, begin time.Time, length time.Duration, said func(*insight.Moment)) (string, *insight.Stage, []store.Frame) {
	now := begin
	nodes, err := sim.Nodes(profile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	var frames []store.Frame
	stage := insight.NewStage()
	for ; now.Before(begin.Add(length)); now = now.Add(5 * time.Second) {
		snap, err := nodes[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snap.Node = nodes[0].Node()
		for i := range snap.Devices {
			snap.Devices[i].Node, snap.Devices[i].Index = snap.Node, i
		}
		m := stage.Next(snap)
		record, err := gpu.MarshalRecord(m.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, store.Frame{Node: snap.Node, Time: now, Snapshot: record})
		said(m)
	}
	return nodes[0].Node(), stage, frames
}
