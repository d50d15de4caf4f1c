package notify

import (
	"math/rand/v2"
	"slices"
	"time"
)

// How what could not be sent is tried again.
const (
	firstRetry    = time.Second
	longestRetry  = 10 * time.Minute
	lastingRetry  = 10 * time.Minute // the first after a refusal that lasts
	longestRefuse = time.Hour
	giveUp        = 24 * time.Hour
	mostPending   = 500  // events a target
	mostKnown     = 1000 // alerts a target
)

// A queue is what a target is still to be told, and when. It keeps no clock and
// sends nothing.
type queue struct {
	pending []pending // the oldest first
	flying  int       // how many of them, from the oldest, are in a message under way
	first   time.Time // since when something waits that is in no message under way, if something does
	last    time.Time // a message was taken; zero: never
	retry   time.Time // not before; zero where the last message was taken
	fails   int       // tries in a row
	dropped dropped   // events that were never told, and nobody was told that they were not
	known   []known   // what the target knows of alerts that are not over; the oldest first
}

type pending struct {
	Event
	Queued time.Time `json:"queued"`
}

// A dropped is how many events were dropped, by the reason.
type dropped struct{ crowded, late int }

// A known is an alert that a target has been told of, or was to be.
type known struct {
	ID   string `json:"id"`
	Told bool   `json:"told"` // false: its beginning was dropped
}

// add puts an event to the others of its alert, or at the end. It returns how
// many events had to be dropped for it. The end of an alert whose beginning was
// dropped goes with it.
func (q *queue) add(e Event, now time.Time) int {
	for i := len(q.pending) - 1; i >= q.flying; i-- {
		if p := &q.pending[i]; p.ID == e.ID {
			p.Event = p.merge(e)
			return 0
		}
	}
	if i := q.find(e.ID); e.News == over && i >= 0 && !q.known[i].Told {
		q.forget(e.ID)
		return 0
	}
	if len(q.pending) == q.flying {
		q.first = now
	}
	q.pending = append(q.pending, pending{e, now})
	return q.trim(mostPending)
}

// trim drops what matters least of what waits until there is room for it: the
// mildest, and the oldest of those.
func (q *queue) trim(most int) (n int) {
	for ; len(q.pending)-q.flying > most; n++ {
		least := q.flying
		for i := least + 1; i < len(q.pending); i++ {
			if q.pending[i].weight() < q.pending[least].weight() {
				least = i
			}
		}
		q.drop(least, least+1)
	}
	q.dropped.crowded += n
	return n
}

// drop takes out what is never told.
func (q *queue) drop(from, to int) {
	for _, p := range q.pending[from:to] {
		switch i := q.find(p.ID); {
		case p.IsOver():
			q.forget(p.ID)
		case p.News == fired && i < 0:
			q.know(p.ID, false)
		}
	}
	q.pending = slices.Delete(q.pending, from, to)
}

// expects reports whether the target is to be told that an alert is over,
// whatever else it wants to be told: it knows that it began, or is to.
func (q *queue) expects(id string) bool {
	if i := q.find(id); i >= 0 && q.known[i].Told {
		return true
	}
	return slices.ContainsFunc(q.pending, func(p pending) bool { return p.ID == id && !p.IsOver() })
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.known, func(k known) bool { return k.ID == id })
}

// know notes what a target knows of an alert. Of too many the oldest are
// forgotten.
func (q *queue) know(id string, told bool) {
	if i := q.find(id); i >= 0 {
		q.known[i].Told = told
		return
	}
	if n := len(q.known) + 1 - mostKnown; n > 0 {
		q.known = slices.Delete(q.known, 0, n)
	}
	q.known = append(q.known, known{id, told})
}

func (q *queue) forget(id string) {
	q.known = slices.DeleteFunc(q.known, func(k known) bool { return k.ID == id })
}

// clone is a queue of which nothing is under way, for it to be kept.
func (q *queue) clone() queue {
	out := *q
	out.flying, out.pending, out.known = 0, slices.Clone(q.pending), slices.Clone(q.known)
	return out
}

// due returns when the next message is to go; false where there is none, or one
// is under way.
func (q *queue) due(wait, interval time.Duration) (time.Time, bool) {
	if len(q.pending) == 0 || q.flying > 0 {
		return time.Time{}, false
	}
	at := q.first.Add(wait)
	if next := q.last.Add(interval); !q.last.IsZero() && next.After(at) {
		at = next
	}
	if q.retry.After(at) {
		at = q.retry
	}
	return at, true
}

// take returns what goes into a message that is now under way.
func (q *queue) take() []Event {
	q.flying = len(q.pending)
	out := make([]Event, q.flying)
	for i := range out {
		out[i] = q.pending[i].Event
	}
	return out
}

// taken notes that the target took the message under way, which said how many
// were dropped.
func (q *queue) taken(now time.Time, told dropped) {
	for _, p := range q.pending[:q.flying] {
		if p.IsOver() {
			q.forget(p.ID)
		} else {
			q.know(p.ID, true)
		}
	}
	q.pending = slices.Delete(q.pending, 0, q.flying)
	q.dropped.crowded -= told.crowded
	q.dropped.late -= told.late
	q.flying, q.fails = 0, 0
	q.last, q.retry = now, time.Time{}
}

// failed notes that the message under way was not taken, and returns how many
// events are dropped, for there are too many, and for they are too old.
func (q *queue) failed(now time.Time, permanent bool) (many, old int) {
	many = q.abandon()
	q.fails++
	q.retry = now.Add(backOff(q.fails, permanent))
	for old < len(q.pending) && now.Sub(q.pending[old].Queued) >= giveUp {
		old++
	}
	q.drop(0, old)
	q.dropped.late += old
	return many, old
}

// abandon puts what is under way to what waits, and returns how many events had
// to be dropped for it.
func (q *queue) abandon() (dropped int) {
	all := q.pending
	q.pending, q.flying = nil, 0
	for _, p := range all {
		dropped += q.add(p.Event, p.Queued)
	}
	return dropped
}

// backOff is how long to wait after a number of failures: between half of a time
// that doubles and all of it, so that not all try at once.
func backOff(fails int, permanent bool) time.Duration {
	first, longest := firstRetry, longestRetry
	if permanent {
		first, longest = lastingRetry, longestRefuse
	}
	full := longest
	if shift := fails - 1; shift < 20 {
		full = min(first<<shift, longest)
	}
	return full/2 + rand.N(full/2+1) //nolint:gosec // no secret
}
