// Package notify sends messages about alerts to chats, phones, mail and webhooks. It gathers
// changes of alerts into a message, and tries until the message is delivered or a day old. Each
// target of a [Config] has a queue and a goroutine, so a dead target delays no other.
//
// A target's address is a secret. It exists only in this package's memory: no error, log line,
// status or saved file has it.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Notifier sends messages about alerts. Several goroutines may use it.
type Notifier struct {
	// Flush returns once all changes are on disk, or with the error of trying. It is called before
	// each message, so that no sent message is forgotten after a crash. It may be nil.
	Flush func(context.Context) error

	log     *slog.Logger
	send    sender
	changed func()

	mu      sync.Mutex
	workers []*worker // in the order of the configuration
	start   func(*worker)
}

// New returns a notifier that sends nothing before [Notifier.Run]. It calls changed, which must not
// block, when [Notifier.Kept] changes for a reason that its caller can't know: a target accepted or
// refused a message, or a configuration took effect. State that is not saved soon after leads to
// messages being sent again after a crash. The errors are those of [Config.Resolve].
func New(cfg Config, changed func(), log *slog.Logger) (*Notifier, error) {
	return build(cfg, newCourier().send, changed, log)
}

func build(cfg Config, send sender, changed func(), log *slog.Logger) (*Notifier, error) {
	n := &Notifier{log: log.With("part", "notify"), send: send, changed: changed, start: func(*worker) {}}
	return n, n.Reload(cfg)
}

// Reload puts another configuration in force and reads the addresses again. Targets keep their
// waiting messages; those of removed targets are dropped. On error nothing changes.
func (n *Notifier) Reload(cfg Config) error {
	all, err := cfg.settings()
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
		w := newWorker(n, s)
		next = append(next, w)
		n.start(w)
	}
	for _, w := range n.workers {
		if !slices.Contains(next, w) {
			w.remove()
		}
	}
	n.workers = next
	n.changed()
	return nil
}

// Run sends messages until ctx ends. Messages being sent, and those waiting to be grouped, then
// have one more second.
func (n *Notifier) Run(ctx context.Context) error {
	var running sync.WaitGroup
	n.mu.Lock()
	n.start = func(w *worker) {
		var alive context.Context
		alive, w.stop = context.WithCancel(ctx)
		running.Go(func() { w.run(alive) })
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

// news is an event and who gets it.
type news struct {
	event   Event
	targets []string // of the rule; empty: all
	tell    bool     // false: the alert is over without a message
	hushed  bool     // somebody has acknowledged or silenced the alert: unsent events are dropped
}

// An Answer explains the state of an alert's device.
type Answer = explain.DeviceAnswer

// Notify queues the changes that people get messages about. A target that was told about an alert's
// beginning is told about its end, whatever the rule and the target say by then. If there are too
// many events, the mildest are dropped. why returns the answer about an alert's device, or nil; why
// itself may be nil. Notify never waits for a target.
func (n *Notifier) Notify(changes []alert.Change, why func(*alert.Alert) *Answer) {
	now := time.Now()
	var all []news
	for i := range changes {
		c := &changes[i]
		if c.News == alert.Marked && (c.Acknowledged != nil || c.SilencedUntil.After(c.Time)) {
			all = append(all, news{event: Event{ID: c.ID}, hushed: true})
			continue
		}
		if c.News != alert.Over && (!c.Tell || c.News != alert.Fired && c.News != alert.Repeated) {
			continue
		}
		var answer *Answer
		if c.Tell && why != nil && c.About() {
			answer = why(&c.Alert)
		}
		all = append(all, news{event: event(c, answer), targets: c.Targets, tell: c.Tell})
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

// Status is the state of a target, without its address.
type Status struct {
	Name     string
	Service  string         // "slack"
	Severity alert.Severity // the lowest that it gets
	Queued   int            // events waiting or being sent
	Sent     uint64         // messages since the start
	Failed   uint64         // failed attempts since the start
	Dropped  uint64         // dropped events since the start

	LastSuccess  time.Time // zero if there was none
	LastError    string    // error of the last attempt; empty if it worked
	FailingSince time.Time // zero if it is not failing
}

// Status returns the state of the targets, in the order of the configuration.
func (n *Notifier) Status() []Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := []Status{}
	for _, w := range n.workers {
		out = append(out, w.status())
	}
	return out
}

// ErrNoTarget is returned for a name that no target has.
var ErrNoTarget = errors.New("there is no such target")

// Test sends a test message to the target with a name at once, past its waiting messages. Its error says why the target did not
// accept it.
func (n *Notifier) Test(ctx context.Context, name string) error {
	n.mu.Lock()
	i := slices.IndexFunc(n.workers, func(w *worker) bool { return w.name == name })
	if i < 0 {
		n.mu.Unlock()
		return ErrNoTarget
	}
	s := n.workers[i].set
	n.mu.Unlock()
	return s.test(ctx, n.send)
}

// Test sends one message to a target at once; its error says why the target did not accept it.
func Test(ctx context.Context, t Target) error { return test(ctx, t, newCourier().send) }

func test(ctx context.Context, t Target, send sender) error {
	cfg := Defaults()
	cfg.Targets = []Target{t}
	all, err := cfg.settings()
	if e, ok := errors.AsType[*alert.Invalid](err); ok {
		return errors.New(e.What) // without the path: there is one target
	}
	if err != nil {
		return err
	}
	return all[0].test(ctx, send)
}

func (s *settings) test(ctx context.Context, send sender) error {
	m := message([]Event{testEvent(time.Now())}, 1, circumstances{now: time.Now()})
	m.Test = true
	title, body, err := s.templates.one(s.service, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, testTime, errUnsure)
	defer cancel()
	return send(ctx, s.url, letter{title, body, string(alert.Info)})
}

func testEvent(now time.Time) Event {
	return Event{
		ID: "test", News: fired, Rule: "test", Severity: string(alert.Info), State: string(alert.Firing),
		Node: "gpuwhy", Device: "No GPU", Index: -1, Since: now, Time: now,
		Message: "This is a test message from gpuwhy. Nothing is wrong.",
	}
}
