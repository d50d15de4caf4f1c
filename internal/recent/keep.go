package recent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// saved is the form in which a store is kept.
type saved struct {
	// Origin says where the readings come from. Those of a simulation are never
	// shown for a real machine.
	Origin  string        `json:"origin"`
	Times   []time.Time   `json:"times"`
	Devices []savedDevice `json:"devices"`
}

type savedDevice struct {
	Node  string `json:"node"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Values by metric's name; null where there was no reading.
	Values map[string][]*float64 `json:"values"`
}

// Keep returns the store for [Store.Restore]. Origin says where the readings come
// from.
func (s *Store) Keep(origin string) ([]byte, error) {
	view := s.View(nil)
	out := saved{Origin: origin, Times: view.Times}
	for i := range view.Series {
		series := &view.Series[i]
		d := savedDevice{Node: series.Node, UUID: series.UUID, Name: series.Name, Index: series.Index, Values: map[string][]*float64{}}
		for m, values := range series.Values {
			d.Values[m.String()] = nullable(values)
		}
		out.Devices = append(out.Devices, d)
	}
	return json.Marshal(out)
}

func nullable(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		if v == v { // not NaN
			out[i] = new(v)
		}
	}
	return out
}

// Restore fills an empty store with what Keep returned, without readings that are
// older than Span at now. It ignores the readings of another origin.
func (s *Store) Restore(text []byte, origin string, now time.Time) error {
	var in saved
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("recent: what was kept can't be read: %w", err)
	}
	if in.Origin != origin {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range in.Times {
		if age := now.Sub(at); age > Span || age < 0 || !s.begin("", at) {
			continue
		}
		for _, d := range in.Devices {
			id := gpu.Identity{Node: d.Node, UUID: d.UUID, Name: d.Name, Index: d.Index}
			s.add(&id, func(r *catalog.Row) gpu.Reading[float64] {
				if list := d.Values[r.Kept]; i < len(list) && list[i] != nil {
					return gpu.Of(*list[i])
				}
				return gpu.Reading[float64]{}
			})
		}
	}
	return nil
}
