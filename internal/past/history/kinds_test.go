package history

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// What was invented before or after a span, or on another device than those asked for, is not in it.
func TestKinds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 2, 30, 0, 0, time.UTC)
	devices := map[store.Key]store.Device{}
	for _, d := range []store.Device{
		{UUID: "real", Kind: gpu.Live, First: now.Add(-time.Hour), Last: now},
		{UUID: "invented", Kind: gpu.Simulated, First: now.Add(-2 * time.Hour), Last: now.Add(-time.Hour)},
		{UUID: "new", Kind: gpu.Recorded},
		{UUID: "unknown"},
		{Kind: gpu.Simulated}, // the machine
	} {
		devices[d.Key()] = d
	}
	all := []gpu.Kind{gpu.Live, gpu.Recorded, gpu.Simulated}
	for name, tt := range map[string]struct {
		q    store.Query
		want []gpu.Kind
	}{
		"all":      {store.Query{}, all},
		"both":     {store.Query{From: now.Add(-time.Hour), To: now}, all},
		"later":    {store.Query{From: now.Add(-time.Minute), To: now}, []gpu.Kind{gpu.Live, gpu.Recorded}},
		"earlier":  {store.Query{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}, []gpu.Kind{gpu.Recorded, gpu.Simulated}},
		"one":      {store.Query{Keys: []store.Key{{UUID: "invented"}}}, []gpu.Kind{gpu.Simulated}},
		"not kept": {store.Query{Keys: []store.Key{{UUID: "unknown"}}}, nil},
	} {
		if got := Kinds(devices, tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
