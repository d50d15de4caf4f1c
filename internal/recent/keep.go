package recent

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// Kept is what is kept of a store over a restart.
type Kept struct {
	Times   []time.Time  `json:"times"`
	Devices []keptDevice `json:"devices"`
}

type keptDevice struct {
	Node  string `json:"node"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Values by metric; null where there was no reading.
	Values map[Metric][]*float64 `json:"values"`
}

// Kept returns the whole store.
func (s *Store) Kept() Kept {
	view := s.View(nil)
	out := Kept{Times: view.Times}
	for _, series := range view.Series {
		d := keptDevice{Node: series.Node, UUID: series.UUID, Name: series.Name, Index: series.Index, Values: map[Metric][]*float64{}}
		for m, values := range series.Values {
			list := make([]*float64, len(values))
			for i, v := range values {
				if v == v { // not NaN
					list[i] = new(v)
				}
			}
			d.Values[m] = list
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

// Restore fills an empty store, as far as what was kept is not older than Span.
func (s *Store) Restore(kept Kept, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range kept.Times {
		if age := now.Sub(at); age > Span || age < 0 || !s.begin("", at) {
			continue
		}
		for _, d := range kept.Devices {
			id := gpu.Identity{Node: d.Node, UUID: d.UUID, Name: d.Name, Index: d.Index}
			s.add(&id, func(r *catalog.Row) gpu.Reading[float64] {
				if list := d.Values[Metric(r.Kept)]; i < len(list) && list[i] != nil {
					return gpu.Of(*list[i])
				}
				return gpu.Reading[float64]{}
			})
		}
	}
	return nil
}
