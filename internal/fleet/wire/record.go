package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A record is a [State] as it is written. Its fields, and those of all types in it, are promises.
type record struct {
	Hello    hello
	Place    place
	Snapshot *gpu.Snapshot
	Answer   *explain.Record
	Extra    []section // by name
}

type hello struct {
	Version  string
	Instance string
	Started  time.Time
	Sent     time.Time
	Interval time.Duration
}

type place struct {
	Name    string
	Cluster string
	Labels  []label // by name
}

type label struct{ Name, Value string }

type section struct {
	Name string
	Text json.RawMessage
}

// recordOf returns what is written of a state, in a stable order.
func recordOf(s *State, instance string) (*record, error) {
	m := s.Moment
	if err := ofOne(m.Snapshot, m.Snapshot.Node); err != nil {
		return nil, err
	}
	answer, err := m.Answer.Record(m.Snapshot)
	if err != nil {
		return nil, err
	}
	r := &record{
		Hello:    hello{s.Version, instance, s.Started, s.Sent, s.Interval},
		Place:    place{Name: m.Place.Name, Cluster: m.Place.Cluster},
		Snapshot: m.Snapshot,
		Answer:   answer,
	}
	for _, name := range m.Place.LabelNames() {
		r.Place.Labels = append(r.Place.Labels, label{name, m.Place.Labels[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Extra)) {
		r.Extra = append(r.Extra, section{name, s.Extra[name]})
	}
	return r, r.bounded()
}

func (r *record) bounded() error {
	switch {
	case len(r.Extra) > maxSections:
		return fmt.Errorf("%w: %d sections, and the limit is %d", ErrTooLarge, len(r.Extra), maxSections)
	case len(r.Place.Labels) > maxLabels:
		return fmt.Errorf("%w: %d labels, and the limit is %d", ErrTooLarge, len(r.Place.Labels), maxLabels)
	}
	return nil
}

// ofOne returns an error unless a snapshot and all its devices belong to a node.
func ofOne(s *gpu.Snapshot, node string) error {
	if s.Node != node {
		return fmt.Errorf("%w: %.80q, not %q", ErrOfAnother, s.Node, node)
	}
	for i := range s.Devices {
		if owner := s.Devices[i].Node; owner != node {
			return fmt.Errorf("%w: device %d is of %.80q, not %q", ErrOfAnother, i, owner, node)
		}
	}
	return nil
}

// state returns what a record says about a node.
func (r *record) state(h *header, node string) (*State, error) {
	switch {
	case r.Snapshot == nil:
		return nil, fmt.Errorf("%w: it has no Snapshot", ErrUnreadable)
	case r.Answer == nil:
		return nil, fmt.Errorf("%w: it has no Answer", ErrUnreadable)
	}
	if err := r.bounded(); err != nil {
		return nil, err
	}
	if err := ofOne(r.Snapshot, node); err != nil {
		return nil, err
	}
	answer, err := r.Answer.Answer(r.Snapshot)
	if err != nil {
		return nil, fmt.Errorf("%w: Answer%w", ErrUnreadable, err)
	}
	in := insight.Place{Name: r.Place.Name, Cluster: r.Place.Cluster}
	for _, l := range r.Place.Labels {
		if in.Labels == nil {
			in.Labels = make(map[string]string, len(r.Place.Labels))
		}
		in.Labels[l.Name] = l.Value
	}
	s := &State{
		Hello:  Hello{r.Hello.Version, h.protocol, h.instance, r.Hello.Started, r.Hello.Sent, r.Hello.Interval},
		Moment: insight.New(r.Snapshot, answer).At(in, insight.Link{}),
	}
	for _, e := range r.Extra {
		if s.Extra == nil {
			s.Extra = make(map[string]json.RawMessage, len(r.Extra))
		}
		s.Extra[e.Name] = e.Text
	}
	return s, nil
}
