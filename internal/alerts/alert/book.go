package alert

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A Book is what people see of alerts. An [Engine] is one, of what it looks at itself; a [Shared] has also those that other
// programs tell of.
type Book interface {
	// Rules returns the rules in force.
	Rules() []Rule
	// Standing returns the alerts that stand, the worst first.
	Standing() []Alert
	// Firing is how many alerts stand on a node; on all, where it is empty.
	Firing(node string) int
	// Past returns the last alerts that are over, the newest first.
	Past() []Alert
	// EndedSince is how many alerts of a node ended since a time, 24 hours ago at most, however many [Book.Past] returns; of all nodes, where
	// it is empty.
	EndedSince(node string, from time.Time) int
	// Silences returns the silences in force, the one that ends first, first.
	Silences(now time.Time) []Silence
}

// A Report is what a program tells others of the alerts of a node that it reads.
type Report struct {
	Standing []Alert // the worst first
	Silences []Silence
	Rules    []Rule
}

// same reports whether people would be told the same: the same alerts in the same states.
func (r *Report) same(as *Report) bool {
	return slices.EqualFunc(r.Standing, as.Standing, func(a, b Alert) bool {
		return a.ID == b.ID && a.State == b.State && a.SilencedUntil.Equal(b.SilencedUntil) && (a.Acknowledged == nil) == (b.Acknowledged == nil)
	})
}

// Report is what this engine tells others of a node.
func (e *Engine) Report(node string, now time.Time) *Report {
	return &Report{e.standingOf(node), OfNode(e.Silences(now), node), e.Rules()}
}

// mostOfNode is how many alerts that are over a book remembers of one node of others.
const mostOfNode = 20

// A Shared book has the alerts of its engine and those that other programs report of their nodes. What its engine changes is
// of its own alone.
type Shared struct {
	*Engine

	mu      sync.Mutex
	reports map[string]*Report
	common  []Rule  // of the newest report
	over    []Alert // of other programs, the oldest first
	ended   tally   // how many of them lately
}

// Share makes a book of an engine alone.
func Share(e *Engine) *Shared {
	return &Shared{Engine: e, reports: map[string]*Report{}, ended: tally{}}
}

// Take takes in the report of a node; nil where there is none any more. It returns whether people have to be told that
// other alerts stand.
func (s *Shared) Take(node string, r *Report) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := cmp.Or(s.reports[node], &Report{})
	if r == nil {
		delete(s.reports, node)
		return len(before.Standing) > 0
	}
	if reflect.DeepEqual(r.Rules, s.common) { // most nodes have the same
		r.Rules = s.common
	} else {
		s.common = r.Rules
	}
	s.reports[node] = r
	return !before.same(r)
}

// Tell changes the report of a node by a change of one of its alerts: whoever is told of that finds it in the book, and the
// next report of the node has it, too. Of a node without a report nothing is kept.
func (s *Shared) Tell(c *Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reports[c.Device.Node]
	if r == nil {
		return
	}
	next := *r // the report may be in use
	next.Standing = slices.DeleteFunc(slices.Clone(r.Standing), func(a Alert) bool { return a.ID == c.ID })
	if c.News != Over {
		next.Standing = append(next.Standing, c.Alert)
	}
	s.reports[c.Device.Node] = &next
}

// Ended remembers an alert of another program that is over.
func (s *Shared) Ended(a *Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.over)
	s.over = slices.DeleteFunc(s.over, func(old Alert) bool { return old.ID == a.ID && old.Device.Node == a.Device.Node })
	if len(s.over) == before { // it is not told once more
		s.ended.add(a.Device.Node, a.Time)
	}
	of := 0
	for i := range s.over {
		if s.over[i].Device.Node == a.Device.Node {
			of++
		}
	}
	if of >= mostOfNode { // so that none takes the place of all others
		first := slices.IndexFunc(s.over, func(old Alert) bool { return old.Device.Node == a.Device.Node })
		s.over = slices.Delete(s.over, first, first+1)
	}
	at, _ := slices.BinarySearchFunc(s.over, a, func(x Alert, a *Alert) int { return cmp.Or(x.Time.Compare(a.Time), cmp.Compare(x.ID, a.ID)) })
	s.over = slices.Insert(s.over, at, *a)
	s.over = slices.Delete(s.over, 0, max(0, len(s.over)-keptPast))
}

// Others are the alerts that stand as other programs report, the worst first.
func (s *Shared) Others() (all []Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		all = append(all, r.Standing...)
	}
	slices.SortFunc(all, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return all
}

// Rules returns the engine's, and of those of other programs each that has another name.
func (s *Shared) Rules() []Rule {
	rules := s.Engine.Rules()
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]bool, len(rules))
	for i := range rules {
		names[rules[i].Name] = true
	}
	for _, node := range slices.Sorted(maps.Keys(s.reports)) {
		for _, r := range s.reports[node].Rules {
			if !names[r.Name] {
				names[r.Name] = true
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// Standing returns all alerts that stand, the worst first.
func (s *Shared) Standing() []Alert {
	all := append(s.Engine.Standing(), s.Others()...)
	slices.SortStableFunc(all, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return all
}

// Firing is how many alerts stand on a node; on all, where it is empty.
func (s *Shared) Firing(node string) int {
	n := s.Engine.Firing(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, r := range s.reports {
		if node == "" || of == node {
			n += len(r.Standing)
		}
	}
	return n
}

// Past returns the last alerts that are over, the newest first.
func (s *Shared) Past() []Alert {
	all := s.Engine.Past()
	s.mu.Lock()
	all = append(all, s.over...)
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Alert) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), keptPast)]
}

// Silences returns the silences in force, the one that ends first, first. One that several programs have is there once.
func (s *Shared) Silences(now time.Time) []Silence {
	all := s.Engine.Silences(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.reports)) {
		for _, x := range s.reports[node].Silences {
			if now.Before(x.Until) && !slices.ContainsFunc(all, x.like) {
				all = append(all, x)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Silence) int { return a.Until.Compare(b.Until) })
	return all
}

// nodesOf are the nodes whose report is such.
func (s *Shared) nodesOf(is func(node string, r *Report) bool) (nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.reports)) {
		if is(node, s.reports[node]) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Holder is the node whose report has that alert; empty where the alert is the engine's own, or where several nodes call one of
// theirs so: one of them lies.
func (s *Shared) Holder(id string) string {
	is := func(a Alert) bool { return a.ID == id }
	nodes := s.nodesOf(func(_ string, r *Report) bool { return slices.ContainsFunc(r.Standing, is) })
	if len(nodes) != 1 || slices.ContainsFunc(s.Engine.Standing(), is) {
		return ""
	}
	return nodes[0]
}

// Covered are the nodes that report and that a silence is about.
func (s *Shared) Covered(x *Silence) []string {
	return s.nodesOf(func(node string, _ *Report) bool { return x.Covers(node) })
}

// Silenced are the nodes whose report has such a silence.
func (s *Shared) Silenced(x *Silence) []string {
	return s.nodesOf(func(_ string, r *Report) bool { return slices.ContainsFunc(r.Silences, x.like) })
}

// FindSilence finds a silence by the ID that any of those gave it who have it.
func (s *Shared) FindSilence(id string) (x Silence, ok bool) {
	known := s.Engine.Silences(time.Time{})
	s.nodesOf(func(_ string, r *Report) bool {
		known = append(known, r.Silences...)
		return false
	})
	i := slices.IndexFunc(known, func(x Silence) bool { return x.ID == id })
	if i < 0 {
		return x, false
	}
	return known[i], true
}

// like reports whether a silence says the same, whatever its ID.
func (x *Silence) like(y Silence) bool {
	return x.Rule == y.Rule && x.Node == y.Node && x.GPU == y.GPU && x.By == y.By && x.Comment == y.Comment && x.Until.Equal(y.Until)
}
