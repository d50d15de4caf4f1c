package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// kept is what waits over a restart. It has no addresses.
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

// Keep returns what waits, for [Notifier.Restore]. It includes a message under
// way, which may so be sent twice. It is at most 4 MiB; of more, it leaves out
// what matters least, and the next message says how many events.
func (n *Notifier) Keep() ([]byte, error) {
	out := kept{Version: keptVersion, Targets: []keptTarget{}}
	n.mu.Lock()
	for _, w := range n.workers {
		w.mu.Lock()
		out.Targets = append(out.Targets, keptTarget{w.name, w.queue.clone(), w.state.FailingSince})
		w.mu.Unlock()
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

// Restore puts what Keep returned before what waits. Call it before Run. It drops
// what is for a target that the configuration does not have any more.
func (n *Notifier) Restore(text []byte) error {
	var in kept
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("notify: what was kept can't be read: %w", err)
	}
	if in.Version != keptVersion {
		n.log.Warn("kept events are of another version of gpuwhy and are not sent", "version", in.Version)
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range in.Targets {
		t := &in.Targets[i]
		j := slices.IndexFunc(n.workers, func(w *worker) bool { return w.name == t.Name })
		if j >= 0 {
			n.workers[j].restore(t, time.Now())
		} else if len(t.Pending) > 0 {
			n.log.Warn("events are not sent: the target is not configured any more",
				"target", cut(clean(t.Name), longestName), "events", len(t.Pending))
		}
	}
	return nil
}

// restore takes over a queue that was read from a file, within its bounds.
func (w *worker) restore(t *keptTarget, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	newer := w.queue.Pending
	w.queue = queue{dropped: dropped{Crowded: max(t.Crowded, 0), Late: max(t.Late, 0)}, Fails: min(max(t.Fails, 0), 64)}
	for _, k := range t.Known {
		w.queue.know(cut(k.ID, 2*longestName), k.Told)
	}
	if !t.Last.After(now) {
		w.queue.Last = t.Last
	}
	if t.Retry.Before(now.Add(longestRefuse)) {
		w.queue.Retry = t.Retry
	}
	many := 0
	for _, p := range append(t.Pending, newer...) {
		if p.Queued.After(now) { // the clock was set back
			p.Queued = now
		}
		many += w.queue.add(p.bounded(), p.Queued)
	}
	if w.queue.Fails > 0 {
		w.state.FailingSince = t.FailingSince
	}
	w.drop(many, tooMany)
	poke(w.wake)
}
