package notify

import (
	"math/rand/v2"
	"slices"
	"time"
)

// How a message that a target did not accept is retried.
const (
	firstRetry    = time.Second
	longestRetry  = 10 * time.Minute
	lastingRetry  = 10 * time.Minute // the first after a permanent refusal
	longestRefuse = time.Hour
	giveUp        = 24 * time.Hour
	mostPending   = 500  // events of a target
	mostKnown     = 1000 // alerts of a target
)

// A queue has the events that a target still has to get, and says when. It has no clock and sends
// nothing. Its exported fields survive a restart.
type queue struct {
	Pending []pending `json:"pending"` // the oldest first
	Known   []known   `json:"known,omitzero"`
	dropped
	Last  time.Time `json:"last,omitzero"`  // when a message was taken; zero: never
	Retry time.Time `json:"retry,omitzero"` // no try before; zero where the last message was taken
	Fails int       `json:"fails,omitzero"` // failures in a row

	unsure bool      // Retry is later since the target may have taken what waits
	flying int       // how many events, from the oldest, are in a message under way
	first  time.Time // since when some event waits that is in no message under way
}

type pending struct {
	Event
	Queued time.Time `json:"queued"`

	withdrawn bool // it is in the message under way, and in no other
}

// dropped counts, by reason, dropped events that no message has mentioned yet.
type dropped struct {
	Late    int `json:"dropped,omitzero"`
	Crowded int `json:"crowded,omitzero"`
}

// A known is an alert that is not over.
type known struct {
	ID   string `json:"id"`
	Told bool   `json:"told"` // the target got its beginning; false: that was dropped
}

// add joins an event with the waiting one of its alert, or appends it. The end of an
// alert whose beginning was dropped is dropped too.
func (q *queue) add(e Event, now time.Time) {
	for i := len(q.Pending) - 1; i >= q.flying; i-- {
		if p := &q.Pending[i]; p.ID == e.ID {
			p.Event = p.merge(e)
			return
		}
	}
	if i := q.find(e.ID); e.News == over && i >= 0 && !q.Known[i].Told {
		q.forget(e.ID)
		return
	}
	if len(q.Pending) == q.flying {
		q.first = now
	}
	q.Pending = append(q.Pending, pending{Event: e, Queued: now})
	if q.unsure { // this it has not had
		q.unsure, q.Retry = false, now
	}
	q.trim(mostPending)
}

// withdraw removes the events of an alert that is not over: nobody needs to hear about it any more. Events being sent are
// not sent again if the target does not accept them.
func (q *queue) withdraw(id string) {
	for i := range q.flying {
		if p := &q.Pending[i]; p.ID == id && !p.IsOver() {
			p.withdrawn = true
		}
	}
	for i := q.flying; i < len(q.Pending); i++ {
		if p := &q.Pending[i]; p.ID == id && !p.IsOver() {
			q.drop(i, i+1)
			i--
		}
	}
}

// trim drops waiting events: those that matter least, the oldest of them first.
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

// drop removes events that are never sent.
func (q *queue) drop(from, to int) {
	for _, p := range q.Pending[from:to] {
		if p.IsOver() {
			q.forget(p.ID)
		} else if p.News == fired && q.find(p.ID) < 0 {
			q.know(p.ID, false)
		}
	}
	q.Pending = slices.Delete(q.Pending, from, to)
}

// expects reports whether the target got the beginning of an alert, or will get it.
func (q *queue) expects(id string) bool {
	i := q.find(id)
	return i >= 0 && q.Known[i].Told ||
		slices.ContainsFunc(q.Pending, func(p pending) bool { return p.ID == id && !p.IsOver() })
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.Known, func(k known) bool { return k.ID == id })
}

// know notes what a target knows of an alert, and forgets the oldest of too many.
func (q *queue) know(id string, told bool) {
	if i := q.find(id); i >= 0 {
		q.Known[i].Told = told
		return
	}
	q.Known = append(q.Known, known{id, told})
	q.Known = slices.Delete(q.Known, 0, max(0, len(q.Known)-mostKnown))
}

func (q *queue) forget(id string) {
	q.Known = slices.DeleteFunc(q.Known, func(k known) bool { return k.ID == id })
}

// clone returns a copy of which nothing is under way.
func (q *queue) clone() queue {
	out := *q
	out.flying, out.Pending, out.Known = 0, slices.Clone(q.Pending), slices.Clone(q.Known)
	out.dropWithdrawn()
	return out
}

// due returns the time of the next message; false where there is none to begin.
func (q *queue) due(wait, interval time.Duration) (time.Time, bool) {
	if len(q.Pending) == 0 || q.flying > 0 {
		return time.Time{}, false
	}
	return slices.MaxFunc([]time.Time{q.first.Add(wait), q.Retry, q.Last.Add(interval)}, time.Time.Compare), true
}

// take returns the events of a message that is now under way.
func (q *queue) take() []Event {
	q.flying = len(q.Pending)
	out := make([]Event, q.flying)
	for i := range out {
		out[i] = q.Pending[i].Event
	}
	return out
}

// taken notes that the target took a message, which counted some dropped events.
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
	q.flying, q.Fails, q.Last, q.Retry, q.unsure = 0, 0, now, time.Time{}, false
}

// failed notes that the target did not take the message under way.
func (q *queue) failed(now time.Time, why *failure) {
	unsure := why.unsure && len(q.Pending) == q.flying // nothing else waits
	q.unsure = false
	q.abandon()
	q.Fails++
	q.Retry = now.Add(max(backOff(q.Fails, why.permanent || unsure), why.after))
	q.unsure = unsure
	old := 0
	for old < len(q.Pending) && now.Sub(q.Pending[old].Queued) >= giveUp {
		old++
	}
	q.drop(0, old)
	q.Late += old
}

// dropWithdrawn drops what is in no message any more.
func (q *queue) dropWithdrawn() {
	for i, e := range slices.Backward(q.Pending) {
		if e.withdrawn {
			q.drop(i, i+1)
		}
	}
}

// abandon returns the events of the message under way to those that wait.
func (q *queue) abandon() {
	q.flying = 0
	q.dropWithdrawn()
	all := q.Pending
	q.Pending, q.flying = nil, 0
	for _, p := range all {
		q.add(p.Event, p.Queued)
	}
}

// backOff returns how long to wait after a number of failures: at random between
// half of a doubling time and all of it, so that targets are not tried together.
func backOff(fails int, permanent bool) time.Duration {
	first, longest := firstRetry, longestRetry
	if permanent {
		first, longest = lastingRetry, longestRefuse
	}
	full := min(first<<min(fails-1, 20), longest)
	return full/2 + rand.N(full/2+1) //nolint:gosec // no secret
}
