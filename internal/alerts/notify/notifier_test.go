package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A wire is a sender that remembers what it is given, and fails as it is told.
type wire struct {
	mu   sync.Mutex
	sent []sent
	// fail returns why a message is not taken; it may wait.
	fail func(n int, body string) error // of message n, from 1
}

type sent struct {
	now         time.Time
	title, body string
	err         error
}

func (w *wire) send(ctx context.Context, title, body string) error {
	w.mu.Lock()
	n := len(w.sent) + 1
	w.sent = append(w.sent, sent{now: time.Now(), title: title, body: body})
	fail := w.fail
	w.mu.Unlock()
	var err error
	if fail != nil {
		result := make(chan error, 1)
		go func() { result <- fail(n, body) }()
		select {
		case err = <-result:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	w.mu.Lock()
	w.sent[n-1].err = err
	w.mu.Unlock()
	return err
}

// now makes it fail in another way.
func (w *wire) now(fail func(int, string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

func (w *wire) all() []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// A rig is a notifier on wires, one for each target.
type rig struct {
	changed chan struct{} // has a value after a change
	*Notifier
	mu    sync.Mutex
	wires map[Secret]*wire
	log   logged
	stop  func()
}

// A logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func urlOf(name string) Secret { return Secret("generic://127.0.0.1:9/" + name) }

func config(names ...string) Config {
	c := Defaults()
	for _, name := range names {
		c.Targets = append(c.Targets, Target{Name: name, URL: urlOf(name)})
	}
	return c
}

// wire is the one to an address.
func (r *rig) wire(target Secret) *wire {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wires[target] == nil {
		r.wires[target] = &wire{}
	}
	return r.wires[target]
}

// kept is what a rig keeps, as in a file.
func kept(t *testing.T, r *rig) []byte {
	t.Helper()
	text, err := json.Marshal(r.Kept())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func restore(r *rig, text string) error {
	var kept Kept
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return err
	}
	return r.Restore(kept, time.Now())
}

// newRig starts a notifier. Its wires outlive it where they are given.
func newRig(t *testing.T, c Config, wires map[Secret]*wire, past []byte) *rig {
	t.Helper()
	if wires == nil {
		wires = map[Secret]*wire{}
	}
	r := &rig{wires: wires, changed: make(chan struct{}, 1)}
	for _, target := range c.Targets {
		r.wire(target.URL)
	}
	send := func(ctx context.Context, target Secret, m letter) error {
		return r.wire(target).send(ctx, m.title, m.text)
	}
	var err error
	if r.Notifier, err = build(c, send, func() { poke(r.changed) }, slog.New(slog.NewTextHandler(&r.log, nil))); err != nil {
		t.Fatal(err)
	}
	if past != nil {
		if err := restore(r, string(past)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func change(id string, news alert.News) alert.Change {
	now := time.Now()
	c := alert.Change{News: news, Tell: true, Alert: alert.Alert{
		ID: id, Rule: "too_hot", Severity: alert.Warning, State: alert.Firing, Unit: "°C", Value: gpu.Of(91.25), Threshold: gpu.Of(85.0),
		Device: gpu.Identity{Node: "node-1", UUID: "GPU-" + id, Name: "NVIDIA H100", Index: 3, Source: "nvml"},
		Since:  now.Add(-time.Minute), Time: now, Message: "<" + id + " " + string(news) + ">", Advice: "Look.",
	}}
	if news == alert.Over {
		c.State = alert.Resolved
	}
	return c
}

func (r *rig) tell(changes ...alert.Change) { r.Notify(changes, nil) }

// inSync runs a test in a bubble, and stops what it started.
func inSync(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestGrouping(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		begun := time.Now()
		r.tell(change("a", alert.Fired), change("b", alert.Fired))
		time.Sleep(4 * time.Second)
		r.tell(change("a", alert.Over), change("c", alert.Fired))
		time.Sleep(10 * time.Second)
		got := r.wire(urlOf("ops")).all()
		if len(got) != 1 || got[0].now.Sub(begun) != 10*time.Second {
			t.Fatalf("sent: %+v", got)
		}
		body := got[0].body
		a, b, c := strings.Index(body, "<a over>"), strings.Index(body, "<b fired>"), strings.Index(body, "<c fired>")
		if b < 0 || b >= c || c >= a || strings.Contains(body, "<a fired>") || !strings.Contains(body, "<a over> The alert began and ended before this was sent.") {
			t.Errorf("it says %q", body)
		}
		r.tell(change("b", alert.Over))
		r.tell(change("d", alert.Fired))
		time.Sleep(30 * time.Second)
		r.tell(change("d", alert.Repeated))
		time.Sleep(time.Hour)
		got = r.wire(urlOf("ops")).all()
		if len(got) != 2 || got[1].now.Sub(got[0].now) != time.Minute {
			t.Fatalf("sent: %+v", got)
		}
		if body := got[1].body; !strings.Contains(body, "<b over>") || !strings.Contains(body, "<d repeated>") || strings.Contains(body, "Still") {
			t.Errorf("it says %q", body)
		}
	})
}

func TestRouting(t *testing.T) {
	inSync(t, func(t *testing.T) {
		c := config("all", "some", "loud")
		c.Targets[2].Severity = alert.Critical
		r := newRig(t, c, nil, nil)
		defer r.stop()
		quiet, one, worst := change("quiet", alert.Fired), change("one", alert.Fired), change("worst", alert.Fired)
		quiet.Tell = false
		one.Targets = []string{"some", "unknown"}
		worst.Severity = alert.Critical
		gone := change("gone", alert.DataGone)
		r.tell(quiet, one, worst, gone)
		time.Sleep(time.Minute)
		for name, want := range map[string]string{"all": "worst", "some": "one worst", "loud": "worst"} {
			got := r.wire(urlOf(name)).all()
			if len(got) != 1 {
				t.Fatalf("%s was sent %+v", name, got)
			}
			var told []string
			for _, id := range []string{"quiet", "one", "worst", "gone"} {
				if strings.Contains(got[0].body, "<"+id+" ") {
					told = append(told, id)
				}
			}
			if strings.Join(told, " ") != want {
				t.Errorf("%s was told of %v, want %s", name, told, want)
			}
		}
	})
}

// retry is when the first target is tried again.
func (r *rig) retry() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.workers[0].queue.Retry
}

// What a message is about is on disk before the message is sent, so that a crash
// forgets no alert whose end is to be told. A full disk is no reason to be silent.
func TestMessagesAreSentAfterTheStateIsWritten(t *testing.T) {
	inSync(t, func(t *testing.T) {
		var order []string
		n, err := build(config("ops"), func(context.Context, Secret, letter) error {
			order = append(order, "sent")
			return nil
		}, func() {}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		n.Flush = func(context.Context) error {
			order = append(order, "written")
			return errors.New("the disk is full")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		synctest.Wait()
		n.Notify([]alert.Change{change("a", alert.Fired)}, nil)
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil || !slices.Equal(order, []string{"written", "sent"}) {
			t.Errorf("%v, %v", order, err)
		}
	})
}

// A target that fails is tried again, later each time, while the other is told
// at once; the log says so once.
func TestRetry(t *testing.T) {
	inSync(t, func(t *testing.T) {
		dead := &wire{fail: func(n int, _ string) error {
			if n <= 16 {
				return &failure{text: "no"}
			}
			return nil
		}}
		r := newRig(t, config("dead", "well"), map[Secret]*wire{urlOf("dead"): dead}, nil)
		defer r.stop()
		r.tell(change("a", alert.Fired))
		time.Sleep(time.Minute)
		if n := len(r.wire(urlOf("well")).all()); n != 1 {
			t.Errorf("the other was sent %d messages", n)
		}
		s := r.Status()[0]
		if s.Queued != 1 || s.LastError != "no" || s.FailingSince.IsZero() || r.retry().IsZero() || s.Service != "generic" {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(5 * time.Hour)
		got := dead.all()
		if len(got) != 17 {
			t.Fatalf("%d tries", len(got))
		}
		for i := 1; i < len(got); i++ {
			full := min(firstRetry<<(i-1), longestRetry)
			if gap := got[i].now.Sub(got[i-1].now); gap < full/2 || gap > full {
				t.Errorf("try %d came after %v, want up to %v", i+1, gap, full)
			}
		}
		s = r.Status()[0]
		if s.Queued != 0 || s.Sent != 1 || s.Failed != 16 || s.Dropped != 0 || s.LastError != "" || !s.FailingSince.IsZero() || s.LastSuccess.IsZero() {
			t.Errorf("the status is %+v", s)
		}
		log := r.log.String()
		if strings.Count(log, "does not accept messages") != 1 || strings.Count(log, "accepts messages again") != 1 || strings.Contains(log, "127.0.0.1") {
			t.Errorf("the log says %s", log)
		}
	})
}

func TestGiveUp(t *testing.T) {
	inSync(t, func(t *testing.T) {
		refuses := true
		dead := &wire{fail: func(int, string) error {
			if refuses {
				return &failure{text: "404", permanent: true}
			}
			return nil
		}}
		r := newRig(t, config("dead"), map[Secret]*wire{urlOf("dead"): dead}, nil)
		defer r.stop()
		r.tell(change("a", alert.Fired), change("b", alert.Fired))
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		tries := len(dead.all())
		if tries < 24 || tries > 60 {
			t.Errorf("%d tries in a day", tries)
		}
		if s := r.Status()[0]; s.Queued != 0 || s.Dropped != 2 {
			t.Errorf("the status is %+v", s)
		}
		if log := r.log.String(); strings.Count(log, "does not accept messages") != 1 || strings.Count(log, "within a day") != 1 {
			t.Errorf("the log says %s", log)
		}
		refuses = false
		r.tell(change("c", alert.Fired))
		time.Sleep(2 * time.Hour)
		all := dead.all()
		last := all[len(all)-1]
		if last.err != nil || !strings.Contains(last.body, "<c fired>") || !strings.Contains(last.body, "gpuwhy dropped 2 events that could not be delivered in time.") {
			t.Errorf("the last message is %+v", last)
		}
		r.tell(change("d", alert.Fired))
		time.Sleep(time.Hour)
		all = dead.all()
		if strings.Contains(all[len(all)-1].body, "gpuwhy dropped") {
			t.Error("what was dropped is told twice")
		}
	})
}

// A service that does not answer delays nobody, and its message is tried again.
func TestSilentService(t *testing.T) {
	inSync(t, func(t *testing.T) {
		free := make(chan error)
		defer close(free)
		hangs := &wire{fail: func(n int, _ string) error {
			if n == 1 {
				return <-free
			}
			return nil
		}}
		r := newRig(t, config("hangs", "well"), map[Secret]*wire{urlOf("hangs"): hangs}, nil)
		defer r.stop()
		r.tell(change("a", alert.Fired))
		time.Sleep(15 * time.Second)
		r.tell(change("b", alert.Fired))
		time.Sleep(14 * time.Second)
		if s := r.Status(); s[0].Failed != 0 || s[0].Queued != 2 || s[1].Sent != 1 {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(sendTime)
		if s := r.Status()[0]; s.Failed != 1 || !strings.Contains(r.log.String(), "no answer for 3m0s") {
			t.Errorf("the status is %+v", s)
		}
		time.Sleep(2 * time.Minute)
		got := hangs.all()
		if len(got) != 2 || !strings.Contains(got[1].body, "<a fired>") || !strings.Contains(got[1].body, "<b fired>") {
			t.Errorf("sent: %+v", got)
		}
		if s := r.Status()[0]; s.Sent != 1 || s.LastError != "" || s.Queued != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// The end takes two seconds at most; what is not out by then is kept.
func TestEnd(t *testing.T) {
	inSync(t, func(t *testing.T) {
		free := make(chan error)
		hangs := &wire{fail: func(int, string) error { return <-free }}
		wires := map[Secret]*wire{urlOf("hangs"): hangs}
		r := newRig(t, config("hangs", "well"), wires, nil)
		r.tell(change("a", alert.Fired))
		time.Sleep(2 * time.Second) // less than a group waits
		begun := time.Now()
		r.stop()
		if took := time.Since(begun); took != endTime {
			t.Errorf("the end took %v", took)
		}
		if n := len(wires[urlOf("well")].all()); n != 1 {
			t.Errorf("what waited for others was sent %d times", n)
		}
		text := kept(t, r)
		if !strings.Contains(string(text), "<a fired>") && !strings.Contains(string(text), `\u003ca fired`) || strings.Contains(string(text), "127.0.0.1") {
			t.Errorf("kept: %s", text)
		}
		close(free)
		synctest.Wait()
		hangs.now(nil)
		next := newRig(t, config("hangs", "well"), wires, text)
		defer next.stop()
		time.Sleep(time.Minute)
		if got := hangs.all(); len(got) != 2 || !strings.Contains(got[1].body, "<a fired>") {
			t.Errorf("sent: %+v", got)
		}
		if n := len(wires[urlOf("well")].all()); n != 1 {
			t.Errorf("the other was told again")
		}
	})
}

// A restart changes nothing of when a target that fails is tried next.
func TestRestartWhileFailing(t *testing.T) {
	inSync(t, func(t *testing.T) {
		dead := &wire{fail: func(n int, _ string) error {
			if n <= 14 {
				return &failure{text: "no"}
			}
			return nil
		}}
		wires := map[Secret]*wire{urlOf("ops"): dead}
		r := newRig(t, config("ops", "leaves"), wires, nil)
		r.tell(change("a", alert.Fired))
		time.Sleep(30 * time.Minute)
		r.wire(urlOf("leaves")).now(func(int, string) error { return &failure{text: "no"} })
		r.tell(change("b", alert.Fired))
		time.Sleep(30 * time.Second)
		before, retry := r.Status()[0], r.retry()
		r.stop()
		text := kept(t, r)
		next := newRig(t, config("ops"), wires, text)
		defer next.stop()
		if after := next.Status()[0]; !next.retry().Equal(retry) || after.Queued != 2 || !after.FailingSince.Equal(before.FailingSince) {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if log := next.log.String(); strings.Count(log, "no longer configured") != 1 {
			t.Errorf("the log says %s", log)
		}
		time.Sleep(time.Hour)
		got := dead.all()
		if last := got[len(got)-1]; last.err != nil || !strings.Contains(last.body, "<a fired>") || !strings.Contains(last.body, "<b fired>") {
			t.Errorf("the last message is %+v", last)
		}
	})
}

func TestRestoreIsBounded(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		far := time.Now().Add(1000 * time.Hour).Format(time.RFC3339)
		odd := `{"targets":[{"name":"ops","dropped":-5,"fails":-7,"retry":"` + far + `","last":"` + far + `","pending":[{"id":"x","news":"fired","severity":"odd","message":"m\n@all","queued":"` + far + `"}]}]}`
		if err := restore(r, odd); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := r.wire(urlOf("ops")).all(); len(got) != 1 || !strings.Contains(got[0].body, "m @all") {
			t.Errorf("sent: %+v", got)
		}
	})
}

func TestReload(t *testing.T) {
	inSync(t, func(t *testing.T) {
		free := make(chan error)
		defer close(free)
		r := newRig(t, config("moves", "stays", "goes"), map[Secret]*wire{urlOf("moves"): {fail: func(int, string) error { return <-free }}}, nil)
		defer r.stop()
		r.tell(change("a", alert.Fired))
		time.Sleep(15 * time.Second)
		r.tell(change("b", alert.Fired))
		bad := config("moves")
		bad.Targets[0].Title = "{{"
		if err := r.Reload(bad); err == nil || len(r.Status()) != 3 {
			t.Errorf("a bad configuration is taken: %v", err)
		}
		c := config("moves", "stays", "comes")
		c.Targets[0].URL = urlOf("elsewhere")
		c.Targets[1].Message = "changed: {{range .Events}}{{.Message}}{{end}}"
		if err := r.Reload(c); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.tell(change("c", alert.Fired))
		time.Sleep(2 * time.Minute)
		// What was under way to the old address goes to the new one.
		if got := r.wire(urlOf("elsewhere")).all(); len(got) != 2 || !strings.Contains(got[0].body, "<a fired>") || !strings.Contains(got[1].body, "<c fired>") {
			t.Errorf("elsewhere: %+v", got)
		}
		if got := r.wire(urlOf("stays")).all(); len(got) != 2 || got[1].body != lines(got[1].title+"\nchanged: <b fired><c fired>") && got[1].body != "changed: <b fired><c fired>" {
			t.Errorf("stays: %+v", got)
		}
		if got := r.wire(urlOf("comes")).all(); len(got) != 1 || strings.Contains(got[0].body, "<a ") {
			t.Errorf("comes: %+v", got)
		}
		if got := r.wire(urlOf("goes")).all(); len(got) != 1 || !strings.Contains(r.log.String(), "target=goes") {
			t.Errorf("goes: %+v", got)
		}
	})
}

// Many alerts make one message that says how many it does not tell, and a queue
// that says what it dropped.
func TestBounds(t *testing.T) {
	inSync(t, func(t *testing.T) {
		r := newRig(t, config("ops"), nil, nil)
		defer r.stop()
		var changes []alert.Change
		for i := range mostPending + 7 {
			c := change(fmt.Sprintf("n%d", i), alert.Fired)
			c.Message = strings.Repeat("a long sentence ", 20) + c.Message
			changes = append(changes, c)
		}
		r.tell(changes...)
		time.Sleep(time.Minute)
		got := r.wire(urlOf("ops")).all()
		if len(got) != 1 || len(got[0].title)+len(got[0].body) > mostBytes {
			t.Fatalf("%d messages, of %d bytes", len(got), len(got[0].body))
		}
		shown := strings.Count(got[0].body, "- [warning too_hot]")
		for _, want := range []string{fmt.Sprintf("… and %[1]d more: %[1]d warning.", mostPending-shown), "gpuwhy dropped 7 events: there were too many."} {
			if !strings.Contains(got[0].body, want) {
				t.Errorf("%q is not in %q", want, got[0].body)
			}
		}
		if shown < 5 || !strings.Contains(got[0].title, fmt.Sprintf("and %d more", mostPending-1)) {
			t.Errorf("%d are told under %q", shown, got[0].title)
		}
	})
}

func TestKeepIsBounded(t *testing.T) {
	inSync(t, func(t *testing.T) {
		var names []string
		for i := range mostTargets {
			names = append(names, fmt.Sprintf("t%d", i))
		}
		r := newRig(t, config(names...), nil, nil)
		defer r.stop()
		var changes []alert.Change
		for i := range mostPending {
			c := change(fmt.Sprintf("n%d", i), alert.Fired)
			c.Message = strings.Repeat("long ", 100)
			changes = append(changes, c)
		}
		r.tell(changes...)
		text := kept(t, r)
		if len(text) > 4<<20 {
			t.Errorf("%d bytes are kept", len(text))
		}
		if !strings.Contains(r.log.String(), "too many events are waiting to keep") || !strings.Contains(string(text), `"crowded":`) {
			t.Error("nobody is told")
		}
	})
}

// Whatever happens, each alert is told in order, its begin once, and nothing is
// lost but what is said to be.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(60) {
		inSync(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))                         //nolint:gosec // a test
			chance, luck := random.Float64(), rand.New(rand.NewPCG(seed, 6)) //nolint:gosec // a test
			line := &wire{}
			line.fail = func(int, string) error {
				line.mu.Lock()
				fails, permanent, takes := luck.Float64() < chance, luck.IntN(4) == 0, time.Duration(luck.IntN(50))*time.Second
				line.mu.Unlock()
				time.Sleep(takes)
				if fails {
					return &failure{text: "no", permanent: permanent}
				}
				return nil
			}
			wires := map[Secret]*wire{urlOf("ops"): line}
			r := newRig(t, config("ops"), wires, nil)
			next, standing := 0, []string{}
			want := map[string]alert.News{} // what is to be told last of each
			var order []string
			for range 60 {
				switch k := random.IntN(12); {
				case k < 5:
					next++
					id := fmt.Sprintf("n%d", next)
					standing, order = append(standing, id), append(order, id)
					want[id] = alert.Fired
					r.tell(change(id, alert.Fired))
				case k < 7 && len(standing) > 0:
					r.tell(change(standing[random.IntN(len(standing))], alert.Repeated))
				case k < 10 && len(standing) > 0:
					i := random.IntN(len(standing))
					want[standing[i]] = alert.Over
					r.tell(change(standing[i], alert.Over))
					standing = slices.Delete(standing, i, i+1)
				case k == 10:
					r.stop()
					time.Sleep(time.Minute) // a message that was under way ends
					text := kept(t, r)
					r = newRig(t, config("ops"), wires, text)
				}
				time.Sleep(time.Duration(random.IntN(90)) * time.Second)
			}
			line.mu.Lock()
			chance = 0
			line.mu.Unlock()
			time.Sleep(10 * time.Hour)
			r.stop()
			checkTold(t, line.all(), want, order)
			if s := r.Status()[0]; s.Queued != 0 || s.Dropped != 0 {
				t.Errorf("the status is %+v", s)
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

func checkTold(t *testing.T, all []sent, want map[string]alert.News, order []string) {
	t.Helper()
	var begun []string
	last := map[string]alert.News{}
	hidden := 0
	for _, m := range all {
		if m.err != nil {
			continue
		}
		begins := len(begun)
		for line := range strings.Lines(m.body) {
			_, rest, ok := strings.Cut(line, "<")
			if !ok {
				if strings.Contains(line, " more: ") {
					hidden++
				}
				continue
			}
			text, _, _ := strings.Cut(rest, ">")
			id, news, _ := strings.Cut(text, " ")
			if last[id] == "" {
				begun = append(begun, id)
			} else if last[id] == alert.Over || alert.News(news) == alert.Fired {
				t.Errorf("%s is %s after it was %s", id, news, last[id])
			}
			last[id] = alert.News(news)
		}
		// Within one message what is over comes last.
		slices.SortFunc(begun[begins:], func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	}
	if hidden > 0 {
		return // a message had no room for all, and said so
	}
	if !slices.Equal(begun, order) {
		t.Errorf("told in the order %v, want %v", begun, order)
	}
	for id, news := range want {
		if got := last[id]; got != news && (news != alert.Fired || got != alert.Repeated) {
			t.Errorf("of %s the last that was told is %q, want %q", id, got, news)
		}
	}
}

// A real receiver that fails twice is told once it works, over a restart.
func TestReceiverThatFailsTwice(t *testing.T) {
	done := make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		default:
			close(done)
		}
	})
	c := Defaults()
	c.GroupWait = 0
	c.Targets = []Target{{Name: "hook", URL: Secret("generic://" + r.host() + "/gpus?disabletls=yes&template=json"), Title: "{{.Severity}}: {{(index .Events 0).What}}"}}
	n, err := New(c, func() {}, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.Notify([]alert.Change{change("a", alert.Fired)}, func(a *alert.Alert) *explain.DeviceAnswer {
		return &explain.DeviceAnswer{Sentence: "GPU 3 works for " + a.ID + "."}
	})
	<-done
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := r.received()
	if len(got) != 3 || !strings.Contains(got[2].body, `"title":"warning: too hot"`) || !strings.Contains(got[2].body, "GPU 3 works for a. Look.") {
		t.Errorf("received: %+v", got)
	}
	if s := n.Status()[0]; s.Sent != 1 || s.Failed != 2 || s.Queued != 0 {
		t.Errorf("the status is %+v", s)
	}
}

func TestTest(t *testing.T) {
	r := newReceiver(t, answering(http.StatusOK, ""))
	target := Target{Name: "hook", URL: Secret("generic://" + r.host() + "/gpus?disabletls=yes")}
	if err := Test(t.Context(), target); err != nil {
		t.Error(err)
	}
	if got := r.received(); len(got) != 1 || !strings.Contains(got[0].body, "This is a test") {
		t.Errorf("received: %+v", got)
	}
	target.URL, target.URLEnv = "", "NOTIFY_TEST_NOT_SET"
	if err := Test(t.Context(), target); err == nil || !strings.Contains(err.Error(), "NOTIFY_TEST_NOT_SET") {
		t.Errorf("the error is %v", err)
	}
	inSync(t, func(t *testing.T) {
		free := make(chan error)
		hangs := &wire{fail: func(int, string) error { return <-free }}
		err := test(t.Context(), Target{Name: "a", URL: urlOf("a")}, func(ctx context.Context, _ Secret, m letter) error {
			return hangs.send(ctx, m.title, m.text)
		})
		if _, ok := errors.AsType[*failure](err); !ok {
			t.Errorf("the error is %v", err)
		}
		free <- nil
	})
}

var quietLog = slog.New(slog.DiscardHandler)
