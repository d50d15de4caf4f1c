package explain

import (
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A History remembers what the rules need of each device's past: some kilobytes per device. Several goroutines may call its methods.
type History struct {
	mu       sync.Mutex
	devices  map[state.Device]*memory
	machines map[string]*machineMemory // by node
	swept    time.Time                 // when departed devices were last looked for
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{devices: map[state.Device]*memory{}, machines: map[string]*machineMemory{}}
}

// Add learns from the next snapshot of a node, and answers for it.
func (h *History) Add(s *gpu.Snapshot) Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.forget(s.Time)
	return answer(s, h.machineOf(s.Node), h.learnAt(s.Time))
}

// Learn learns as Add does, but saves most of the work by giving no answer. The only thing that it does not learn is which device was named
// first.
func (h *History) Learn(s *gpu.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.forget(s.Time)
	machineCauses(s, h.machineOf(s.Node), all(s, h.learnAt(s.Time)))
}

func (h *History) machineOf(node string) *machineMemory {
	if h.machines[node] == nil {
		h.machines[node] = new(machineMemory)
	}
	return h.machines[node]
}

// learnAt gives a device its memory, and adds its reading to it.
func (h *History) learnAt(now time.Time) func(*device) {
	return func(d *device) {
		m := h.devices[d.key()]
		if m == nil {
			m = h.asleep(d)
			h.devices[d.key()] = m
		}
		m.step(d)
		m.seen = now
	}
}

// asleep returns the memory of a device that gets its UUID only now that it is awake, or a new memory.
func (h *History) asleep(d *device) *memory {
	k := d.key()
	k.UUID = gpu.UUIDAt(d.PCI)
	if m := h.devices[k]; m != nil && d.PCI != "" {
		delete(h.devices, k)
		return m
	}
	return new(memory)
}

// forget bounds, now and then, how many departed devices are remembered.
func (h *History) forget(now time.Time) {
	if age := now.Sub(h.swept); 0 <= age && age < time.Minute {
		return
	}
	h.swept = now
	left := 0
	for k, m := range h.devices {
		if now.Sub(m.seen) <= time.Hour {
			continue
		}
		if left++; left > state.MaxDevices {
			delete(h.devices, k)
		}
	}
}

// Beside answers for a snapshot that was read outside the sequence of Add, for example on demand. It does not change what the history
// remembers.
func (h *History) Beside(s *gpu.Snapshot) Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return answer(s, h.machines[s.Node].copied(), func(d *device) {
		m := new(memory)
		if known := h.devices[d.key()]; known != nil {
			m = known.copied()
		}
		m.step(d)
	})
}

func (d *device) key() state.Device {
	return state.DeviceOf(d.Device)
}

// Explain answers for a snapshot without a past: it can't find causes that only time can show, such as work that has ended.
func Explain(s *gpu.Snapshot) Answer { return NewHistory().Beside(s) }
