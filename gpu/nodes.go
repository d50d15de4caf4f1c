package gpu

import (
	"iter"
	"slices"
	"time"
)

// Nodes are the newest snapshots of one or many nodes, ordered by node name. An empty
// list means that nothing was read yet.
type Nodes []*Snapshot

// Devices yields every device: node by node, by index within a node.
func (n Nodes) Devices() iter.Seq[*Device] {
	return func(yield func(*Device) bool) {
		for _, s := range n {
			for i := range s.Devices {
				if !yield(&s.Devices[i]) {
					return
				}
			}
		}
	}
}

// Device finds a device by its node and UUID. An empty node matches any.
func (n Nodes) Device(node, uuid string) (*Device, bool) {
	for d := range n.Devices() {
		if d.UUID == uuid && (node == "" || d.Node == node) {
			return d, true
		}
	}
	return nil, false
}

// Totals sums up the devices of all nodes.
func (n Nodes) Totals() Totals { return TotalsOf(n.Devices()) }

// Status sums up all nodes: degraded if a node is, or if one of several
// has no readable device.
func (n Nodes) Status() Status {
	return shared(n, StatusStarting, StatusDegraded, (*Snapshot).Status)
}

// Kind returns the kind of all readings: Live only if every node's is.
func (n Nodes) Kind() Kind {
	for _, s := range n {
		if kind := s.Kind(); kind != Live {
			return kind
		}
	}
	return Live
}

// Source returns where the devices come from, SourceMixed if from several sources; empty
// without a node.
func (n Nodes) Source() string {
	return shared(n, "", SourceMixed, func(s *Snapshot) string { return s.Source })
}

// shared is what all nodes have in common, or one of the other values.
func shared[T comparable](n Nodes, ofNone, mixed T, value func(*Snapshot) T) T {
	if len(n) == 0 {
		return ofNone
	}
	for _, s := range n[1:] {
		if value(s) != value(n[0]) {
			return mixed
		}
	}
	return value(n[0])
}

// Time returns when the newest reading began; zero without a node.
func (n Nodes) Time() time.Time {
	var newest time.Time
	for _, s := range n {
		if s.Time.After(newest) {
			newest = s.Time
		}
	}
	return newest
}

// Failures returns the sources that can't be read, of all nodes.
func (n Nodes) Failures() (all []Failure) {
	for _, s := range n {
		all = append(all, s.Failures...)
	}
	return all
}

// Drivers returns one entry for each driver, version and source that answers.
func (n Nodes) Drivers() (all []Driver) {
	for _, s := range n {
		for _, d := range s.Drivers {
			if !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	return all
}

// Notes returns what the monitors can't see, each note once.
func (n Nodes) Notes() (all []Advice) {
	for _, s := range n {
		for _, a := range s.Notes {
			if !slices.ContainsFunc(all, func(b Advice) bool { return a.What == b.What && a.Try == b.Try }) {
				all = append(all, a)
			}
		}
	}
	return all
}
