package record

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	// delay is how long something waits for more before it is written: what a program that is killed loses.
	delay = 4 * time.Second
	// rowsAtOnce and framesAtOnce are how many readings and snapshots are in one batch at most.
	rowsAtOnce, framesAtOnce = 500, 32
	// The pause after a failure doubles with each.
	firstPause, longestPause = time.Second, time.Minute
	// atMost is how long a store has for one batch, and longAgo when one that has not answered counts as failing.
	atMost, longAgo = 30 * time.Second, 10 * time.Second
	// goodbye is how long writing may take at the end.
	goodbye = 2 * time.Second
	// Each minute some parts of the expired data are deleted, but not while the clock may be wrong.
	forgetEvery, forgetParts, mistrust = time.Minute, 10, time.Hour
	// A clock that is so far after all that the store has may be wrong, too, such as one that is not set yet after a start. It
	// is believed after some time in which nobody has set it.
	farAhead, believed = 3 * 24 * time.Hour, 6 * time.Hour
)

// State describes how writing is going.
type State struct {
	Written time.Time // last, without an error; zero: never
	Err     error     // of the last try
	Since   time.Time // when it began to fail
	Waiting Counts    // to be written
	Bytes   int       // that these hold, about
	Dropped Counts    // since the program began: never written, since there was no room for more to wait
	// Since the program began, too: what was written, in how many batches, and how often that failed.
	Rows              Counts
	Batches, Failures uint64
}

// State returns how the writing does now.
func (r *Recorder) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	s.Waiting, s.Bytes, s.Dropped = r.out.counts(), r.out.held()+r.out.away, r.out.dropped
	if s.Err == nil && !r.writing.IsZero() && time.Since(r.writing) > longAgo {
		s.Err, s.Since = store.ErrSlow, r.writing
	}
	return s
}

// Run writes until ctx ends, and then what waits, for two seconds at most.
func (r *Recorder) Run(ctx context.Context) {
	r.announce(kindStarted)
	w := &writer{Recorder: r, began: time.Now()}
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	due, soon, fails := time.After(0), r.soon, 0
	for {
		select {
		case <-ctx.Done():
			w.end(context.WithoutCancel(ctx))
			return
		case <-forget.C:
			w.forget(ctx)
			continue
		case <-soon:
			soon, due = nil, time.After(delay)
			continue
		case <-due:
		}
		if err := w.writeAll(ctx); err == nil {
			due, soon, fails = nil, r.soon, 0
		} else {
			due = time.After(min(firstPause<<min(fails, 10), longestPause))
			fails++
		}
	}
}

// announce keeps that gpuwhy began, or ends.
func (r *Recorder) announce(kind string) {
	for _, node := range r.cfg.Nodes {
		r.AddEvent(program(node, r.cfg.Version, kind, time.Now()))
	}
}

// A writer is the goroutine of a Recorder that knows the store.
type writer struct {
	*Recorder
	began  time.Time
	caller store.Caller
	values []store.Value // for the next batch
	// unforgotten is whether forgetting failed last.
	unforgotten bool
}

// call calls the store. A call that hangs keeps what it was given.
func (w *writer) call(ctx context.Context, f func(context.Context) error) error {
	err := w.caller.Call(ctx, atMost, f)
	if errors.Is(err, store.ErrSlow) {
		w.values = nil
	}
	return err
}

// writeAll writes all that waits.
func (w *writer) writeAll(ctx context.Context) error {
	w.begin(time.Now())
	err := w.tryAll(ctx)
	w.begin(time.Time{})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.note(err)
	return err
}

func (w *writer) begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = now
}

func (w *writer) tryAll(ctx context.Context) error {
	if w.earlier == nil { // this goroutine alone sets it
		if err := w.load(ctx); err != nil {
			return err
		}
	}
	for {
		done, err := w.writeSome(ctx)
		if err != nil || done {
			return err
		}
		w.begin(time.Now())
	}
}

// writeSome writes one batch. When no reading waits any more, it makes the rows of spans that need what the store has: those of
// six hours once it has all that these are made of.
func (w *writer) writeSome(ctx context.Context) (done bool, err error) {
	w.mu.Lock()
	if w.out.empty() {
		w.mu.Unlock()
		return true, nil
	}
	part := w.out.take(rowsAtOnce, framesAtOnce)
	var spans []store.Bucket
	if len(w.out.rows) == 0 {
		all := slices.Collect(maps.Keys(w.out.remakes))
		spans = slices.DeleteFunc(slices.Clone(all), func(b store.Bucket) bool { return b.Tier == store.SixHours })
		if len(spans) == 0 {
			spans = all
		}
	}
	w.mu.Unlock()
	if !part.empty() {
		var batch store.Batch
		batch, w.values = part.batch(w.values)
		err = w.call(ctx, func(ctx context.Context) error { return w.cfg.Store.Write(ctx, &batch) })
	}
	w.mu.Lock()
	switch {
	case err != nil:
		w.out.putBack(part)
	case !part.empty():
		w.state.Rows = w.state.Rows.plus(part.counts())
		w.state.Batches++
		w.out.wrote(part)
	}
	w.out.away = 0
	w.mu.Unlock()
	for _, b := range spans {
		if err == nil {
			err = w.remake(ctx, b)
		}
	}
	return false, err
}

// remake makes the row of a span of the store's readings.
func (w *writer) remake(ctx context.Context, b store.Bucket) error {
	var made *store.Row
	err := w.call(ctx, func(ctx context.Context) (err error) {
		made, err = remake(ctx, w.cfg.Store, b)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.out.remakes, b)
	switch {
	case w.goesOn(b): // it is made again when it ends
	case made != nil:
		w.out.span(*made, b)
	default:
		w.out.buckets[b] = true
	}
	return nil
}

// goesOn reports whether a span may get more readings.
func (r *Recorder) goesOn(b store.Bucket) bool {
	n := r.nodes[b.Node]
	if n == nil {
		return false
	}
	if d := n.devices[b.UUID]; d != nil {
		for i, s := range d.spans {
			if s != nil && tiers[i] == b.Tier && s.begin.Equal(b.Time) {
				return true
			}
		}
	}
	return n.later[b]
}

// note logs when writing begins to fail, and when it is well again.
func (r *Recorder) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := r.state.Err != nil
	if err != nil {
		r.state.Failures++
	}
	switch now := time.Now(); {
	case err == nil:
		r.state.Written, r.state.Err, r.state.Since, r.told = now, nil, time.Time{}, false
		if failed {
			r.log.Info("history can be written again", "lost", r.out.dropped.String())
		}
	case failed:
		r.state.Err = err
	default:
		r.state.Err, r.state.Since = err, now
		r.log.Warn("history can't be written; it waits", "err", err)
	}
}

// end writes what waits for the last time.
func (w *writer) end(ctx context.Context) {
	w.announce(kindStopped)
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	if err := w.writeAll(ctx); err != nil {
		w.log.Warn("the end of the history is lost", "lost", w.State().Waiting.String(), "err", err)
	}
}

// trusted reports whether the clock seems right: deleted data can't be restored. The caller holds w.mu.
func (w *writer) trusted() bool {
	switch {
	case w.earlier == nil, !w.set.IsZero() && time.Since(w.set) <= mistrust:
		return false
	case !w.earlier.farAhead():
		return true
	}
	return time.Since(w.began) > believed && (w.set.IsZero() || time.Since(w.set) > believed)
}

// farAhead reports whether the clock is far after all that the store had when this run began.
func (e *earlier) farAhead() bool { return !e.last.IsZero() && time.Since(e.last) > farAhead }

// forget makes the store delete some parts of its expired data.
func (w *writer) forget(ctx context.Context) {
	w.mu.Lock()
	trusted, told := w.trusted(), w.state.Err != nil
	w.mu.Unlock()
	if trusted && w.earlier.doubted {
		err := w.call(ctx, func(ctx context.Context) error {
			return w.cfg.Store.Write(ctx, &store.Batch{Documents: map[string][]byte{doubted: nil}})
		})
		w.earlier.doubted = err != nil // else it is tried again
	}
	for range forgetParts {
		if !trusted || ctx.Err() != nil {
			return
		}
		var more bool
		err := w.call(ctx, func(ctx context.Context) (err error) {
			more, err = w.cfg.Store.Forget(ctx, w.cfg.Retention, time.Now())
			return err
		})
		switch failed := err != nil && !errors.Is(err, context.Canceled); {
		case failed && !w.unforgotten && !told: // a full disk can be why, and forgetting can help
			w.log.Warn("old history can't be deleted for now", "err", err)
			w.unforgotten = true
		case err == nil && w.unforgotten:
			w.log.Info("old history can be deleted again")
			w.unforgotten = false
		}
		trusted = err == nil && more
	}
}
