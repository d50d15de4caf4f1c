package notify

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alert"
)

const (
	// sendTime is after how long a message that nobody answered counts as
	// failed. It is waited for still: only the one under way may be out.
	sendTime = 30 * time.Second
	// endTime is how long the end of the program waits for a message.
	endTime = time.Second
)

// A settings is what a worker goes by. It does not change.
type settings struct {
	target         Target
	url            Secret
	style          style
	templates      templates
	wait, interval time.Duration
	publicURL      string
}

// A worker tells one target.
type worker struct {
	name string
	log  *slog.Logger
	dial func(Secret) sender
	wake chan struct{} // there is something new to look at
	// changed is the notifier's.
	changed chan<- struct{}

	mu     sync.Mutex
	set    settings
	sender sender
	queue  queue
	state  Status
	begun  time.Time   // the message under way was; zero: none is
	told   dropped     // events that it says were not told
	result chan error  // of the message under way
	silent bool        // it has not been answered in time
	kind   failureKind // that was logged last
	stop   func()      // ends run; nil before
}

type failureKind uint8

const (
	well failureKind = iota
	failing
	refusing
)

func newWorker(s settings, dial func(Secret) sender, changed chan<- struct{}, log *slog.Logger) *worker {
	w := &worker{name: s.target.Name, dial: dial, wake: make(chan struct{}, 1), changed: changed}
	w.log = log.With("target", w.name, "service", s.url.scheme())
	w.put(s)
	return w
}

// put makes a worker go by other settings. With another address it tries at
// once, and does not wait for a message that was sent to the one before.
func (w *worker) put(s settings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sender == nil || s.url != w.set.url {
		w.sender = w.dial(s.url)
		w.queue.retry, w.queue.fails = time.Time{}, 0
		w.landed()
		w.drop(w.queue.abandon(), tooMany)
	}
	w.set = s
	w.signal()
}

func (w *worker) signal() { poke(w.wake) }

// poke says on a channel with room for one that there is something new.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add takes those news that are for this target.
func (w *worker) add(all []news, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	many := 0
	for i := range all {
		switch n := &all[i]; {
		case !n.tell:
			w.queue.forget(n.event.ID)
		case w.wants(n):
			many += w.queue.add(n.event, now)
		}
	}
	w.drop(many, tooMany)
	w.signal()
}

// wants reports whether a target is to be told some news: what its rule and its
// own severity say, and the end of whatever it was told of.
func (w *worker) wants(n *news) bool {
	if n.event.IsOver() && w.queue.expects(n.event.ID) {
		return true
	}
	routed := len(n.targets) == 0 || slices.Contains(n.targets, w.name)
	return routed && alert.Severity(n.event.Severity).Least(w.set.least())
}

func (s *settings) least() alert.Severity {
	if s.target.Severity == "" {
		return alert.Info
	}
	return s.target.Severity
}

// Why events are dropped.
const (
	tooMany = "too many wait"
	tooOld  = "they could not be delivered within a day"
)

func (w *worker) drop(n int, why string) {
	if n > 0 {
		w.state.Dropped += uint64(n)
		w.log.Warn("events were dropped and are not told", "events", n, "why", why)
	}
}

// run sends until ctx ends, and then for a moment what is there.
func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		result, next := w.step(time.Now(), false)
		var at <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			at = timer.C
		}
		select {
		case <-ctx.Done():
			w.finish(result)
			return
		case <-w.wake:
		case <-at:
		case err := <-result:
			w.done(result, err, time.Now())
		}
	}
}

// step begins a message if one is due, and returns where the result of the one
// under way comes from, and when to look again; zero: when something happens.
func (w *worker) step(now time.Time, atOnce bool) (<-chan error, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.result != nil {
		return w.result, w.watch(now)
	}
	wait := w.set.wait
	if atOnce {
		wait = 0
	}
	at, ok := w.queue.due(wait, w.set.interval)
	if !ok {
		return nil, time.Time{}
	}
	if now.Before(at) {
		return nil, at
	}
	w.begin(now)
	return w.result, now.Add(sendTime)
}

// watch looks at a message under way.
func (w *worker) watch(now time.Time) time.Time {
	if late := w.begun.Add(sendTime); now.Before(late) && !w.silent {
		return late
	}
	if !w.silent {
		w.silent = true
		w.failure(&failure{text: "it has not answered for " + sendTime.String() + "; the message may or may not have arrived"}, now)
	}
	return time.Time{}
}

// begin sends a message, on a goroutine of its own: shoutrrr can't be told to
// stop. There is one at a time.
func (w *worker) begin(now time.Time) {
	events := w.queue.take()
	about := circumstances{dropped: w.queue.dropped, publicURL: w.set.publicURL, now: now}
	title, body, err := w.set.templates.write(w.set.style, events, about)
	if err != nil { // on an example it worked
		w.log.Warn("the target's template fails: the default one is used", "err", err)
		title, body, err = templates{}.write(w.set.style, events, about)
	}
	result, sender := make(chan error, 1), w.sender
	w.result, w.begun, w.told = result, now, w.queue.dropped
	if err != nil {
		result <- &failure{text: "no message could be written", permanent: true}
		return
	}
	go func() { result <- sender.send(title, body) }()
}

// landed forgets the message under way.
func (w *worker) landed() {
	w.result, w.begun, w.silent = nil, time.Time{}, false
}

// done notes how the message under way went. The result of one that was given
// up meanwhile is nobody's.
func (w *worker) done(of <-chan error, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.result == of {
		w.land(err, now)
	}
}

func (w *worker) land(err error, now time.Time) {
	silent := w.silent
	w.landed()
	defer poke(w.changed)
	if err == nil {
		w.queue.taken(now, w.told)
		w.state.Sent++
		w.state.LastSuccess, w.state.LastError, w.state.FailingSince = now, "", time.Time{}
		if w.kind != well {
			w.kind = well
			w.log.Info("the target takes messages again")
		}
		return
	}
	f, ok := err.(*failure) //nolint:errorlint // a sender wraps nothing
	if !ok {
		f = &failure{text: "it failed"}
	}
	many, old := w.queue.failed(now, f.permanent)
	if !silent {
		w.failure(f, now)
	}
	w.drop(many, tooMany)
	w.drop(old, tooOld)
}

// failure notes that a message failed, and logs it where that is news.
func (w *worker) failure(f *failure, now time.Time) {
	w.state.Failed++
	w.state.LastFailure, w.state.LastError = now, f.text
	if w.state.FailingSince.IsZero() {
		w.state.FailingSince = now
	}
	kind := failing
	if f.permanent {
		kind = refusing
	}
	if kind != w.kind {
		w.kind = kind
		w.log.Warn("the target does not take messages; they are tried again for a day", "err", f.text, "lasting", f.permanent)
	}
}

// finish gives a message under way, or what waits for others to join it, a
// moment.
func (w *worker) finish(result <-chan error) {
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	if result == nil {
		if result, _ = w.step(time.Now(), true); result == nil {
			return
		}
	}
	select {
	case err := <-result:
		w.done(result, err, time.Now())
	case <-timer.C:
	}
}
