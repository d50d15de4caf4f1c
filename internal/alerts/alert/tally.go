package alert

import (
	"slices"
	"time"
)

// tallies is how long ended alerts are counted.
const tallies = 24 * time.Hour

// A tally counts all alerts of each node that ended in the last 24 hours, by minute, in order.
type tally map[string][]tallied

type tallied struct {
	Minute int64 `json:"minute"` // since 1970
	Ended  int   `json:"ended"`
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// add counts an ended alert.
func (t tally) add(node string, ended time.Time) {
	minute, oldest := minuteOf(ended), minuteOf(ended.Add(-tallies))
	list := t[node]
	first, _ := slices.BinarySearchFunc(list, oldest, func(x tallied, minute int64) int { return int(x.Minute - minute) })
	list = slices.Delete(list, 0, first)
	i, there := slices.BinarySearchFunc(list, minute, func(x tallied, minute int64) int { return int(x.Minute - minute) })
	if there {
		list[i].Ended++
	} else {
		list = slices.Insert(list, i, tallied{minute, 1})
	}
	t[node] = list
}

// since returns how many alerts ended since a time on a node, or on all nodes if it is empty.
func (t tally) since(node string, since time.Time) (n int) {
	for name, list := range t {
		if node != "" && name != node {
			continue
		}
		first, _ := slices.BinarySearchFunc(list, minuteOf(since), func(x tallied, minute int64) int { return int(x.Minute - minute) })
		for _, x := range list[first:] {
			n += x.Ended
		}
	}
	return n
}

// clone returns an independent copy; nil if nothing is counted.
func (t tally) clone() tally {
	out := make(tally, len(t))
	for node, list := range t {
		if len(list) > 0 {
			out[node] = slices.Clone(list)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// EndedSince implements [Book].
func (e *Engine) EndedSince(node string, since time.Time) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended.since(node, since)
}

// EndedSince implements [Book].
func (s *Shared) EndedSince(node string, since time.Time) int {
	n := s.Engine.EndedSince(node, since)
	s.mu.Lock()
	defer s.mu.Unlock()
	return n + s.ended.since(node, since)
}
