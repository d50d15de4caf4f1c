package alert

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// A Book is what people see of alerts. An [Engine] is a Book of its own alerts; a [Shared] also has the alerts that other
// programs report.
type Book interface {
	// Rules returns the rules in force.
	Rules() []Rule
	// Standing returns the open alerts, worst first.
	Standing() []Alert
	// Firing returns the number of open alerts on a node, or on all nodes if it is empty.
	Firing(node string) int
	// Past returns the last alerts that are over, newest first.
	Past() []Alert
	// EndedSince returns how many alerts of a node, or of all nodes if it is empty, ended since a time at most 24 hours ago. It
	// counts all of them, also those that [Book.Past] no longer returns.
	EndedSince(node string, since time.Time) int
	// Silences returns the active silences, in the order in which they end.
	Silences(now time.Time) []Silence
}

// A Report is what a program tells other programs about the alerts of a node that it reads.
type Report struct {
	Standing []Alert // the worst first
	Silences []Silence
	Rules    []Rule
}

// same reports whether both have the same alerts in the same states.
func (r *Report) same(other *Report) bool {
	return slices.EqualFunc(r.Standing, other.Standing, func(a, b Alert) bool {
		return a.ID == b.ID && a.State == b.State && a.SilencedUntil.Equal(b.SilencedUntil) && (a.Acknowledged == nil) == (b.Acknowledged == nil)
	})
}

// Report returns what this engine tells others about a node.
func (e *Engine) Report(node string, now time.Time) *Report {
	return &Report{e.standingOf(node), OfNode(e.Silences(now), node), e.Rules()}
}

// mostOfNode is how many past alerts a book remembers for each node that another program reads.
const mostOfNode = 20

// A Shared book has the alerts of its engine and those that other programs report about their nodes. Its engine changes only
// its own alerts.
type Shared struct {
	*Engine

	mu      sync.Mutex
	reports map[string]*Report
	common  []Rule  // of the newest report
	over    []Alert // of other programs, the oldest first
	ended   tally   // how many of them lately
}

// Share makes a book with only an engine's alerts.
func Share(e *Engine) *Shared {
	return &Shared{Engine: e, reports: map[string]*Report{}, ended: tally{}}
}

// Take stores the report of a node; nil removes it. It returns whether the open alerts changed, so that people must be
// told.
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

// Tell applies a change of one alert to the report of its node, so that whoever hears of the change finds it in the book;
// the node's next report has it too. Changes of nodes without a report are ignored.
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
	if len(s.over) == before { // it is new
		s.ended.add(a.Device.Node, a.Time)
	}
	count := 0
	for i := range s.over {
		if s.over[i].Device.Node == a.Device.Node {
			count++
		}
	}
	if count >= mostOfNode { // so that no node crowds out the others
		first := slices.IndexFunc(s.over, func(old Alert) bool { return old.Device.Node == a.Device.Node })
		s.over = slices.Delete(s.over, first, first+1)
	}
	index, _ := slices.BinarySearchFunc(s.over, a, func(x Alert, a *Alert) int { return cmp.Or(x.Time.Compare(a.Time), cmp.Compare(x.ID, a.ID)) })
	s.over = slices.Insert(s.over, index, *a)
	s.over = slices.Delete(s.over, 0, max(0, len(s.over)-keptPast))
}

// Others returns the open alerts that other programs report, worst first.
func (s *Shared) Others() (all []Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		all = append(all, r.Standing...)
	}
	slices.SortFunc(all, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return all
}

// Rules returns the engine's rules, plus other programs' rules with names that the engine does not
// have.
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

// Standing returns all open alerts, worst first.
func (s *Shared) Standing() []Alert {
	all := append(s.Engine.Standing(), s.Others()...)
	slices.SortStableFunc(all, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return all
}

// Firing returns the number of open alerts on a node, or on all nodes if it is empty.
func (s *Shared) Firing(node string) int {
	n := s.Engine.Firing(node)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range s.reports {
		if node == "" || name == node {
			n += len(r.Standing)
		}
	}
	return n
}

// Past returns the last alerts that are over, newest first.
func (s *Shared) Past() []Alert {
	all := s.Engine.Past()
	s.mu.Lock()
	all = append(all, s.over...)
	s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b Alert) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), keptPast)]
}

// Silences returns the active silences, in the order in which they end. A silence that several programs have appears
// once.
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

// nodesOf returns the nodes whose report matches.
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

// Holder returns the node whose report has that alert. It is empty if the alert is the engine's own, or if several nodes claim
// the ID, because one of them lies.
func (s *Shared) Holder(id string) string {
	is := func(a Alert) bool { return a.ID == id }
	nodes := s.nodesOf(func(_ string, r *Report) bool { return slices.ContainsFunc(r.Standing, is) })
	if len(nodes) != 1 || slices.ContainsFunc(s.Engine.Standing(), is) {
		return ""
	}
	return nodes[0]
}

// Covered returns the reporting nodes that a silence covers.
func (s *Shared) Covered(x *Silence) []string {
	return s.nodesOf(func(node string, _ *Report) bool { return x.Covers(node) })
}

// Silenced returns the nodes whose report has the same silence.
func (s *Shared) Silenced(x *Silence) []string {
	return s.nodesOf(func(_ string, r *Report) bool { return slices.ContainsFunc(r.Silences, x.like) })
}

// FindSilence finds a silence by an ID that any of its holders gave it.
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

// like reports whether two silences are the same except for their ID.
func (x *Silence) like(y Silence) bool {
	return x.Rule == y.Rule && x.Node == y.Node && x.GPU == y.GPU && x.By == y.By && x.Comment == y.Comment && x.Until.Equal(y.Until)
}
