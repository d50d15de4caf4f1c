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
	mostPending   = 500 // events a target
)

// A queue is what a target is still to be told, and when. It keeps no clock and
// sends nothing.
type queue struct {
	pending []pending // the oldest first
	flying  int       // how many of them, from the oldest, are in a message under way
	last    time.Time // a message was taken; zero: never
	retry   time.Time // not before; zero where the last message was taken
	fails   int       // tries in a row
	dropped int       // events that were never told, and nobody was told that they were not
}

type pending struct {
	Event
	Queued time.Time `json:"queued"`
}

// add puts an event to the others of its alert, or at the end. It returns how
// many events had to be dropped for it.
func (q *queue) add(e Event, now time.Time) int {
	for i := len(q.pending) - 1; i >= q.flying; i-- {
		if p := &q.pending[i]; p.ID == e.ID {
			p.Event = p.merge(e)
			return 0
		}
	}
	q.pending = append(q.pending, pending{e, now})
	if waiting := len(q.pending) - q.flying; waiting > mostPending {
		return q.drop(q.flying, q.flying+waiting-mostPending)
	}
	return 0
}

func (q *queue) drop(from, to int) int {
	q.pending = slices.Delete(q.pending, from, to)
	q.dropped += to - from
	return to - from
}

// due returns when the next message is to go; false where there is none, or one
// is under way.
func (q *queue) due(wait, interval time.Duration) (time.Time, bool) {
	if len(q.pending) == 0 || q.flying > 0 {
		return time.Time{}, false
	}
	at := q.pending[0].Queued.Add(wait)
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
func (q *queue) taken(now time.Time, dropped int) {
	q.pending = slices.Delete(q.pending, 0, q.flying)
	q.dropped -= dropped
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
	return many, q.drop(0, old)
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
