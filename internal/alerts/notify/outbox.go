package notify

import (
	"slices"
	"time"
)

// Kept has the waiting events to keep over a restart, without addresses.
type Kept struct {
	Targets []keptTarget `json:"targets"`
}

// mostKept is how many events are kept, of all targets together: some MiB.
const mostKept = 3000

type keptTarget struct {
	Name string `json:"name"`
	queue
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// Kept returns the waiting events. They include a message being sent, which may therefore be sent
// twice. If there are too many, it leaves out those that matter least, and the next message says
// how many.
func (n *Notifier) Kept() Kept {
	n.mu.Lock()
	defer n.mu.Unlock()
	out, left := Kept{}, 0
	for _, w := range n.workers {
		t := keptTarget{w.name, w.queue.clone(), w.state.FailingSince}
		left += t.trim(mostKept / len(n.workers))
		out.Targets = append(out.Targets, t)
	}
	if left > 0 {
		n.log.Warn("too many events are waiting to keep all of them over a restart", "events", left)
	}
	return out
}

// Restore puts saved events before waiting ones. Call it before Run. It drops events of targets
// that are no longer configured.
func (n *Notifier) Restore(kept Kept, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range kept.Targets {
		t := &kept.Targets[i]
		j := slices.IndexFunc(n.workers, func(w *worker) bool { return w.name == t.Name })
		if j >= 0 {
			n.workers[j].restore(t, now)
		} else if len(t.Pending) > 0 {
			n.log.Warn("events will not be sent: the target is no longer configured",
				"target", cut(clean(t.Name), longestName), "events", len(t.Pending))
		}
	}
	return nil
}

// restore takes over a queue that was read from a file, within its bounds.
func (w *worker) restore(t *keptTarget, now time.Time) {
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
	defer w.noteDropped(w.queue.dropped)
	for _, p := range append(t.Pending, newer...) {
		if p.Queued.After(now) { // the clock was set back
			p.Queued = now
		}
		w.queue.add(p.bounded(), p.Queued)
	}
	if w.queue.Fails > 0 {
		w.state.FailingSince = t.FailingSince
	}
	poke(w.wake)
}
