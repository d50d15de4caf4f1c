package record

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A simulated machine is read at any time.
type simulated struct {
	t     testing.TB
	now   time.Time
	nodes []*sim.Source
}

func simulate(t testing.TB, profile string, when time.Time) *simulated {
	x := &simulated{t: t, now: when}
	var err error
	if x.nodes, err = sim.Nodes(profile, func() time.Time { return x.now }); err != nil {
		t.Fatal(err)
	}
	return x
}

// read reads a node, as a sampler does.
func (x *simulated) read(node *sim.Source) *gpu.Snapshot {
	s, err := node.Read(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	s.Node = node.Node()
	for i := range s.Devices {
		s.Devices[i].Node, s.Devices[i].Index = s.Node, i
	}
	return s
}
