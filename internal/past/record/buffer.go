package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A buffer is what waits to be written. What is written by a key waits once, as it is newest.
type buffer struct {
	maxReadings, maxBytes int

	devices  map[store.Key]store.Device
	rows     []row
	frames   []store.Frame
	spans    []store.Row
	sessions map[store.SessionKey]store.Session
	causes   map[causeKey]store.Cause
	events   map[string]store.Event // by ID
	buckets  map[store.Bucket]bool  // whether it is settled
	remakes  map[store.Bucket]bool  // spans whose rows are to be made of what the store has

	bytes   int // about, of all but devices, buckets and remakes
	away    int // bytes of what is being written
	dropped Counts

	written time.Time // of the newest reading that the store has
	lost    time.Time // of the newest reading that was dropped
	pruned  time.Time // up to when spans were forgotten of which all readings were dropped
}

type causeKey struct {
	causeID
	began time.Time
}

// Counts are numbers of what is kept, by kind.
type Counts struct{ Readings, Frames, Spans, Sessions, Causes, Events int }

func (c Counts) plus(d Counts) Counts {
	return Counts{
		c.Readings + d.Readings, c.Frames + d.Frames, c.Spans + d.Spans, c.Sessions + d.Sessions, c.Causes + d.Causes, c.Events + d.Events,
	}
}

// String is for people and logs: "120 readings, 3 snapshots"; empty for nothing.
func (c Counts) String() string {
	var parts []string
	for _, count := range []struct {
		n    int
		what string
	}{{c.Readings, "reading"}, {c.Frames, "snapshot"}, {c.Spans, "span"}, {c.Sessions, "session"}, {c.Causes, "cause"}, {c.Events, "event"}} {
		switch count.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+count.what)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", count.n, count.what))
		}
	}
	return strings.Join(parts, ", ")
}

func newBuffer(maxReadings, maxBytes int) buffer {
	return buffer{
		maxReadings: maxReadings, maxBytes: maxBytes,
		devices: map[store.Key]store.Device{}, sessions: map[store.SessionKey]store.Session{}, causes: map[causeKey]store.Cause{},
		events: map[string]store.Event{}, buckets: map[store.Bucket]bool{}, remakes: map[store.Bucket]bool{},
	}
}

// What things hold, about, in bytes.
func sizeOfFrame(f *store.Frame) int { return 100 + cap(f.Snapshot) }
func sizeOfSpan(s *store.Row) int    { return 200 + 40*len(s.Values) }
func sizeOfSession(s *store.Session) int {
	return 800 + len(s.User) + len(s.Name) + len(s.Program) + len(s.Command) + len(s.Container) + len(s.Image) + len(s.Pod) + len(s.Unit) + len(s.Job)
}
func sizeOfCause(c *store.Cause) int { return 400 + len(c.Sentence) }
func sizeOfEvent(e *store.Event) int { return 300 + len(e.Text) + len(e.Data) }

const sizeOfBucket = 150

// held is how many bytes all that waits holds, about.
func (b *buffer) held() int { return b.bytes + sizeOfBucket*(len(b.buckets)+len(b.remakes)) }

func (b *buffer) device(d store.Device) { b.devices[d.Key()] = d }

func (b *buffer) row(w row) {
	b.rows = append(b.rows, w)
	b.bytes += w.bytes()
}

func (b *buffer) frame(f store.Frame) {
	b.frames = append(b.frames, f)
	b.bytes += sizeOfFrame(&f)
}

// span takes the row of a span, which settles it.
func (b *buffer) span(s store.Row, span store.Bucket) {
	b.spans = append(b.spans, s)
	b.bytes += sizeOfSpan(&s)
	b.buckets[span] = true
	delete(b.remakes, span)
}

func (b *buffer) unsettle(span store.Bucket) { b.buckets[span] = false }

// remake asks for the row of a span to be made of what the store has, once all that waits is written.
func (b *buffer) remake(span store.Bucket) { b.remakes[span] = true }

func (b *buffer) session(s store.Session) { put(b, b.sessions, s.SessionKey, s, sizeOfSession) }

func (b *buffer) cause(c store.Cause) {
	put(b, b.causes, causeKey{causeID{c.Key, c.ID}, c.From}, c, sizeOfCause)
}

func (b *buffer) event(e store.Event) { put(b, b.events, e.ID, e, sizeOfEvent) }

func put[K comparable, V any](b *buffer, in map[K]V, key K, v V, size func(*V) int) {
	remove(b, in, key, size)
	in[key] = v
	b.bytes += size(&v)
}

func remove[K comparable, V any](b *buffer, all map[K]V, key K, size func(*V) int) {
	if old, ok := all[key]; ok {
		b.bytes -= size(&old)
		delete(all, key)
	}
}

// empty reports whether nothing waits.
func (b *buffer) empty() bool {
	return len(b.rows)+len(b.frames)+len(b.spans)+len(b.sessions)+len(b.causes)+len(b.events)+len(b.devices)+len(b.buckets)+len(b.remakes) == 0
}

func (b *buffer) counts() Counts {
	return Counts{len(b.rows), len(b.frames), len(b.spans), len(b.sessions), len(b.causes), len(b.events)}
}

// limit drops data over the limits: first the oldest readings and snapshots, then spans, which can be made again from the store's
// readings, and last events, causes and sessions. It reports whether it dropped something.
func (b *buffer) limit() (dropped bool) {
	for len(b.rows) > b.maxReadings {
		b.dropRow()
		dropped = true
	}
	for b.held()+b.away > b.maxBytes && b.drop() {
		dropped = true
	}
	if b.away == 0 && b.lost.Sub(b.pruned) >= time.Minute { // spans end with minutes
		b.prune()
		b.pruned = b.lost.Truncate(time.Minute)
	}
	return dropped
}

// gone reports whether all readings of a span were dropped, so that its row can't be made. While data is being written, this is not
// known.
func (b *buffer) gone(span store.Bucket) bool {
	return b.away == 0 && span.Time.After(b.written) && !span.Time.Add(span.Tier.Span()).After(b.lost)
}

// prune forgets spans of which nothing is left. Those that have a row go with it.
func (b *buffer) prune() {
	maps.DeleteFunc(b.buckets, func(span store.Bucket, settled bool) bool { return !settled && b.gone(span) })
	maps.DeleteFunc(b.remakes, func(span store.Bucket, _ bool) bool { return b.gone(span) })
}

// drop drops one thing; false: there is nothing.
func (b *buffer) drop() bool {
	switch {
	case len(b.frames) > 0 && (len(b.rows) == 0 || !b.frames[0].Time.After(b.rows[0].time)):
		b.bytes -= sizeOfFrame(&b.frames[0])
		b.frames[0] = store.Frame{}
		b.frames = b.frames[1:]
		b.dropped.Frames++
	case len(b.rows) > 0:
		b.dropRow()
	case len(b.spans) > 0:
		s := &b.spans[0]
		span := store.Bucket{Key: s.Key, Tier: s.Tier, Time: s.Time}
		b.buckets[span], b.remakes[span] = false, true
		if b.gone(span) {
			delete(b.buckets, span)
			delete(b.remakes, span)
		}
		b.bytes -= sizeOfSpan(s)
		b.spans = slices.Delete(b.spans, 0, 1)
		b.dropped.Spans++
	case dropOldest(b, b.events, sizeOfEvent, func(e *store.Event) time.Time { return e.Time }):
		b.dropped.Events++
	case dropOldest(b, b.causes, sizeOfCause, func(c *store.Cause) time.Time { return c.To }):
		b.dropped.Causes++
	case dropOldest(b, b.sessions, sizeOfSession, func(s *store.Session) time.Time { return s.To }):
		b.dropped.Sessions++
	default:
		return false
	}
	return true
}

func (b *buffer) dropRow() {
	b.bytes -= b.rows[0].bytes()
	if b.rows[0].time.After(b.lost) {
		b.lost = b.rows[0].time
	}
	b.rows[0] = row{}
	b.rows = b.rows[1:]
	b.dropped.Readings++
}

func dropOldest[K comparable, V any](b *buffer, all map[K]V, size func(*V) int, timeOf func(*V) time.Time) bool {
	var oldest K
	var when time.Time
	for k, v := range all {
		if t := timeOf(&v); when.IsZero() || t.Before(when) {
			oldest, when = k, t
		}
	}
	remove(b, all, oldest, size)
	return !when.IsZero()
}

// take moves the data to write next into a buffer of its own: at most that many readings and snapshots, and everything else.
func (b *buffer) take(rows, frames int) *buffer {
	out := newBuffer(0, 0)
	out.devices, b.devices = b.devices, out.devices
	out.spans, b.spans = b.spans, nil
	out.sessions, b.sessions = b.sessions, out.sessions
	out.causes, b.causes = b.causes, out.causes
	out.events, b.events = b.events, out.events
	out.buckets, b.buckets = b.buckets, out.buckets
	out.rows, b.rows = cut(b.rows, rows)
	out.frames, b.frames = cut(b.frames, frames)
	out.bytes = b.bytes
	b.bytes = 0
	for i := range b.rows {
		b.bytes += b.rows[i].bytes()
	}
	for i := range b.frames {
		b.bytes += sizeOfFrame(&b.frames[i])
	}
	out.bytes -= b.bytes
	b.away = out.held()
	return &out
}

// cut divides a list. The rest is a list of its own, so that the first part is forgotten once it is written.
func cut[T any](list []T, n int) (first, rest []T) {
	if len(list) <= n {
		return list, nil
	}
	return list[:n:n], slices.Clone(list[n:])
}

// wrote notes what the store has now.
func (b *buffer) wrote(p *buffer) {
	for i := range p.rows {
		if p.rows[i].time.After(b.written) {
			b.written = p.rows[i].time
		}
	}
}

// putBack takes back what could not be written. What is newer stays.
func (b *buffer) putBack(p *buffer) {
	b.away = 0
	b.rows = append(p.rows, b.rows...)
	b.frames = append(p.frames, b.frames...)
	b.spans = append(p.spans, b.spans...)
	for i := range p.rows {
		b.bytes += p.rows[i].bytes()
	}
	for i := range p.frames {
		b.bytes += sizeOfFrame(&p.frames[i])
	}
	for i := range p.spans {
		b.bytes += sizeOfSpan(&p.spans[i])
	}
	putOlder(p.devices, b.devices, func(store.Device) int { return 0 })
	putOlder(p.buckets, b.buckets, func(bool) int { return 0 })
	b.bytes += putOlder(p.sessions, b.sessions, func(s store.Session) int { return sizeOfSession(&s) })
	b.bytes += putOlder(p.causes, b.causes, func(c store.Cause) int { return sizeOfCause(&c) })
	b.bytes += putOlder(p.events, b.events, func(e store.Event) int { return sizeOfEvent(&e) })
	b.limit()
}

// putOlder puts what is not there yet, and returns its size.
func putOlder[K comparable, V any](older, all map[K]V, size func(V) int) (bytes int) {
	for k, v := range older {
		if _, newer := all[k]; !newer {
			all[k] = v
			bytes += size(v)
		}
	}
	return bytes
}

// batch is what a store gets. The values of its readings are in the array that is given, or a larger one.
func (b *buffer) batch(values []store.Value) (store.Batch, []store.Value) {
	out := store.Batch{Frames: slices.Clone(b.frames), Rows: make([]store.Row, 0, len(b.rows)+len(b.spans))}
	needed := 0
	for i := range b.rows {
		needed += len(b.rows[i].numbers)
	}
	values = slices.Grow(values[:0], needed)
	for i := range b.rows {
		var r store.Row
		r, values = b.rows[i].row(values)
		out.Rows = append(out.Rows, r)
	}
	out.Rows = append(out.Rows, b.spans...)
	for _, d := range b.devices {
		out.Devices = append(out.Devices, d)
	}
	for _, s := range b.sessions {
		out.Sessions = append(out.Sessions, s)
	}
	for _, c := range b.causes {
		out.Causes = append(out.Causes, c)
	}
	for _, e := range b.events {
		out.Events = append(out.Events, e)
	}
	for span, settled := range b.buckets {
		if settled {
			out.Settled = append(out.Settled, span)
		} else {
			out.Unsettled = append(out.Unsettled, span)
		}
	}
	return out, values
}
