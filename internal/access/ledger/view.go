package ledger

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A View is a ledger that answers Get and Named from memory while nothing has changed, so that a request with a session or a token asks
// the database for nothing. What is not there is asked for each time. Its own Apply takes effect at once.
type View struct {
	Ledger
	every time.Duration

	changes chan struct{} // has room for one
	asking  chan struct{} // has room for one, who asks for the revision

	mu       sync.Mutex
	items    map[key]*Item
	names    map[key]string // their IDs
	reads    int            // counts what makes answers that are under way too old to be kept
	revision int64
	looked   time.Time // when the question for the revision began
	failed   time.Time // when it failed last
	failure  error
	trouble  Trouble
}

type key struct{ kind, id string }

// Trouble is whether a ledger answers.
type Trouble struct {
	Err      error     // why it does not; nil: it does
	Since    time.Time // when that began
	Answered time.Time // when it answered last; zero: never
}

const (
	// Often is how often a ledger that others share is asked whether they have changed it.
	Often = 400 * time.Millisecond
	// mostItems is how many items are in memory. A visitor can't add any.
	mostItems = 10_000
)

// Cached returns a view of a ledger. every is how old its answers may be, if other programs change the ledger, such as [Often]; 0: none
// does. A view of a view is the same view.
func Cached(l Ledger, every time.Duration) *View {
	if v, is := l.(*View); is {
		return v
	}
	return &View{
		Ledger: l, every: every, changes: make(chan struct{}, 1), asking: make(chan struct{}, 1), items: map[key]*Item{}, names: map[key]string{}, revision: -1,
	}
}

// Changed has a value after items have changed, or may have, as far as the view knows: see [View.Look].
func (v *View) Changed() <-chan struct{} { return v.changes }

// Shared reports whether other programs may change the ledger.
func (v *View) Shared() bool { return v.every > 0 }

// Trouble says whether the ledger answered the last call.
func (v *View) Trouble() Trouble {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.trouble
}

// told keeps what a call says of the ledger.
func (v *View) told(err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	switch {
	case errors.Is(err, ErrGone):
		if v.trouble.Err == nil {
			v.trouble.Since = now
		}
		v.trouble.Err = err
	case err == nil || errors.Is(err, ErrConflict):
		v.trouble = Trouble{Answered: now}
	}
	return err
}

func (v *View) tell() {
	select {
	case v.changes <- struct{}{}:
	default: // it is known already
	}
}

// forget drops what is in memory: some, or with no keys all of it.
func (v *View) forget(kept ...key) {
	v.reads++
	if kept == nil {
		clear(v.items)
		clear(v.names)
		return
	}
	for _, k := range kept {
		delete(v.items, k)
	}
}

// Look asks whether other programs have changed the ledger, if it was not asked lately. A view that can't know that answers nothing from
// memory: it returns the error.
func (v *View) Look(ctx context.Context) error {
	if v.every == 0 {
		return nil
	}
	if known, err := v.recent(); known {
		return err
	}
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if known, err := v.recent(); known { // somebody else has asked
		return err
	}
	began := time.Now()
	revision, err := v.Ledger.Revision(ctx)
	_ = v.told(err) // it is returned
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		if errors.Is(err, ErrGone) {
			v.failed, v.failure = time.Now(), err
		}
		return err
	}
	v.looked, v.failure = began, nil
	if revision != v.revision {
		v.forget()
		if v.revision >= 0 {
			v.tell()
		}
		v.revision = revision
	}
	return nil
}

// recent reports whether the last question for the revision is new enough, and how it ended.
func (v *View) recent() (known bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.failure != nil:
		return time.Since(v.failed) < v.every, v.failure
	default:
		return !v.looked.IsZero() && time.Since(v.looked) < v.every, nil
	}
}

// Get implements [Ledger].
func (v *View) Get(ctx context.Context, kind, id string) (*Item, error) {
	return v.one(ctx, key{kind, id}, func() (*Item, error) { return v.Ledger.Get(ctx, kind, id) })
}

// Named implements [Ledger].
func (v *View) Named(ctx context.Context, kind, name string) (*Item, error) {
	v.mu.Lock()
	id, known := v.names[key{kind, name}]
	v.mu.Unlock()
	if known {
		it, err := v.Get(ctx, kind, id)
		if err != nil || it != nil && it.Name == name {
			return it, err
		}
	}
	return v.one(ctx, key{}, func() (*Item, error) { return v.Ledger.Named(ctx, kind, name) })
}

// one returns an item from memory, or else asks for it.
func (v *View) one(ctx context.Context, k key, ask func() (*Item, error)) (*Item, error) {
	if err := v.Look(ctx); err != nil {
		return nil, err
	}
	v.mu.Lock()
	it := v.items[k]
	reads := v.reads
	v.mu.Unlock()
	if it != nil && (it.Expires.IsZero() || it.Expires.After(time.Now())) {
		copied := *it
		return &copied, nil
	}
	it, err := ask()
	if v.told(err) != nil || it == nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if reads == v.reads {
		if len(v.items) >= mostItems {
			clear(v.items)
			clear(v.names)
		}
		kept := *it
		v.items[key{it.Kind, it.ID}] = &kept
		if it.Name != "" {
			v.names[key{it.Kind, it.Name}] = it.ID
		}
	}
	return it, nil
}

// List implements [Ledger].
func (v *View) List(ctx context.Context, kind, owner string) ([]Item, error) {
	found, err := v.Ledger.List(ctx, kind, owner)
	return found, v.told(err)
}

// Apply implements [Ledger].
func (v *View) Apply(ctx context.Context, changes ...Change) error {
	err := v.told(v.Ledger.Apply(ctx, changes...))
	quiet, cascades := true, false
	changed := make([]key, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		changed = append(changed, key{c.Kind, c.ID})
		quiet, cascades = quiet && (c.Quiet || c.Was == 0 && !c.Remove), cascades || c.Remove
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range changes { // what a new item takes the place of has expired, and what it owned goes with it
		c := &changes[i]
		_, sameName := v.names[key{c.Kind, c.Name}]
		cascades = cascades || c.Was == 0 && (v.items[key{c.Kind, c.ID}] != nil || sameName)
	}
	if cascades {
		changed = nil
	}
	v.forget(changed...)
	if !quiet && !errors.Is(err, ErrConflict) { // after another error they may have been made
		v.tell()
	}
	return err
}

// Revision implements [Ledger].
func (v *View) Revision(ctx context.Context) (int64, error) {
	n, err := v.Ledger.Revision(ctx)
	return n, v.told(err)
}

// Append implements [Ledger].
func (v *View) Append(ctx context.Context, e *Entry) error { return v.told(v.Ledger.Append(ctx, e)) }

// Entries implements [Ledger].
func (v *View) Entries(ctx context.Context, q Query) ([]Entry, error) {
	found, err := v.Ledger.Entries(ctx, q)
	return found, v.told(err)
}

// Prune implements [Ledger].
func (v *View) Prune(ctx context.Context, before time.Time) error {
	err := v.told(v.Ledger.Prune(ctx, before))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget() // what expired items own goes with them
	return err
}

// Verify implements [Ledger].
func (v *View) Verify(ctx context.Context) (Chain, error) {
	c, err := v.Ledger.Verify(ctx)
	return c, v.told(err)
}
