// Package insight makes Moments. A [Stage] makes a [Moment] once, and nobody changes it. All that show,
// send, count or keep something receive Moments, and compute none of it again.
package insight

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Moment is one node at one time.
type Moment struct {
	// Snapshot is what was read, with what was learned of the devices
	// (IdleFloor) and for whom they are kept (Reservations).
	Snapshot *gpu.Snapshot
	// Attribution says whose memory, work and watts are, in the order of the snapshot's devices.
	Attribution []attribute.Attribution
	// Answer says why the node's fans run; its Devices are in the same order.
	Answer explain.Answer
	Place  Place // where the node is
	Link   Link  // how its Moments come here

	alone func() *Fleet
	last  *Moment // as it was when its node fell silent; nil while news come
}

// New makes a Moment of a snapshot and the answer about it.
func New(s *gpu.Snapshot, a explain.Answer) *Moment {
	m := &Moment{Snapshot: s, Attribution: attribute.Snapshot(s), Answer: a}
	m.alone = sync.OnceValue(func() *Fleet { return NewFleet(m) })
	return m
}

// Of makes the Moment of a snapshot without a past. Its answer lacks the causes
// that need a past, such as work that has ended.
func Of(s *gpu.Snapshot) *Moment { return New(s, explain.Explain(s)) }

// Alone is the fleet of this Moment alone, the same each time.
func (m *Moment) Alone() *Fleet { return m.alone() }

// A Part is one device of a Moment with what the Moment says of it.
type Part struct {
	*Moment
	Device      *gpu.Device
	Attribution *attribute.Attribution
	Why         *explain.DeviceAnswer
}

func (m *Moment) part(i int) Part {
	return Part{m, &m.Snapshot.Devices[i], &m.Attribution[i], &m.Answer.Devices[i]}
}

// A Fleet is the newest Moment of each node, one or many, in the order of the
// nodes' names. It is never changed. A nil Fleet says that nothing was read yet.
type Fleet struct {
	moments []*Moment
	nodes   gpu.Nodes
	answer  func() *explain.Answer
}

// NewFleet puts Moments of different nodes together.
func NewFleet(moments ...*Moment) *Fleet {
	sorted := slices.Clone(moments)
	slices.SortFunc(sorted, compareNodes)
	return fleetOf(sorted)
}

// fleetOf is the fleet of Moments in the order of the names of their nodes. It keeps the list.
func fleetOf(moments []*Moment) *Fleet {
	f := &Fleet{moments: moments, nodes: make(gpu.Nodes, len(moments))}
	for i, m := range moments {
		f.nodes[i] = m.Snapshot
	}
	f.answer = sync.OnceValue(func() *explain.Answer {
		all := make([]explain.Member, len(f.moments))
		for i, m := range f.moments {
			all[i] = m.member()
		}
		combined := explain.Combine(all)
		return &combined
	})
	return f
}

var nothing = NewFleet()

// Moments are the nodes' newest, by name.
func (f *Fleet) Moments() []*Moment { return cmp.Or(f, nothing).moments }

// Nodes are their snapshots.
func (f *Fleet) Nodes() gpu.Nodes { return cmp.Or(f, nothing).nodes }

// Answer says why the fans of all nodes run. It is made when somebody first asks.
func (f *Fleet) Answer() *explain.Answer { return cmp.Or(f, nothing).answer() }

// Node finds the Moment of a node.
func (f *Fleet) Node(name string) (*Moment, bool) {
	moments := f.Moments()
	i, ok := find(moments, name)
	if !ok {
		return nil, false
	}
	return moments[i], true
}

// find finds the place of a node in a list that has the order of their names.
func find(moments []*Moment, name string) (at int, found bool) {
	return slices.BinarySearchFunc(moments, name, func(m *Moment, name string) int { return strings.Compare(m.Snapshot.Node, name) })
}

// Parts yields the devices of all nodes: node by node, by index within a node.
func (f *Fleet) Parts() iter.Seq[Part] {
	return func(yield func(Part) bool) {
		for _, m := range f.Moments() {
			for i := range m.Snapshot.Devices {
				if !yield(m.part(i)) {
					return
				}
			}
		}
	}
}

// Device finds a device by its node and UUID. An empty node stands for any.
func (f *Fleet) Device(node, uuid string) (Part, bool) {
	moments := f.Moments()
	if node != "" {
		i, ok := find(moments, node)
		if !ok {
			return Part{}, false
		}
		moments = moments[i : i+1]
	}
	for _, m := range moments {
		for i := range m.Snapshot.Devices { // a device is too large to be copied
			if m.Snapshot.Devices[i].UUID == uuid {
				return m.part(i), true
			}
		}
	}
	return Part{}, false
}

// Finder returns a function that finds parts by devices of the fleet, as [Fleet.Device] does, without a search where those of a node
// are asked for one after the other. One goroutine may call it.
func (f *Fleet) Finder() func(*gpu.Device) (Part, bool) {
	var last *Moment
	return func(d *gpu.Device) (Part, bool) {
		if last == nil || last.Snapshot.Node != d.Node {
			last, _ = f.Node(d.Node)
		}
		if last != nil {
			for i := range last.Snapshot.Devices {
				if &last.Snapshot.Devices[i] == d {
					return last.part(i), true
				}
			}
		}
		return f.Device(d.Node, d.UUID)
	}
}

// With returns the fleet with Moments of different nodes, in place of earlier ones of those. What that costs beside
// copying the list depends on how many they are, and not on how many nodes there are.
func (f *Fleet) With(moments ...*Moment) *Fleet {
	fresh := slices.SortedFunc(slices.Values(moments), compareNodes)
	return fleetOf(Merge(f.Moments(), fresh, func(m *Moment) string { return m.Snapshot.Node }))
}

// Without returns the fleet without a node.
func (f *Fleet) Without(node string) *Fleet {
	moments := f.Moments()
	i, ok := find(moments, node)
	if !ok {
		return f
	}
	return fleetOf(slices.Concat(moments[:i], moments[i+1:]))
}

// Merge returns old with what is fresh, in place of what has the same name. Both lists have different names in
// ascending order, and so has the new one; the old one stays as it is.
func Merge[T any](old, fresh []T, name func(T) string) []T {
	out := make([]T, 0, len(old)+len(fresh))
	for _, f := range fresh {
		i, same := slices.BinarySearchFunc(old, name(f), func(o T, wanted string) int { return strings.Compare(name(o), wanted) })
		out = append(append(out, old[:i]...), f)
		if same {
			i++
		}
		old = old[i:]
	}
	return append(out, old...)
}

// A Stage makes the Moments of a node. One goroutine at a time may call its methods.
//
// A node that another program reads has no Stage here. Its Moment arrives with its answer, since the past that explains it is at the
// node (see package downlink); only the attribution is computed again. A node that falls silent keeps its last Moment.
type Stage struct {
	// History and Floors remember what the answers need of earlier snapshots. The
	// Stages of several nodes may share them.
	History *explain.History
	Floors  *attribute.Floors
	// Reserve fills in for whom devices are reserved; it may be nil.
	Reserve func([]gpu.Device)
	// Foresee fills in what comes next of the devices of an answer; it may be nil. It must not wait.
	Foresee func(*gpu.Snapshot, *explain.Answer)
}

// NewStage returns a Stage that remembers nothing yet.
func NewStage() *Stage {
	return &Stage{History: explain.NewHistory(), Floors: new(attribute.Floors)}
}

// Next makes the Moment of the node's next snapshot, and learns from it.
func (s *Stage) Next(snap *gpu.Snapshot) *Moment {
	snap = s.complete(snap)
	return s.moment(snap, s.History.Add(snap))
}

// Learn learns from the node's next snapshot as Next does, but which device was told of first.
func (s *Stage) Learn(snap *gpu.Snapshot) { s.History.Learn(s.complete(snap)) }

// Beside makes the Moment of a snapshot that was read on demand, between two
// periodic ones. It uses the past and does not change it.
func (s *Stage) Beside(snap *gpu.Snapshot) *Moment {
	snap = s.complete(snap)
	return s.moment(snap, s.History.Beside(snap))
}

func (s *Stage) moment(snap *gpu.Snapshot, a explain.Answer) *Moment {
	if s.Foresee != nil {
		s.Foresee(snap, &a)
	}
	return New(snap, a)
}

// complete returns a copy of the snapshot with facts of its devices that are not
// readings: the idle floors, and for whom devices are reserved.
func (s *Stage) complete(snap *gpu.Snapshot) *gpu.Snapshot {
	snap = s.Floors.Note(snap)
	if s.Reserve != nil {
		s.Reserve(snap.Devices)
	}
	return snap
}
