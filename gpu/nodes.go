package gpu

import (
	"iter"
	"slices"
	"time"
)

// Nodes are the newest snapshots of one node or of many, at most one each, in
// the order of the nodes' names. An empty list says that nothing was read yet.
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

// Count is how many devices there are, those that do not answer included.
func (n Nodes) Count() int {
	count := 0
	for _, s := range n {
		count += len(s.Devices)
	}
	return count
}

// Device finds a device by its node and UUID. An empty node stands for any.
func (n Nodes) Device(node, uuid string) (*Device, bool) {
	for d := range n.Devices() {
		if d.UUID == uuid && (node == "" || d.Node == node) {
			return d, true
		}
	}
	return nil, false
}

// Totals adds the devices of all nodes up.
func (n Nodes) Totals() Totals { return TotalsOf(n.Devices()) }

// Status sums all nodes up: degraded where a node is, or where one of several
// has no device that can be read.
func (n Nodes) Status() Status {
	if len(n) == 0 {
		return StatusStarting
	}
	all := n[0].Status()
	for _, s := range n[1:] {
		if s.Status() != all {
			return StatusDegraded
		}
	}
	return all
}

// Simulated reports whether any device is invented.
func (n Nodes) Simulated() bool { return slices.ContainsFunc(n, (*Snapshot).Simulated) }

// Source is where the devices come from, SourceMixed if from several; empty for
// no node.
func (n Nodes) Source() string {
	if len(n) == 0 {
		return ""
	}
	for _, s := range n[1:] {
		if s.Source != n[0].Source {
			return SourceMixed
		}
	}
	return n[0].Source
}

// Time is when the newest of the readings began; zero for no node.
func (n Nodes) Time() time.Time {
	var newest time.Time
	for _, s := range n {
		if s.Time.After(newest) {
			newest = s.Time
		}
	}
	return newest
}

// Failures has what can't be read on any node.
func (n Nodes) Failures() []Failure {
	return collect(n, func(s *Snapshot) []Failure { return s.Failures })
}

// Drivers has one entry for each driver, version and source that answers.
func (n Nodes) Drivers() []Driver {
	var out []Driver
	for _, d := range collect(n, func(s *Snapshot) []Driver { return s.Drivers }) {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// Notes has what the monitors can't see, each remark once.
func (n Nodes) Notes() []Advice {
	var out []Advice
	for _, a := range collect(n, func(s *Snapshot) []Advice { return s.Notes }) {
		if !slices.ContainsFunc(out, func(b Advice) bool { return a.What == b.What && a.Try == b.Try }) {
			out = append(out, a)
		}
	}
	return out
}

func collect[T any](n Nodes, of func(*Snapshot) []T) []T {
	if len(n) == 1 {
		return of(n[0])
	}
	var out []T
	for _, s := range n {
		out = append(out, of(s)...)
	}
	return out
}
