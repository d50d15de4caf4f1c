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
	Pending []pending `json:"pending"` // the oldest first
	Known   []known   `json:"known,omitzero"`
	dropped
	Last  time.Time `json:"last,omitzero"`  // when a message was taken; zero: never
	Retry time.Time `json:"retry,omitzero"` // no try before; zero where the last message was taken
	Fails int       `json:"fails,omitzero"` // tries in a row

	flying int       // how many events, from the oldest, are in a message under way
	first  time.Time // since when some event waits that is in no message under way
}

type pending struct {
	Event
	Queued time.Time `json:"queued"`
}

// dropped is how many events were dropped that no message has counted yet, by
// the reason.
type dropped struct {
	Late    int `json:"dropped,omitzero"`
	Crowded int `json:"crowded,omitzero"`
}

// A known is an alert that a target has been told of, or was to be.
type known struct {
	ID   string `json:"id"`
	Told bool   `json:"told"` // false: its beginning was dropped
}

// add puts an event to the others of its alert, or at the end. It returns how
// many events had to be dropped for it. The end of an alert whose beginning was
// dropped goes with it.
func (q *queue) add(e Event, now time.Time) int {
	for i := len(q.Pending) - 1; i >= q.flying; i-- {
		if p := &q.Pending[i]; p.ID == e.ID {
			p.Event = p.merge(e)
			return 0
		}
	}
	if i := q.find(e.ID); e.News == over && i >= 0 && !q.Known[i].Told {
		q.forget(e.ID)
		return 0
	}
	if len(q.Pending) == q.flying {
		q.first = now
	}
	q.Pending = append(q.Pending, pending{e, now})
	return q.trim(mostPending)
}

// trim drops what matters least of what waits until there is room for it: the
// mildest, and the oldest of those.
func (q *queue) trim(most int) (n int) {
	for ; len(q.Pending)-q.flying > most; n++ {
		least := q.flying
		for i := least + 1; i < len(q.Pending); i++ {
			if q.Pending[i].weight() < q.Pending[least].weight() {
				least = i
			}
		}
		q.drop(least, least+1)
	}
	q.Crowded += n
	return n
}

// drop takes out what is never told.
func (q *queue) drop(from, to int) {
	for _, p := range q.Pending[from:to] {
		switch i := q.find(p.ID); {
		case p.IsOver():
			q.forget(p.ID)
		case p.News == fired && i < 0:
			q.know(p.ID, false)
		}
	}
	q.Pending = slices.Delete(q.Pending, from, to)
}

// expects reports whether the target is to be told that an alert is over,
// whatever else it wants to be told: it knows that it began, or is to.
func (q *queue) expects(id string) bool {
	if i := q.find(id); i >= 0 && q.Known[i].Told {
		return true
	}
	return slices.ContainsFunc(q.Pending, func(p pending) bool { return p.ID == id && !p.IsOver() })
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.Known, func(k known) bool { return k.ID == id })
}

// know notes what a target knows of an alert. Of too many the oldest are
// forgotten.
func (q *queue) know(id string, told bool) {
	if i := q.find(id); i >= 0 {
		q.Known[i].Told = told
		return
	}
	if n := len(q.Known) + 1 - mostKnown; n > 0 {
		q.Known = slices.Delete(q.Known, 0, n)
	}
	q.Known = append(q.Known, known{id, told})
}

func (q *queue) forget(id string) {
	q.Known = slices.DeleteFunc(q.Known, func(k known) bool { return k.ID == id })
}

// clone is a queue of which nothing is under way, for it to be kept.
func (q *queue) clone() queue {
	out := *q
	out.flying, out.Pending, out.Known = 0, slices.Clone(q.Pending), slices.Clone(q.Known)
	return out
}

// due returns when the next message is to go; false where there is none, or one
// is under way.
func (q *queue) due(wait, interval time.Duration) (time.Time, bool) {
	if len(q.Pending) == 0 || q.flying > 0 {
		return time.Time{}, false
	}
	at := q.first.Add(wait)
	if next := q.Last.Add(interval); !q.Last.IsZero() && next.After(at) {
		at = next
	}
	if q.Retry.After(at) {
		at = q.Retry
	}
	return at, true
}

// take returns what goes into a message that is now under way.
func (q *queue) take() []Event {
	q.flying = len(q.Pending)
	out := make([]Event, q.flying)
	for i := range out {
		out[i] = q.Pending[i].Event
	}
	return out
}

// taken notes that the target took the message under way, which said how many
// were dropped.
func (q *queue) taken(now time.Time, told dropped) {
	for _, p := range q.Pending[:q.flying] {
		if p.IsOver() {
			q.forget(p.ID)
		} else {
			q.know(p.ID, true)
		}
	}
	q.Pending = slices.Delete(q.Pending, 0, q.flying)
	q.Crowded -= told.Crowded
	q.Late -= told.Late
	q.flying, q.Fails = 0, 0
	q.Last, q.Retry = now, time.Time{}
}

// failed notes that the message under way was not taken, and returns how many
// events are dropped, for there are too many, and for they are too old.
func (q *queue) failed(now time.Time, why *failure) (many, old int) {
	many = q.abandon()
	q.Fails++
	q.Retry = now.Add(max(backOff(q.Fails, why.permanent), why.after))
	for old < len(q.Pending) && now.Sub(q.Pending[old].Queued) >= giveUp {
		old++
	}
	q.drop(0, old)
	q.Late += old
	return many, old
}

// abandon puts what is under way to what waits, and returns how many events had
// to be dropped for it.
func (q *queue) abandon() (dropped int) {
	all := q.Pending
	q.Pending, q.flying = nil, 0
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
