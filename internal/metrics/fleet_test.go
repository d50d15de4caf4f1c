package metrics

import (
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A node that is silent has two series; every other of a fleet names its node.
func TestSilentNode(t *testing.T) {
	var moments []*insight.Moment
	for i, s := range fixture.Fleet() {
		m := insight.Of(s)
		if i == 1 {
			m = m.At(insight.Place{}, insight.Link{Remote: true, Silent: s.Time})
		}
		moments = append(moments, m)
	}
	f := insight.NewFleet(moments...)
	e := exporterOf(t, fixture.Fleet()[0])
	e.cfg.Newest = func() *insight.Fleet { return f }
	all := samples(t, e)
	for series, want := range map[string]float64{"node-001": 0, "node-002": 1, "node-003": 0} {
		if v, found := withName(all, "gpuwhy_node_silent")[`{node="`+series+`"}`]; !found || v != want {
			t.Errorf("%s is silent: %v, %v", series, v, found)
		}
	}
	if seen := withName(all, "gpuwhy_node_last_seen_timestamp_seconds"); len(seen) != 3 {
		t.Errorf("last seen: %v", seen)
	}
	read := 0
	for name := range all {
		ours := strings.HasPrefix(name, "gpuwhy_gpu") || strings.HasPrefix(name, "gpuwhy_host") || strings.HasPrefix(name, "gpuwhy_node")
		if ours && !strings.Contains(name, `node="node-00`) {
			t.Errorf("%s names no node", name)
		}
		if strings.Contains(name, `node="node-002"`) && !strings.HasPrefix(name, "gpuwhy_node_") || strings.Contains(name, `ostname="node-002"`) {
			t.Errorf("%s is of a silent node", name)
		}
		if strings.HasPrefix(name, "gpuwhy_gpu_power_watts") {
			read++
		}
	}
	if read != 2 {
		t.Errorf("%d GPUs have a power draw, want those of the others", read)
	}
	if own := withName(samples(t, exporterOf(t, fixture.Fleet()[0])), "gpuwhy_node_silent"); len(own) != 0 {
		t.Errorf("of this machine alone: %v", own)
	}
}
