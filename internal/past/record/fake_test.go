package record

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A fakeStore keeps everything in memory, as a store does: by keys, in whole milliseconds and with the resolution of columns.
type fakeStore struct {
	mu       sync.Mutex
	devices  map[store.Key]store.Device
	rows     map[rowKey]store.Row
	frames   map[string]store.Frame
	sessions map[store.SessionKey]store.Session
	causes   map[causeKey]store.Cause
	events   map[string]store.Event
	open     map[store.Bucket]bool
	document map[string][]byte

	during  func()          // called while rows are read
	fails   error           // what all calls return
	hangs   chan struct{}   // calls wait for it, whatever their context says
	writes  []time.Time     // when a batch came
	batches []store.Batch   // without rows
	forgot  []time.Time     // when it was asked to forget
	more    bool            // what Forget returns
	asked   store.Retention // to forget

	beside store.Store // gets all, and answers; nil: the fake itself does
}

// store is what a Recorder gets.
func (f *fakeStore) store() store.Store {
	if f.beside != nil {
		return &tee{f.beside, f}
	}
	return f
}

// A tee is a store with a fake beside it.
type tee struct {
	store.Store
	fake *fakeStore
}

func (t *tee) Write(ctx context.Context, b *store.Batch) error {
	if err := t.Store.Write(ctx, b); err != nil {
		return err
	}
	return t.fake.Write(ctx, b)
}

type rowKey struct {
	store.Key
	tier store.Tier
	time time.Time
}

func newFake() *fakeStore {
	return &fakeStore{
		devices: map[store.Key]store.Device{}, rows: map[rowKey]store.Row{}, frames: map[string]store.Frame{},
		sessions: map[store.SessionKey]store.Session{}, causes: map[causeKey]store.Cause{}, events: map[string]store.Event{},
		open: map[store.Bucket]bool{}, document: map[string][]byte{},
	}
}

func (f *fakeStore) enter(ctx context.Context) error {
	f.mu.Lock()
	hangs, fails := f.hangs, f.fails
	f.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return cmp.Or(fails, context.Cause(ctx))
}

func (f *fakeStore) Write(ctx context.Context, b *store.Batch) error {
	f.mu.Lock()
	f.writes = append(f.writes, time.Now())
	f.mu.Unlock()
	if err := f.enter(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range b.Devices {
		d.First, d.Last = f.devices[d.Key()].First, f.devices[d.Key()].Last
		f.devices[d.Key()] = d
	}
	for _, r := range b.Rows {
		columns := store.DeviceColumns
		if r.UUID == "" {
			columns = store.MachineColumns
		}
		r.Values = slices.Clone(r.Values)
		for i := range r.Values {
			v := &r.Values[i]
			for _, value := range []*float64{&v.Least, &v.Mean, &v.Most} {
				*value = math.Round(*value*columns[i].Scale) / columns[i].Scale
			}
		}
		f.rows[rowKey{r.Key, r.Tier, r.Time}] = r
		d := f.devices[r.Key]
		if d.First.IsZero() || r.Time.Before(d.First) {
			d.First = r.Time
		}
		if r.Time.After(d.Last) {
			d.Last = r.Time
		}
		f.devices[r.Key] = d
	}
	for _, x := range b.Frames {
		f.frames[x.Node+x.Time.String()] = x
	}
	for _, s := range b.Sessions {
		f.sessions[s.SessionKey] = s
	}
	for _, c := range b.Causes {
		f.causes[causeKey{causeID{c.Key, c.ID}, c.From}] = c
	}
	for _, e := range b.Events {
		f.events[e.ID] = e
	}
	for name, text := range b.Documents {
		if f.document[name] = text; len(text) == 0 {
			delete(f.document, name)
		}
	}
	for _, x := range b.Unsettled {
		f.open[x] = true
	}
	for _, x := range b.Settled {
		delete(f.open, x)
	}
	f.batches = append(f.batches, *b)
	return nil
}

func (f *fakeStore) Devices(ctx context.Context) ([]store.Device, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.devices)), nil
}

func (f *fakeStore) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	if f.during != nil {
		f.during()
	}
	return query(ctx, f, func() (out []store.Row) {
		for _, r := range f.rows {
			if r.Tier == q.Tier && slices.Contains(q.Keys, r.Key) && !r.Time.Before(q.From) && r.Time.Before(q.To) {
				out = append(out, r)
			}
		}
		slices.SortFunc(out, func(a, b store.Row) int { return a.Time.Compare(b.Time) })
		return out
	})
}

func (f *fakeStore) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	return query(ctx, f, func() (out []store.Session) {
		for _, s := range f.sessions {
			if !q.Open || s.Outcome == store.Open {
				out = append(out, s)
			}
		}
		slices.SortFunc(out, func(a, b store.Session) int { return a.Begin.Compare(b.Begin) })
		return out
	})
}

func (f *fakeStore) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	return query(ctx, f, func() (out []store.Cause) {
		for _, c := range f.causes {
			if !q.Open || c.Open {
				out = append(out, c)
			}
		}
		slices.SortFunc(out, func(a, b store.Cause) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID)) })
		return out
	})
}

func (f *fakeStore) Unsettled(ctx context.Context, tier store.Tier, _ time.Time) ([]store.Bucket, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(f.open)), func(b store.Bucket) bool { return b.Tier != tier }), nil
}

func (f *fakeStore) Forget(ctx context.Context, r store.Retention, now time.Time) (bool, error) {
	if err := f.enter(ctx); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot, f.asked = append(f.forgot, now), r
	return f.more, nil
}

func (f *fakeStore) Document(ctx context.Context, name string) ([]byte, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.document[name], nil
}

func query[T any](ctx context.Context, f *fakeStore, found func() []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := f.enter(ctx); err != nil {
			yield(none, err)
			return
		}
		f.mu.Lock()
		list := found()
		f.mu.Unlock()
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (f *fakeStore) Events(ctx context.Context, q store.Query) iter.Seq2[store.Event, error] {
	return query(ctx, f, func() (out []store.Event) {
		for _, e := range f.events {
			if q.Kinds == nil || slices.Contains(q.Kinds, e.Kind) {
				out = append(out, e)
			}
		}
		slices.SortFunc(out, func(a, b store.Event) int { return a.Time.Compare(b.Time) })
		return out
	})
}

// What a Recorder never asks for.

func (f *fakeStore) Frames(context.Context, store.Query) iter.Seq2[store.Frame, error] {
	panic("asked")
}
func (f *fakeStore) Size(context.Context) (store.Size, error) { panic("asked") }
func (f *fakeStore) Check(context.Context) error              { panic("asked") }
func (f *fakeStore) Compact(context.Context) error            { panic("asked") }
func (f *fakeStore) Close() error                             { panic("closed") }
