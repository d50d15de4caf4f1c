package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Carrier brings calls to another process, where an [Opened] does them.
type Carrier interface {
	// Call does what a method names, and returns an error only if the call does not get there, or does not come back before ctx ends.
	Call(ctx context.Context, method string, args []byte) (answer []byte, err error)
	Close() error
}

// Apart returns a ledger whose calls a carrier brings to another process. Both processes run the same program.
func Apart(c Carrier) Ledger { return &apart{c} }

type apart struct{ Carrier }

// question has the arguments of a call.
type question struct {
	Kind    string
	ID      string // or a name, or an owner
	Changes []Change
	Entry   *Entry
	Query   *Query
	Time    time.Time
}

// reply is the answer to a call.
type reply struct {
	Item    *Item
	Items   []Item
	Number  int64
	Entries []hashed
	Chain   Chain
	Fault   *fault
}

// hashed is an entry with its hash.
type hashed struct {
	Entry
	Hash string
}

// A fault is an error between processes.
type fault struct {
	Conflict, Gone, Canceled bool
	Broken                   int64 // the number of the entry
	What, Try                string
	Text                     string
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Conflict: errors.Is(err, ErrConflict), Gone: errors.Is(err, ErrGone), Canceled: errors.Is(err, context.Canceled), Text: err.Error()}
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		f.Broken = broken.Number
	}
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		f.What, f.Try, f.Text = advice.What, advice.Try, ""
		if advice.Err != nil {
			f.Text = advice.Err.Error()
		}
	}
	return f
}

// err is the error that was sent.
func (f *fault) err() error {
	switch {
	case f == nil:
		return nil
	case f.Conflict:
		return ErrConflict
	case f.Broken > 0:
		return &BrokenError{f.Broken, f.Text}
	case f.Canceled && !f.Gone:
		return context.Canceled
	}
	var err error
	switch {
	case f.Gone:
		err = &gone{errors.New(f.Text)}
	case f.Text != "":
		err = errors.New(f.Text)
	}
	if f.What != "" {
		return &gpu.Advice{What: f.What, Try: f.Try, Err: err}
	}
	return err
}

// The methods, as processes name them.
const (
	get      = "get"
	named    = "named"
	list     = "list"
	apply    = "apply"
	revision = "revision"
	appended = "append"
	entries  = "entries"
	prune    = "prune"
	verify   = "verify"
)

// Opened does the calls that [Apart] sends. It opens the ledger for the first one, and again if that fails.
type Opened struct {
	Open func(context.Context) (Ledger, error)

	mu   sync.Mutex
	open Ledger
}

var _ Carrier = (*Opened)(nil)

// ledger returns the open ledger.
func (o *Opened) ledger(ctx context.Context) (Ledger, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		return o.open, nil
	}
	l, err := o.Open(ctx)
	if err == nil {
		o.open = l
	}
	return l, err
}

// Call does a call.
func (o *Opened) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(args, &q); err != nil {
		return nil, fmt.Errorf("a call of the ledger can't be read: %w", err)
	}
	var r reply
	l, err := o.ledger(ctx)
	if err == nil {
		err = r.fill(ctx, l, method, &q)
	}
	r.Fault = faultOf(err)
	return json.Marshal(&r)
}

// Close closes the ledger if it is open. The next call opens it again.
func (o *Opened) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.open
	if o.open = nil; l == nil {
		return nil
	}
	return l.Close()
}

// fill does a call, and takes what comes of it.
func (r *reply) fill(ctx context.Context, l Ledger, method string, q *question) (err error) {
	switch method {
	case get:
		r.Item, err = l.Get(ctx, q.Kind, q.ID)
	case named:
		r.Item, err = l.Named(ctx, q.Kind, q.ID)
	case list:
		r.Items, err = l.List(ctx, q.Kind, q.ID)
	case apply:
		err = l.Apply(ctx, q.Changes...)
	case revision:
		r.Number, err = l.Revision(ctx)
	case appended:
		if err = l.Append(ctx, q.Entry); err == nil {
			r.Entries = []hashed{{Entry{Number: q.Entry.Number, Time: q.Entry.Time}, q.Entry.Hash}}
		}
	case entries:
		var found []Entry
		found, err = l.Entries(ctx, *q.Query)
		for i := range found {
			r.Entries = append(r.Entries, hashed{found[i], found[i].Hash})
		}
	case prune:
		err = l.Prune(ctx, q.Time)
	case verify:
		r.Chain, err = l.Verify(ctx)
	default:
		err = fmt.Errorf("the ledger has no call %q", method)
	}
	return err
}

func (a *apart) ask(ctx context.Context, method string, q *question) (r reply, err error) {
	args, err := json.Marshal(q)
	if err != nil {
		return r, &notStored{err}
	}
	answer, err := a.Call(ctx, method, args)
	if err == nil {
		if err = json.Unmarshal(answer, &r); err == nil {
			return r, r.Fault.err()
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return r, err
	case errors.Is(err, context.DeadlineExceeded):
		return r, errSlow
	}
	advice := gpu.AsAdvice(err)
	if advice.Err == nil {
		advice.Err = ErrGone
	}
	return r, &gpu.Advice{What: "the ledger of accounts can't be reached: " + advice.What, Try: advice.Try, Err: &gone{advice.Err}}
}

// Get implements [Ledger].
func (a *apart) Get(ctx context.Context, kind, id string) (*Item, error) {
	return a.one(ctx, get, kind, id)
}

// Named implements [Ledger].
func (a *apart) Named(ctx context.Context, kind, name string) (*Item, error) {
	return a.one(ctx, named, kind, name)
}

func (a *apart) one(ctx context.Context, method, kind, id string) (*Item, error) {
	if !storable(id) { // JSON would have another text in its place
		return nil, nil
	}
	r, err := a.ask(ctx, method, &question{Kind: kind, ID: id})
	return r.Item, err
}

// List implements [Ledger].
func (a *apart) List(ctx context.Context, kind, owner string) ([]Item, error) {
	r, err := a.ask(ctx, list, &question{Kind: kind, ID: owner})
	return r.Items, err
}

// Apply implements [Ledger].
func (a *apart) Apply(ctx context.Context, changes ...Change) error {
	if err := check(changes); err != nil { // JSON would have another text in place of one that can't be
		return err
	}
	_, err := a.ask(ctx, apply, &question{Changes: changes})
	return err
}

// Revision implements [Ledger].
func (a *apart) Revision(ctx context.Context) (int64, error) {
	r, err := a.ask(ctx, revision, &question{})
	return r.Number, err
}

// Append implements [Ledger].
func (a *apart) Append(ctx context.Context, e *Entry) error {
	r, err := a.ask(ctx, appended, &question{Entry: e})
	if err != nil {
		return err
	}
	if len(r.Entries) != 1 {
		return &gone{errors.New("the ledger of accounts does not say what it has added")}
	}
	e.Number, e.Time, e.Hash = r.Entries[0].Number, r.Entries[0].Time, r.Entries[0].Hash
	return nil
}

// Entries implements [Ledger].
func (a *apart) Entries(ctx context.Context, q Query) (found []Entry, err error) {
	r, err := a.ask(ctx, entries, &question{Query: &q})
	for _, h := range r.Entries {
		h.Entry.Hash = h.Hash
		found = append(found, h.Entry)
	}
	return found, err
}

// Prune implements [Ledger].
func (a *apart) Prune(ctx context.Context, before time.Time) error {
	_, err := a.ask(ctx, prune, &question{Time: before})
	return err
}

// Verify implements [Ledger].
func (a *apart) Verify(ctx context.Context) (Chain, error) {
	r, err := a.ask(ctx, verify, &question{})
	return r.Chain, err
}
