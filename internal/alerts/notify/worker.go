package notify

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	sendTime = 3 * time.Minute  // after which a message that nobody answered has failed
	testTime = 20 * time.Second // the same, while a person waits, for less than a server waits with its answer
	endTime  = time.Second      // for messages at the end of the program
)

// silent is the failure of a target that got a whole message and did not answer in time. It may have accepted the
// message.
func silent(after time.Duration) *failure {
	return &failure{text: "no answer for " + after.String() + "; the message may or may not have arrived", unsure: true}
}

// errCut is the failure of a target that got a whole message but whose answer did not arrive
// completely.
var errCut = &failure{text: "the connection ended before it answered; the message may or may not have arrived", unsure: true}

var errSilent, errUnsure = silent(sendTime), silent(testTime)

// settings are a worker's configuration. They are immutable.
type settings struct {
	target         Target
	url            Secret
	service        service
	templates      templates
	wait, interval time.Duration
	publicURL      string
}

// A worker sends messages to one target. The notifier's lock guards it.
type worker struct {
	of   *Notifier
	name string
	log  *slog.Logger
	wake chan struct{} // there is something new to look at

	set      settings
	queue    queue
	state    Status
	refusing bool   // the log says that the target refuses permanently
	abort    func() // ends the message under way
	stop     func() // ends run
}

func newWorker(of *Notifier, s settings) *worker {
	log := of.log.With("target", s.target.Name, "service", s.url.scheme())
	return &worker{of: of, name: s.target.Name, log: log, wake: make(chan struct{}, 1), set: s, abort: func() {}, stop: func() {}}
}

// put gives a worker other settings. With another URL it retries at once, and resends a message
// that is being sent to the old one.
func (w *worker) put(s settings) {
	if s.url != w.set.url {
		w.queue.Retry, w.queue.Fails, w.queue.unsure = time.Time{}, 0, false
		w.abort()
	}
	w.set = s
	poke(w.wake)
}

func (w *worker) remove() {
	if n := len(w.queue.Pending); n > 0 {
		w.log.Warn("events will not be sent: the target is no longer configured", "events", n)
	}
	w.queue = queue{}
	w.stop()
}

func (w *worker) status() Status {
	s := w.state
	s.Name, s.Service, s.Severity, s.Queued = w.name, w.set.url.scheme(), w.set.target.least(), len(w.queue.Pending)
	return s
}

// poke puts a value into a channel that has room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *worker) add(all []news, now time.Time) {
	before := w.queue.dropped
	defer func() { w.noteDropped(before) }()
	for i := range all {
		switch n := &all[i]; {
		case n.hushed:
			w.queue.withdraw(n.event.ID)
		case !n.tell:
			w.queue.forget(n.event.ID)
		case w.wants(n):
			w.queue.add(n.event, now)
		}
	}
	poke(w.wake)
}

// wants reports whether this target gets some news: by the rule and the target's severity, or
// because the target knows that the alert began.
func (w *worker) wants(n *news) bool {
	if n.event.IsOver() && w.queue.expects(n.event.ID) {
		return true
	}
	routed := len(n.targets) == 0 || slices.Contains(n.targets, w.name)
	return routed && n.event.rank() >= w.set.target.least().Rank()
}

// noteDropped notes the events that were dropped since then.
func (w *worker) noteDropped(before dropped) {
	for why, n := range map[string]int{
		"too many are waiting":                     w.queue.Crowded - before.Crowded,
		"they could not be delivered within a day": w.queue.Late - before.Late,
	} {
		if n > 0 {
			w.state.Dropped += uint64(n)
			w.log.Warn("events were dropped and will not be sent", "events", n, "why", why)
		}
	}
}

// run sends messages until ctx ends. Then it has endTime to finish the message being sent and to
// send one with the waiting events.
func (w *worker) run(ctx context.Context) {
	sending, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTime, end) })()
	for {
		ended := ctx.Err() != nil
		w.of.mu.Lock()
		wait := w.set.wait
		if ended {
			wait = 0
		}
		next, some := w.queue.due(wait, w.set.interval)
		w.of.mu.Unlock()
		if some && !time.Now().Before(next) && sending.Err() == nil {
			w.deliver(sending)
			continue
		}
		var at <-chan time.Time
		if some {
			at = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			if ended {
				return
			}
		case <-w.wake:
		case <-at:
		}
	}
}

func (w *worker) deliver(ctx context.Context) {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	timed, cancel := context.WithTimeoutCause(ctx, sendTime, errSilent)
	defer cancel()
	w.of.mu.Lock()
	events, told, set := w.queue.take(), w.queue.dropped, w.set
	about := circumstances{dropped: told, publicURL: set.publicURL, now: time.Now()}
	w.abort = abort
	w.of.mu.Unlock()

	title, body, err := set.templates.write(set.service, events, about)
	if err != nil { // it worked on the examples
		w.log.Warn("the target's template failed: using the default one", "err", err)
		title, body, err = templates{}.write(set.service, events, about)
	}
	if w.of.Flush != nil {
		_ = w.of.Flush(timed) // a full disk is no reason to be silent
	}
	if err == nil {
		err = w.of.send(timed, set.url, letter{title, body, urgency(events)})
	}

	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	before := w.queue.dropped
	defer func() { w.noteDropped(before) }()
	if w.set.url != set.url || err != nil && ctx.Err() != nil {
		w.queue.abandon() // the worker ended it
		return
	}
	w.landed(err, told, time.Now())
	w.of.changed()
}

// landed notes the result of a message. It logs when the target begins to fail, refuses differently
// than before, or accepts messages again.
func (w *worker) landed(err error, told dropped, now time.Time) {
	failed := !w.state.FailingSince.IsZero()
	if err == nil {
		w.queue.taken(now, told)
		w.state.Sent++
		w.state.LastSuccess, w.state.LastError, w.state.FailingSince = now, "", time.Time{}
		if failed {
			w.log.Info("the target accepts messages again")
		}
		return
	}
	f, ok := err.(*failure) //nolint:errorlint // a sender wraps nothing
	if !ok {
		f = &failure{text: "sending failed"}
	}
	w.queue.failed(now, f)
	w.state.Failed++
	w.state.LastError = f.text
	if !failed {
		w.state.FailingSince = now
	}
	if !failed || f.permanent != w.refusing {
		w.refusing = f.permanent
		w.log.Warn("the target does not accept messages; gpuwhy retries for a day", "err", f.text, "permanent", f.permanent)
	}
}
