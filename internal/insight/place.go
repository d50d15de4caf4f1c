package insight

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Place is where a node is among others. It is zero for a machine that is on its own.
type Place struct {
	// Name is what the node is called in its cluster; empty where that is Snapshot.Node, which no two nodes of a
	// fleet have.
	Name    string
	Cluster string            // which cluster it is in; empty for none
	Labels  map[string]string // that the cluster, or who set the machine up, gave it; never changed
}

// Key is the name of a node of a cluster that no other node has: "cluster:node", or "node" where there is no cluster.
func Key(cluster, node string) string {
	if cluster == "" {
		return node
	}
	return cluster + ":" + node
}

// RackLabels are the labels that say in which rack a machine is; the first that it has counts.
var RackLabels = []string{"rack", "topology.kubernetes.io/rack", "topology.gpuwhy.io/rack"}

// Rack is the rack that the labels name; empty for none.
func (p *Place) Rack() string {
	for _, label := range RackLabels {
		if rack := p.Labels[label]; rack != "" {
			return rack
		}
	}
	return ""
}

// LabelNames are the names of the labels, in order.
func (p *Place) LabelNames() []string { return slices.Sorted(maps.Keys(p.Labels)) }

// A Link is how the Moments of a node come here. It is zero for what this program reads itself.
type Link struct {
	Remote  bool   // another gpuwhy reads the node
	Version string // of that
	// At is when this program last knew whether news come, by its own clock.
	At time.Time
	// Silent is since when nothing has come of the node, and the Moment is its last; zero while news come.
	// Why says what is known of that, and what to do.
	Silent time.Time
	Why    gpu.Advice
	// Notes are what is wrong with the link while news come, such as a clock that differs.
	Notes []gpu.Advice
}

// At returns the same Moment of a node in that place, whose Moments come in that way.
func (m *Moment) At(place Place, link Link) *Moment {
	moved := &Moment{Snapshot: m.Snapshot, Attribution: m.Attribution, Answer: m.Answer, Place: place, Link: link}
	moved.alone = sync.OnceValue(func() *Fleet { return NewFleet(moved) })
	return moved
}

// Name is what the node is called in its cluster.
func (m *Moment) Name() string { return cmp.Or(m.Place.Name, m.Snapshot.Node) }

// compareNodes orders Moments by the names of their nodes.
func compareNodes(a, b *Moment) int { return strings.Compare(a.Snapshot.Node, b.Snapshot.Node) }
