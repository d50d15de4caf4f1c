package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A testClock runs like the machine's clock, and can be set and put to sleep.
type testClock struct {
	mu         sync.Mutex
	begun      time.Time
	set, slept time.Duration
}

func newClock() *testClock { return &testClock{begun: time.Now()} }

func (c *testClock) change(set, slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set, c.slept = c.set+set, c.slept+slept
}

func (c *testClock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.begun) + c.slept
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Round(0).Add(c.set + c.slept)
}

// A busyCard is a source whose only device is busy all the time, as long as it is on.
type busyCard struct {
	clock *testClock
	mu    sync.Mutex
	off   bool
	gone  bool // a second device is gone
}

func (*busyCard) Name() string { return gpu.SourceNVML }
func (*busyCard) Close() error { return nil }

func (b *busyCard) Read(context.Context) (*gpu.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := fixture.H100s(2)
	if b.gone {
		s.Devices = s.Devices[:1]
	}
	b.gone = true
	for i := range s.Devices[1:] {
		s.Devices[1+i].SampledAt = b.clock.now()
		s.Devices[1+i].Utilization.GPU = gpu.Of[gpu.Percent](0)
	}
	s.Devices[0].SampledAt = b.clock.now()
	s.Devices[0].Utilization.GPU = gpu.Of[gpu.Percent](99)
	if b.off {
		s.Devices[0].Utilization.GPU = gpu.Of[gpu.Percent](0)
	}
	return s, nil
}

func (b *busyCard) turnOff() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = true
}

// A timed program is the whole program in a [synctest] bubble, with a clock that the test sets.
type timed struct {
	*App
	t     *testing.T
	clock *testClock
	card  *busyCard
	stop  func()
}

const timedRules = `rules:
  - {name: at_once, watch: utilization, above: 50, hold: 0, clear: 0}
  - {name: lost, enabled: false}
  - {name: for_an_hour, watch: utilization, above: 50, hold: 1h, clear: 0}
`

func startTimed(t *testing.T, c *testClock, dir string) *timed {
	t.Helper()
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(timedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &timed{t: t, clock: c, card: &busyCard{clock: c}}
	in := &reading.Inputs{Node: "box", Origin: "auto", Sources: []sampler.Source{p.card}}
	opt := Options{
		Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: 250 * time.Millisecond, Deadline: time.Second,
		MaxViewers: 1, AlertUtilization: 99.5, AlertRules: rules, StateDir: dir, Clock: clock.Of(c.now, c.elapsed),
	}
	var err error
	if p.App, err = New(opt, []*reading.Inputs{in}, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil, nil) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// readings waits until so many more readings were published and evaluated by the
// alert rules.
func (p *timed) readings(n int) (last *insight.Moment) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), testkit.Patience)
	defer cancel()
	for m := range p.Hub.Feed(ctx) {
		if last = m; n == 0 {
			return last
		}
		n--
	}
	p.t.Fatal("no more readings come")
	return nil
}

func (p *timed) get(path string, into any) {
	p.t.Helper()
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code != http.StatusOK {
		p.t.Fatalf("GET %s: %d, %v: %s", path, w.Code, err, w.Body)
	}
}

func (p *timed) alerts() (a contract.Alerts) {
	p.t.Helper()
	p.get("/api/alerts", &a)
	return a
}

func (p *timed) silence(body string) contract.Silence {
	p.t.Helper()
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://127.0.0.1/api/silences", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	var made contract.Silence
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
		p.t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	return made
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// Setting the clock lets no time pass: hold times don't elapse, alerts keep their age,
// and nothing began in the future.
func TestClockIsSetAndTheMachineSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startTimed(t, newClock(), t.TempDir())
		p.readings(4)
		p.silence(`{"rule": "ecc", "duration_seconds": 7200}`)
		p.silence(`{"rule": "lost", "duration_seconds": 8640000}`)
		for _, step := range []struct {
			what       string
			set, slept time.Duration
		}{
			{"the clock is set forward", 8 * time.Hour, 0},
			{"it is set back", -7 * time.Hour, 0},
			{"the machine sleeps", 0, 8 * time.Hour},
			{"the clock is set back", -11 * time.Hour, 0},
			{"it is set back to before the start", -24 * time.Hour, 0},
			{"it sleeps, and the clock is set right", 30 * time.Hour, time.Hour},
		} {
			before := p.alerts()
			p.clock.change(step.set, step.slept)
			m := p.readings(3)
			after := p.alerts()
			if len(after.Alerts) != 1 || after.Alerts[0].Rule != "at_once" {
				t.Fatalf("%s: these alerts stand: %+v", step.what, after.Alerts)
			}
			short := 1 // which is over after the machine has slept
			if p.clock.slept > 0 {
				short = 0
			}
			if len(after.Silences) != 1+short {
				t.Fatalf("%s: these silences are in force: %+v", step.what, after.Silences)
			}
			if x := after.Silences[short]; moment(t, x.Since).After(p.clock.now()) || moment(t, x.Until).Sub(moment(t, x.Since)) != 2400*time.Hour {
				t.Errorf("%s: at %v a silence is %+v", step.what, p.clock.now(), x)
			}
			was, is := moment(t, before.Alerts[0].Since), moment(t, after.Alerts[0].Since)
			if moved := is.Sub(was) - step.set; moved.Abs() > time.Second {
				t.Errorf("%s: the alert began at %v, and before at %v", step.what, is, was)
			}
			if now := p.clock.now(); is.After(now) || moment(t, after.Timestamp).After(now) {
				t.Errorf("%s at %v: since %v, as of %s", step.what, now, is, after.Timestamp)
			}
			causes := m.Answer.Causes()
			for i := range causes {
				if since := causes[i].Since; since.After(m.Snapshot.Time.Add(time.Second)) || since.Before(m.Snapshot.Time.Add(-time.Minute-p.clock.slept)) && !since.IsZero() {
					t.Errorf("%s: at %v something is so since %v", step.what, m.Snapshot.Time, since)
				}
			}
			for _, d := range m.Snapshot.Devices {
				if d.Since.After(m.Snapshot.Time) {
					t.Errorf("%s at %v: %s is %s since %v", step.what, m.Snapshot.Time, d.Name, d.State, d.Since)
				}
			}
			times := Find[*past.Minutes](p.App).View(nil).Times
			for i := range times {
				if times[i].After(p.clock.now()) || i > 0 && !times[i].After(times[i-1]) {
					t.Errorf("%s: the past has the times %v", step.what, times)
					break
				}
			}
			var health contract.MonitorHealth
			if p.get("/api/health", &health); health.UptimeSeconds < 0 || health.UptimeSeconds > p.clock.elapsed().Seconds() {
				t.Errorf("%s: it has run for %v s", step.what, health.UptimeSeconds)
			}
		}
		p.card.turnOff()
		p.readings(3)
		over := p.alerts()
		if len(over.Alerts) != 0 || len(over.Past) != 1 {
			t.Fatalf("after the work: %+v", over)
		}
		if lasted := moment(t, over.Past[0].Timestamp).Sub(moment(t, over.Past[0].Since)); lasted <= 0 || strings.Contains(over.Past[0].Message, "after 0 s") {
			t.Errorf("it lasted for %v: %s", lasted, over.Past[0].Message)
		}
	})
}

// A restart with a slow clock that is then corrected ends no silence.
func TestSilencesOfAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, dir := newClock(), t.TempDir()
		p := startTimed(t, c, dir)
		p.readings(1)
		p.silence(`{"rule": "at_once", "duration_seconds": 7200}`)
		p.stop()
		c.change(-24*time.Hour, 0)
		p = startTimed(t, c, dir)
		p.readings(2)
		c.change(24*time.Hour, 0)
		p.readings(3)
		if silences := p.alerts().Silences; len(silences) != 1 || moment(t, silences[0].Until).Sub(c.now()) < time.Hour {
			t.Errorf("at %v: %+v", c.now(), silences)
		}
	})
}

// A silence made while the clock was ahead begins when the clock is corrected, and keeps
// its length, also across a restart.
func TestSilencesOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, dir := newClock(), t.TempDir()
			c.change(365*24*time.Hour, 0)
			p := startTimed(t, c, dir)
			p.readings(2)
			p.silence(`{"rule": "at_once", "duration_seconds": 7200}`)
			if restart {
				p.stop()
			}
			c.change(-365*24*time.Hour, 0)
			for range 2 { // and after that nothing makes it longer
				if restart {
					p = startTimed(t, c, dir)
				}
				p.readings(2)
				silences := p.alerts().Silences
				if len(silences) != 1 {
					t.Fatalf("restarted: %v: %+v", restart, silences)
				}
				since, until := moment(t, silences[0].Since), moment(t, silences[0].Until)
				if now := p.clock.now(); since.After(now) || until.Sub(since) != 2*time.Hour || until.After(now.Add(2*time.Hour)) {
					t.Errorf("restarted: %v: at %v the silence is from %v to %v", restart, now, since, until)
				}
				if restart {
					p.stop()
				}
			}
		})
	}
}
