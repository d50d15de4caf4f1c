// Package audit records who did what, from where, on what, and what came of it, in the ledger's append-only table, and shows it over
// the API and on a page. An action that can't be recorded is refused. Each entry is told to the log too, and to the system log if that
// is wanted.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
)

// Options are the settings of the audit. The caller has checked them.
type Options struct {
	Keep     time.Duration // how long entries are kept; 0: forever
	Deadline time.Duration // how long an action waits for its record; 0: [ledger.DefaultDeadline]
	// System is the system log, which is told each entry; nil: it is not told.
	System SystemLog
	// Settings are the settings of this run that are not the default, by name, without secrets. A change since the last run is
	// recorded. nil: they are not known.
	Settings map[string]string
}

// Config is what a Room needs.
type Config struct {
	part.Host
	Options
	Ledger ledger.Ledger
	// Read returns what parts of the program have read from files of settings, by name, without secrets. It may be nil.
	Read func() map[string]string
}

// A Room records.
type Room struct {
	cfg   Config
	log   *slog.Logger
	quiet action.Log // for calls that only look

	system   *reporter     // nil: the system log is not told
	more     chan struct{} // has a value when something waits, or when the ledger has failed
	counting chan struct{} // has a value when refusals are counted

	mu      sync.Mutex
	waiting []late
	state   State
	err     *gpu.Advice // why the newest entry could not be recorded; nil if it could
	since   time.Time   // err is so
	last    time.Time   // an entry was recorded
	looked  map[look]time.Duration
	refused map[refuser]*count
}

// A State says how the recording does.
type State struct {
	Recorded uint64 // entries
	Failed   uint64 // attempts to record one
	Lost     uint64 // entries for which there was no room to wait; the log has them
	Waiting  int    // entries that could not be recorded yet
}

// A late entry waits until it can be recorded.
type late struct {
	entry *ledger.Entry
	began *ledger.Entry // the entry that says that this began; nil: none does
}

// mostWaiting is how many entries wait at the same time.
const mostWaiting = 1000

// New makes a Room.
func New(cfg Config) *Room {
	log := cfg.Log.With("part", "audit")
	cfg.Deadline = cmp.Or(cfg.Deadline, ledger.DefaultDeadline)
	r := &Room{
		cfg: cfg, log: log, quiet: action.Log{Logger: cfg.Log.With("part", "actions")}, more: make(chan struct{}, 1), counting: make(chan struct{}, 1),
		looked: map[look]time.Duration{}, refused: map[refuser]*count{},
	}
	if cfg.System != nil {
		r.system = newReporter(cfg.System, log, cfg.Clock.Now)
	}
	return r
}

// Name implements [part.Part].
func (*Room) Name() string { return "audit" }

// Append records an entry, within the deadline. Without a time, it is of now. An error is a [gpu.Advice]: nothing may be done then that
// has to be recorded.
func (r *Room) Append(ctx context.Context, e *ledger.Entry) error {
	r.prepare(e)
	if err := r.write(ctx, e); err != nil {
		return err
	}
	r.tell(e)
	return nil
}

// Later records an entry as soon as it can be: at once, or when the ledger answers again. The log is told now. It is for what has
// happened already, and for what must not wait.
func (r *Room) Later(e *ledger.Entry) { r.later(e, nil) }

func (r *Room) later(e, began *ledger.Entry) {
	r.prepare(e)
	r.tell(e)
	r.mu.Lock()
	full := len(r.waiting) >= mostWaiting
	if full {
		r.state.Lost++
	} else {
		r.waiting = append(r.waiting, late{e, began})
	}
	r.mu.Unlock()
	if full {
		r.log.Error("an entry is in the log alone: too many others wait to be recorded", "action", e.Action)
	}
	r.wake()
}

func (r *Room) wake() {
	select {
	case r.more <- struct{}{}:
	default: // it will look anyway
	}
}

// longestText is the longest text of an entry, in bytes. Only clients that mean no good send longer ones.
const longestText = 2000

// prepare gives an entry its time, and makes its texts short and valid.
func (r *Room) prepare(e *ledger.Entry) {
	if e.Time.IsZero() {
		e.Time = r.cfg.Clock.Now()
	}
	for _, text := range []*string{&e.Principal, &e.Identity, &e.Address, &e.Target, &e.Node, &e.Asked, &e.Detail} {
		if len(*text) > longestText {
			*text = (*text)[:longestText] + "…"
		}
		*text = strings.ToValidUTF8(*text, "�")
	}
}

// tryLedger is what to do where entries can't be recorded.
const tryLedger = "see gpuwhy's log, and check the space and the permissions of the state directory, or the database"

// write writes an entry to the ledger.
func (r *Room) write(ctx context.Context, e *ledger.Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Deadline)
	defer cancel()
	written := make(chan error, 1) // a disk may hang longer than the ledger says
	copied := *e
	go func() { written <- r.cfg.Ledger.Append(ctx, &copied) }()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		*e = copied
		r.state.Recorded++
		r.last = e.Time
		if r.err != nil {
			r.err = nil
			r.log.Info("entries can be recorded again")
		}
		return nil
	}
	r.state.Failed++
	why := &gpu.Advice{What: "the record of who does what can't be written", Try: tryLedger, Err: err}
	if errors.Is(err, context.DeadlineExceeded) {
		why.What = fmt.Sprintf("the record of who does what could not be written within %v", r.cfg.Deadline)
	} else if a, ok := errors.AsType[*gpu.Advice](err); ok {
		why.What, why.Try = why.What+": "+a.What, a.Try
	}
	if r.err == nil {
		r.since = r.cfg.Clock.Now()
		r.log.Error("entries can't be recorded: actions are refused until they can", "err", err)
		r.waiting = append(r.waiting, late{entry: r.gap(err)}) // whose success says that the ledger takes entries again
	}
	r.err = why
	r.wake()
	return why
}

// gap is the entry that says since when nothing could be recorded.
func (r *Room) gap(err error) *ledger.Entry {
	e := NewEntry("record", &auth.Principal{Name: program}, failed)
	e.Detail = err.Error()
	r.prepare(e)
	return e
}

// program is the name of the principal for what gpuwhy does itself.
const program = "gpuwhy"

// again is the time between two attempts while the ledger does not answer, and daily that between two looks for old entries.
const again, daily = time.Second, 24 * time.Hour

// Run records what waits, and removes entries that are older than wanted, until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	if r.system != nil {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			r.system.run(stop)
		}()
		defer func() {
			close(stop)
			late := time.NewTimer(ledger.DefaultDeadline)
			defer late.Stop()
			select {
			case <-stopped:
			case <-late.C: // the system log hangs, and nothing ends that
			}
		}()
	}
	r.settings()
	r.prune(ctx)
	old := time.NewTicker(daily)
	defer old.Stop()
	var retry, counted <-chan time.Time
	for more, counting := r.more, r.counting; ; {
		select {
		case <-ctx.Done():
			r.sum()
			r.catchUp(context.WithoutCancel(ctx)) // the last chance
			return nil
		case <-old.C:
			r.prune(ctx)
			continue
		case <-counting:
			counting, counted = nil, time.After(countsFor)
			continue
		case <-counted:
			counting, counted = r.counting, nil
			r.sum()
			continue
		case <-more:
		case <-retry:
		}
		more, retry = r.more, nil
		if !r.catchUp(ctx) { // until then, nothing is tried
			more, retry = nil, time.After(again)
		}
	}
}

// catchUp records what waits, and reports whether it could.
func (r *Room) catchUp(ctx context.Context) bool {
	for {
		r.mu.Lock()
		var next late
		if len(r.waiting) > 0 {
			next = r.waiting[0]
		}
		r.mu.Unlock()
		if next.entry == nil {
			return true
		}
		if next.began != nil {
			next.entry.Of = next.began.Number
		}
		if err := r.write(ctx, next.entry); err != nil {
			return false
		}
		r.mu.Lock()
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
	}
}

// prune removes entries that are older than wanted. The hash of the last one stays as the anchor of the chain.
func (r *Room) prune(ctx context.Context) {
	if r.cfg.Keep <= 0 {
		return
	}
	if err := r.cfg.Ledger.Prune(ctx, r.cfg.Clock.Now().Add(-r.cfg.Keep)); err != nil && ctx.Err() == nil {
		r.log.Warn("old entries were not removed", "err", err)
	}
}

// State says how the recording does.
func (r *Room) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Waiting = len(r.waiting)
	return s
}

// Health is whether entries can be recorded.
func (r *Room) Health() map[string]contract.Part {
	r.mu.Lock()
	defer r.mu.Unlock()
	health := contract.NewPart("ok", r.last)
	switch waiting := len(r.waiting); {
	case r.err != nil && waiting > 0:
		health = health.Failed(&gpu.Advice{What: fmt.Sprintf("%s; entries that wait: %d", r.err.What, waiting), Try: r.err.Try, Err: r.err.Err}, r.since)
	case r.err != nil:
		health = health.Failed(r.err, r.since)
	case r.state.Lost > 0:
		health = health.Failed(&gpu.Advice{
			What: fmt.Sprintf("entries that could not be recorded since gpuwhy started: %d", r.state.Lost), Try: "look for them in gpuwhy's log",
		}, time.Time{})
	case r.system != nil:
		if advice, since := r.system.trouble(); advice != nil {
			health = health.Failed(advice, since)
		}
	}
	return map[string]contract.Part{"audit": health}
}

// Measure fills in how the recording does.
func (r *Room) Measure(self *metrics.Self) {
	self.Parts = append(self.Parts, Metrics.Of(new(r.State())))
}
