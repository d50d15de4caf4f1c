package explain

import (
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// forgetAfter is how long what was going on is remembered of a device that is
// in no snapshot.
const forgetAfter = time.Hour

// A History remembers what the rules need of each device's past: some kilobytes
// a device, however long it runs. Its methods may be called by several
// goroutines.
type History struct {
	mu      sync.Mutex
	devices map[keep.Device]*remembered
	// absent are devices that are not in the snapshots now, with what was
	// learned of them, in an earlier run or this one.
	absent map[keep.Device]keptDevice
	swept  time.Time // when absent devices were looked for last
}

func keyOf(d *gpu.Device) keep.Device {
	return keep.Device{Node: d.Node, UUID: d.UUID, Simulated: d.Source == gpu.SourceSimulated}
}

type remembered struct {
	memory
	seen time.Time
}

// NewHistory returns a history of nothing.
func NewHistory() *History {
	return &History{devices: map[keep.Device]*remembered{}, absent: map[keep.Device]keptDevice{}}
}

// Add learns from the next snapshot of a node, and answers for it.
func (h *History) Add(s *gpu.Snapshot) Answer {
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
	h.forget(s.Time)
	return answer(s, func(d *gpu.Device) *memory { return &h.devices[keyOf(d)].memory })
}

// forget puts what was learned of devices that left aside, now and then: the
// program may have many nodes, and each adds its snapshots.
func (h *History) forget(now time.Time) {
	if age := now.Sub(h.swept); 0 <= age && age < time.Minute {
		return
	}
	h.swept = now
	for k, r := range h.devices {
		if now.Sub(r.seen) > forgetAfter {
			if delete(h.devices, k); len(h.absent) < keep.MaxDevices {
				h.absent[k] = r.keep(k)
			}
		}
	}
}

// Beside answers for a snapshot that was read beside those that are added, such
// as one on demand. The history does not change.
func (h *History) Beside(s *gpu.Snapshot) Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
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
// as that work has ended, is not found.
func Explain(s *gpu.Snapshot) Answer { return NewHistory().Beside(s) }

// sampledAt is when a device was read.
func sampledAt(d *gpu.Device, s *gpu.Snapshot) time.Time {
	if d.SampledAt.IsZero() {
		return s.Time
	}
	return d.SampledAt
}
