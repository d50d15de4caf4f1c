package history

import (
	"maps"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Kinds are the kinds of the devices that an answer to a query is about, each once and in order: of those that the query names,
// or of all, whose readings overlap its span. If there are several, the answer and its sums mix real and simulated or recorded devices.
func Kinds(devices map[store.Key]store.Device, q store.Query) []gpu.Kind {
	kinds := map[gpu.Kind]bool{}
	for k, d := range devices {
		asked := k.UUID != "" && (len(q.Keys) == 0 || slices.Contains(q.Keys, k))
		within := d.First.IsZero() || (q.To.IsZero() || d.First.Before(q.To)) && !d.Last.Before(q.From)
		if asked && within && d.Kind != "" {
			kinds[d.Kind] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}
