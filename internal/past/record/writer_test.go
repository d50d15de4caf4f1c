package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

var errFake = &gpu.Advice{What: "the fake is full", Try: "empty it", Err: store.ErrFull}

func (f *fakeStore) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
}

func (f *fakeStore) hang(until chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = until
}

func (f *fakeStore) asks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.forgot)
}

func (f *fakeStore) tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.writes)
}

func (f *fakeStore) count(tier store.Tier) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rowsOf(tier))
}

// A running Recorder gets a reading of two devices at each interval.
type running struct {
	*Recorder
	t    *testing.T
	fake *fakeStore
	log  *bytes.Buffer
	end  func() // and waits for it
}

// startRunning runs a Recorder in the bubble of a test.
func startRunning(t *testing.T, fake *fakeStore, change func(*Config)) *running {
	x := &running{t: t, fake: fake, log: new(bytes.Buffer)}
	cfg := newRun(t, fake).cfg
	cfg.Log = slog.New(slog.NewTextHandler(x.log, nil))
	if change != nil {
		change(&cfg)
	}
	x.Recorder = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.Run(ctx)
	}()
	x.end = func() {
		cancel()
		<-ended
	}
	synctest.Wait()
	return x
}

// read makes readings for so long.
func (x *running) read(span time.Duration) {
	for range span / interval5 {
		d := card("GPU-1")
		d.Processes = gpu.Of([]gpu.Process{{PID: 7, Facts: gpu.ProcessFacts{Started: gpu.Of(time.Now().Truncate(24 * time.Hour))}}})
		x.Observe(insight.Of(snapshot(time.Now(), d, card("GPU-22"))))
		time.Sleep(interval5)
	}
	synctest.Wait()
}

// A program that is killed loses five seconds at most.
func TestWritesEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, func(c *Config) { c.Interval = time.Second })
		began := time.Now()
		for range 120 {
			x.Observe(insight.Of(snapshot(time.Now(), card("GPU-1"))))
			time.Sleep(time.Second)
			synctest.Wait()
			fake.mu.Lock()
			if behind := time.Since(began) - time.Duration(len(fake.rowsOf(store.Raw)))*time.Second; behind > 5*time.Second {
				t.Fatalf("after %v the store lacks %v", time.Since(began), behind)
			}
			fake.mu.Unlock()
		}
		if n := fake.tries(); n < 24 || n > 32 {
			t.Errorf("%d batches in two minutes", n)
		}
		if s := x.State(); s.Err != nil || time.Since(s.Written) > 5*time.Second || s.Dropped != (Counts{}) {
			t.Errorf("the state is %+v", s)
		}
		x.end()
		if n := fake.count(store.Raw); n != 120 {
			t.Errorf("%d readings of 120 at the end", n)
		}
		if s := x.State(); s.Rows.Readings != 120 || s.Rows.Events < 2 || s.Batches != uint64(fake.tries()) || s.Failures != 0 {
			t.Errorf("what was written is counted as %+v, in %d batches", s, fake.tries())
		}
		var kinds []string
		for id, e := range fake.events {
			if e.Kind == kindStarted || e.Kind == kindStopped {
				kinds = append(kinds, e.Kind)
			}
			if !strings.HasPrefix(id, e.Kind+"/box/") {
				t.Errorf("event %q: %+v", id, e)
			}
		}
		if len(kinds) != 2 || kinds[0] == kinds[1] {
			t.Errorf("events of the program: %v", kinds)
		}
	})
}

// A store that fails gets more and more time, and then all that has happened meanwhile.
func TestAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, nil)
		x.read(time.Minute)
		before := fake.tries()
		fake.fail(errFake)
		failed := time.Now()
		x.read(5 * time.Minute)
		s := x.State()
		if !errors.Is(s.Err, store.ErrFull) || s.Since.Before(failed) || s.Since.After(failed.Add(10*time.Second)) || s.Waiting.Readings < 118 || s.Bytes == 0 {
			t.Errorf("while it fails: %+v", s)
		}
		for i := before + 2; i < fake.tries(); i++ {
			was, is := fake.writes[i-1].Sub(fake.writes[i-2]), fake.writes[i].Sub(fake.writes[i-1])
			if i > before+2 && is < was || is > time.Minute {
				t.Errorf("a pause of %v after one of %v", is, was)
			}
		}
		fake.fail(nil)
		x.read(2 * time.Minute)
		if s := x.State(); s.Err != nil || s.Dropped != (Counts{}) || s.Waiting.Readings > 2 {
			t.Errorf("when it is well again: %+v", s)
		}
		x.end()
		if n := fake.count(store.Raw); n != 2*8*12 {
			t.Errorf("%d readings, want %d", n, 2*8*12)
		}
		if s := x.State(); s.Rows.Readings != 2*8*12 || s.Failures < 5 || s.Batches+s.Failures != uint64(fake.tries()) {
			t.Errorf("counted are %+v, of %d tries", s, fake.tries())
		}
		if text := x.log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "can't be written") || !strings.Contains(text, "written again") {
			t.Errorf("the log is %s", text)
		}
		for _, s := range fake.sessions {
			if s.Seen != 8*time.Minute-interval5 {
				t.Errorf("the session was seen for %v", s.Seen)
			}
		}
	})
}

// What is too much is dropped in order: readings and snapshots, of which the newest stay.
func TestWhatIsTooMuchIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, func(c *Config) { c.MaxBytes = 64 << 10 })
		fake.fail(errFake)
		x.read(20 * time.Minute)
		s := x.State()
		if d := s.Dropped; d.Readings+s.Waiting.Readings != 480 || d.Frames+s.Waiting.Frames != 240 || d.Sessions+d.Causes+d.Events != 0 || d.Readings == 0 || d.Frames == 0 {
			t.Errorf("%+v", s)
		}
		if s.Bytes > 64<<10 {
			t.Errorf("%d bytes wait", s.Bytes)
		}
		fake.fail(nil)
		ends := time.Now()
		x.read(2 * time.Minute)
		x.end()
		for _, r := range fake.rowsOf(store.Raw) {
			if ends.Sub(r.Time) > 10*time.Minute {
				t.Errorf("a reading of %v before it was well is kept", ends.Sub(r.Time))
			}
		}
		if n := len(fake.sessions); n != 1 {
			t.Errorf("%d sessions", n)
		}
		if n := strings.Count(x.log.String(), "some of it is lost"); n != 1 {
			t.Errorf("it is said %d times: %s", n, x.log)
		}
	})
}

// Spans of which all readings were dropped are forgotten, however long the store is away: of the others the rows are made.
func TestSpansThatAreLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		first time.Duration // in which the store is well
	}{{"from the beginning", 0}, {"later", 10 * time.Minute}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newFake()
				if c.first == 0 {
					fake.fail(errFake)
				}
				x := startRunning(t, fake, func(c *Config) { c.MaxReadings = 200 })
				x.read(c.first + 20*time.Second)
				fake.fail(errFake)
				waiting := func() int {
					x.mu.Lock()
					defer x.mu.Unlock()
					return len(x.out.buckets) + len(x.out.remakes) - len(x.out.spans) // whose rows wait are no less
				}
				x.read(time.Hour)
				most := waiting()
				x.read(12 * time.Hour)
				if n := waiting(); n > most+20 {
					t.Errorf("%d spans wait after an hour, and %d after 13", most, n)
				}
				fake.fail(nil)
				x.read(20 * time.Minute)
				fake.mu.Lock()
				for k := range fake.rows {
					b := store.Bucket{Key: k.Key, Tier: store.Minute, Time: k.time.Truncate(time.Minute)}
					if _, made := fake.rows[rowKey{b.Key, b.Tier, b.Time}]; k.tier == store.Raw && !made && !fake.open[b] {
						t.Errorf("the minute of a reading at %v has no row", k.time)
					}
				}
				if n := len(fake.open); n > 6 {
					t.Errorf("%d spans wait for their row", n)
				}
				fake.mu.Unlock()
				x.end()
			})
		})
	}
}

// When nothing else is left to drop, what is oldest of the rest goes, sessions last.
func TestOrderOfDropping(t *testing.T) {
	b := newBuffer(1000, 1<<20)
	instant := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	for i := range 3 {
		key := store.Key{Node: "box", UUID: "GPU-1"}
		b.row(row{Key: key, time: instant(i)})
		b.frame(store.Frame{Node: "box", Time: instant(i)})
		b.span(store.Row{Key: key, Tier: store.Minute, Time: instant(60 * i)}, store.Bucket{Key: key, Tier: store.Minute, Time: instant(60 * i)})
		b.session(store.Session{SessionKey: store.SessionKey{Key: key, PID: i}, To: instant(i)})
		b.cause(store.Cause{Key: key, ID: "work", From: instant(i), To: instant(i)})
		b.event(store.Event{ID: fmt.Sprint(i), Time: instant(i)})
	}
	var order []string
	for before := b.dropped; b.drop(); before = b.dropped {
		now := b.dropped
		for what, n := range map[string]int{
			"reading": now.Readings - before.Readings, "frame": now.Frames - before.Frames, "span": now.Spans - before.Spans,
			"event": now.Events - before.Events, "cause": now.Causes - before.Causes, "session": now.Sessions - before.Sessions,
		} {
			if n > 0 {
				order = append(order, what)
			}
		}
	}
	want := "frame reading frame reading frame reading span span span event event event cause cause cause session session session"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("dropped: %s", got)
	}
	if b.bytes != 0 || len(b.remakes) != 3 || len(b.buckets) != 3 {
		t.Errorf("%d bytes are left; the spans %v wait for their readings", b.bytes, b.remakes)
	}
}

// What could not be written comes before what came meanwhile, and nothing that is newer is replaced.
func TestPutBack(t *testing.T) {
	b := newBuffer(1000, 1<<20)
	key := store.Key{Node: "box", UUID: "GPU-1"}
	session := func(seen time.Duration) store.Session {
		return store.Session{SessionKey: store.SessionKey{Key: key, PID: 7}, Seen: seen}
	}
	for i := range 5 {
		b.row(row{Key: key, time: start.Add(time.Duration(i) * time.Second)})
	}
	b.session(session(1))
	b.unsettle(store.Bucket{Key: key, Tier: store.Minute, Time: start})
	all := b.bytes
	part := b.take(3, 3)
	b.session(session(2))
	b.row(row{Key: key, time: start.Add(5 * time.Second)})
	b.span(store.Row{Key: key, Tier: store.Minute, Time: start}, store.Bucket{Key: key, Tier: store.Minute, Time: start})
	if b.maxBytes = b.held() + b.away; b.limit() {
		t.Error("something is dropped where there is room")
	}
	b.maxBytes--
	if b.limit(); b.dropped.Readings != 1 {
		t.Errorf("%v are dropped: what is being written needs room, too", b.dropped)
	}
	b.maxBytes = 1 << 20
	b.putBack(part)
	want := []int{0, 1, 2, 4, 5}
	for i, w := range b.rows {
		if len(b.rows) != len(want) || !w.time.Equal(start.Add(time.Duration(want[i])*time.Second)) {
			t.Errorf("reading %d of %d is of %v", i, len(b.rows), w.time)
		}
	}
	if got := b.sessions[session(0).SessionKey].Seen; got != 2 {
		t.Errorf("the session is that of %d", got)
	}
	if settled := b.buckets[store.Bucket{Key: key, Tier: store.Minute, Time: start}]; !settled {
		t.Error("the span is not settled any more")
	}
	s := store.Row{}
	if b.bytes != all+sizeOfSpan(&s) || b.away != 0 {
		t.Errorf("%d bytes, %d away; want %d", b.bytes, b.away, all+sizeOfSpan(&s))
	}
}

// A store that hangs is a state, holds up nobody, and is not called twice. The program ends all the same.
func TestAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, nil)
		x.read(time.Minute)
		until := make(chan struct{})
		before := fake.tries()
		fake.hang(until)
		x.read(20 * time.Second)
		if s := x.State(); !errors.Is(s.Err, store.ErrGone) || time.Since(s.Since) < longAgo {
			t.Errorf("while it hangs: %+v", s)
		}
		x.read(5 * time.Minute)
		if s := x.State(); !errors.Is(s.Err, store.ErrGone) || fake.tries() != before+1 {
			t.Errorf("it was called %d times: %+v", fake.tries()-before, s)
		}
		fake.hang(nil)
		close(until)
		x.read(2 * time.Minute)
		if s := x.State(); s.Err != nil || s.Waiting.Readings > 2 {
			t.Errorf("when it goes on: %+v", s)
		}
		until = make(chan struct{})
		fake.hang(until)
		x.read(time.Minute)
		ended := time.Now()
		x.end()
		if took := time.Since(ended); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		close(until)
		synctest.Wait()
		if n := fake.count(store.Raw); n < 2*12*8+8 {
			t.Errorf("%d readings", n)
		}
	})
}

// A store that can't be read at the start is read as soon as it can be, and nothing is written before.
func TestAStoreThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, nil)
		x.read(10 * time.Minute)
		x.end()
		time.Sleep(time.Minute)
		fake.fail(errFake)
		x = startRunning(t, fake, nil)
		before := fake.tries()
		x.read(time.Hour)
		if fake.tries() != before || !errors.Is(x.State().Err, store.ErrFull) {
			t.Errorf("%d batches; %+v", fake.tries()-before, x.State())
		}
		fake.fail(nil)
		x.read(30 * time.Minute)
		x.end()
		if len(fake.sessions) != 1 {
			t.Errorf("%d sessions", len(fake.sessions))
		}
		for _, s := range fake.sessions {
			if whole := s.To.Sub(s.From); whole != 101*time.Minute-interval5 || s.Seen != whole-time.Minute-interval5 {
				t.Errorf("seen for %v of %v", s.Seen, whole)
			}
		}
		raw := fake.rowsOf(store.Raw)
		for b := range fake.open {
			if time.Since(b.Time) > b.Tier.Span()+time.Minute {
				t.Errorf("%+v waits for its row", b)
			}
		}
		for _, tier := range tiers {
			for _, r := range fake.rowsOf(tier) {
				if want := recomputed(raw, r.Key, tier, r.Time); r.Readings != want.Readings {
					t.Errorf("%s at %v is of %d readings, want %d", tier, r.Time, r.Readings, want.Readings)
				}
			}
		}
	})
}

// Some of what is too old is forgotten each minute, and nothing while the clock may be wrong.
func TestForgetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		x := startRunning(t, fake, nil)
		x.read(10*time.Minute + 30*time.Second)
		if fake.asks() != 10 || fake.asked[store.Raw] != 48*time.Hour {
			t.Errorf("asked to forget %v at %v", fake.asked, fake.forgot)
		}
		fake.mu.Lock()
		fake.more = true
		fake.mu.Unlock()
		x.read(time.Minute)
		if fake.asks() != 10+forgetParts {
			t.Errorf("asked %d times in a minute", fake.asks()-10)
		}
		set := snapshot(time.Now(), card("GPU-1"))
		set.Breaks, set.ClockSet = 1, 20*365*24*time.Hour
		x.Observe(insight.Of(set))
		before := fake.asks()
		time.Sleep(mistrust - time.Minute)
		synctest.Wait()
		if fake.asks() != before {
			t.Errorf("asked %d times just after the clock was set", fake.asks()-before)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if fake.asks() == before {
			t.Error("never asked again")
		}
		x.end()
	})
}

// A clock that is years after all that the store has is not believed at once, also not by the next run: it would forget everything.
func TestForgettingWithAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		old := store.Row{Key: store.Key{Node: "box", UUID: "GPU-1"}, Time: time.Now().Add(-3 * 365 * 24 * time.Hour), Readings: 1,
			Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
		if err := fake.Write(t.Context(), &store.Batch{Rows: []store.Row{old}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			x := startRunning(t, fake, nil)
			x.read(time.Minute)
			time.Sleep(believed - 2*time.Minute)
			synctest.Wait()
			if fake.asks() > 0 {
				t.Fatal("it forgets")
			}
			x.end()
		}
		x := startRunning(t, fake, nil)
		time.Sleep(believed + 2*time.Minute)
		synctest.Wait()
		if fake.asks() == 0 || len(fake.document) > 0 {
			t.Errorf("asked to forget %d times, and %q is kept", fake.asks(), fake.document)
		}
		x.end()
		before := fake.asks()
		x = startRunning(t, fake, nil)
		x.read(2 * time.Minute)
		if fake.asks() == before {
			t.Error("the next run does not believe it")
		}
		x.end()
	})
}

// When the store has lost what it had, what goes on is written from its beginning, and who the devices are.
func TestAStoreThatBeginsAnew(t *testing.T) {
	x := simulate(t, "dgx-h100", start)
	stage := insight.NewStage()
	fake := newFake()
	r := newRun(t, fake)
	r.cfg.Nodes = []string{x.nodes[0].Node()}
	second := 0
	read := func(n int) {
		for range n {
			x.now = start.Add(time.Duration(second) * time.Second)
			r.Observe(stage.Next(x.read(x.nodes[0])))
			second += 5
		}
		r.flush()
	}
	read(60)
	devices, sessions, causes := maps.Clone(fake.devices), maps.Clone(fake.sessions), maps.Clone(fake.causes)
	clear(fake.devices)
	clear(fake.sessions)
	clear(fake.causes)
	clear(fake.rows)
	clear(fake.open)
	r.Rewrite()
	read(2)
	for k, d := range devices {
		if got := fake.devices[k]; got.Name != d.Name || got.Index != d.Index || got.Kind != d.Kind {
			t.Errorf("of a device is known %+v, want %+v", got, d)
		}
	}
	open := 0
	for k, s := range sessions {
		if got, there := fake.sessions[k]; s.Outcome == store.Open && (!there || got.Seen < s.Seen || !got.From.Equal(s.From)) {
			t.Errorf("of a session is known %+v, want %+v", got, s)
		} else if there {
			open++
		}
	}
	for k, c := range causes {
		if got, there := fake.causes[k]; there && c.Open && got.From.Equal(c.From) {
			open++
		}
	}
	if open < 10 {
		t.Errorf("%d sessions and causes go on", open)
	}
	if spans := len(fake.open); spans != len(tiers)*len(devices) {
		t.Errorf("%d spans have no row yet, want %d", spans, len(tiers)*len(devices))
	}
}
