package alert

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// keptPast is how many alerts that are over are remembered.
const keptPast = 100

// An Engine holds the state of all rules on all devices. It has no clock: the
// time of the snapshot is the present. Several goroutines may use it.
type Engine struct {
	// Node is what the machine is called that the program runs on, for what is
	// kept over a restart.
	Node string

	mu       sync.Mutex
	rules    []Rule
	watches  []*watch // of the rules
	tracked  map[key]*tracked
	silences []Silence
	silenced uint64   // number of silences ever made, for their IDs
	round    uint64   // of Observe
	past     []Alert  // over, the newest last
	pending  []Change // found by Restore
}

// key names what rules look at: a device by its node and UUID, or a source of a
// node.
type key struct{ node, uuid, source string }

// tracked is what is known of one thing that rules look at.
type tracked struct {
	states []state // one for each rule
	seen   uint64  // the last round that had it
	device gpu.Identity
}

type state struct {
	covered bool   // the rule looks at it at all
	alert   *Alert // as it stands; nil: none does
	since   time.Time
	back    time.Time // on the right side of the line since, while an alert stands
	over    time.Time // the last alert was
	told    time.Time // people were told last of the alert that stands; zero: never
	hushed  bool      // a silence covered it since

	// Of counters: what was read last, if anything, and how many came lately.
	read    float64
	counted bool
	lately  float64
	newest  time.Time
	blamed  []gpu.Process
}

// New returns an engine that has seen nothing. The rules must be checked, and
// their names must differ.
func New(rules []Rule) *Engine {
	e := &Engine{tracked: map[key]*tracked{}}
	e.setRules(rules)
	return e
}

func (e *Engine) setRules(rules []Rule) {
	e.rules = slices.Clone(rules)
	e.watches = make([]*watch, len(rules))
	for i := range rules {
		e.watches[i] = watches[rules[i].Watch]
	}
}

// Rules returns the rules in force.
func (e *Engine) Rules() []Rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.rules)
}

// SetRules puts other rules in force. An alert stands while its rule goes on. It
// is over where its rule is gone, watches something else, is disabled or no
// longer looks at the device.
func (e *Engine) SetRules(rules []Rule, now time.Time) []Change {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.rules
	e.setRules(rules)
	var changes []Change
	for k, t := range e.tracked {
		old := t.states
		t.states = e.newStates(k)
		for i := range old {
			j := e.ruleOf(before[i].Name, before[i].Watch)
			if j >= 0 && t.states[j].covered {
				t.states[j] = old[i]
				t.states[j].covered = true
			} else if a := old[i].alert; a != nil {
				changes = append(changes, e.end(withoutRule(a, now), !old[i].told.IsZero()))
			}
		}
	}
	sortChanges(changes)
	return changes
}

// ruleOf is the place of a rule in force; below 0 where it is not in force.
func (e *Engine) ruleOf(name string, w Watch) int {
	return slices.IndexFunc(e.rules, func(r Rule) bool { return r.Name == name && r.Watch == w })
}

// withoutRule is the end of an alert whose rule is not in force any more.
func withoutRule(a *Alert, now time.Time) *Alert {
	over := *a
	over.State, over.Time = Resolved, now
	over.Message = "The rule " + a.Rule + " is not in force any more. Before: " + a.Message
	return &over
}

// newStates returns a state of k for each rule.
func (e *Engine) newStates(k key) []state {
	states := make([]state, len(e.rules))
	for i := range e.rules {
		r := &e.rules[i]
		states[i].covered = r.Enabled && e.watches[i].machine == (k.source != "") && r.Scope.covers(k.node, k.uuid)
	}
	return states
}

// track returns what is known of k.
func (e *Engine) track(k key) *tracked {
	t := e.tracked[k]
	if t == nil {
		t = &tracked{states: e.newStates(k)}
		e.tracked[k] = t
	}
	return t
}

// Observe looks at a node's next Moment. It returns what changed, the worst first.
// A device that is missing, or does not report what is watched, ends no alert; a
// hold time under way starts again.
func (e *Engine) Observe(m *insight.Moment) []Change {
	s, answer := m.Snapshot, &m.Answer
	e.mu.Lock()
	defer e.mu.Unlock()
	e.round++
	o := observation{Engine: e, now: s.Time, changes: e.pending}
	e.pending = nil
	e.silences = slices.DeleteFunc(e.silences, func(x Silence) bool { return !s.Time.Before(x.Until) })
	foreign := attribute.ForeignPIDs(s)
	for i := range s.Devices {
		d := &s.Devices[i]
		t := e.track(key{node: d.Node, uuid: d.UUID})
		t.device = d.Identity
		sub := subject{d: d, foreign: foreign, driverGone: o.driverGone(s, d.Source)}
		if i < len(answer.Devices) {
			sub.answer = &answer.Devices[i]
		}
		o.look(t, look{subject: &sub})
	}
	o.drivers(s)
	o.missing(s.Node)
	sortChanges(o.changes)
	return o.changes
}

// driverGone reports whether an alert about the source as a whole covers its
// devices too.
func (o *observation) driverGone(s *gpu.Snapshot, source string) bool {
	return slices.ContainsFunc(s.Failures, func(f gpu.Failure) bool { return f.Source == source }) &&
		slices.ContainsFunc(o.rules, func(r Rule) bool { return r.Watch == DriverGone && r.Enabled })
}

// sortChanges puts the worst first.
func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int { return compareAlerts(&a.Alert, &b.Alert) })
}

// An observation is one Observe under way.
type observation struct {
	*Engine
	now     time.Time
	changes []Change
}

// A look is what one rule measures of one thing, and what was known of it.
type look struct {
	*Rule
	*watch
	*state
	value   float64
	ok      bool
	device  *gpu.Identity
	subject *subject // nil where it is no device, or the device is missing
	// Of a source: why it can't be read, and what to do.
	failure, try string
}

// look takes a look at one thing for each rule that covers it. l has what all of
// these looks have in common.
func (o *observation) look(t *tracked, l look) {
	t.seen = o.round
	for i := range t.states {
		if !t.states[i].covered {
			continue
		}
		of := l
		of.Rule, of.watch, of.state, of.device = &o.rules[i], o.watches[i], &t.states[i], &t.device
		if of.subject != nil {
			of.subject.rule = of.Rule
			of.value, of.ok = of.measure(of.subject)
		}
		o.step(&of)
	}
}

// drivers looks at the sources that have worked before.
func (o *observation) drivers(s *gpu.Snapshot) {
	for i := range s.Drivers {
		source := s.Drivers[i].Source
		o.track(key{node: s.Node, source: source}).device = gpu.Identity{Node: s.Node, Source: source}
	}
	for k, t := range o.tracked {
		if k.source == "" || k.node != s.Node {
			continue
		}
		l := look{ok: slices.ContainsFunc(s.Drivers, func(d gpu.Driver) bool { return d.Source == k.source })}
		for i := range s.Failures {
			if f := &s.Failures[i]; f.Source == k.source {
				l.ok, l.value = true, 1
				l.failure, l.try = strings.TrimRight(f.Advice.What, "."), explain.Advice(f.Advice.Try)
			}
		}
		o.look(t, l)
	}
}

// missing looks at devices that are not in the snapshot. It forgets them, unless
// an alert stands or a time still runs.
func (o *observation) missing(node string) {
	for k, t := range o.tracked {
		if t.seen == o.round || k.node != node {
			continue
		}
		o.look(t, look{})
		keep := false
		for i := range t.states {
			st := &t.states[i]
			keep = keep || st.covered && (st.alert != nil || st.counted || o.now.Sub(st.over) < o.rules[i].Cooldown)
		}
		if !keep {
			delete(o.tracked, k)
		}
	}
}

// step takes one look.
func (o *observation) step(l *look) {
	l.notAfter(o.now)
	if l.kind == counter && l.ok {
		o.count(l)
	}
	switch {
	case !l.ok:
		l.since, l.back = time.Time{}, time.Time{}
		if l.alert != nil {
			o.blind(l)
		}
	case l.alert == nil:
		o.rise(l)
	default:
		o.fall(l)
	}
	if l.alert != nil {
		o.remind(l)
	}
}

// notAfter moves times of the future to now, as after the clock was set back.
func (st *state) notAfter(now time.Time) {
	for _, t := range []*time.Time{&st.since, &st.back, &st.told, &st.newest} {
		if t.After(now) {
			*t = now
		}
	}
	if st.over.After(now) {
		st.over = time.Time{}
	}
}

// count replaces the value of a counter by how many came lately: since the first
// that another one followed within the rule's clear time.
func (o *observation) count(l *look) {
	more := l.value - l.read
	switch {
	case !l.counted && !l.sinceStart:
		more = 0
	case !l.counted, more < 0: // the counter began again
		more = l.value
	}
	l.read, l.counted = l.value, true
	switch {
	case more > 0:
		l.lately += more
		l.newest = o.now
	case l.alert == nil && o.now.Sub(l.newest) >= l.Clear:
		l.lately = 0
	}
	l.value = l.lately
}

// rise is about a rule without an alert: one may fire.
func (o *observation) rise(l *look) {
	if !l.beyond(l.watch, l.value) {
		l.since = time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since = o.now
	}
	if o.now.Sub(l.since) < l.Hold || !l.state.over.IsZero() && o.now.Sub(l.state.over) < l.Cooldown {
		return
	}
	l.back, l.told, l.hushed = time.Time{}, time.Time{}, false
	l.blamed = l.culprits()
	l.alert = o.as(&Alert{
		ID:   fmt.Sprintf("%s-%s-%d", l.Name, idOf(l.device), l.since.UnixMilli()),
		Rule: l.Name, Watch: l.Watch, State: Firing, Since: l.since,
	}, l)
	tell := l.alert.loud()
	if tell {
		l.told = o.now
	}
	o.news(l, Fired, tell)
}

// news adds a change of the alert that stands.
func (o *observation) news(l *look, news News, tell bool) {
	o.changes = append(o.changes, Change{Alert: *l.alert, News: news, Tell: tell})
}

// sourceOf is the source of what is no device, for the IDs of its alerts.
func sourceOf(d *gpu.Identity) string {
	if d.UUID != "" {
		return ""
	}
	return d.Source
}

// idOf names what an alert is about in its ID.
func idOf(d *gpu.Identity) string {
	if d.UUID != "" {
		return d.UUID
	}
	return d.Node + "-" + d.Source
}

// culprits are the processes that cause what is beyond the threshold.
func (l *look) culprits() []gpu.Process {
	if l.blame == nil || l.subject == nil {
		return nil
	}
	return l.blame(l.subject)
}

// fall is about an alert that stands: it may be over.
func (o *observation) fall(l *look) {
	if l.beyond(l.watch, l.value) {
		l.blamed = l.culprits()
	}
	was := l.alert.State
	next := *l.alert
	next.State = Firing
	l.alert = o.as(&next, l)
	if was == NoData {
		o.news(l, DataBack, false)
	}
	good, from := l.cleared(l.watch, l.value), o.now
	if l.kind == counter {
		good, from = o.now.After(l.newest), l.newest
	}
	if !good {
		l.back = time.Time{}
		return
	}
	if l.back.IsZero() {
		l.back = from
	}
	if o.now.Sub(l.back) < l.Clear {
		return
	}
	next.State = Resolved
	over := o.as(&next, l)
	o.changes = append(o.changes, o.end(over, !l.told.IsZero()))
	*l.state = state{covered: true, over: o.now, read: l.read, counted: l.counted, newest: l.newest}
}

// end remembers an alert that is over, and makes the change of it. People who
// were told that it began are told that it is over, whatever was silenced
// since; nobody else is.
func (e *Engine) end(over *Alert, told bool) Change {
	over.now = present{}
	if e.past = append(e.past, *over); len(e.past) > keptPast {
		e.past = slices.Delete(e.past, 0, len(e.past)-keptPast)
	}
	return Change{Alert: *over, News: Over, Tell: told}
}

// blind is about an alert whose device does not report what is watched.
func (o *observation) blind(l *look) {
	next := *l.alert
	was := next.State
	next.State, next.Time, next.Device = NoData, o.now, *l.device
	next.Value, next.Utilization = gpu.Reading[float64]{}, gpu.Reading[gpu.Percent]{}
	next.SilencedUntil = o.silencedUntil(&next)
	next.describe(l.Rule, l.watch, "", "")
	l.alert = &next
	if was != NoData {
		o.news(l, DataGone, false)
	}
}

// as returns an alert as it stands now.
func (o *observation) as(a *Alert, l *look) *Alert {
	next := *a
	next.Severity, next.Targets, next.Unit = l.Severity, l.Targets, l.unit
	next.Time, next.Device = o.now, *l.device
	next.Value = gpu.Of(l.value)
	if l.kind != condition {
		next.Threshold = gpu.Of(l.Threshold)
	}
	next.Processes = l.blamed
	next.now = present{beyond: l.beyond(l.watch, l.value)}
	detail, advice := l.failure, l.try
	if sub := l.subject; sub != nil {
		next.Utilization = sub.d.Utilization.GPU
		if l.detail != nil {
			detail, advice = l.detail(sub)
		}
		if l.watch.over != nil && !next.now.beyond {
			next.now.back = l.watch.over(sub)
		}
	}
	if l.cleared(l.watch, l.value) {
		next.now.remaining = l.Clear
		if !l.back.IsZero() {
			next.now.remaining -= o.now.Sub(l.back)
		}
	}
	next.SilencedUntil = o.silencedUntil(&next)
	next.describe(l.Rule, l.watch, detail, advice)
	if l.kind == condition {
		next.Value = gpu.Reading[float64]{}
	}
	return &next
}

// loud reports whether people want to hear of an alert.
func (a *Alert) loud() bool { return a.SilencedUntil.IsZero() && a.Acknowledged == nil }

// remind repeats an alert that has stood for long enough, and one whose silence
// is over; not while nothing is reported.
func (o *observation) remind(l *look) {
	l.hushed = l.hushed || !l.alert.SilencedUntil.IsZero()
	if l.alert.State != Firing || !l.alert.loud() || l.told.Equal(o.now) {
		return
	}
	if l.told.IsZero() || l.hushed || l.Repeat > 0 && o.now.Sub(l.told) >= l.Repeat {
		l.told, l.hushed = o.now, false
		o.news(l, Repeated, true)
	}
}

// standing yields the states with an alert, each with the place of its rule.
func (e *Engine) standing() iter.Seq2[int, *state] {
	return func(yield func(int, *state) bool) {
		for _, t := range e.tracked {
			for i := range t.states {
				if t.states[i].alert != nil && !yield(i, &t.states[i]) {
					return
				}
			}
		}
	}
}

// Standing returns the alerts that stand, as of the newest snapshot, the worst
// first.
func (e *Engine) Standing() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Alert{}
	for _, st := range e.standing() {
		out = append(out, *st.alert)
	}
	slices.SortFunc(out, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return out
}

// Firing is how many alerts stand.
func (e *Engine) Firing() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for range e.standing() {
		n++
	}
	return n
}

// A Count is how many alerts of a rule stand.
type Count struct {
	Name     string
	Severity Severity
	Firing   int
}

// Counts returns the count of each rule that is enabled, in their order.
func (e *Engine) Counts() []Count {
	e.mu.Lock()
	defer e.mu.Unlock()
	firing := make([]int, len(e.rules))
	for i := range e.standing() {
		firing[i]++
	}
	var out []Count
	for i := range e.rules {
		if r := &e.rules[i]; r.Enabled {
			out = append(out, Count{r.Name, r.Severity, firing[i]})
		}
	}
	return out
}

// Past returns the last alerts that are over, the newest first.
func (e *Engine) Past() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.Clone(e.past)
	slices.Reverse(out)
	return out
}
