//go:build !race

package record

import (
	"context"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
)

// besideSQLite is a fake beside a database of its own.
func besideSQLite(t *testing.T, dir string, n int) *fakeStore {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{
		File: filepath.Join(dir, strconv.Itoa(n)+".db"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	fake := newFake()
	fake.beside = s
	return fake
}

func (f *fakeStore) closeBeside(t *testing.T) {
	if err := f.beside.Close(); err != nil {
		t.Error(err)
	}
}

// In a database is what a fake has, whatever restarts and jumps of the clock there were.
func TestSpansInSQLite(t *testing.T) {
	n, dir := 0, t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n++
		all := steps(rt)
		fake := besideSQLite(t, dir, n)
		defer fake.closeBeside(t)
		playInto(t, fake, all, true)
		if diff := cmp.Diff(play(t, all, true).rows, fake.rows); diff != "" {
			rt.Fatalf("the fakes differ:\n%s", diff)
		}
		kept := 0
		for _, tier := range store.Tiers {
			for _, machines := range []bool{false, true} {
				for r, err := range fake.beside.Rows(t.Context(), store.Query{Tier: tier, Machines: machines}) {
					if err != nil {
						rt.Fatal(err)
					}
					kept++
					r.Time = r.Time.UTC()
					if diff := cmp.Diff(fake.rows[rowKey{r.Key, tier, r.Time}], r); diff != "" {
						rt.Fatalf("a row differs:\n%s", diff)
					}
				}
			}
		}
		if kept != len(fake.rows) {
			rt.Fatalf("%d rows, want %d", kept, len(fake.rows))
		}
		open := 0
		for _, tier := range tiers {
			list, err := fake.beside.Unsettled(t.Context(), tier, time.Time{})
			if open += len(list); err != nil {
				rt.Fatal(err)
			}
		}
		if open != len(fake.open) {
			rt.Fatalf("%d spans have no row yet, want %d", open, len(fake.open))
		}
	})
}

// Whatever restarts and jumps of the clock there were, and wherever a span ends, six hours say what their quarters of an hour say.
func TestSixHoursAgreeWithQuarters(t *testing.T) {
	n, dir := 0, t.TempDir()
	columns := []int{store.DeviceColumns.Find("power_draw"), store.DeviceColumns.Find("thermal_gpu")}
	rapid.Check(t, func(rt *rapid.T) {
		n++
		fake := besideSQLite(t, dir, n)
		defer fake.closeBeside(t)
		playInto(t, fake, steps(rt), true)
		last := start
		for _, r := range fake.rowsOf(store.Raw) {
			if r.Time.After(last) {
				last = r.Time
			}
		}
		p := &history.Past{Store: fake.beside, Now: func() time.Time { return last }}
		minutes := func(least, most int, what string) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(rt, what)) * time.Minute
		}
		begin := start.Add(minutes(-24*60, 24*60, "from"))
		step := time.Duration(rapid.SampledFrom([]int{6, 12, 18, 24}).Draw(rt, "step")) * time.Hour
		g, err := p.Grid(begin, begin.Add(minutes(1, 3*24*60, "long")), step)
		if err != nil || g.Tier != store.SixHours {
			rt.Fatal(g, err)
		}
		got, err := p.History(t.Context(), g, nil, false, columns)
		if err != nil {
			rt.Fatal(err)
		}
		g.Tier = store.Quarter
		want, err := p.History(t.Context(), g, nil, false, columns)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 0.01)); diff != "" {
			rt.Fatalf("six hours say otherwise than their quarters (-quarters +six hours):\n%s", diff)
		}
	})
}

// faults is a store that can fail.
type faults struct {
	store.Store
	away bool
}

func (f *faults) Write(ctx context.Context, b *store.Batch) error {
	if f.away {
		return store.ErrFull
	}
	return f.Store.Write(ctx, b)
}

// Restarts, kills, jumps of the clock, devices that are lost, pids that are used again, and a disk that is full for a while: the
// sessions and causes of a real database are those of the fake, whose sums [TestSessionsAreTrue] compares with what is true.
func TestSessionsInSQLite(t *testing.T) {
	n, dir := 0, t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n++
		fake := besideSQLite(t, dir, n)
		defer fake.closeBeside(t)
		disk := &faults{Store: fake.beside}
		fake.beside = disk
		w := &world{t: t, fake: fake, truth: map[string]truth{}, written: map[string]truth{}}
		w.begin()
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			if disk.away = rapid.IntRange(0, 9).Draw(rt, "full") == 0; disk.away {
				if err := w.r.writeAll(t.Context()); err == nil && !w.r.out.empty() {
					rt.Fatal("it is written to a full disk")
				}
				disk.away = false
			}
			w.act(rt)
			w.read()
		}
		w.flush()
		w.check(rt)
		kept := 0
		for s, err := range disk.Sessions(t.Context(), store.Query{}) {
			if err != nil {
				rt.Fatal(err)
			}
			kept++
			if diff := cmp.Diff(fake.sessions[s.SessionKey], s, cmpopts.EquateComparable(gpu.Reading[gpu.Bytes]{}), cmpopts.EquateApprox(1e-6, 1)); diff != "" {
				rt.Fatalf("a session differs:\n%s", diff)
			}
		}
		causes := 0
		for _, err := range disk.Causes(t.Context(), store.Query{}) {
			if causes++; err != nil {
				rt.Fatal(err)
			}
		}
		if kept != len(fake.sessions) || causes != len(fake.causes) {
			rt.Fatalf("%d sessions and %d causes, want %d and %d", kept, causes, len(fake.sessions), len(fake.causes))
		}
	})
}
