//go:build !race

package record

import (
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
)

const halfDay = 12 * time.Hour

func openFile(b *testing.B) *sqlite.Store {
	b.Helper()
	db, err := sqlite.Open(b.Context(), sqlite.Options{File: filepath.Join(b.TempDir(), "history.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

func allOf[V any](b *testing.B, list iter.Seq2[V, error]) (out []V) {
	b.Helper()
	for v, err := range list {
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// A halfDayOf is what is kept of a simulated machine with 8 GPUs in twelve hours, each 5 s.
type halfDayOf struct {
	rows [len(store.Tiers)][]store.Row
	store.Batch
}

func recordHalfADay(b *testing.B) (day halfDayOf) {
	b.Helper()
	db := openFile(b)
	x := simulate(b, "dgx-h100", start)
	stage := insight.NewStage()
	r := newRun(b, newFake())
	r.cfg.Store, r.cfg.Nodes = db, []string{x.nodes[0].Node()}
	for second := 0; second < int(halfDay.Seconds()); second += 5 {
		x.now = start.Add(time.Duration(second) * time.Second)
		r.Observe(stage.Next(x.read(x.nodes[0])))
		if second%60 == 0 {
			r.flush()
		}
	}
	r.flush()
	for tier := range day.rows {
		for _, machines := range []bool{false, true} {
			q := store.Query{Tier: store.Tier(tier), Machines: machines}
			day.rows[tier] = append(day.rows[tier], allOf(b, db.Rows(b.Context(), q))...)
		}
	}
	day.Frames, day.Sessions = allOf(b, db.Frames(b.Context(), store.Query{})), allOf(b, db.Sessions(b.Context(), store.Query{}))
	day.Causes, day.Events = allOf(b, db.Causes(b.Context(), store.Query{})), allOf(b, db.Events(b.Context(), store.Query{}))
	return day
}

// move makes it the next half day's.
func (day *halfDayOf) move() {
	for tier := range day.rows {
		for i := range day.rows[tier] {
			day.rows[tier][i].Time = day.rows[tier][i].Time.Add(halfDay)
		}
	}
	for i := range day.Frames {
		day.Frames[i].Time = day.Frames[i].Time.Add(halfDay)
	}
	for i := range day.Sessions {
		s := &day.Sessions[i]
		s.Started, s.Begin, s.From, s.To = s.Started.Add(halfDay), s.Begin.Add(halfDay), s.From.Add(halfDay), s.To.Add(halfDay)
		s.Outcome = store.Ended
	}
	for i := range day.Causes {
		c := &day.Causes[i]
		c.From, c.To, c.Open = c.From.Add(halfDay), c.To.Add(halfDay), false
	}
	for i := range day.Events {
		e := &day.Events[i]
		was := e.Time
		e.Time = was.Add(halfDay)
		e.ID = strings.Replace(e.ID, was.Format(time.RFC3339Nano), e.Time.Format(time.RFC3339Nano), 1)
	}
}

// BenchmarkSizeOfABusyPast says how large the file is after two years of 8 GPUs that are read each 5 s and used as the simulation
// uses them. It measures the file after 31 and after 45 days, in which what is old is forgotten twice a day, and adds for each
// further day what each day between has left. Raw rows and snapshots are written for the last two days alone.
func BenchmarkSizeOfABusyPast(b *testing.B) {
	const first, second, last = 31, 45, 730 // days
	for b.Loop() {
		day, db := recordHalfADay(b), openFile(b)
		retention := newRun(b, newFake()).cfg.Retention
		var sizes []store.Size
		for half := range 2 * second {
			whole, rows := day.Batch, slices.Concat(day.rows[store.SixHours], day.rows[store.Quarter], day.rows[store.Minute])
			if left := 2*first - half; left > 4 || 4-2*(second-first) < left && left <= 0 {
				whole.Frames = nil
			} else {
				rows = append(rows, day.rows[store.Raw]...)
			}
			for part := range slices.Chunk(rows, 4000) {
				if err := db.Write(b.Context(), &store.Batch{Rows: part}); err != nil {
					b.Fatal(err)
				}
			}
			for part := range slices.Chunk(whole.Frames, 100) {
				if err := db.Write(b.Context(), &store.Batch{Frames: part}); err != nil {
					b.Fatal(err)
				}
			}
			whole.Frames = nil
			if err := db.Write(b.Context(), &whole); err != nil {
				b.Fatal(err)
			}
			day.move()
			now := start.Add(time.Duration(half+1) * halfDay)
			for more := true; more; {
				var err error
				if more, err = db.Forget(b.Context(), retention, now); err != nil {
					b.Fatal(err)
				}
			}
			if half+1 == 2*first || half+1 == 2*second {
				size, err := db.Size(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				sizes = append(sizes, size)
			}
		}
		total := sizes[1].Bytes
		for i, t := range sizes[1].Tables {
			switch t.Name {
			case "15m", "6h", "sessions", "causes", "events": // of which each day leaves something
				more := (t.Bytes - sizes[0].Tables[i].Bytes) * (last - second) / (second - first)
				t.Bytes, total = t.Bytes+more, total+more
			}
			b.ReportMetric(float64(t.Bytes)/1e6, "MB-"+t.Name)
		}
		b.ReportMetric(float64(total)/1e6, "MB")
		b.ReportMetric(0, "ns/op")
	}
}
