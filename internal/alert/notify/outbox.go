package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// kept is what waits, over a restart. It has no addresses.
type kept struct {
	Version int          `json:"version"`
	Targets []keptTarget `json:"targets"`
}

const (
	keptVersion = 1
	mostKept    = 4 << 20 // bytes
)

type keptTarget struct {
	Name         string    `json:"name"`
	Pending      []pending `json:"pending"`
	Known        []known   `json:"known,omitzero"`   // alerts that it knows, or was not told of
	Dropped      int       `json:"dropped,omitzero"` // events that were not told: too late
	Crowded      int       `json:"crowded,omitzero"` // and too many
	Last         time.Time `json:"last,omitzero"`
	Retry        time.Time `json:"retry,omitzero"`
	Fails        int       `json:"fails,omitzero"`
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// Keep returns what waits to be told, for [Notifier.Restore]: a message under
// way too, which may so be sent twice. It is at most 4 MiB; where there is more,
// what matters least is left out, and the next message says how many.
func (n *Notifier) Keep() ([]byte, error) {
	var all []keeping
	n.mu.Lock()
	for _, w := range n.workers {
		all = append(all, w.keep())
	}
	n.mu.Unlock()
	for most := mostPending; ; most /= 2 {
		out := kept{Version: keptVersion, Targets: []keptTarget{}}
		for i := range all {
			out.Targets = append(out.Targets, all[i].target())
		}
		text, err := json.Marshal(out)
		if err != nil || len(text) <= mostKept || most == 0 {
			return text, err
		}
		left := 0
		for i := range all {
			q := &all[i].queue
			left += q.trim(most / 2)
			q.known = q.known[max(0, len(q.known)-most):]
		}
		if left > 0 {
			n.log.Warn("events are not kept over a restart: there are too many", "events", left)
		}
	}
}

// A keeping is what is kept of a worker.
type keeping struct {
	name         string
	queue        queue
	failingSince time.Time
}

func (k *keeping) target() keptTarget {
	q := &k.queue
	return keptTarget{
		Name: k.name, Pending: q.pending, Known: q.known, Dropped: q.dropped.late, Crowded: q.dropped.crowded,
		Last: q.last, Retry: q.retry, Fails: q.fails, FailingSince: k.failingSince,
	}
}

func (w *worker) keep() keeping {
	w.mu.Lock()
	defer w.mu.Unlock()
	select { // one that came back after the end
	case err := <-w.result:
		w.land(err, time.Now())
		w.signal()
	default:
	}
	return keeping{w.name, w.queue.clone(), w.state.FailingSince}
}

// Restore puts what Keep returned before what waits already. Call it before
// Run. Of a target that is not configured any more it is dropped.
func (n *Notifier) Restore(text []byte) error {
	var in kept
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("notify: what was kept can't be read: %w", err)
	}
	if in.Version != keptVersion {
		n.log.Warn("what waited to be told is of another version of gpuwhy, and is not told", "version", in.Version)
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range in.Targets {
		t := &in.Targets[i]
		j := slices.IndexFunc(n.workers, func(w *worker) bool { return w.name == t.Name })
		switch {
		case j >= 0:
			n.workers[j].restore(t, time.Now())
		case len(t.Pending) > 0:
			n.log.Warn("events are not told: the target is not configured any more", "target", cut(clean(t.Name), longestName), "events", len(t.Pending))
		}
	}
	return nil
}

func (w *worker) restore(t *keptTarget, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	newer := w.queue.pending
	w.queue = queue{dropped: dropped{crowded: max(t.Crowded, 0), late: max(t.Dropped, 0)}, fails: min(max(t.Fails, 0), 64)}
	for _, k := range t.Known {
		w.queue.know(cut(k.ID, 2*longestName), k.Told)
	}
	if !t.Last.After(now) {
		w.queue.last = t.Last
	}
	if t.Retry.Before(now.Add(longestRefuse)) {
		w.queue.retry = t.Retry
	}
	many := 0
	for _, p := range t.Pending {
		if p.Queued.After(now) { // the clock was set back
			p.Queued = now
		}
		many += w.queue.add(p.sane(), p.Queued)
	}
	for _, p := range newer {
		many += w.queue.add(p.Event, p.Queued)
	}
	if w.queue.fails > 0 {
		w.state.FailingSince, w.kind = t.FailingSince, failing
	}
	w.drop(many, tooMany)
	w.signal()
}

// sane bounds an event that was read from a file.
func (e Event) sane() Event {
	e.ID = cut(e.ID, 2*longestName)
	for _, text := range []*string{&e.Rule, &e.Node, &e.Device, &e.UUID, &e.Name, &e.Value, &e.Threshold} {
		*text = cut(clean(*text), longestName)
	}
	for _, text := range []*string{&e.Message, &e.Why, &e.Advice} {
		*text = cut(clean(*text), longestSentence)
	}
	return e
}
