// Package insight makes Moments: a snapshot, who uses what, and why the fans run. A [Stage] makes each [Moment] once,
// and nobody changes it afterwards. Everything that shows, sends, counts or stores data receives Moments and
// recomputes nothing.
package insight

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A Moment is one node at one time.
type Moment struct {
	// Snapshot is what was read, plus what was learned about the devices (IdleFloor) and who they are reserved for (Reservations).
	Snapshot *gpu.Snapshot
	// Attribution says who uses the memory, utilization and power, in the order of the snapshot's devices.
	Attribution []attribute.Attribution
	// Answer says why the node's fans run; its Devices are in the same order.
	Answer explain.Answer
	Place  Place // where the node is
	Link   Link  // how its Moments arrive

	alone func() *Fleet
	last  *Moment                           // its last Moment before the node fell silent; nil while updates arrive
	told  *lazy.Map[auth.Commands, *Moment] // the same with other command lines; nil: they are not kept
}

// New makes a Moment from a snapshot and the answer about it.
func New(s *gpu.Snapshot, a explain.Answer) *Moment {
	m := &Moment{Snapshot: s, Attribution: attribute.Snapshot(s), Answer: a}
	m.begin()
	return m
}

// begin prepares what is made of a Moment later.
func (m *Moment) begin() {
	m.alone = sync.OnceValue(func() *Fleet { return NewFleet(m) })
	m.told = new(lazy.Map[auth.Commands, *Moment])
}

// For returns the Moment with the command lines that an audience sees: the same Moment for those that its machine shows to all. It does
// not ask whether the audience sees the machine.
func (m *Moment) For(audience auth.Audience) *Moment {
	commands := audience.Commands()
	if commands == auth.Shown {
		return m
	}
	if m.told == nil {
		return m.showing(commands)
	}
	out, _ := m.told.Get(commands, func() (*Moment, error) { return m.showing(commands), nil })
	return out
}

// showing makes the same Moment with other command lines.
func (m *Moment) showing(commands auth.Commands) *Moment {
	s := *m.Snapshot
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		s.Devices[i].Processes = gpu.Map(s.Devices[i].Processes, func(list []gpu.Process) []gpu.Process {
			return ProcessesFor(list, commands)
		})
	}
	if s.Host != nil {
		host := *s.Host
		host.Busiest = gpu.Map(host.Busiest, func(list []gpu.HostProcess) []gpu.HostProcess {
			list = slices.Clone(list)
			for j := range list {
				list[j].Facts = factsFor(list[j].Facts, commands)
			}
			return list
		})
		s.Host = &host
	}
	out := *m
	out.Snapshot = &s
	out.begin()
	if m.last != nil {
		out.last = m.last.showing(commands)
	}
	return &out
}

// ProcessesFor returns processes as those see them who see such command lines.
func ProcessesFor(list []gpu.Process, commands auth.Commands) []gpu.Process {
	if commands == auth.Shown {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Facts = factsFor(list[i].Facts, commands)
	}
	return list
}

// factsFor returns what those see of a process who see such command lines.
func factsFor(f gpu.ProcessFacts, commands auth.Commands) gpu.ProcessFacts {
	if !commands.Whole(f.User.Or("")) {
		f.Command = gpu.Absent[string](gpu.NotPermitted)
	} else if f.Private != "" {
		f.Command = gpu.Of(f.Private)
	}
	return f
}

// Of makes the Moment of a snapshot without a past. Its answer lacks causes that need a past, such as work that has ended.
func Of(s *gpu.Snapshot) *Moment { return New(s, explain.Explain(s)) }

// Alone returns the fleet of only this Moment, the same each time.
func (m *Moment) Alone() *Fleet { return m.alone() }

// A Part is one device of a Moment with everything the Moment says about it.
type Part struct {
	*Moment
	Device      *gpu.Device
	Attribution *attribute.Attribution
	Why         *explain.DeviceAnswer
}

func (m *Moment) part(i int) Part {
	return Part{m, &m.Snapshot.Devices[i], &m.Attribution[i], &m.Answer.Devices[i]}
}

// A Fleet is the newest Moment of each node, one or many, ordered by the nodes' names. It never changes. A nil Fleet means that nothing has
// been read yet.
type Fleet struct {
	moments []*Moment
	nodes   gpu.Nodes
	answer  func() *explain.Answer
	unseen  bool // there are nodes, and whoever asks may see none of them
}

// NewFleet makes a fleet from Moments of different nodes.
func NewFleet(moments ...*Moment) *Fleet {
	sorted := slices.Clone(moments)
	slices.SortFunc(sorted, compareNodes)
	return fleetOf(sorted)
}

// fleetOf makes a fleet from Moments in the order of their nodes' names. It keeps the list.
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

// Moments returns the nodes' newest Moments, by name.
func (f *Fleet) Moments() []*Moment { return cmp.Or(f, nothing).moments }

// Nodes returns their snapshots.
func (f *Fleet) Nodes() gpu.Nodes { return cmp.Or(f, nothing).nodes }

// Unseen reports whether there are nodes, and whoever asks may see none of them: waiting for a reading would be in vain.
func (f *Fleet) Unseen() bool { return cmp.Or(f, nothing).unseen }

// Status sums up the nodes' snapshots.
func (f *Fleet) Status() gpu.Status {
	if f.Unseen() {
		return gpu.StatusNoGPU
	}
	return f.Nodes().Status()
}

// Answer says why the fans of all nodes run. It is made on the first call.
func (f *Fleet) Answer() *explain.Answer { return cmp.Or(f, nothing).answer() }

// Node returns the Moment of a node.
func (f *Fleet) Node(name string) (*Moment, bool) {
	moments := f.Moments()
	i, ok := find(moments, name)
	if !ok {
		return nil, false
	}
	return moments[i], true
}

// find returns the position of a node in a list ordered by node name.
func find(moments []*Moment, name string) (index int, found bool) {
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

// Device returns a device by its node and UUID. An empty node means any.
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
		for i := range m.Snapshot.Devices { // a device is too large to copy
			if m.Snapshot.Devices[i].UUID == uuid {
				return m.part(i), true
			}
		}
	}
	return Part{}, false
}

// Finder returns a function that finds parts like [Fleet.Device], for devices of the fleet. It saves the search if a node's devices are
// requested one after the other. Only one goroutine may call it.
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

// With returns the fleet with Moments of different nodes, which replace earlier ones of those nodes. Apart from copying the list, the cost
// depends on the number of these Moments and not on the number of nodes.
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

// Merge returns old with the elements of fresh, which replace elements of the same name. Both lists have distinct names in ascending order,
// and so has the new one; old does not change.
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
	// History and Floors remember what the answers need of earlier snapshots. The Stages of several nodes may share them.
	History *explain.History
	Floors  *attribute.Floors
	// Reserve sets who the devices are reserved for; it may be nil.
	Reserve func([]gpu.Device)
	// Foresee sets what comes next in an answer's devices; it may be nil. It must not block.
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

// Learn learns from the node's next snapshot as Next does, except which device was named first.
func (s *Stage) Learn(snap *gpu.Snapshot) { s.History.Learn(s.complete(snap)) }

// Beside makes the Moment of a snapshot that was read on demand, between two periodic ones. It uses the past but does not change it.
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

// complete returns a copy of the snapshot with facts about its devices that are not readings: the idle floors, and who the devices are
// reserved for.
func (s *Stage) complete(snap *gpu.Snapshot) *gpu.Snapshot {
	snap = s.Floors.Note(snap)
	if s.Reserve != nil {
		s.Reserve(snap.Devices)
	}
	return snap
}
