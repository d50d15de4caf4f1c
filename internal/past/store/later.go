package store

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Later is a store that is opened when it is first used, and tried again when that fails: a disk that is full or a server
// that is away keeps nobody from starting. Until it is open, all its methods return why it is not.
//
// A store may hang: a disk whose server is gone answers nothing, not even that it fails. Questions return [ErrSlow] then,
// within 24 s. What changes the store waits for it, once it is open.
type Later struct {
	// Open opens the store; it is not called twice at the same time. Its context ends when it returns, or with Close.
	Open func(context.Context) (Store, error)

	mu      sync.Mutex
	open    Store
	err     error
	tried   time.Time     // when opening failed last
	opening chan struct{} // closed when the try ends that is under way; nil: there is none
	began   time.Time     // that try
	cancel  context.CancelFunc
	closed  bool

	asking   atomic.Int64 // questions that the store has not answered
	changing atomic.Int64 // changes that it has not made
}

const (
	// again is how long a store that could not be opened is left alone.
	again = 5 * time.Second
	// toOpen and toClose are how long somebody waits for that, and ofAStep how long for each answer, up to twice: a server
	// that is away is said to be so by its own store, after 10 s.
	toOpen, toClose, ofAStep = 5 * time.Second, 2 * time.Second, 12 * time.Second
	// toLeave is in place of toClose where a change is under way that its caller has given up: such a store hangs.
	toLeave = 500 * time.Millisecond
	// mostAsked is how many questions may wait for the store. Each holds a thread while a disk hangs.
	mostAsked = 64
)

// ErrSlow is the error of a store that does not answer. It is an [ErrGone], too.
var ErrSlow error = slow("the history database is not answering", TrySlow)

// TrySlow is what a person can do about a disk or a server that does not answer.
const TrySlow = "check the disk or server it is on; if a backup has frozen the file system, thaw it (fsfreeze -u); gpuwhy then continues by itself"

var (
	errBusy = &gpu.Advice{
		What: "the history database has too many queries to answer", Try: "try again later, or ask for less at once", Err: ErrBusy,
	}
	errClosed = &gpu.Advice{What: "the history database is closed", Try: "start gpuwhy again", Err: ErrGone}
)

func slow(what, try string) *gpu.Advice { return &gpu.Advice{What: what, Try: try, Err: ErrGone} }

// get returns the store, which is opened if it is not.
func (l *Later) get(ctx context.Context) (Store, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errClosed
	}
	if l.open != nil || l.opening == nil && !l.tried.IsZero() && time.Since(l.tried) < again {
		defer l.mu.Unlock()
		return l.open, l.err
	}
	if l.opening == nil {
		l.opening, l.began = make(chan struct{}), time.Now()
		opening, cancel := context.WithCancel(context.Background())
		l.cancel = cancel
		go l.tryOpen(opening, l.opening)
	}
	ended, late := l.opening, time.NewTimer(toOpen-time.Since(l.began))
	l.mu.Unlock()
	defer late.Stop()
	select {
	case <-ended:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return nil, errClosed
		}
		return l.open, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late.C:
		return nil, ErrSlow
	}
}

// tryOpen opens the store. What opens after Close is closed at once.
func (l *Later) tryOpen(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	s, err := l.Open(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening = nil
	l.cancel()
	switch {
	case err != nil:
		l.err, l.tried = err, time.Now()
	case l.closed:
		go func() { _ = s.Close() }() // nobody hears what it says
	default:
		l.open, l.err = s, nil
	}
}

// A question is one that another goroutine asks the store, so that nobody waits for one that hangs.
type question struct {
	mu        sync.Mutex // held while an answer is used
	using     bool       // by the goroutine that asks
	answers   int
	abandoned bool
	broken    bool // the answer's use did not return: the one who reads panics or exits

	ended    chan struct{}
	panicked any
	whole    bool // it returned
}

// ask lets f ask the open store, and waits while it answers.
func (l *Later) ask(ctx context.Context, f func(Store, *question)) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	if l.asking.Add(1) > mostAsked {
		l.asking.Add(-1)
		return errBusy
	}
	q := &question{ended: make(chan struct{})}
	go func() {
		defer l.asking.Add(-1)
		defer q.end()
		f(s, q)
		q.whole = true
	}()
	return q.await(ctx)
}

// end is the end of the goroutine that asks.
func (q *question) end() {
	if !q.whole {
		q.panicked = recover()
	}
	if q.using {
		q.broken = true
		q.used()
	}
	close(q.ended)
}

// use reports whether somebody still waits for an answer. Until used is called, nobody leaves.
func (q *question) use() bool {
	q.mu.Lock()
	if q.abandoned {
		q.mu.Unlock()
		return false
	}
	q.answers++
	q.using = true
	return true
}

func (q *question) used() {
	q.using = false
	q.mu.Unlock()
}

// await waits for the end, as long as there are answers.
func (q *question) await(ctx context.Context) error {
	ticks := time.NewTicker(ofAStep)
	defer ticks.Stop()
	for seen := 0; ; {
		select {
		case <-q.ended:
			return q.finish()
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.broken { // that goes before the end of its context, which comes with it when a client leaves
				return q.finish()
			}
			q.abandoned = true
			return context.Cause(ctx)
		case <-ticks.C:
		}
		if !q.mu.TryLock() {
			continue // the answers are used slowly
		}
		q.abandoned = q.answers == seen && !q.broken
		seen = q.answers
		q.mu.Unlock()
		if q.abandoned {
			return ErrSlow
		}
	}
}

// finish ends this goroutine as the one that asked has ended.
func (q *question) finish() error {
	switch {
	case q.panicked != nil:
		panic(q.panicked)
	case !q.whole:
		runtime.Goexit()
	}
	return nil
}

// streamed yields what the open store does.
func streamed[T any](ctx context.Context, l *Later, read func(Store) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		more := true
		err := l.ask(ctx, func(s Store, q *question) {
			for v, err := range read(s) {
				if !q.use() {
					return
				}
				more = yield(v, err)
				if q.used(); !more {
					return
				}
			}
		})
		if err != nil && more {
			yield(*new(T), err)
		}
	}
}

// asked returns what the open store says.
func asked[T any](ctx context.Context, l *Later, read func(Store) (T, error)) (answer T, _ error) {
	var said error
	err := l.ask(ctx, func(s Store, q *question) {
		v, err := read(s)
		if q.use() {
			answer, said = v, err
			q.used()
		}
	})
	if err != nil {
		return *new(T), err
	}
	return answer, said
}

// changed returns what a change of the open store returns. It takes as long as the store does.
func changed[T any](ctx context.Context, l *Later, change func(Store) (T, error)) (T, error) {
	s, err := l.get(ctx)
	if err != nil {
		return *new(T), err
	}
	l.changing.Add(1)
	defer l.changing.Add(-1)
	return change(s)
}

func (l *Later) change(ctx context.Context, f func(Store) error) error {
	_, err := changed(ctx, l, func(s Store) (struct{}, error) { return struct{}{}, f(s) })
	return err
}

// The methods are those of [Store].

// Write writes a batch.
func (l *Later) Write(ctx context.Context, b *Batch) error {
	return l.change(ctx, func(s Store) error { return s.Write(ctx, b) })
}

// Devices returns all devices.
func (l *Later) Devices(ctx context.Context) ([]Device, error) {
	return asked(ctx, l, func(s Store) ([]Device, error) { return s.Devices(ctx) })
}

// Rows yields readings.
func (l *Later) Rows(ctx context.Context, q Query) iter.Seq2[Row, error] {
	return streamed(ctx, l, func(s Store) iter.Seq2[Row, error] { return s.Rows(ctx, q) })
}

// Frames yields snapshots.
func (l *Later) Frames(ctx context.Context, q Query) iter.Seq2[Frame, error] {
	return streamed(ctx, l, func(s Store) iter.Seq2[Frame, error] { return s.Frames(ctx, q) })
}

// Sessions yields sessions.
func (l *Later) Sessions(ctx context.Context, q Query) iter.Seq2[Session, error] {
	return streamed(ctx, l, func(s Store) iter.Seq2[Session, error] { return s.Sessions(ctx, q) })
}

// Causes yields causes.
func (l *Later) Causes(ctx context.Context, q Query) iter.Seq2[Cause, error] {
	return streamed(ctx, l, func(s Store) iter.Seq2[Cause, error] { return s.Causes(ctx, q) })
}

// Events yields events.
func (l *Later) Events(ctx context.Context, q Query) iter.Seq2[Event, error] {
	return streamed(ctx, l, func(s Store) iter.Seq2[Event, error] { return s.Events(ctx, q) })
}

// Document returns small state.
func (l *Later) Document(ctx context.Context, name string) ([]byte, error) {
	return asked(ctx, l, func(s Store) ([]byte, error) { return s.Document(ctx, name) })
}

// Unsettled returns spans without a row.
func (l *Later) Unsettled(ctx context.Context, tier Tier, before time.Time) ([]Bucket, error) {
	return asked(ctx, l, func(s Store) ([]Bucket, error) { return s.Unsettled(ctx, tier, before) })
}

// Forget removes what is too old.
func (l *Later) Forget(ctx context.Context, r Retention, now time.Time) (bool, error) {
	return changed(ctx, l, func(s Store) (bool, error) { return s.Forget(ctx, r, now) })
}

// Size says how much there is.
func (l *Later) Size(ctx context.Context) (Size, error) {
	return asked(ctx, l, func(s Store) (Size, error) { return s.Size(ctx) })
}

// Check waits for the store: looking at all of it can take long.
func (l *Later) Check(ctx context.Context) error {
	return l.change(ctx, func(s Store) error { return s.Check(ctx) })
}

// Compact gives room back.
func (l *Later) Compact(ctx context.Context) error {
	return l.change(ctx, func(s Store) error { return s.Compact(ctx) })
}

// Close closes the store, if it was opened. It leaves one that does not answer.
func (l *Later) Close() error {
	l.mu.Lock()
	s, opening := l.open, l.opening
	l.open, l.closed = nil, true
	if opening != nil {
		l.cancel()
	}
	l.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		if opening != nil {
			<-opening
		}
		if s == nil {
			ended <- nil
			return
		}
		ended <- s.Close()
	}()
	span := toClose
	if l.changing.Load() > 0 {
		span = toLeave
	}
	late := time.NewTimer(span)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return ErrSlow
	}
}
