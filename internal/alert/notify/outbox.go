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
	Name string `json:"name"`
	queue
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// Keep returns what waits, for [Notifier.Restore]. A message under way is part
// of it, and may so be sent twice. It is at most 4 MiB; of more, what matters
// least is left out, and the next message says how many.
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
			q := &out.Targets[i].queue
			left += q.trim(most / 2)
			q.Known = q.Known[max(0, len(q.Known)-most):]
		}
		if left > 0 {
			n.log.Warn("events are not kept over a restart: there are too many", "events", left)
		}
	}
}

func (w *worker) keep() keptTarget {
	w.mu.Lock()
	defer w.mu.Unlock()
	return keptTarget{w.name, w.queue.clone(), w.state.FailingSince}
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
	newer, old := w.queue.Pending, &t.queue
	w.queue = queue{dropped: dropped{Crowded: max(old.Crowded, 0), Late: max(old.Late, 0)}, Fails: min(max(old.Fails, 0), 64)}
	for _, k := range old.Known {
		w.queue.know(cut(k.ID, 2*longestName), k.Told)
	}
	if !old.Last.After(now) {
		w.queue.Last = old.Last
	}
	if old.Retry.Before(now.Add(longestRefuse)) {
		w.queue.Retry = old.Retry
	}
	many := 0
	for _, p := range old.Pending {
		if p.Queued.After(now) { // the clock was set back
			p.Queued = now
		}
		many += w.queue.add(p.sane(), p.Queued)
	}
	for _, p := range newer {
		many += w.queue.add(p.Event, p.Queued)
	}
	if w.queue.Fails > 0 {
		w.state.FailingSince = t.FailingSince
	}
	w.drop(many, tooMany)
	poke(w.wake)
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
