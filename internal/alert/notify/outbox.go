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
	Dropped      int       `json:"dropped,omitzero"`
	Last         time.Time `json:"last,omitzero"`
	Retry        time.Time `json:"retry,omitzero"`
	Fails        int       `json:"fails,omitzero"`
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// Keep returns what waits to be told, for [Notifier.Restore]: a message under
// way too, which may so be sent twice. It is at most 4 MiB; where there is more,
// the oldest events are left out, and the next message says how many.
func (n *Notifier) Keep() ([]byte, error) {
	out := kept{Version: keptVersion, Targets: []keptTarget{}}
	n.mu.Lock()
	for _, w := range n.workers {
		out.Targets = append(out.Targets, w.keep())
	}
	n.mu.Unlock()
	for most := mostPending; ; most /= 2 {
		text, err := json.Marshal(out)
		if err != nil || len(text) <= mostKept || most == 0 {
			return text, err
		}
		left := 0
		for i := range out.Targets {
			t := &out.Targets[i]
			if more := len(t.Pending) - most/2; more > 0 {
				t.Pending, t.Dropped, left = t.Pending[more:], t.Dropped+more, left+more
			}
		}
		n.log.Warn("events are not kept over a restart: there are too many", "events", left)
	}
}

func (w *worker) keep() keptTarget {
	w.mu.Lock()
	defer w.mu.Unlock()
	select { // one that came back after the end
	case err := <-w.result:
		w.land(err, time.Now())
		w.signal()
	default:
	}
	q := &w.queue
	return keptTarget{
		Name: w.name, Pending: slices.Clone(q.pending), Dropped: q.dropped,
		Last: q.last, Retry: q.retry, Fails: q.fails, FailingSince: w.state.FailingSince,
	}
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
	w.queue = queue{dropped: max(t.Dropped, 0), fails: min(max(t.Fails, 0), 64)}
	if !t.Last.After(now) {
		w.queue.last = t.Last
	}
	if t.Retry.Before(now.Add(longestRefuse)) {
		w.queue.retry = t.Retry
	}
	dropped := 0
	for _, p := range t.Pending {
		if p.Queued.After(now) { // the clock was set back
			p.Queued = now
		}
		dropped += w.queue.add(p.sane(), p.Queued)
	}
	for _, p := range newer {
		dropped += w.queue.add(p.Event, p.Queued)
	}
	if w.queue.fails > 0 {
		w.state.FailingSince, w.kind = t.FailingSince, failing
	}
	w.drop(dropped, tooMany)
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
