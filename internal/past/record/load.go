package record

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// abandoned is how long a span of another gpuwhy's node waits for its row before this one makes it.
const abandoned = time.Hour

// mostThrottles is how many of the newest events are read to find throttling that continues.
const mostThrottles = 10_000

// doubted is the document with the time of the newest reading in the store, for as long as the clock is far ahead of it and not trusted yet.
// A later run does not judge the clock by data written meanwhile.
const doubted = "clock"

// earlier is what the store has of earlier runs.
type earlier struct {
	newest map[store.Key]time.Time // the time of its newest reading
	last   time.Time               // the newest of these, of before the clock was doubted; zero: there is none
	// doubted is whether the store has the document of that name.
	doubted bool

	throttles map[throttled]time.Time // since when; without an end

	sessions []store.Session // that go on
	causes   []store.Cause
	spans    []store.Bucket // without a row
}

// knows reports whether an earlier run must have seen what happened.
func (e *earlier) knows(event *store.Event) bool {
	switch event.Kind {
	case kindState, kindXID, kindFault:
		return !event.Time.After(e.newest[event.Key])
	}
	return false
}

// load reads what goes on from earlier runs. Nothing is written before.
func (w *writer) load(ctx context.Context) error {
	e := &earlier{newest: map[store.Key]time.Time{}, throttles: map[throttled]time.Time{}}
	err := w.call(ctx, func(ctx context.Context) error { return w.read(ctx, e) })
	if errors.Is(err, store.ErrCorrupt) { // who writes can begin a new one
		return errors.Join(err, w.call(ctx, func(ctx context.Context) error { return w.cfg.Store.Write(ctx, &store.Batch{}) }))
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resume(e)
	return nil
}

func (w *writer) read(ctx context.Context, e *earlier) error {
	devices, err := w.cfg.Store.Devices(ctx)
	if err != nil {
		return err
	}
	for i := range devices {
		e.newest[devices[i].Key()] = milliseconds(devices[i].Last)
		if devices[i].Last.After(e.last) {
			e.last = devices[i].Last
		}
	}
	if err := e.doubt(ctx, w.cfg.Store); err != nil {
		return err
	}
	ours := func(k store.Key) bool {
		return slices.Contains(w.cfg.Nodes, k.Node) || w.cfg.Later != nil && w.cfg.Later(k.Node)
	}
	for s, err := range w.cfg.Store.Sessions(ctx, store.Query{Open: true}) {
		if err != nil {
			return err
		}
		if ours(s.Key) {
			e.sessions = append(e.sessions, s)
		}
	}
	for c, err := range w.cfg.Store.Causes(ctx, store.Query{Open: true}) {
		if err != nil {
			return err
		}
		if ours(c.Key) {
			e.causes = append(e.causes, c)
		}
	}
	for event, err := range w.cfg.Store.Events(ctx, store.Query{From: time.Now().Add(-throttledFor), Kinds: []string{kindThrottling}, Newest: mostThrottles}) {
		if err != nil {
			return err
		}
		if ours(event.Key) {
			e.throttlesOf(&event)
		}
	}
	for _, tier := range tiers {
		all, err := w.cfg.Store.Unsettled(ctx, tier, time.Time{})
		if err != nil {
			return err
		}
		for _, b := range all {
			if ours(b.Key) || time.Since(b.Time.Add(b.Tier.Span())) > abandoned {
				b.Time = b.Time.UTC()
				e.spans = append(e.spans, b)
			}
		}
	}
	return nil
}

// doubt finds out whether an earlier run doubted the clock, and keeps that this one does.
func (e *earlier) doubt(ctx context.Context, s store.Store) error {
	text, err := s.Document(ctx, doubted)
	if err != nil {
		return err
	}
	if was, err := time.Parse(time.RFC3339, string(text)); err == nil && was.Before(e.last) {
		e.last = was
	}
	e.doubted = text != nil
	if e.doubted || !e.farAhead() {
		return nil
	}
	text = e.last.AppendFormat(nil, time.RFC3339)
	e.doubted = true
	return s.Write(ctx, &store.Batch{Documents: map[string][]byte{doubted: text}})
}

// resume goes on where earlier runs ended.
func (r *Recorder) resume(e *earlier) {
	for _, n := range r.nodes {
		for _, d := range n.devices {
			if newest := e.newest[d.Key()]; newest.After(d.newest) {
				d.newest = newest
			}
		}
	}
	for id, event := range maps.Clone(r.out.events) {
		if e.knows(&event) {
			remove(&r.out, r.out.events, id, sizeOfEvent)
		}
	}
	r.earlier = e
	for _, newest := range e.newest {
		if newest.After(r.out.written) && !newest.After(time.Now()) {
			r.out.written = newest
		}
	}
	for _, s := range e.sessions {
		r.resumeSession(s)
	}
	for _, c := range e.causes {
		r.resumeCause(c, e.newest[c.Key])
	}
	for _, b := range e.spans {
		r.resumeSpan(b)
	}
	for former, since := range e.throttles {
		r.resumeThrottle(former, since, e.newest[former.Key])
	}
	e.throttles = nil
	e.sessions, e.causes, e.spans = nil, nil, nil
}

// resumeSession joins a session with what this run has seen of the same process, or lets it wait for the next look.
func (r *Recorder) resumeSession(before store.Session) {
	n := r.node(before.Node)
	d := r.device(n, before.UUID)
	x := &d.sessions
	was := &session{Session: before, start: startOf(&before)}
	old := *was     // by the clock as it was when this run began
	was.move(n.set) // and as it is now
	for _, s := range x.live {
		first := n.beginning(s, s.Begin.Equal(x.began))
		switch was.recognize(&first, false, r.unwatched()) {
		case own:
			r.join(was, s.Session)
			s.Session = after(was.Session, s.Session)
			return
		case undecided:
			if s.rival == nil {
				was.Outcome, was.waits, was.waited, s.rival = store.Unseen, true, 1, was
				remove(&r.out, r.out.sessions, s.SessionKey, sizeOfSession)
				x.live = slices.Insert(x.live, 0, was)
				return
			}
		}
	}
	for _, s := range r.out.sessions { // that has ended meanwhile
		if s.Key != before.Key || s.Outcome == store.Open {
			continue
		}
		then := old
		then.move(s.From.Sub(s.Begin)) // by the clock as it was when that ended
		first := n.beginning(&session{Session: s, start: startOf(&s)}, s.Begin.Equal(x.began))
		if then.recognize(&first, false, r.unwatched()) != another {
			r.join(&then, s)
			for _, o := range x.owing {
				if o.SessionKey == s.SessionKey {
					o.Session = after(then.Session, s)
				}
			}
			return
		}
	}
	if x.looks > 0 {
		was.Outcome = store.Unseen
		r.out.session(was.Session)
		x.end(&was.Session)
		return
	}
	x.live = append(x.live, was)
}

// startOf is the start of a session's process by the clock as it was set when the session was written; zero: not known.
func startOf(s *store.Session) time.Time {
	if s.Started.IsZero() {
		return s.Started
	}
	return s.Started.Add(s.From.Sub(s.Begin)) // From has moved with the clock
}

// join lets a session go on with one that began later and is not written yet.
func (r *Recorder) join(before *session, s store.Session) {
	remove(&r.out, r.out.sessions, s.SessionKey, sizeOfSession)
	r.out.session(after(before.Session, s))
}

// resumeCause goes on with a cause, or ends it. While gpuwhy looked, it stood: its end would have been written.
func (r *Recorder) resumeCause(before store.Cause, looked time.Time) {
	if looked.After(before.To) {
		before.To = looked
	}
	n := r.node(before.Node)
	id := causeID{before.Key, before.ID}
	switch c := n.causes[id]; {
	case c == nil && n.moments == 0:
		n.causes[id] = &interval{Cause: before}
		return
	case c != nil && c.Who == before.Who && c.From.Sub(before.To) >= 0 && c.From.Sub(before.To) <= r.longest():
		remove(&r.out, r.out.causes, causeKey{id, c.From}, sizeOfCause)
		c.From = before.From
		r.out.cause(c.Cause)
		return
	}
	before.Open = false
	r.out.cause(before)
}

// resumeSpan lets the row of a span be made once the span is over.
func (r *Recorder) resumeSpan(b store.Bucket) {
	n := r.nodes[b.Node]
	now := time.Now()
	if n != nil && !n.time.IsZero() {
		now = n.time
	}
	switch {
	case r.goesOn(b):
	case !b.Time.Add(b.Tier.Span()).After(now):
		r.out.remake(b)
	default:
		r.node(b.Node).later[b] = true
	}
}
