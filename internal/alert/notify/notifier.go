package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alert"
)

// A Notifier tells people of alerts. It may be used by several goroutines.
type Notifier struct {
	log  *slog.Logger
	dial func(Secret) sender
	// changed has room for one.
	changed chan struct{}

	mu      sync.Mutex
	workers []*worker // in the order of the configuration
	start   func(*worker)
}

// New returns a notifier that sends nothing before [Notifier.Run]. What the
// configuration has wrong is reported as by [Config.Check] and
// [Config.Resolve].
func New(cfg Config, log *slog.Logger) (*Notifier, error) {
	return build(cfg, couriers(newClient()), log)
}

func build(cfg Config, dial func(Secret) sender, log *slog.Logger) (*Notifier, error) {
	n := &Notifier{log: log.With("part", "notify"), dial: dial, changed: make(chan struct{}, 1), start: func(*worker) {}}
	if err := n.Reload(cfg); err != nil {
		return nil, err
	}
	return n, nil
}

// Changed returns a channel that says that [Notifier.Keep] has something new to
// keep of which nobody else knows: a message was taken or was not, or a
// configuration is in force. It is for one reader, and has no value for each
// change. Keep soon after it: a crash until then repeats a message.
func (n *Notifier) Changed() <-chan struct{} { return n.changed }

// Reload puts another configuration in force, and reads the addresses anew.
// Targets keep what waits for them; what waits for one that is gone is dropped.
// With an error nothing changes.
func (n *Notifier) Reload(cfg Config) error {
	all, err := settingsOf(cfg)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var next []*worker
	for _, s := range all {
		i := slices.IndexFunc(n.workers, func(w *worker) bool { return w.name == s.target.Name })
		if i >= 0 {
			n.workers[i].put(s)
			next = append(next, n.workers[i])
			continue
		}
		w := newWorker(s, n.dial, n.changed, n.log)
		next = append(next, w)
		n.start(w)
	}
	for _, w := range n.workers {
		if !slices.Contains(next, w) {
			w.remove()
		}
	}
	n.workers = next
	poke(n.changed)
	return nil
}

// settingsOf makes settings of a configuration.
func settingsOf(cfg Config) ([]settings, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	urls, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	out := make([]settings, len(urls))
	for i := range out {
		t := cfg.Targets[i]
		out[i] = settings{
			target: t, url: urls[i], style: styleOf(urls[i]), wait: cfg.GroupWait, interval: cfg.GroupInterval, publicURL: cfg.PublicURL,
		}
		title, err1 := parseTemplate(t.Title)
		message, err2 := parseTemplate(t.Message)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		out[i].templates = templates{title, message}
	}
	return out, nil
}

// remove ends a worker whose target is gone.
func (w *worker) remove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.queue.Pending); n > 0 {
		w.log.Warn("events are not told: the target is not configured any more", "events", n)
	}
	w.queue = queue{}
	if w.stop != nil {
		w.stop()
	}
}

// Run tells targets until ctx ends. Then it gives messages under way, and those
// that wait for others to join them, a second. A service that does not come
// back by then keeps one goroutine for its target, which ends with the program
// or when the service's server answers.
func (n *Notifier) Run(ctx context.Context) error {
	var running sync.WaitGroup
	n.mu.Lock()
	n.start = func(w *worker) {
		ctx, stop := context.WithCancel(ctx)
		w.mu.Lock()
		w.stop = stop
		w.mu.Unlock()
		running.Go(func() {
			defer stop()
			w.run(ctx)
		})
	}
	for _, w := range n.workers {
		n.start(w)
	}
	n.mu.Unlock()
	<-ctx.Done()
	n.mu.Lock()
	n.start = func(*worker) {}
	n.mu.Unlock()
	running.Wait()
	return nil
}

// News are of an event.
type news struct {
	event   Event
	targets []string // of its rule; empty: all
	tell    bool     // false: it is over, and nobody is to be told
}

// Notify queues the changes that are to be told. Who was told that an alert
// began is told that it is over, whatever the rule and the target say by then.
// Of too many the mildest are dropped. Why answers, in a sentence, why
// the alert's device is as it is; it may be nil. Notify never waits for a
// target.
func (n *Notifier) Notify(changes []alert.Change, why func(*alert.Alert) string) {
	now := time.Now()
	var all []news
	for i := range changes {
		c := &changes[i]
		if !c.Tell && c.News != alert.Over {
			continue
		}
		sentence := ""
		if c.Tell && why != nil && c.About() {
			sentence = why(&c.Alert)
		}
		if e, ok := event(c, sentence); ok {
			all = append(all, news{e, c.Targets, c.Tell})
		}
	}
	if len(all) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.workers {
		w.add(all, now)
	}
}

// Status is how a target does. It has nothing of its address.
type Status struct {
	Name     string
	Service  string         // "slack"
	Severity alert.Severity // the least that it is told of
	Queued   int            // events that wait, or are in a message under way
	Sent     uint64         // messages since the start
	Failed   uint64         // tries that failed, since the start
	Dropped  uint64         // events that were given up, since the start

	LastSuccess  time.Time // zero where there was none
	LastError    string    // of the last try; empty where it worked
	FailingSince time.Time // zero where it does not fail
	NextTry      time.Time // zero where nothing waits
}

// Status returns how the targets do, in the order of the configuration.
func (n *Notifier) Status() []Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := []Status{}
	for _, w := range n.workers {
		out = append(out, w.status())
	}
	return out
}

func (w *worker) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	s.Name, s.Service, s.Severity, s.Queued = w.name, w.set.url.scheme(), w.set.target.least(), len(w.queue.Pending)
	s.NextTry, _ = w.queue.due(w.set.wait, w.set.interval)
	return s
}

// Test sends one message to a target at once and returns why the target did not
// take it.
func Test(ctx context.Context, t Target) error { return test(ctx, t, couriers(newClient())) }

func test(ctx context.Context, t Target, dial func(Secret) sender) error {
	cfg := Defaults()
	cfg.Targets = []Target{t}
	all, err := settingsOf(cfg)
	if err != nil {
		return withoutPath(err)
	}
	s := &all[0]
	now := time.Now()
	m := message([]Event{testEvent(now)}, 1, circumstances{now: now})
	m.Test = true
	title, body, err := s.templates.one(s.style, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, errSilent)
	defer cancel()
	return dial(s.url).send(ctx, title, body)
}

// withoutPath leaves out at which place of a configuration of one target the
// errors are.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*alert.Invalid](err); ok {
		return errors.New(e.What)
	}
	return err
}

// testEvent is what a test tells.
func testEvent(now time.Time) Event {
	return Event{
		ID: "test", News: fired, Rule: "test", Severity: string(alert.Info), State: string(alert.Firing),
		Node: "gpuwhy", Device: "No GPU", Index: -1, Since: now, Time: now,
		Message: "This is a test of the messages that gpuwhy sends. Nothing is wrong.",
	}
}
