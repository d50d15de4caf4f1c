package history

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
)

// sized is a store with a size.
type sized struct {
	store.Store
	size    store.Size
	devices []store.Device
	err     error
	asked   atomic.Int64
	hangs   chan struct{}
}

func (s *sized) Size(context.Context) (store.Size, error) {
	s.asked.Add(1)
	if s.hangs != nil {
		<-s.hangs
	}
	return s.size, s.err
}

func (s *sized) Devices(context.Context) ([]store.Device, error) { return s.devices, nil }

var usual = store.Retention{store.Raw: 48 * time.Hour, store.Minute: 30 * 24 * time.Hour, store.Quarter: 2 * 365 * 24 * time.Hour}

// machineOf is a machine with GPUs that were read until a time.
func machineOf(node string, gpus int, until time.Time) (out []store.Device) {
	for i := range gpus + 1 {
		d := store.Device{Node: node, First: midnight, Last: until}
		if i > 0 {
			d.UUID = string(rune('a' + i))
		}
		out = append(out, d)
	}
	return out
}

func kept(name string, rows, bytes int64, from, to time.Time) store.TableSize {
	return store.TableSize{Name: name, Rows: rows, Bytes: bytes, Oldest: from, Newest: to}
}

// What is kept of 8 GPUs by default stays what docs/past.md says: rows are counted, what a row takes is measured where there are enough.
func TestFootprint(t *testing.T) {
	now := midnight.Add(24 * time.Hour)
	s := &sized{devices: append(machineOf("here", 8, now), machineOf("gone", 3, midnight.Add(-time.Hour))...)}
	s.size = store.Size{Bytes: 50e6, Tables: []store.TableSize{
		kept("raw", 155520, 15552000, midnight, now), // 100 bytes each
		kept("1m", 12960, 2592000, midnight, now),    // 200
		kept("15m", 864, 864000, midnight, now),      // too few to know
		kept("6h", 45, 45000, midnight.Add(-5*time.Hour), now),
		kept("frames", 17280, 17280000, midnight, now),
		kept("sessions", 100, 30000, midnight, now),
		kept("causes", 2000, 400000, midnight.Add(time.Hour), now),
		kept("events", 0, 4096, time.Time{}, time.Time{}),
	}}
	p := &Past{Store: s, Keeps: usual, Now: func() time.Time { return now }}
	f, err := p.Footprint(t.Context(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		rows, bytes int64
		typical     bool
	}{
		{9 * 48 * 720, 9 * 48 * 720 * 100, false}, {9 * 30 * 1440, 9 * 30 * 1440 * 200, false}, {9 * 730 * 96, 9 * 730 * 96 * 152, true},
		{9 * 730 * 4, 9 * 730 * 4 * 151, true},
		{48 * 720, 48 * 720 * 1000, false}, {73000, 21900000, false}, {1460000, 292000000, false}, {},
	}
	total := int64(4096)
	for i, k := range f.Kinds {
		if w := want[i]; k.FullRows != w.rows || k.FullBytes != w.bytes || k.Typical != w.typical {
			t.Errorf("%s: %+v, want %+v", k.Name, k, w)
		}
		total += want[i].bytes
	}
	if f.Full != total || f.Bytes != 50e6 || !f.At.Equal(now) || f.Kinds[0].For != 48*time.Hour || f.Kinds[3].For != 2*365*24*time.Hour || f.Kinds[5].For != 2*365*24*time.Hour {
		t.Errorf("%+v, want %d in all", f, total)
	}
	for _, part := range []string{
		"9 GPUs and machines with a reading every 5s", "The size of a row was measured here for raw, 1m, frames.", "There are too few rows here for 15m, 6h:", "continue as in the 24 h so far",
		"It is too early to tell for events:",
	} {
		if !strings.Contains(f.How, part) {
			t.Errorf("%q is not in %q", part, f.How)
		}
	}
}

// In the first hour nothing is said of how often something happens, and without a retention nothing is ever full.
func TestFootprintOfLittle(t *testing.T) {
	now := midnight.Add(59 * time.Minute)
	s := &sized{devices: machineOf("here", 1, now), size: store.Size{Bytes: 3000, Tables: []store.TableSize{
		kept("raw", 1400, 140000, midnight, now), kept("sessions", 3, 900, midnight, now),
	}}}
	p := &Past{Store: s, Keeps: usual, Now: func() time.Time { return now }}
	f, err := p.Footprint(t.Context(), time.Minute)
	if err != nil || f.Kinds[0].FullRows != 2*48*60 || f.Kinds[1].FullRows != 0 || f.Full != f.Kinds[0].FullBytes+900 {
		t.Errorf("%+v, %v", f, err)
	}
	s.size.Tables = append(s.size.Tables, kept("frames", 5, 5000, midnight, now))
	if f, err := p.Footprint(t.Context(), time.Minute); err != nil || f.Kinds[2].FullBytes != 48*60*172 {
		t.Errorf("snapshots of one GPU: %+v, %v", f, err)
	}
	s.size.Tables = s.size.Tables[:2]
	p.Keeps = nil
	if f, err := p.Footprint(t.Context(), time.Minute); err != nil || f.Full != 140900 || f.Kinds[0].FullRows != 0 {
		t.Errorf("kept for ever: %+v, %v", f, err)
	}
	s.err = store.ErrGone
	if _, err := p.Footprint(t.Context(), time.Minute); !errors.Is(err, store.ErrGone) {
		t.Errorf("%v", err)
	}
}

// It is measured unasked once an hour, and for who asks at most twice a minute.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sized{size: store.Size{Bytes: 1}}
		sizes := &Sizes{Past: &Past{Store: s, Now: time.Now}, Interval: time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			sizes.Run(ctx)
			close(done)
		}()
		synctest.Wait()
		if sizes.Last() != nil || s.asked.Load() != 0 {
			t.Errorf("measured while it starts: %d", s.asked.Load())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if last := sizes.Last(); last == nil || last.Bytes != 1 || s.asked.Load() != 1 {
			t.Errorf("after two minutes: %+v, %d", last, s.asked.Load())
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if s.asked.Load() != 4 {
			t.Errorf("after three hours more it was measured %d times", s.asked.Load())
		}
		for range 3 {
			if f, err := sizes.Now(ctx); err != nil || f.Bytes != 1 || s.asked.Load() != 5 {
				t.Errorf("asked: %+v, %v, %d", f, err, s.asked.Load())
			}
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		s.err = store.ErrGone
		if _, err := sizes.Now(t.Context()); !errors.Is(err, store.ErrGone) || sizes.Last() == nil {
			t.Errorf("%v; what was known is %v", err, sizes.Last())
		}
	})
}

// While it is measured for one, another may leave, and who stays gets the same answer.
func TestWhoWaitsForSizesMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sized{size: store.Size{Bytes: 1}, hangs: make(chan struct{})}
		sizes := &Sizes{Past: &Past{Store: s, Now: time.Now}, Interval: time.Second}
		answers := make(chan error, 3)
		ask := func(ctx context.Context) {
			_, err := sizes.Now(ctx)
			answers <- err
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ask(t.Context())
		synctest.Wait()
		go ask(ctx)
		go ask(t.Context())
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-answers:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		default:
			t.Error("who left waits")
		}
		close(s.hangs)
		synctest.Wait()
		for len(answers) > 0 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if s.asked.Load() != 1 {
			t.Errorf("it was measured %d times", s.asked.Load())
		}
	})
}

// Who reads what another program wrote takes its interval from the readings, not from its own settings.
func TestTheIntervalOfReadings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		gaps []int // in milliseconds
		want string
	}{
		"none":   {nil, "every 5s"},
		"one":    {[]int{0}, "every 5s"},
		"before": {[]int{0, 250, 252, 249, 60_000, 251, 250}, "every 250ms"}, // with a gap
	} {
		m, b := storetest.NewModel(), &store.Batch{Devices: []store.Device{{Node: "here", UUID: "GPU-1"}}}
		when := midnight
		for _, gap := range tt.gaps {
			when = when.Add(time.Duration(gap) * time.Millisecond)
			b.Rows = append(b.Rows, store.Row{
				Key: store.Key{Node: "here", UUID: "GPU-1"}, Time: when, Readings: 1, Values: make([]store.Value, len(store.DeviceColumns)),
			})
		}
		if err := m.Write(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		sizes := &Sizes{Past: &Past{Store: m, Keeps: usual, Now: func() time.Time { return when }}, Interval: 5 * time.Second, Measured: true}
		if f, err := sizes.Now(t.Context()); err != nil || !strings.Contains(f.How, "a reading "+tt.want) {
			t.Errorf("%s: %q, %v; want %s", name, f.How, err, tt.want)
		}
	}
}
