//go:build !race

package record

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// BenchmarkQuestionsOfAYear asks about a year of 8 busy GPUs: what the page shows but for its picture, the story of /api/gpu/why, and
// usage. What is forgotten by then is not written.
func BenchmarkQuestionsOfAYear(b *testing.B) {
	const halves = 2 * 365
	day, db := recordHalfADay(b), openFile(b)
	retention := newRun(b, newFake()).cfg.Retention
	now := start.Add(halves * halfDay)
	for half := range halves {
		left := halves - half
		rows := slices.Concat(day.rows[store.SixHours], day.rows[store.Quarter])
		if left <= 60 {
			rows = append(rows, day.rows[store.Minute]...)
		}
		for part := range slices.Chunk(rows, 8000) {
			if err := db.Write(b.Context(), &store.Batch{Rows: part}); err != nil {
				b.Fatal(err)
			}
		}
		kept := store.Batch{Sessions: day.Sessions}
		for _, c := range day.Causes {
			if c.To.After(retention.CauseCutoff(c.To.Sub(c.From), now)) {
				kept.Causes = append(kept.Causes, c)
			}
		}
		if err := db.Write(b.Context(), &kept); err != nil {
			b.Fatal(err)
		}
		day.move()
	}
	p := &history.Past{Store: db, Keeps: retention, Now: func() time.Time { return now }, Interval: interval5}
	q := store.Query{From: start, To: now}
	names := func(k store.Key) string { return k.UUID }
	for name, ask := range map[string]func() error{
		"page": func() error {
			_, err := p.All(b.Context(), history.ByUser, q, []time.Time{start, start.Add(180 * 24 * time.Hour), now}, names, func(*store.Session) {})
			return err
		},
		"why":          func() error { _, err := p.Why(b.Context(), q, names); return err },
		"usage":        func() error { _, err := p.Usage(b.Context(), history.ByUser, q); return err },
		"usage by GPU": func() error { _, err := p.Usage(b.Context(), history.ByGPU, q); return err },
	} {
		b.Run(name, func(b *testing.B) {
			begun := processorTime()
			for b.Loop() {
				if err := ask(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime()-begun).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is that of this program until now.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
