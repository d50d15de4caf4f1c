package insight

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
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

// Addressable reports whether a node of that key can have a page: in an address, "." and ".." stand for other things.
func Addressable(key string) bool { return key != "." && key != ".." }

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
	// Every is the time between its readings, as who reads it says; 0 where that is this program, as often as it reads others.
	Every time.Duration
	// Sent is when its last message was made, by the node's clock: the same at all who have had that.
	Sent time.Time
	// At is when this program last knew whether news come, by its own clock.
	At time.Time
	// Silent is since when nothing has come of the node, and the Moment is its last; zero while news come.
	// Why says what is known of that, and what to do.
	Silent time.Time
	Why    gpu.Advice
	// Notes are what is wrong with the link while news come, such as a clock that differs.
	Notes []gpu.Advice
}

// At returns the same Moment of a node in that place, whose Moments come in that way. Of a node that is
// silent no reading is fresh: see [Moment.Last] for what it last was.
func (m *Moment) At(place Place, link Link) *Moment {
	was := m.Last()
	moved := func(s *gpu.Snapshot, of []attribute.Attribution, a explain.Answer) *Moment {
		out := &Moment{Snapshot: s, Attribution: of, Answer: a, Place: place, Link: link}
		out.alone = sync.OnceValue(func() *Fleet { return NewFleet(out) })
		return out
	}
	last := moved(was.Snapshot, was.Attribution, was.Answer)
	if !last.Silent() {
		return last
	}
	s := outlived(last.Snapshot, &link)
	out := moved(s, attribute.Snapshot(s), explain.Outlived(s, &last.Answer, link.Why))
	out.last = last
	return out
}

// Silent reports whether nothing comes of the node any more.
func (m *Moment) Silent() bool { return !m.Link.Silent.IsZero() }

// Last is the Moment as it was when its node fell silent, and the Moment itself while news come.
func (m *Moment) Last() *Moment { return cmp.Or(m.last, m) }

// Standing is how the node does.
func (m *Moment) Standing() explain.Standing { return m.member().Standing() }

// WorstFirst orders nodes by what people should see first, as [explain.WorstFirst] does.
func WorstFirst(a, b *Moment) int { return explain.WorstFirst(a.member(), b.member()) }

func (m *Moment) member() explain.Member {
	return explain.Member{Node: m.Snapshot.Node, Silent: m.Silent(), Answer: &m.Answer}
}

// outlived is the last snapshot of a node that is silent: its devices do not answer, and none of their
// readings is fresh. What was read of the machine is not known any more.
func outlived(last *gpu.Snapshot, link *Link) *gpu.Snapshot {
	s := *last
	s.Host, s.Notes, s.Tried = nil, nil, nil
	s.Failures = []gpu.Failure{{Source: s.Source, Since: link.Silent, Advice: link.Why}}
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		d := &s.Devices[i]
		d.Readings = d.Stale()
		if d.State != gpu.StateLost {
			d.State, d.Since, d.Reason = gpu.StateNotAnswering, link.Silent, link.Why
		} else if d.Reason.What != "" {
			d.Reason.What = "when it last reported: " + d.Reason.What
		}
	}
	return &s
}

// Name is what the node is called in its cluster.
func (m *Moment) Name() string { return cmp.Or(m.Place.Name, m.Snapshot.Node) }

// compareNodes orders Moments by the names of their nodes.
func compareNodes(a, b *Moment) int { return strings.Compare(a.Snapshot.Node, b.Snapshot.Node) }
