package ledger

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Later is a ledger that is opened when it is first used, and again if that fails: it keeps nobody from starting. Until it is open, its
// methods return why it is not. Each call has a deadline, so that nobody waits for a disk or a server that hangs.
type Later struct {
	// Open opens the ledger. It is not called twice at the same time. Its context ends when it returns, or with Close.
	Open func(context.Context) (Ledger, error)
	// Deadline is how long a call may take; 0: [DefaultDeadline]. Whoever looks at the whole chain has a minute.
	Deadline time.Duration

	mu      sync.Mutex
	open    Ledger
	err     error
	tried   time.Time     // when opening failed last
	opening chan struct{} // closed when the attempt under way ends; nil: there is none
	cancel  context.CancelFunc
	closed  bool
}

// DefaultDeadline is how long a ledger may take to answer.
const DefaultDeadline = 2 * time.Second

const (
	// longDeadline is how long a call may take that reads or removes many entries.
	longDeadline = time.Minute
	// again is how long a ledger that can't be opened is left alone.
	again = 5 * time.Second
)

const trySlow = "check the disk or server; if a backup has frozen the file system, thaw it (fsfreeze -u); gpuwhy then continues by itself"

var (
	errSlow   = &gpu.Advice{What: "the ledger of accounts is not answering", Try: trySlow, Err: ErrGone}
	errClosed = &gpu.Advice{What: "the ledger of accounts is closed", Try: "start gpuwhy again", Err: ErrGone}
)

// opened returns the ledger, which is opened if it is not.
func (l *Later) opened(ctx context.Context) (Ledger, error) {
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
		l.opening = make(chan struct{})
		opening, cancel := context.WithCancel(context.Background())
		l.cancel = cancel
		go l.tryOpen(opening, l.opening)
	}
	ended := l.opening
	l.mu.Unlock()
	select {
	case <-ended:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.closed {
			return nil, errClosed
		}
		return l.open, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tryOpen opens the ledger. What opens after Close is closed at once.
func (l *Later) tryOpen(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	opened, err := l.Open(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening = nil
	l.cancel()
	switch {
	case err != nil:
		l.err, l.tried = err, time.Now()
	case l.closed:
		go func() { _ = opened.Close() }() // nobody hears what it says
	default:
		l.open, l.err = opened, nil
	}
}

// asked returns what the open ledger answers in time.
func asked[T any](ctx context.Context, l *Later, limit time.Duration, ask func(context.Context, Ledger) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	open, err := l.opened(ctx)
	var a answer
	if err == nil {
		answers := make(chan answer, 1)
		go func() {
			value, err := ask(ctx, open)
			answers <- answer{value, err}
		}()
		select {
		case a = <-answers:
			err = a.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrGone) {
		err = errSlow
	}
	if err != nil {
		return *new(T), err
	}
	return a.value, nil
}

func (l *Later) deadline() time.Duration { return cmp.Or(l.Deadline, DefaultDeadline) }

// none is the answer of a call that returns only an error.
type none = struct{}

// Get implements [Ledger].
func (l *Later) Get(ctx context.Context, kind, id string) (*Item, error) {
	return asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) (*Item, error) { return to.Get(ctx, kind, id) })
}

// Named implements [Ledger].
func (l *Later) Named(ctx context.Context, kind, name string) (*Item, error) {
	return asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) (*Item, error) { return to.Named(ctx, kind, name) })
}

// List implements [Ledger].
func (l *Later) List(ctx context.Context, kind, owner string) ([]Item, error) {
	return asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) ([]Item, error) { return to.List(ctx, kind, owner) })
}

// Apply implements [Ledger].
func (l *Later) Apply(ctx context.Context, changes ...Change) error {
	_, err := asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) (none, error) { return none{}, to.Apply(ctx, changes...) })
	return err
}

// Revision implements [Ledger].
func (l *Later) Revision(ctx context.Context) (int64, error) {
	return asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) (int64, error) { return to.Revision(ctx) })
}

// Append implements [Ledger].
func (l *Later) Append(ctx context.Context, e *Entry) error {
	asking := *e // the caller may leave before the answer comes
	added, err := asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) (*Entry, error) { return &asking, to.Append(ctx, &asking) })
	if err == nil {
		e.Number, e.Time, e.Hash = added.Number, added.Time, added.Hash
	}
	return err
}

// Entries implements [Ledger].
func (l *Later) Entries(ctx context.Context, q Query) ([]Entry, error) {
	return asked(ctx, l, l.deadline(), func(ctx context.Context, to Ledger) ([]Entry, error) { return to.Entries(ctx, q) })
}

// Prune implements [Ledger].
func (l *Later) Prune(ctx context.Context, before time.Time) error {
	_, err := asked(ctx, l, longDeadline, func(ctx context.Context, to Ledger) (none, error) { return none{}, to.Prune(ctx, before) })
	return err
}

// Verify implements [Ledger].
func (l *Later) Verify(ctx context.Context) (Chain, error) {
	return asked(ctx, l, longDeadline, func(ctx context.Context, to Ledger) (Chain, error) { return to.Verify(ctx) })
}

// Close closes the ledger if it was opened. It does not wait for one that hangs.
func (l *Later) Close() error {
	l.mu.Lock()
	open := l.open
	l.open, l.closed = nil, true
	if l.opening != nil {
		l.cancel()
	}
	l.mu.Unlock()
	if open == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- open.Close() }()
	late := time.NewTimer(l.deadline())
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return errSlow
	}
}
