package recent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func filled(start time.Time) *Store {
	s := New()
	for i := range 10 {
		d := gpu.Device{Identity: gpu.Identity{Node: "n", UUID: "GPU-1", Name: "Card", Index: 3}}
		if i != 4 { // a gap
			d.Utilization.GPU = gpu.Of(gpu.Percent(10 * i))
			d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](1000), gpu.Of(gpu.Bytes(i))
			d.Power.Draw = gpu.Of(gpu.Watts(float64(i) + 0.5))
			d.Activity.MemoryBandwidth = gpu.Of(gpu.Percent(3 * i))
		}
		s.Add(&gpu.Snapshot{Time: start.Add(time.Duration(i) * 5 * time.Second), Devices: []gpu.Device{d}})
	}
	return s
}

// restore fills a store by way of a file.
func restore(t *testing.T, after, before *Store, now time.Time) {
	t.Helper()
	text, err := json.Marshal(before.Kept())
	var kept View
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil {
		err = after.Restore(kept, now)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsKeptIsRestored(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := filled(start)
	after := New()
	restore(t, after, before, start.Add(time.Minute))
	if diff := cmp.Diff(before.View(nil), after.View(nil), cmpopts.EquateComparable(gpu.Reading[float64]{})); diff != "" {
		t.Errorf("restored differs from kept (-want +got):\n%s", diff)
	}
	if v := after.View(nil).Series[0].Values["temperature_celsius"][0]; v.Present() {
		t.Errorf("a temperature that was never read came back as %v", v)
	}
}

func TestNothingOldIsRestored(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		why  string
		now  time.Time
		want int
	}{
		{"too old", start.Add(time.Hour), 0},
		{"partly too old", start.Add(Span + 20*time.Second), 6},
		{"from the future", start.Add(-time.Hour), 0},
	} {
		s := New()
		restore(t, s, filled(start), tt.now)
		if got := len(s.View(nil).Times); got != tt.want {
			t.Errorf("%s: %d moments restored, want %d", tt.why, got, tt.want)
		}
	}
}
