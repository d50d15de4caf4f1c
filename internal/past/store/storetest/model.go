package storetest

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Model is a store in memory, as plain as can be: what databases are compared with, and what tests of other packages write to.
type Model struct {
	mu        sync.Mutex
	devices   map[store.Key]store.Device
	rows      map[rowKey]store.Row
	frames    map[frameKey]store.Frame
	sessions  map[store.SessionKey]store.Session
	causes    map[causeKey]store.Cause
	events    map[string]store.Event
	documents map[string][]byte
	unsettled map[store.Bucket]bool
	orders    map[any]int64 // by key
}

type rowKey struct {
	store.Key
	tier store.Tier
	time time.Time
}

type frameKey struct {
	node string
	time time.Time
}

type causeKey struct {
	store.Key
	id    string
	began time.Time
}

// NewModel returns an empty one.
func NewModel() *Model {
	return &Model{
		devices: map[store.Key]store.Device{}, rows: map[rowKey]store.Row{}, frames: map[frameKey]store.Frame{},
		sessions: map[store.SessionKey]store.Session{}, causes: map[causeKey]store.Cause{}, events: map[string]store.Event{},
		documents: map[string][]byte{}, unsettled: map[store.Bucket]bool{}, orders: map[any]int64{},
	}
}

func texts(s ...*string) {
	for _, s := range s {
		*s = store.Text(*s)
	}
}

// older reports whether there is something newer of a key.
func (m *Model) older(key any, order int64) bool {
	if order != 0 && order < m.orders[key] {
		return true
	}
	m.orders[key] = order
	return false
}

// Write keeps a copy of the batch.
func (m *Model) Write(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range b.Renamed {
		m.rename(store.Text(r.From), store.Text(r.To))
	}
	for _, d := range b.Devices {
		order := d.Order
		store.Devices.Clean(&d)
		if m.older(d.Key(), order) {
			continue
		}
		d.First, d.Last = time.Time{}, time.Time{}
		m.devices[d.Key()] = d
	}
	for _, r := range b.Rows {
		r = asKept(r)
		if kept, ok := m.rows[rowKey{r.Key, r.Tier, r.Time}]; ok && b.Delivered && kept.Readings > r.Readings {
			continue
		}
		m.rows[rowKey{r.Key, r.Tier, r.Time}] = r
		m.name(r.Key)
	}
	for _, f := range b.Frames {
		texts(&f.Node)
		f.Time, f.Snapshot = store.Stored(f.Time), bytes.Clone(f.Snapshot)
		m.frames[frameKey{f.Node, f.Time}] = f
		m.name(store.Key{Node: f.Node})
	}
	for _, s := range b.Sessions {
		order := s.Order
		store.Sessions.Clean(&s)
		if m.older(s.SessionKey, order) {
			continue
		}
		m.sessions[s.SessionKey] = s
		m.name(s.Key)
	}
	for _, c := range b.Causes {
		order := c.Order
		store.Causes.Clean(&c)
		if m.older(causeKey{c.Key, c.ID, c.From}, order) {
			continue
		}
		m.causes[causeKey{c.Key, c.ID, c.From}] = c
		m.name(c.Key)
	}
	for _, e := range b.Events {
		store.Events.Clean(&e)
		e.Data = bytes.Clone(e.Data)
		m.events[e.ID] = e
		m.name(e.Key)
	}
	for name, text := range b.Documents {
		if _, there := m.documents[name]; there && name == store.Identity {
			continue
		}
		if len(text) == 0 {
			delete(m.documents, name)
			continue
		}
		m.documents[name] = bytes.Clone(text)
	}
	for _, u := range b.Unsettled {
		m.unsettled[bucket(u)] = true
		m.name(u.Key)
	}
	for _, s := range b.Settled {
		delete(m.unsettled, bucket(s))
	}
	return nil
}

// rename moves the devices of a machine that the other name does not have.
func (m *Model) rename(from, to string) {
	moved := map[store.Key]store.Key{}
	for k := range m.devices {
		next := store.Key{Node: to, UUID: k.UUID}
		if _, both := m.devices[next]; k.Node == from && !both {
			moved[k] = next
		}
	}
	orders := map[any]int64{}
	for key, order := range m.orders {
		switch k := key.(type) {
		case store.Key:
			key = cmp.Or(moved[k], k)
		case store.SessionKey:
			k.Key = cmp.Or(moved[k.Key], k.Key)
			key = k
		case causeKey:
			k.Key = cmp.Or(moved[k.Key], k.Key)
			key = k
		}
		orders[key] = order
	}
	m.orders = orders
	move(m.devices, moved, func(k store.Key) store.Key { return k }, func(k *store.Key, d *store.Device, next store.Key) { *k, d.Node = next, next.Node })
	move(m.rows, moved, func(k rowKey) store.Key { return k.Key }, func(k *rowKey, r *store.Row, next store.Key) { k.Key, r.Key = next, next })
	move(m.frames, moved, func(k frameKey) store.Key { return store.Key{Node: k.node} }, func(k *frameKey, f *store.Frame, next store.Key) { k.node, f.Node = next.Node, next.Node })
	move(m.sessions, moved, func(k store.SessionKey) store.Key { return k.Key }, func(k *store.SessionKey, s *store.Session, next store.Key) { k.Key, s.Key = next, next })
	move(m.causes, moved, func(k causeKey) store.Key { return k.Key }, func(k *causeKey, c *store.Cause, next store.Key) { k.Key, c.Key = next, next })
	move(m.unsettled, moved, func(b store.Bucket) store.Key { return b.Key }, func(b *store.Bucket, _ *bool, next store.Key) { b.Key = next })
	for id, e := range m.events {
		e.Key = cmp.Or(moved[e.Key], e.Key)
		m.events[id] = e
	}
}

// move gives what belongs to devices that have moved the key of where they are now.
func move[K comparable, V any](all map[K]V, moved map[store.Key]store.Key, keyOf func(K) store.Key, change func(*K, *V, store.Key)) {
	for k, v := range maps.Clone(all) {
		if next, moves := moved[keyOf(k)]; moves {
			delete(all, k)
			change(&k, &v, next)
			all[k] = v
		}
	}
}

func bucket(b store.Bucket) store.Bucket {
	b.Time = store.Stored(b.Time)
	return b
}

func (m *Model) name(k store.Key) {
	texts(&k.Node, &k.UUID)
	if _, known := m.devices[k]; !known {
		m.devices[k] = store.Device{Node: k.Node, UUID: k.UUID}
	}
}

// asKept is a row to the resolution of its columns.
func asKept(r store.Row) store.Row {
	texts(&r.Node, &r.UUID)
	columns := store.DeviceColumns
	if r.UUID == "" {
		columns, r.State = store.MachineColumns, ""
	}
	values := make([]store.Value, len(columns))
	for i := range min(len(columns), len(r.Values)) {
		if r.Tier == store.Raw || columns[i].Spans {
			values[i] = valueAsKept(&columns[i], r.Tier, r.Values[i])
		}
	}
	if r.Tier == store.Raw {
		r.Readings = 1
	}
	r.Time, r.Values = store.Stored(r.Time), values
	return r
}

func valueAsKept(c *store.Column, tier store.Tier, v store.Value) store.Value {
	mean, ok := c.Number(v.Mean)
	if v.Count == 0 || !ok {
		return store.Value{}
	}
	if tier == store.Raw {
		return store.Value{Least: c.Value(mean), Mean: c.Value(mean), Most: c.Value(mean), Count: 1, Doubtful: v.Doubtful}
	}
	least, hasLeast := c.Number(v.Least)
	most, hasMost := c.Number(v.Most)
	if !hasLeast || !hasMost {
		return store.Value{}
	}
	return store.Value{Least: c.Value(least), Mean: c.Value(mean), Most: c.Value(most), Count: v.Count}
}

// Devices implements [store.Store], as the methods below do.
func (m *Model) Devices(context.Context) ([]store.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	devices := maps.Clone(m.devices)
	for _, r := range m.rows {
		d := devices[r.Key]
		if r.Tier == store.SixHours {
			continue
		}
		if d.First.IsZero() || r.Time.Before(d.First) {
			d.First = r.Time
		}
		if r.Time.After(d.Last) {
			d.Last = r.Time
		}
		devices[r.Key] = d
	}
	return slices.SortedFunc(maps.Values(devices), compareDevices), nil
}

func compareDevices(a, b store.Device) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
}

// pick yields what a query asks for of a map, sorted.
func pick[K comparable, V any](ctx context.Context, m *Model, all map[K]V, wanted func(*V) bool,
	order func(a, b V) int) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var found []V
		m.mu.Lock()
		for _, v := range all {
			if wanted(&v) {
				found = append(found, v)
			}
		}
		slices.SortFunc(found, order)
		m.mu.Unlock()
		for i := range found {
			if ctx.Err() != nil {
				break
			}
			if !yield(found[i], nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			var none V
			yield(none, err)
		}
	}
}

// overlaps reports whether what was from one time to another overlaps the query.
func overlaps(q *store.Query, from, to time.Time) bool {
	return (q.To.IsZero() || from.Before(q.To)) && (q.From.IsZero() || to.After(q.From) || from.Equal(q.From))
}

func concerns(q *store.Query, k store.Key) bool {
	return len(q.Keys) == 0 || slices.Contains(q.Keys, k)
}

func oneOf(list []string, s string) bool { return list == nil || slices.Contains(list, s) }

// Rows yields rows.
func (m *Model) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	wanted := func(r *store.Row) bool { // which copies values
		if r.Tier != q.Tier || (r.UUID == "") != q.Machines || !concerns(&q, r.Key) || !overlaps(&q, r.Time, r.Time) {
			return false
		}
		values := make([]store.Value, len(r.Values))
		for i := range values {
			if q.Columns == nil || slices.Contains(q.Columns, i) {
				values[i] = r.Values[i]
			}
		}
		r.Values = values
		return true
	}
	return pick(ctx, m, m.rows, wanted, func(a, b store.Row) int {
		return cmp.Or(compareDevices(m.devices[a.Key], m.devices[b.Key]), a.Time.Compare(b.Time))
	})
}

// Frames yields frames.
func (m *Model) Frames(ctx context.Context, q store.Query) iter.Seq2[store.Frame, error] {
	wanted := func(f *store.Frame) bool {
		named := len(q.Keys) == 0 || slices.ContainsFunc(q.Keys, func(k store.Key) bool { return k.Node == f.Node })
		return named && overlaps(&q, f.Time, f.Time)
	}
	return pick(ctx, m, m.frames, wanted, func(a, b store.Frame) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Time.Compare(b.Time))
	})
}

// Sessions yields sessions.
func (m *Model) Sessions(ctx context.Context, q store.Query) iter.Seq2[store.Session, error] {
	is := func(want string, known ...string) bool { return want == "" || slices.Contains(known, want) }
	wanted := func(s *store.Session) bool {
		return concerns(&q, s.Key) && overlaps(&q, s.From, s.To) && (!q.Open || s.Outcome == store.Open) &&
			is(q.User, s.User) && is(q.Name, s.Name, s.Program) && is(q.Job, s.Job) && is(q.Pod, s.Pod)
	}
	return pick(ctx, m, m.sessions, wanted, func(a, b store.Session) int { return a.From.Compare(b.From) })
}

// Causes yields causes.
func (m *Model) Causes(ctx context.Context, q store.Query) iter.Seq2[store.Cause, error] {
	wanted := func(c *store.Cause) bool {
		return concerns(&q, c.Key) && overlaps(&q, c.From, c.To) && (!q.Open || c.Open) && oneOf(q.Kinds, c.Kind) && c.To.Sub(c.From) >= q.Lasting
	}
	all := pick(ctx, m, m.causes, wanted, func(a, b store.Cause) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.ID, b.ID))
	})
	if q.First == 0 {
		return all
	}
	return func(yield func(store.Cause, error) bool) {
		left := q.First
		for c, err := range all {
			if left == 0 || !yield(c, err) {
				return
			}
			left--
		}
	}
}

// Events yields events.
func (m *Model) Events(ctx context.Context, q store.Query) iter.Seq2[store.Event, error] {
	wanted := func(e *store.Event) bool {
		return concerns(&q, e.Key) && overlaps(&q, e.Time, e.Time) && oneOf(q.Kinds, e.Kind)
	}
	all := pick(ctx, m, m.events, wanted, func(a, b store.Event) int {
		return cmp.Or(a.Time.Compare(b.Time),
			cmp.Compare(a.ID, b.ID))
	})
	if q.Newest == 0 {
		return all
	}
	return func(yield func(store.Event, error) bool) {
		found, err := collect(all)
		if err != nil {
			yield(store.Event{}, err)
			return
		}
		for _, e := range found[max(0, len(found)-q.Newest):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Document returns small state.
func (m *Model) Document(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.documents[name]), nil
}

// Unsettled lists spans.
func (m *Model) Unsettled(_ context.Context, tier store.Tier, before time.Time) (out []store.Bucket, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for b := range m.unsettled {
		if b.Tier == tier && (before.IsZero() || b.Time.Before(before)) {
			out = append(out, b)
		}
	}
	return out, nil
}

// Forget removes all that is older, at once.
func (m *Model) Forget(_ context.Context, r store.Retention, now time.Time) (more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.rows, func(k rowKey, _ store.Row) bool { return k.time.Before(r.Cutoff(k.tier, now)) })
	maps.DeleteFunc(m.unsettled, func(b store.Bucket, _ bool) bool { return b.Time.Before(r.Cutoff(b.Tier, now)) })
	maps.DeleteFunc(m.frames, func(k frameKey, _ store.Frame) bool { return k.time.Before(r.Cutoff(store.Raw, now)) })
	oldest := r.Oldest(now)
	maps.DeleteFunc(m.sessions, func(_ store.SessionKey, s store.Session) bool { return s.To.Before(oldest) })
	maps.DeleteFunc(m.causes, func(_ causeKey, c store.Cause) bool { return c.To.Before(r.CauseCutoff(c.To.Sub(c.From), now)) })
	maps.DeleteFunc(m.events, func(_ string, e store.Event) bool { return e.Time.Before(r.EventCutoff(e.Severity, now)) })
	return false, nil
}

// Size counts. What is in memory has no bytes on disk: there is one for each row.
func (m *Model) Size(context.Context) (store.Size, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var s store.Size
	add := func(name string, times iter.Seq2[time.Time, time.Time]) {
		t := store.TableSize{Name: name}
		for from, to := range times {
			t.Rows++
			t.Bytes++
			if t.Oldest.IsZero() || from.Before(t.Oldest) {
				t.Oldest = from
			}
			if to.After(t.Newest) {
				t.Newest = to
			}
		}
		s.Tables, s.Bytes = append(s.Tables, t), s.Bytes+t.Bytes
	}
	for _, tier := range store.Tiers {
		add(tier.String(), timesOf(m.rows, func(r store.Row) (from, to time.Time, ok bool) { return r.Time, r.Time, r.Tier == tier }))
	}
	add("frames", timesOf(m.frames, func(f store.Frame) (from, to time.Time, ok bool) { return f.Time, f.Time, true }))
	add("sessions", timesOf(m.sessions, func(s store.Session) (from, to time.Time, ok bool) { return s.From, s.To, true }))
	add("causes", timesOf(m.causes, func(c store.Cause) (from, to time.Time, ok bool) { return c.From, c.To, true }))
	add("events", timesOf(m.events, func(e store.Event) (from, to time.Time, ok bool) { return e.Time, e.Time, true }))
	return s, nil
}

func timesOf[K comparable, V any](all map[K]V, ends func(V) (from, to time.Time, ok bool)) iter.Seq2[time.Time, time.Time] {
	return func(yield func(time.Time, time.Time) bool) {
		for _, v := range all {
			if from, to, ok := ends(v); ok && !yield(from, to) {
				return
			}
		}
	}
}

// Check finds nothing: there is no disk.
func (m *Model) Check(context.Context) error { return nil }

// Compact has nothing to do.
func (m *Model) Compact(context.Context) error { return nil }

// Close does nothing.
func (m *Model) Close() error { return nil }
