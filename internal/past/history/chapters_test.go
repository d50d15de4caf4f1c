package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// However many chapters a story has, what is not settled is asked for once of each tier, and all have their utilization.
func TestAStoryAsksOnceWhatIsNotSettled(t *testing.T) {
	column := store.DeviceColumns.Find("utilization_gpu")
	m := &memory{}
	const devices, each = 20, 5
	for d := range devices {
		key := store.Key{Node: "a", UUID: fmt.Sprint("GPU-", d)}
		m.devices = append(m.devices, store.Device{Node: key.Node, UUID: key.UUID, Index: d})
		for n := range each {
			begin := midnight.Add(time.Duration(n) * 30 * time.Minute)
			m.causes = append(m.causes, store.Cause{Key: key, From: begin, To: begin.Add(20 * time.Minute), Kind: string(explain.Work)})
			for i := range 20 {
				when := begin.Add(time.Duration(i) * time.Minute)
				r := store.Row{Key: key, Time: when, Readings: 1, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}
				r.Values[column] = store.Value{Least: float64(d), Mean: float64(d), Most: float64(d), Count: 1}
				m.rows = append(m.rows, r)
				m.unsettled = append(m.unsettled, store.Bucket{Key: key, Tier: store.Minute, Time: when})
			}
		}
	}
	p := newPast(m, midnight.Add(3*time.Hour))
	story, err := p.Why(t.Context(), store.Query{From: midnight, To: midnight.Add(3 * time.Hour)}, func(k store.Key) string { return k.UUID })
	if err != nil {
		t.Fatal(err)
	}
	if len(story.Chapters) != devices*each {
		t.Fatalf("%d chapters, want %d", len(story.Chapters), devices*each)
	}
	if m.asked > len(store.Tiers) {
		t.Errorf("it asked %d times", m.asked)
	}
	for _, c := range story.Chapters {
		var d int
		if _, err := fmt.Sscanf(c.UUID, "GPU-%d", &d); err != nil {
			t.Fatal(err)
		}
		if u, ok := c.Utilization.Get(); !ok || u != gpu.Percent(d) {
			t.Errorf("%s at %s: %v", c.UUID, c.From, c.Utilization)
		}
	}
}
