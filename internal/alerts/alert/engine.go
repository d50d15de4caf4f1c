package alert

import (
	"cmp"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

const keptPast = 100 // alerts that are over

// An Engine holds the state of all rules on all devices. It has no clock: the
// time of the snapshot is the present. Several goroutines may use it.
//
// Everything that changes an alert (a Moment, a person, new rules) goes through the Engine, so it announces changes in the order in which
// they happened. Each machine evaluates its own alerts. A [Shared] book adds the alerts that other programs of a fleet report.
//
// At a break in a node's readings ([gpu.Snapshot.Breaks]) the times of its rules start again. If only the clock was set, they move with the
// clock instead, and so do silences.
type Engine struct {
	Node string // this machine's name, for state that survives a restart
	// Announce gets changes in the order in which they happen, and the alerts open after them. Only
	// alerts of the given nodes have changed; nil means all nodes. It is called for one
	// announcement at a time and must not block. It may be nil.
	Announce func(nodes []string, changes []Change, standing []Alert)
	Log      *slog.Logger

	order    sync.Mutex // held from a change until it is announced
	mu       sync.Mutex // held while something is read or changed
	rules    []Rule
	tracked  map[string]map[key]*tracked // by node
	alight   map[key]*tracked            // the tracked things that may have an open alert
	silences []Silence
	silenced uint64          // number of silences ever made, for their IDs
	round    uint64          // of Observe
	marks    map[string]mark // by node
	moved    time.Duration   // how far silences were moved, since the clock was set
	shifted  bool            // that shift still has to be saved
	past     []Alert         // over, the newest last
	ended    tally           // how many lately
	pending  []Change        // found by Restore
}

// key names what rules look at: a device by its UUID, a source, or, with neither, the node itself.
type key struct{ node, uuid, source string }

func (k key) about() subject {
	switch {
	case k.uuid != "":
		return aDevice
	case k.source != "":
		return aSource
	default:
		return aNode
	}
}

// A mark is [gpu.Snapshot]'s Breaks, ClockSet and Time.
type mark struct {
	breaks int
	set    time.Duration
	time   time.Time
}

// longestGap is the longest time between two readings that count as consecutive although the clock was set between
// them.
const longestGap = 2 * time.Minute

type tracked struct {
	states []state // one for each rule that looks at it
	seen   uint64  // the last round that had it
	device gpu.Identity
}

type state struct {
	ruled
	alert *Alert // the open alert; nil: there is none
	since time.Time
	back  time.Time // when the value came back, while an alert is open
	// reported says that the previous reading had the value, so the beginning was seen.
	reported bool
	before   bool      // it may have been so before since
	first    time.Time // reading since the last break
	floor    time.Time // anything before this belongs to another alert, or to the time before a break
	record
}

type ruled struct {
	*Rule
	*watch
}

// A record is the part of a state that survives a restart.
type record struct {
	Over   time.Time `json:"over,omitzero"`   // when the last alert was over
	Told   time.Time `json:"told,omitzero"`   // when people were last told about the open alert; zero: never
	Hushed bool      `json:"hushed,omitzero"` // a silence has covered it since then
	Gone   bool      `json:"gone,omitzero"`   // its data is gone, and people were told
	// For counters: the last reading, if any, and how many came lately.
	Read    float64   `json:"read,omitzero"`
	Counted bool      `json:"counted,omitzero"`
	Lately  float64   `json:"lately,omitzero"`
	Newest  time.Time `json:"newest,omitzero"`
}

// New returns an engine without any state. The rules must have been checked and have different
// names.
func New(rules []Rule) *Engine {
	return &Engine{Log: slog.Default(), rules: slices.Clone(rules), tracked: map[string]map[key]*tracked{}, alight: map[key]*tracked{}, marks: map[string]mark{}, ended: tally{}}
}

// Hold calls f while no alert changes and none is announced.
func (e *Engine) Hold(f func()) {
	e.order.Lock()
	defer e.order.Unlock()
	f()
}

// change changes alerts of the nodes, or of all nodes, and announces it, unless there is an error or nothing to say about those
// nodes.
func (e *Engine) change(nodes []string, how func() ([]Change, error)) (changes []Change, err error) {
	e.Hold(func() {
		if changes, err = e.sorted(how); err == nil && e.Announce != nil && (nodes == nil || len(changes) > 0 || e.burns(nodes)) {
			e.Announce(nodes, changes, e.Standing())
		}
	})
	return changes, err
}

// burns reports whether one of the nodes has an open alert.
func (e *Engine) burns(nodes []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(nodes, func(node string) bool {
		for k := range e.tracked[node] {
			if e.alight[k] != nil {
				return true
			}
		}
		return false
	})
}

// all yields everything that rules look at.
func (e *Engine) all() iter.Seq2[key, *tracked] {
	return func(yield func(key, *tracked) bool) {
		for _, near := range e.tracked {
			for k, t := range near {
				if !yield(k, t) {
					return
				}
			}
		}
	}
}

// drop forgets a thing.
func (e *Engine) drop(k key) {
	near := e.tracked[k.node]
	delete(near, k)
	delete(e.alight, k)
	if len(near) == 0 {
		delete(e.tracked, k.node)
	}
}

// sorted changes something under the lock. It returns the changes, worst first.
func (e *Engine) sorted(how func() ([]Change, error)) ([]Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	changes, err := how()
	slices.SortFunc(changes, func(a, b Change) int { return compareAlerts(&a.Alert, &b.Alert) })
	return changes, err
}

// Rules returns the rules in force.
func (e *Engine) Rules() []Rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.rules)
}

// SetRules replaces the rules. An alert ends if its rule is gone, watches something else, is
// disabled or no longer covers the device.
func (e *Engine) SetRules(rules []Rule, now time.Time) []Change {
	changes, _ := e.change(nil, func() (changes []Change, err error) {
		e.rules = slices.Clone(rules)
		for k, t := range e.all() {
			old := t.states
			t.states = e.newStates(k, &t.device)
			for i := range old {
				if st := &old[i]; !t.put(st.Name, st.Watch, st) && st.alert != nil {
					changes = append(changes, e.withoutRule(st, now))
				}
			}
		}
		return changes, nil
	})
	return changes
}

// put assigns a state to its rule and reports false if no such rule in force covers the thing. An open alert
// stays.
func (t *tracked) put(name string, w Watch, st *state) bool {
	for i := range t.states {
		if ruled := t.states[i].ruled; ruled.Name == name && ruled.Watch == w {
			if t.states[i].alert == nil {
				t.states[i] = *st
				t.states[i].ruled = ruled
			}
			return true
		}
	}
	return false
}

func (e *Engine) withoutRule(st *state, now time.Time) Change {
	return e.cutShort(st, "Rule "+st.alert.Rule+" is no longer in force.", now)
}

// cutShort ends an alert regardless of its value.
func (e *Engine) cutShort(st *state, why string, now time.Time) Change {
	over := *st.alert
	over.State, over.Time, over.Ended, over.CutShort, over.Message = Resolved, now, st.back, why, why+" Before that: "+over.Message
	return e.end(&over, !st.Told.IsZero())
}

// newStates returns a state for each rule that covers a thing.
func (e *Engine) newStates(k key, d *gpu.Identity) (states []state) {
	for i := range e.rules {
		r := &e.rules[i]
		w := r.Watch.watch()
		if r.Enabled && w.About == k.about() && r.Scope.covers(d) {
			states = append(states, state{ruled: ruled{r, w}})
		}
	}
	return states
}

// keyOf is the key of a device, or of its source if the device has no UUID.
func keyOf(d *gpu.Identity) key {
	k := key{node: d.Node, uuid: d.UUID}
	if d.UUID == "" {
		k.source = d.Source
	}
	return k
}

func (e *Engine) track(d *gpu.Identity) *tracked {
	k := keyOf(d)
	near := e.tracked[k.node]
	if near == nil {
		near = map[key]*tracked{}
		e.tracked[k.node] = near
	}
	t := near[k]
	if t == nil {
		t = &tracked{states: e.newStates(k, d)}
		near[k] = t
	} else if d.Index != t.device.Index || d.Name != t.device.Name { // a rule's scope may name them
		old := t.states
		t.states = e.newStates(k, d)
		for i := range old {
			if st := &old[i]; !t.put(st.Name, st.Watch, st) && st.alert != nil {
				e.pending = append(e.pending, e.withoutRule(st, st.alert.Time))
			}
		}
	}
	t.device = *d
	return t
}

// Uncovered returns the rules whose scope names GPUs or machines but covers none of these. If others is true, a rule may be
// about another machine.
func (e *Engine) Uncovered(nodes gpu.Nodes, others bool) (rules []Rule) {
	for _, r := range e.Rules() {
		if !r.Enabled || len(r.Scope.GPUs) == 0 && (others || len(r.Scope.Nodes) == 0) {
			continue
		}
		here, covered := !others, false
		for _, s := range nodes {
			here = here || matches(r.Scope.Nodes, s.Node)
			covered = covered || len(r.Scope.GPUs) == 0 && matches(r.Scope.Nodes, s.Node)
			for i := range s.Devices {
				covered = covered || r.Scope.covers(&s.Devices[i].Identity)
			}
		}
		if here && !covered {
			rules = append(rules, r)
		}
	}
	return rules
}

// Observe looks at a node's next Moment and returns the changes, worst first. A value that is not reported ends no alert
// and restarts its hold time. After a break in the readings all times restart, unless the clock was set and nothing else
// happened: then they move with it.
func (e *Engine) Observe(m *insight.Moment) []Change { return e.ObserveAll([]*insight.Moment{m}) }

// ObserveAll is Observe of the next Moments of several nodes, with one announcement.
func (e *Engine) ObserveAll(moments []*insight.Moment) []Change {
	nodes := make([]string, len(moments))
	for i, m := range moments {
		nodes[i] = m.Snapshot.Node
	}
	changes, _ := e.change(nodes, func() (all []Change, err error) {
		for _, m := range moments {
			if m.Link.Remote {
				all = append(all, e.link(m)...)
			} else {
				all = append(all, e.observe(m.Snapshot, &m.Answer)...)
			}
		}
		return all, nil
	})
	for _, m := range moments {
		if !m.Link.Remote {
			e.bringBack(m.Snapshot.Time)
		}
	}
	return changes
}

// link checks whether a node still sends data: the program that reads the node evaluates everything else and reports those
// alerts itself.
func (e *Engine) link(m *insight.Moment) []Change {
	e.round++
	o := observation{Engine: e, now: m.Link.At.Round(0), changes: e.pending}
	e.pending = nil
	e.silences = slices.DeleteFunc(e.silences, func(x Silence) bool { return !o.now.Before(x.Until) })
	l := look{ok: true, sent: m.Link.Sent, value: is(!m.Link.Silent.IsZero()), failure: strings.TrimRight(m.Link.Why.What, "."), try: explain.Advice(m.Link.Why.Try)}
	o.look(e.track(&gpu.Identity{Node: m.Snapshot.Node}), &l)
	return o.changes
}

// Forget forgets a node that is no longer part of the fleet. Its alerts are over.
func (e *Engine) Forget(node string, now time.Time) []Change {
	changes, _ := e.change([]string{node}, func() (changes []Change, err error) {
		for k, t := range e.tracked[node] {
			for i := range t.states {
				if st := &t.states[i]; st.alert != nil {
					changes = append(changes, e.cutShort(st, "The machine was removed from the fleet.", now))
				}
			}
			e.drop(k)
		}
		delete(e.marks, node)
		return changes, nil
	})
	return changes
}

func (e *Engine) observe(s *gpu.Snapshot, answer *explain.Answer) []Change {
	e.round++
	o := observation{Engine: e, now: s.Time.Round(0), changes: e.pending} // moments move when the clock is set
	e.pending = nil
	o.follow(s)
	e.silences = slices.DeleteFunc(e.silences, func(x Silence) bool { return !s.Time.Before(x.Until) })
	foreign := attribute.ForeignPIDs(s)
	for i := range s.Devices {
		d := &s.Devices[i]
		t := e.track(&d.Identity)
		l := look{d: d, foreign: foreign, driverGone: o.driverGone(s, d.Source)}
		if i < len(answer.Devices) {
			l.answer = &answer.Devices[i]
		}
		o.look(t, &l)
	}
	o.drivers(s)
	o.missing(s.Node)
	return o.changes
}

// follow restarts all times of a node if its reading does not continue the previous one, and shifts
// moments by as much as its clock was set.
func (o *observation) follow(s *gpu.Snapshot) {
	was, is := o.marks[s.Node], mark{s.Breaks, s.ClockSet, o.now}
	o.marks[s.Node] = is
	if is.breaks == was.breaks {
		return
	}
	set := is.set - was.set
	between := is.time.Sub(was.time) - set
	// If only the clock was set, durations continue unchanged.
	goesOn := set != 0 && !was.time.IsZero() && is.breaks == was.breaks+1 && between > 0 && between <= longestGap
	if shift := is.set - o.moved; shift != 0 { // silences follow the clock that all nodes share
		o.moved, o.shifted = is.set, len(o.silences) > 0
		for i := range o.silences {
			x := &o.silences[i]
			x.Since, x.Until = x.Since.Add(shift), x.Until.Add(shift)
		}
	}
	for _, t := range o.tracked[s.Node] {
		for i := range t.states {
			if goesOn {
				t.states[i].shift(set)
			} else {
				t.states[i].startAgain(o.now, set)
			}
		}
	}
	for i := range o.past {
		if a := &o.past[i]; a.Device.Node == s.Node {
			a.shift(set)
		}
	}
}

// shift moves all moments by how far the clock was set.
func (st *state) shift(set time.Duration) {
	for _, t := range []*time.Time{&st.since, &st.back, &st.first, &st.floor, &st.Over, &st.Told, &st.Newest} {
		if !t.IsZero() {
			*t = t.Add(set)
		}
	}
	if st.alert != nil {
		moved := *st.alert
		moved.Since = moved.Since.Add(set)
		st.alert = &moved
	}
}

func (st *state) startAgain(now time.Time, set time.Duration) {
	st.since, st.back, st.first = time.Time{}, time.Time{}, time.Time{}
	st.reported, st.floor = false, now
	for _, t := range []*time.Time{&st.Over, &st.Told, &st.Newest} {
		if !t.IsZero() {
			*t = now
		}
	}
	if st.alert != nil {
		moved := *st.alert
		moved.Since = moved.Since.Add(set)
		st.alert = &moved
	}
}

// driverGone reports whether an alert about the source also covers its devices.
func (o *observation) driverGone(s *gpu.Snapshot, source string) bool {
	return slices.ContainsFunc(s.Failures, func(f gpu.Failure) bool { return f.Source == source }) &&
		slices.ContainsFunc(o.rules, func(r Rule) bool { return r.Watch == DriverGone && r.Enabled })
}

type observation struct {
	*Engine
	now     time.Time
	changes []Change
}

// A look is one rule's measurement of one thing, with its state so far.
type look struct {
	*state
	value  float64
	ok     bool
	device *gpu.Identity
	// For a device, unless it is missing:
	d          *gpu.Device
	answer     *explain.DeviceAnswer // nil if the device is not explained
	foreign    bool                  // pids belong to another namespace
	driverGone bool                  // an alert about the source says why the device does not answer
	// For a node: when its last message was made, so that all hubs give its alert the same ID.
	sent time.Time
	// For a source or a node: why it can't be read, and what to do.
	failure, try string
}

// look evaluates each rule that covers one thing. l is common to all of these looks.
func (o *observation) look(t *tracked, l *look) {
	t.seen, l.device = o.round, &t.device
	for i := range t.states {
		l.state = &t.states[i]
		if l.d != nil {
			l.value, l.ok = l.measure(l)
		}
		o.step(l)
	}
	o.light(t)
}

// light notes whether a thing has an open alert.
func (e *Engine) light(t *tracked) {
	k := keyOf(&t.device)
	if slices.ContainsFunc(t.states, func(st state) bool { return st.alert != nil }) {
		e.alight[k] = t
	} else {
		delete(e.alight, k)
	}
}

// drivers looks at the sources that have worked before.
func (o *observation) drivers(s *gpu.Snapshot) {
	for i := range s.Drivers {
		o.track(&gpu.Identity{Node: s.Node, Source: s.Drivers[i].Source})
	}
	for k, t := range o.tracked[s.Node] {
		if k.about() != aSource {
			continue
		}
		l := look{ok: slices.ContainsFunc(s.Drivers, func(d gpu.Driver) bool { return d.Source == k.source })}
		for i := range s.Failures {
			if f := &s.Failures[i]; f.Source == k.source {
				l.ok, l.value = true, 1
				l.failure, l.try = strings.TrimRight(f.Advice.What, "."), explain.Advice(f.Advice.Try)
			}
		}
		o.look(t, &l)
	}
}

// missing looks at devices that the snapshot lacks, and forgets those it may forget.
func (o *observation) missing(node string) {
	for k, t := range o.tracked[node] {
		if t.seen == o.round {
			continue
		}
		o.look(t, &look{})
		if !slices.ContainsFunc(t.states, func(st state) bool {
			return st.alert != nil || st.Counted || o.now.Sub(st.Over) < st.Cooldown
		}) {
			o.drop(k)
		}
	}
}

// shift moves the moments of an alert.
func (a *Alert) shift(offset time.Duration) {
	a.Since, a.Time = a.Since.Add(offset), a.Time.Add(offset)
	if !a.Ended.IsZero() {
		a.Ended = a.Ended.Add(offset)
	}
}

func (o *observation) step(l *look) {
	l.notAfter(o.now)
	if l.first.IsZero() {
		l.first = o.now
	}
	if l.Counter && l.ok {
		o.count(l)
	}
	switch {
	case !l.ok:
		l.since, l.back = time.Time{}, time.Time{}
		if l.alert != nil {
			o.stands(l, NoData)
		}
	case l.alert == nil:
		o.rise(l)
	default:
		o.fall(l)
	}
	if l.alert != nil {
		o.remind(l)
	}
	l.reported = l.ok
}

// notAfter moves future times to now, for example after the clock was set back.
func (st *state) notAfter(now time.Time) {
	for _, t := range []*time.Time{&st.since, &st.back, &st.first, &st.floor, &st.Told, &st.Newest} {
		if t.After(now) {
			*t = now
		}
	}
	if st.Over.After(now) {
		st.Over = time.Time{}
	}
}

// count replaces a counter's value with how many came lately: since the first of a series without a
// gap of the rule's clear time.
func (o *observation) count(l *look) {
	more := l.value - l.Read
	switch {
	case !l.Counted && !l.SinceStart:
		more = 0
	case !l.Counted, more < 0: // the counter restarted
		more = l.value
	}
	l.Read, l.Counted = l.value, true
	switch {
	case more > 0:
		l.Lately += more
		l.Newest = o.now
	case l.alert == nil && o.now.Sub(l.Newest) >= l.Clear:
		l.Lately = 0
	}
	l.value = l.Lately
}

// rise handles a rule without an alert, which may fire.
func (o *observation) rise(l *look) {
	if !l.beyond(l.watch, l.value) {
		l.since = time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since, l.before = o.begins(l)
	}
	if o.now.Sub(l.since) < l.Hold || !l.Over.IsZero() && o.now.Sub(l.Over) < l.Cooldown {
		return
	}
	subject := cmp.Or(l.device.UUID, strings.TrimSuffix(l.device.Node+"-"+l.device.Source, "-"))
	named := l.since
	if !l.sent.IsZero() {
		named = l.sent
	}
	l.alert = &Alert{ID: fmt.Sprintf("%s-%s-%d", l.Name, subject, named.UnixMilli()), Rule: l.Name, Watch: l.Watch, Since: l.since, Before: l.before}
	l.alert = o.current(Firing, l)
	tell := l.alert.loud()
	if tell {
		l.Told = o.now
	}
	o.news(l, Fired, tell)
}

// begins returns since when it is known to hold, and whether it may have held before.
func (o *observation) begins(l *look) (since time.Time, before bool) {
	if l.began == nil {
		return o.now, !l.reported && !l.Counter
	}
	if since = l.began(l); since.IsZero() {
		since, before = l.first, true
	}
	for _, earliest := range []time.Time{l.floor, l.Over} {
		if since.Before(earliest) {
			since, before = earliest, true
		}
	}
	if since.After(o.now) {
		since = o.now
	}
	return since, before
}

func (o *observation) news(l *look, news News, tell bool) {
	o.changes = append(o.changes, Change{Alert: *l.alert, News: news, Tell: tell})
}

// stands sets the state of an open alert; a different state is news.
func (o *observation) stands(l *look, now State) {
	was := l.alert.State
	l.alert = o.current(now, l)
	switch {
	case (was == NoData) == (now == NoData):
	case now == NoData:
		l.Gone = true
		o.news(l, DataGone, false)
	case l.Gone:
		l.Gone = false
		o.news(l, DataBack, false)
	default:
		o.news(l, Resumed, false)
	}
}

// fall handles an open alert, which may be over.
func (o *observation) fall(l *look) {
	o.stands(l, Firing)
	good, since := l.cleared(l.watch, l.value), o.now
	if l.Counter {
		good, since = o.now.After(l.Newest), l.Newest
	}
	if !good {
		l.back = time.Time{}
		return
	}
	if l.back.IsZero() {
		l.back = since
	}
	if o.now.Sub(l.back) < l.Clear {
		return
	}
	o.changes = append(o.changes, o.end(o.current(Resolved, l), !l.Told.IsZero()))
	*l.state = state{
		ruled: l.ruled, first: l.first, floor: l.back, record: record{Over: o.now, Read: l.Read, Counted: l.Counted, Newest: l.Newest},
	}
}

// end remembers an alert that is over and returns its change. People who were told that it began
// are told that it is over, even if it has been silenced since.
func (e *Engine) end(over *Alert, told bool) Change {
	e.ended.add(over.Device.Node, over.Time)
	if e.past = append(e.past, *over); len(e.past) > keptPast {
		e.past = slices.Delete(e.past, 0, len(e.past)-keptPast)
	}
	return Change{Alert: *over, News: Over, Tell: told}
}

// current returns the current alert in the given state.
func (o *observation) current(s State, l *look) *Alert {
	next := *l.alert
	next.State, next.Time, next.Device = s, o.now, *l.device
	if s == Resolved {
		next.Ended = l.back
	}
	next.Severity, next.Targets, next.Unit = l.Severity, l.Targets, l.Unit
	next.Value, next.Utilization = gpu.Reading[float64]{}, gpu.Reading[gpu.Percent]{}
	if !l.Condition {
		next.Threshold = gpu.Of(l.Threshold)
	}
	text := telling{Alert: &next, rule: l.Rule, watch: l.watch, detail: l.failure, advice: l.try}
	if l.ok {
		text.value, text.beyond = l.value, l.beyond(l.watch, l.value)
		if !l.Condition && !math.IsInf(l.value, 0) {
			next.Value = gpu.Of(l.value)
		}
		if l.cleared(l.watch, l.value) {
			text.remaining = l.Clear
			if !l.back.IsZero() {
				text.remaining -= o.now.Sub(l.back)
			}
		}
	}
	if l.ok && l.d != nil {
		next.Utilization = l.d.Utilization.GPU
		if l.more != nil {
			text.detail, text.advice = l.more(l)
		}
		if l.culprits != nil && text.beyond {
			next.Processes = l.culprits(l)
		}
		if l.instead != nil && !text.beyond {
			text.instead = l.instead(l)
		}
	}
	next.SilencedUntil = o.silencedUntil(&next)
	text.write()
	next.remember(text.beyond, l.Below)
	return &next
}

// mostUsers is how many users an alert names.
const mostUsers = 8

// remember notes what the alert fired for, while that still holds.
func (a *Alert) remember(beyond, below bool) {
	if !beyond {
		return
	}
	if a.Fired == "" {
		a.Fired, a.FiredIs = a.Message, a.Is
	}
	v, valued := a.Value.Get()
	if peak, known := a.Peak.Get(); valued && (!known || below && v < peak || !below && v > peak) {
		a.Peak = gpu.Of(v)
	}
	for i := range a.Processes {
		user := a.Processes[i].Facts.User.Or("")
		if user != "" && !slices.Contains(a.Users, user) && len(a.Users) < mostUsers {
			a.Users = append(slices.Clip(a.Users), user)
		}
	}
}

// loud reports whether people want to hear of an alert.
func (a *Alert) loud() bool { return a.SilencedUntil.IsZero() && a.Acknowledged == nil }

// remind repeats an alert that has stood for long, or whose silence has ended.
func (o *observation) remind(l *look) {
	l.Hushed = l.Hushed || !l.alert.SilencedUntil.IsZero()
	if l.alert.State != Firing || !l.alert.loud() || l.Told.Equal(o.now) {
		return
	}
	if l.Told.IsZero() || l.Hushed || l.Repeat > 0 && o.now.Sub(l.Told) >= l.Repeat {
		l.Told, l.Hushed = o.now, false
		o.news(l, Repeated, true)
	}
}

func (e *Engine) standing() iter.Seq[*state] { return standingIn(maps.Values(e.alight)) }

func standingIn(all iter.Seq[*tracked]) iter.Seq[*state] {
	return func(yield func(*state) bool) {
		for t := range all {
			for i := range t.states {
				if t.states[i].alert != nil && !yield(&t.states[i]) {
					return
				}
			}
		}
	}
}

// Standing returns the open alerts, worst first.
func (e *Engine) Standing() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	return worstFirst(e.standing())
}

// standingOf returns the open alerts of a node, without looking at other nodes.
func (e *Engine) standingOf(node string) []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	return worstFirst(standingIn(maps.Values(e.tracked[node])))
}

func worstFirst(standing iter.Seq[*state]) []Alert {
	out := []Alert{}
	for st := range standing {
		a := *st.alert
		a.Told = st.Told
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return out
}

// Firing returns the number of open alerts on a node, or on all nodes if it is empty.
func (e *Engine) Firing(node string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for st := range e.standing() {
		if node == "" || st.alert.Device.Node == node {
			n++
		}
	}
	return n
}

// Past returns the last alerts that are over, newest first.
func (e *Engine) Past() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.Clone(e.past)
	slices.Reverse(out)
	return out
}
