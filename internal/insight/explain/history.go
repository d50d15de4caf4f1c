package explain

import (
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// forgetAfter is how long what was going on is remembered of a device that is
// in no snapshot.
const forgetAfter = time.Hour

// A History remembers what the rules need of each device's past: some kilobytes
// a device, however long it runs. One goroutine feeds it; its answers may be
// asked for by many.
type History struct {
	mu      sync.Mutex
	devices map[key]*remembered
	// absent are devices that are not in the snapshots now, with what was
	// learned of them, in an earlier run or this one.
	absent map[key]keptDevice
	// The newest snapshot with its answer, and the one before, which is still
	// asked about while the newest is being handed out.
	newest, before found
}

type found struct {
	snapshot *gpu.Snapshot
	answer   Answer
}

// What was learned of a simulation never serves a real device.
type key struct {
	node, uuid string
	simulated  bool
}

func keyOf(d *gpu.Device) key { return key{d.Node, d.UUID, d.Source == gpu.SourceSimulated} }

type remembered struct {
	memory
	seen time.Time
}

// NewHistory returns a history of nothing.
func NewHistory() *History {
	return &History{devices: map[key]*remembered{}, absent: map[key]keptDevice{}}
}

// Add takes the next snapshot in, and finds its answer.
func (h *History) Add(s *gpu.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range s.Devices {
		d := &s.Devices[i]
		k := keyOf(d)
		r := h.devices[k]
		if r == nil {
			past := h.absent[k]
			delete(h.absent, k)
			r = &remembered{memory: past.memory()}
			h.devices[k] = r
		}
		r.step(d, sampledAt(d, s))
		r.seen = s.Time
	}
	for k, r := range h.devices {
		if s.Time.Sub(r.seen) > forgetAfter {
			if delete(h.devices, k); len(h.absent) < maxKept {
				h.absent[k] = r.keep(k)
			}
		}
	}
	h.before = h.newest
	h.newest = found{s, answer(s, func(d *gpu.Device) *memory { return &h.devices[keyOf(d)].memory })}
}

// Explain answers for a snapshot: the newest that was added or the one before,
// one that was read beside them, or one of which only a part is looked at, for
// which the answer is that of the whole. s may be nil: nothing was read yet. The history does not
// change.
func (h *History) Explain(s *gpu.Snapshot) Answer {
	s = s.Whole()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range []*found{&h.newest, &h.before} {
		if s != nil && s == f.snapshot {
			return f.answer
		}
	}
	return answer(s, func(d *gpu.Device) *memory {
		m := new(memory)
		k := keyOf(d)
		if r := h.devices[k]; r != nil {
			*m = r.memory
		} else if past, ok := h.absent[k]; ok {
			*m = past.memory()
		}
		m.step(d, sampledAt(d, s))
		return m
	})
}

// Explain answers for a snapshot without a past: what only time can tell, such
// as that work has ended, is not found. s may be nil.
func Explain(s *gpu.Snapshot) Answer { return NewHistory().Explain(s) }

// Why is the answer in one sentence, without a past.
func Why(s *gpu.Snapshot) string { return Explain(s).Sentence }

// sampledAt is when a device was read.
func sampledAt(d *gpu.Device, s *gpu.Snapshot) time.Time {
	if d.SampledAt.IsZero() {
		return s.Time
	}
	return d.SampledAt
}
