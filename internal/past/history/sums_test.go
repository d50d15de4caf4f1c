package history

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Usage is summed by container and unit, and by node and cluster; the energy of these is all that their devices drew, those too that
// nobody used.
func TestUsageOfContainersAndMachines(t *testing.T) {
	t.Parallel()
	key := func(node, uuid string) store.Key { return store.Key{Node: node, UUID: uuid} }
	in := func(container, unit string) func(*store.Session) {
		return func(s *store.Session) {
			s.Container, s.Unit = container, unit
			s.Joules, s.JoulesKnown = 1000*s.Seen.Seconds(), s.Seen
		}
	}
	m := &memory{sessions: []store.Session{
		session("ann", "x", key("lab:one", "GPU-1"), 0, time.Hour, in("web", "")),
		session("bob", "y", key("lab:one", "GPU-2"), 0, 2*time.Hour, in("", "ollama.service")),
		session("ann", "x", key("lab:two", "GPU-3"), 0, 30*time.Minute, in("web", "")),
		session("ann", "x", key("desk", "GPU-4"), 0, 15*time.Minute, in("", "")),
	}}
	for minute := range 120 {
		for _, k := range []store.Key{key("lab:one", "GPU-1"), key("lab:one", "GPU-2"), key("lab:two", "GPU-3"), key("idle", "GPU-5")} {
			r := reading(k, midnight.Add(time.Duration(minute)*time.Minute), 100)
			r.Tier = store.Minute
			r.Values[store.ReadSeconds] = store.Value{Least: 60, Mean: 60, Most: 60, Count: 1}
			m.rows = append(m.rows, r)
		}
	}
	p := newPast(m, midnight.Add(2*time.Hour))
	const all = 2 * 3600 * 100. // joules of one device
	for grouping, want := range map[Grouping]map[string]struct {
		held    time.Duration
		devices int
		joules  float64 // 0: not known
		known   float64
	}{
		ByContainer: {"web": {90 * time.Minute, 2, 5400e3, 1}, "": {135 * time.Minute, 2, 8100e3, 1}},
		ByUnit:      {"ollama.service": {2 * time.Hour, 1, 7200e3, 1}, "": {105 * time.Minute, 3, 6300e3, 1}},
		ByNode: {"lab:one": {3 * time.Hour, 2, 2 * all, 1}, "lab:two": {30 * time.Minute, 1, all, 1}, "desk": {15 * time.Minute, 1, 0, 0},
			"idle": {0, 1, all, 1}},
		ByCluster: {"lab": {210 * time.Minute, 3, 3 * all, 1}, "": {15 * time.Minute, 2, all, 0.5}},
	} {
		list, err := p.Usage(t.Context(), grouping, store.Query{From: midnight, To: midnight.Add(2 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			w, asked := want[u.Name]
			joules := gpu.Of(w.joules)
			if w.joules == 0 {
				joules = gpu.Reading[float64]{}
			}
			if !asked || u.Held != w.held || u.Devices != w.devices || u.Joules != joules || u.JoulesKnown != w.known {
				t.Errorf("by %s: %+v, want %+v", grouping, u, w)
			}
		}
		if len(list) != len(want) || !slices.IsSortedFunc(list, compareHeld) {
			t.Errorf("by %s: %+v", grouping, list)
		}
	}
	part, err := p.Usage(t.Context(), ByNode, store.Query{From: midnight, To: midnight.Add(2 * time.Hour), User: "ann"})
	if err != nil || len(part) == 0 {
		t.Fatal(part, err)
	}
}
