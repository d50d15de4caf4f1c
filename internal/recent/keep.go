package recent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// saved is the form in which a store is kept.
type saved struct {
	// Origin is what the readings were taken from; those of a simulation
	// are never shown for a real machine.
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

// Keep returns the store for [Store.Restore]. Origin says what the readings
// were taken from.
func (s *Store) Keep(origin string) ([]byte, error) {
	view := s.View(nil)
	out := saved{Origin: origin, Times: view.Times}
	for i := range view.Series {
		series := &view.Series[i]
		d := savedDevice{Node: series.Node, UUID: series.UUID, Name: series.Name, Index: series.Index, Values: map[string][]*float64{}}
		for _, m := range Metrics() {
			d.Values[m.String()] = nullable(series.Values[m])
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

// Restore fills an empty store with what Keep returned for the same origin, as
// far as it is not older than Span at now. What is another origin's fills in
// nothing.
func (s *Store) Restore(text []byte, origin string, now time.Time) error {
	var in saved
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("recent: what was kept can't be read: %w", err)
	}
	if in.Origin != origin {
		return nil
	}
	for i, at := range in.Times {
		if age := now.Sub(at); age > Span || age < 0 {
			continue
		}
		s.Add(in.snapshot(i, at))
	}
	return nil
}

// snapshot is the i-th moment of the file.
func (f *saved) snapshot(i int, at time.Time) *gpu.Snapshot {
	snap := &gpu.Snapshot{Time: at}
	for _, d := range f.Devices {
		value := func(m Metric) (float64, bool) {
			if list := d.Values[m.String()]; i < len(list) && list[i] != nil {
				return *list[i], true
			}
			return 0, false
		}
		device := gpu.Device{Identity: gpu.Identity{Node: d.Node, UUID: d.UUID, Name: d.Name, Index: d.Index}}
		device.Utilization.GPU = reading[gpu.Percent](value(Utilization))
		if used, ok := value(Memory); ok {
			// What is kept of memory is its share: a total in
			// hundredths of a percent brings it back.
			const whole = 10_000
			device.Memory.Total, device.Memory.Used = gpu.Of[gpu.Bytes](whole), gpu.Of(gpu.Bytes(used/100*whole+0.5))
		}
		device.Thermal.GPU = reading[gpu.Celsius](value(Temperature))
		device.Power.Draw = reading[gpu.Watts](value(Power))
		device.Fans.Fans = []gpu.Fan{{Commanded: reading[gpu.Percent](value(Fan))}}
		device.Clocks.SM = reading[gpu.Megahertz](value(SMClock))
		device.Activity.MemoryBandwidth = reading[gpu.Percent](value(Bandwidth))
		snap.Devices = append(snap.Devices, device)
	}
	return snap
}

func reading[T ~float64](v float64, ok bool) gpu.Reading[T] {
	if !ok {
		return gpu.Reading[T]{}
	}
	return gpu.Of(T(v))
}
