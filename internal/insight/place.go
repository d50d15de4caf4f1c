package insight

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Place is where a node is among others. It is zero for a standalone machine.
type Place struct {
	// Name is the node's name in its cluster; empty if that is Snapshot.Node, which is unique in a fleet.
	Name    string
	Cluster string            // its cluster; empty if none
	Labels  map[string]string // set by the cluster or by the person who set the machine up; never changed
}

// Key returns the unique name of a cluster's node: "cluster:node", or "node" without a cluster.
func Key(cluster, node string) string {
	if cluster == "" {
		return node
	}
	return cluster + ":" + node
}

// Addressable reports whether a node with this key can have a page: in an address, "." and ".." mean other things.
func Addressable(key string) bool { return key != "." && key != ".." }

// RackLabels are the labels that name a machine's rack; the first one present counts.
var RackLabels = []string{"rack", "topology.kubernetes.io/rack", "topology.gpuwhy.io/rack"}

// Rack returns the rack that the labels name; empty if none.
func (p *Place) Rack() string {
	for _, label := range RackLabels {
		if rack := p.Labels[label]; rack != "" {
			return rack
		}
	}
	return ""
}

// LabelNames returns the names of the labels, in order.
func (p *Place) LabelNames() []string { return slices.Sorted(maps.Keys(p.Labels)) }

// Machine returns what scopes tell the node apart by.
func (m *Moment) Machine() auth.Machine {
	return auth.Machine{Node: m.Snapshot.Node, Cluster: m.Place.Cluster, Labels: m.Place.Labels}
}

// Machine returns what scopes tell a node apart by. A node that has not been read yet, or not any more, has a name alone.
func (f *Fleet) Machine(node string) auth.Machine {
	if m, ok := f.Node(node); ok {
		return m.Machine()
	}
	return auth.Machine{Node: node}
}

// Has reports whether a node is in a scope.
func (f *Fleet) Has(s auth.Scope) bool {
	return slices.ContainsFunc(f.Moments(), func(m *Moment) bool { return s.Has(m.Machine()) })
}

// Seen returns the fleet as an audience sees it: without the other nodes, and with its command lines. It is nil where f is.
func (f *Fleet) Seen(audience auth.Audience) *Fleet {
	if f == nil || audience == auth.Everything {
		return f
	}
	var moments []*Moment
	for _, m := range f.moments {
		if audience.Sees(m.Machine()) {
			moments = append(moments, m.For(audience))
		}
	}
	seen := fleetOf(moments)
	if seen.unseen = len(moments) == 0 && len(f.moments) > 0; seen.unseen {
		seen.answer = sync.OnceValue(func() *explain.Answer { return new(explain.Unseen()) })
	}
	return seen
}

// A Link is how a node's Moments arrive. It is zero for nodes that this program reads itself.
type Link struct {
	Remote  bool   // another gpuwhy reads the node
	Version string // that gpuwhy's version
	// Every is the time between its readings, as its reader reports; 0 if this program reads it, as often as its other nodes.
	Every time.Duration
	// Sent is when its last message was made, by the node's clock: the same for everybody who has received that message.
	Sent time.Time
	// At is when this program last knew whether updates arrive, by its own clock.
	At time.Time
	// Silent is since when nothing has arrived from the node, whose Moment is then its last; zero while updates arrive. Why says what is
	// known about that, and what to do.
	Silent time.Time
	Why    gpu.Advice
	// Notes are problems of the link while updates arrive, such as a clock that differs.
	Notes []gpu.Advice
}

// At returns the same Moment with the given place and link. If the node is silent, none of its readings is fresh: see [Moment.Last] for its
// last state.
func (m *Moment) At(place Place, link Link) *Moment {
	was := m.Last()
	moved := func(s *gpu.Snapshot, attributed []attribute.Attribution, a explain.Answer) *Moment {
		out := &Moment{Snapshot: s, Attribution: attributed, Answer: a, Place: place, Link: link}
		out.begin()
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

// Silent reports whether nothing arrives from the node any more.
func (m *Moment) Silent() bool { return !m.Link.Silent.IsZero() }

// Last returns the Moment as it was when its node fell silent; while updates arrive, the Moment itself.
func (m *Moment) Last() *Moment { return cmp.Or(m.last, m) }

// Standing returns the node's standing.
func (m *Moment) Standing() explain.Standing { return m.member().Standing() }

// WorstFirst orders nodes by what people should see first, as [explain.WorstFirst] does.
func WorstFirst(a, b *Moment) int { return explain.WorstFirst(a.member(), b.member()) }

func (m *Moment) member() explain.Member {
	return explain.Member{Node: m.Snapshot.Node, Silent: m.Silent(), Answer: &m.Answer}
}

// outlived returns the last snapshot of a silent node: its devices do not answer, none of their readings is fresh, and the machine's
// readings are no longer known.
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

// Name returns the node's name in its cluster.
func (m *Moment) Name() string { return cmp.Or(m.Place.Name, m.Snapshot.Node) }

// compareNodes orders Moments by the names of their nodes.
func compareNodes(a, b *Moment) int { return strings.Compare(a.Snapshot.Node, b.Snapshot.Node) }
