//go:build !race

package contract_test

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Of a node that is silent no reading counts: it says so, since when, and what is known of it.
func TestSilentNode(t *testing.T) {
	since := fixture.Time.Add(time.Minute)
	var moments []*insight.Moment
	for i, s := range fixture.Fleet() {
		m := insight.Of(s)
		if i == 1 {
			m = m.At(insight.Place{}, insight.Link{Remote: true, Silent: since, Why: gpu.Advice{What: "the agent sends nothing", Try: "look whether it runs"}})
		}
		moments = append(moments, m)
	}
	f := insight.NewFleet(moments...)
	monitor := contract.Monitor{Node: "hub", Several: true}

	sum, without := contract.NewSummary(monitor, f, 0), contract.NewSummary(monitor, insight.NewFleet(moments[0], moments[2]), 0)
	if sum.Devices != 4 || sum.NodeCount != 3 || sum.SilentNodes != 1 || without.SilentNodes != 0 {
		t.Errorf("%d GPUs, %d nodes, %d silent", sum.Devices, sum.NodeCount, sum.SilentNodes)
	}
	if sum.PowerDraw != without.PowerDraw || sum.Temperature != without.Temperature || sum.MemoryUsed != without.MemoryUsed || sum.Processes != without.Processes {
		t.Errorf("what is old counts: %+v, without the node %+v", sum.Totals, without.Totals)
	}
	u := contract.NewUpdate(moments[1], nil)
	if u.Status != "silent" || u.SilentSince == "" || u.Node != "node-002" || u.Host != nil || len(u.GPUs) != 2 {
		t.Fatalf("%+v", u)
	}
	if want := "the agent sends nothing"; len(u.Failures) != 1 || u.Failures[0].What != want {
		t.Errorf("it does not say why: %+v", u.Failures)
	}
	last := contract.NewUpdate(moments[1].Last(), nil)
	for i := range u.GPUs {
		g := &u.GPUs[i]
		if g.State != "not_answering" || g.Temperature.GPU.Quality() != gpu.Stale || g.SampledAt == nil || *g.SampledAt != *last.GPUs[i].SampledAt {
			t.Errorf("GPU %d: %s, %v, read at %v", i, g.State, g.Temperature.GPU, g.SampledAt)
		}
	}
	if len(last.GPUs) != 2 || !last.GPUs[0].Temperature.GPU.Present() {
		t.Errorf("its last readings are lost: %+v", last.GPUs)
	}
	s := contract.NewGPUStatus(monitor, f, nil, since.Add(time.Minute))
	if n := s.Nodes[1]; s.Status != "degraded" || n.State != "silent" || n.SilentSince != u.SilentSince || n.Age < 60 || s.Nodes[0].State != "ok" || s.Nodes[0].SilentSince != "" {
		t.Errorf("%s: %+v", s.Status, s.Nodes)
	}
	// A fleet of which nothing comes at all is silent, and a node that comes back is what it was.
	if s := contract.NewGPUStatus(monitor, insight.NewFleet(moments[1]), nil, since); s.Status != "silent" {
		t.Errorf("all silent: %s", s.Status)
	}
	back := moments[1].At(insight.Place{}, insight.Link{Remote: true})
	if u := contract.NewUpdate(back, nil); u.Status != "ok" || u.SilentSince != "" || !u.GPUs[0].Temperature.GPU.Present() {
		t.Errorf("come back: %+v", u)
	}
}

// Nodes are read as often as the programs say that read them; those that are silent count for nothing beside others.
func TestPaceOfAFleet(t *testing.T) {
	moment := func(node string, every time.Duration, silent time.Time) *insight.Moment {
		m := insight.Of(&gpu.Snapshot{Node: node, Time: time.Unix(1, 0)})
		return m.At(insight.Place{}, insight.Link{Remote: every > 0, Every: every, Silent: silent})
	}
	own, fast, slow, silent := moment("own", 0, time.Time{}), moment("fast", time.Second, time.Time{}), moment("slow", time.Minute, time.Time{}), moment("silent", time.Hour, time.Unix(2, 0))
	m := contract.Monitor{Interval: 5 * time.Second, Several: true}
	for name, tt := range map[string]struct {
		moments            []*insight.Moment
		least, usual, most time.Duration
	}{
		"none":             {nil, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		"its own":          {[]*insight.Moment{own}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
		"one":              {[]*insight.Moment{slow}, time.Minute, time.Minute, time.Minute},
		"two":              {[]*insight.Moment{fast, slow}, time.Second, time.Second, time.Minute},
		"several":          {[]*insight.Moment{own, fast, slow, silent}, time.Second, 5 * time.Second, time.Minute},
		"one that is mute": {[]*insight.Moment{silent}, time.Hour, time.Hour, time.Hour},
		"mute beside own":  {[]*insight.Moment{own, silent}, 5 * time.Second, 5 * time.Second, 5 * time.Second},
	} {
		f := insight.NewFleet(tt.moments...)
		if least, usual, most := m.Pace(f); least != tt.least || usual != tt.usual || most != tt.most {
			t.Errorf("%s: %v, %v and %v, want %v, %v and %v", name, least, usual, most, tt.least, tt.usual, tt.most)
		}
		if got := m.Of(f).Interval; got != tt.usual {
			t.Errorf("%s: the interval is %v, want %v", name, got, tt.usual)
		}
	}
}
