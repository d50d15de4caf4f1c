package alert

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// keptPast is how many alerts that are over are remembered.
const keptPast = 100

// An Engine holds the state of all rules on all devices. It keeps no clock: a
// snapshot's time is now. It may be used by several goroutines.
type Engine struct {
	mu       sync.Mutex
	rules    []Rule
	watches  []*watch // of the rules
	tracked  map[key]*tracked
	silences []Silence
	silenced uint64   // silences ever made, for their IDs
	round    uint64   // of Observe
	past     []Alert  // over, the newest last
	pending  []Change // found when what was kept was restored
}

// key is what rules look at: a device, or a source of a machine.
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
	told    time.Time // those who want to be told were, of the alert that stands; zero: never
	hushed  bool      // a silence covered it since

	// Of counters: what was read last, if anything, and how many came lately.
	read    float64
	counted bool
	lately  float64
	newest  time.Time
	blamed  []gpu.Process
}

// New returns an engine that has seen nothing. The rules have been checked, and
// each name is there once.
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

// SetRules puts other rules in force. Alerts of a rule that goes on stand; those
// of one that is gone, watches something else, is disabled or does not look at
// their device any more, are over.
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
			j := slices.IndexFunc(e.rules, func(r Rule) bool { return r.Name == before[i].Name && r.Watch == before[i].Watch })
			if j >= 0 && t.states[j].covered {
				t.states[j] = old[i]
				t.states[j].covered = true
				continue
			}
			if a := old[i].alert; a != nil {
				changes = append(changes, e.end(withoutRule(a, now), !old[i].told.IsZero()))
			}
		}
	}
	sortChanges(changes)
	return changes
}

// withoutRule is the end of an alert whose rule is not in force any more.
func withoutRule(a *Alert, now time.Time) *Alert {
	over := *a
	over.State, over.Time = Resolved, now
	over.Message = "The rule " + a.Rule + " is not in force any more. Before: " + a.Message
	return &over
}

// newStates has a state for each rule, of what is k.
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

// Observe takes the next snapshot, with the answer why it is so (which may be
// nil), and returns what changed: the worst first. A device that is missing, or
// does not report what is watched, ends no alert; a hold time under way begins
// anew.
func (e *Engine) Observe(s *gpu.Snapshot, answer *explain.Answer) []Change {
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
		t.seen, t.device = e.round, d.Identity
		sub := subject{d: d, foreign: foreign, driverGone: o.gone(s, d.Source)}
		if answer != nil && i < len(answer.Devices) && answer.Devices[i].Device.UUID == d.UUID {
			sub.answer = &answer.Devices[i]
		}
		for j := range t.states {
			if t.states[j].covered {
				sub.rule = &e.rules[j]
				v, ok := e.watches[j].measure(&sub)
				o.step(&t.states[j], j, look{value: v, ok: ok, subject: &sub})
			}
		}
	}
	o.drivers(s)
	o.missing()
	sortChanges(o.changes)
	return o.changes
}

// gone reports whether an alert about the source as a whole tells of its
// devices too.
func (o *observation) gone(s *gpu.Snapshot, source string) bool {
	return len(s.Failures) > 0 &&
		slices.ContainsFunc(s.Failures, func(f gpu.Failure) bool { return f.Source == source }) &&
		slices.ContainsFunc(o.rules, func(r Rule) bool { return r.Watch == DriverGone && r.Enabled })
}

// sortChanges puts what matters most first.
func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int { return compareAlerts(&a.Alert, &b.Alert) })
}

// An observation is one Observe under way.
type observation struct {
	*Engine
	now     time.Time
	changes []Change
}

// A look is what was measured for one rule.
type look struct {
	value   float64
	ok      bool
	subject *subject // nil where it is no device, or the device is missing
	device  gpu.Identity
	detail  string
	advice  string
}

// drivers looks at the sources that have worked before.
func (o *observation) drivers(s *gpu.Snapshot) {
	for i := range s.Drivers {
		o.track(key{node: s.Node, source: s.Drivers[i].Source}).device = gpu.Identity{Node: s.Node, Source: s.Drivers[i].Source}
	}
	for k, t := range o.tracked {
		if k.source == "" || k.node != s.Node {
			continue
		}
		l := look{device: t.device}
		l.ok = slices.ContainsFunc(s.Drivers, func(d gpu.Driver) bool { return d.Source == k.source })
		for i := range s.Failures {
			if f := &s.Failures[i]; f.Source == k.source {
				l.ok, l.value = true, 1
				l.detail, l.advice = strings.TrimRight(f.Advice.What, "."), capital(f.Advice.Try)
			}
		}
		t.seen = o.round
		for j := range t.states {
			if t.states[j].covered {
				o.step(&t.states[j], j, l)
			}
		}
	}
}

// missing looks at devices that the snapshot does not have. They are forgotten,
// but for alerts that stand and for times that still run.
func (o *observation) missing() {
	for k, t := range o.tracked {
		if t.seen == o.round {
			continue
		}
		keep := false
		for j := range t.states {
			if st := &t.states[j]; st.covered {
				o.step(st, j, look{device: t.device})
				keep = keep || st.alert != nil || st.counted || o.now.Sub(st.over) < o.rules[j].Cooldown
			}
		}
		if !keep {
			delete(o.tracked, k)
		}
	}
}

// step takes one look at one thing for one rule.
func (o *observation) step(st *state, rule int, l look) {
	r, w := &o.rules[rule], o.watches[rule]
	st.notAfter(o.now)
	if w.kind == counter {
		o.count(st, r, w, &l)
	}
	switch {
	case !l.ok:
		st.since, st.back = time.Time{}, time.Time{}
		if st.alert != nil {
			o.blind(st, r, w, l)
		}
	case st.alert == nil:
		o.rise(st, r, w, l)
	default:
		o.fall(st, r, w, l)
	}
	if st.alert != nil {
		o.remind(st, r)
	}
}

// notAfter takes times back that lie ahead, as after the clock was set back.
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

// count makes of what a counter shows how many came lately: since the first
// that was followed by another within the rule's clear time.
func (o *observation) count(st *state, r *Rule, w *watch, l *look) {
	if !l.ok {
		return
	}
	more := l.value - st.read
	switch {
	case !st.counted && !w.sinceStart:
		more = 0
	case !st.counted, more < 0: // it began anew
		more = l.value
	}
	st.read, st.counted = l.value, true
	switch {
	case more > 0:
		st.lately += more
		st.newest = o.now
	case st.alert == nil && o.now.Sub(st.newest) >= r.Clear:
		st.lately = 0
	}
	l.value = st.lately
}

func (o *observation) rise(st *state, r *Rule, w *watch, l look) {
	if !r.beyond(w, l.value) {
		st.since = time.Time{}
		return
	}
	if st.since.IsZero() {
		st.since = o.now
	}
	if o.now.Sub(st.since) < r.Hold || !st.over.IsZero() && o.now.Sub(st.over) < r.Cooldown {
		return
	}
	device := l.device
	if l.subject != nil {
		device = l.subject.d.Identity
	}
	base := Alert{
		ID:   fmt.Sprintf("%s-%s-%d", r.Name, device.UUID+sourceOf(&device), st.since.UnixMilli()),
		Rule: r.Name, Watch: r.Watch, State: Firing, Since: st.since, Device: device,
	}
	st.back, st.told, st.hushed = time.Time{}, time.Time{}, false
	st.blamed = blame(w, l)
	st.alert = o.as(&base, st, r, w, l)
	tell := o.loud(st.alert)
	if tell {
		st.told = o.now
	}
	o.changes = append(o.changes, Change{Alert: *st.alert, News: Fired, Tell: tell})
}

// sourceOf is the source of what is no device, for its alerts' IDs.
func sourceOf(d *gpu.Identity) string {
	if d.UUID != "" {
		return ""
	}
	return d.Source
}

func blame(w *watch, l look) []gpu.Process {
	if w.blame == nil || l.subject == nil {
		return nil
	}
	return w.blame(l.subject)
}

func (o *observation) fall(st *state, r *Rule, w *watch, l look) {
	if r.beyond(w, l.value) {
		st.blamed = blame(w, l)
	}
	was := st.alert.State
	next := *st.alert
	next.State = Firing
	st.alert = o.as(&next, st, r, w, l)
	if was == NoData {
		o.changes = append(o.changes, Change{Alert: *st.alert, News: DataBack})
	}
	good := r.cleared(w, l.value)
	if w.kind == counter {
		good = o.now.After(st.newest)
	}
	if !good {
		st.back = time.Time{}
		return
	}
	if st.back.IsZero() {
		st.back = o.now
		if w.kind == counter {
			st.back = st.newest
		}
	}
	if o.now.Sub(st.back) < r.Clear {
		return
	}
	next.State = Resolved
	over := o.as(&next, st, r, w, l)
	o.changes = append(o.changes, o.end(over, !st.told.IsZero()))
	*st = state{covered: true, over: o.now, read: st.read, counted: st.counted, newest: st.newest}
}

// end remembers an alert that is over, and makes the news of it. Who was told
// that it began is told that it is over, whatever was silenced since; nobody
// else is.
func (e *Engine) end(over *Alert, told bool) Change {
	over.now = present{}
	if e.past = append(e.past, *over); len(e.past) > keptPast {
		e.past = slices.Delete(e.past, 0, len(e.past)-keptPast)
	}
	return Change{Alert: *over, News: Over, Tell: told}
}

// blind is about an alert whose device does not report what is watched.
func (o *observation) blind(st *state, r *Rule, w *watch, l look) {
	next := *st.alert
	was := next.State
	next.State = NoData
	next.Value, next.Utilization = gpu.Reading[float64]{}, gpu.Reading[gpu.Percent]{}
	next.Time = o.now
	next.SilencedUntil = o.silencedUntil(&next)
	if l.subject != nil {
		next.Device = l.subject.d.Identity
	}
	next.told(r, w, "", "")
	st.alert = &next
	if was != NoData {
		o.changes = append(o.changes, Change{Alert: next, News: DataGone})
	}
}

// as returns an alert as it stands now.
func (o *observation) as(a *Alert, st *state, r *Rule, w *watch, l look) *Alert {
	next := *a
	next.Severity, next.Targets, next.Unit = r.Severity, r.Targets, w.unit
	next.Time = o.now
	next.Value = gpu.Of(l.value)
	if w.kind != condition {
		next.Threshold = gpu.Of(r.Threshold)
	}
	detail, advice := l.detail, l.advice
	if l.subject != nil {
		next.Device = l.subject.d.Identity
		next.Utilization = l.subject.d.Utilization.GPU
		if w.detail != nil {
			detail, advice = w.detail(l.subject)
		}
	}
	next.Processes = st.blamed
	next.now = present{beyond: r.beyond(w, l.value)}
	if w.over != nil && l.subject != nil && !next.now.beyond {
		next.now.back = w.over(l.subject)
	}
	if r.cleared(w, l.value) {
		next.now.rest = r.Clear
		if !st.back.IsZero() {
			next.now.rest -= o.now.Sub(st.back)
		}
	}
	next.SilencedUntil = o.silencedUntil(&next)
	next.told(r, w, detail, advice)
	if w.kind == condition {
		next.Value = gpu.Reading[float64]{}
	}
	return &next
}

// loud reports whether somebody wants to hear of an alert that fires.
func (e *Engine) loud(a *Alert) bool { return a.SilencedUntil.IsZero() && a.Acknowledged == nil }

// remind says an alert again that has stood for long enough, and one whose
// silence is over; not while nothing is reported.
func (o *observation) remind(st *state, r *Rule) {
	st.hushed = st.hushed || !st.alert.SilencedUntil.IsZero()
	if st.alert.State != Firing || !o.loud(st.alert) || st.told.Equal(o.now) {
		return
	}
	if st.told.IsZero() || st.hushed || r.Repeat > 0 && o.now.Sub(st.told) >= r.Repeat {
		st.told, st.hushed = o.now, false
		o.changes = append(o.changes, Change{Alert: *st.alert, News: Repeated, Tell: true})
	}
}

// Standing returns the alerts that fire, as they stand at the newest snapshot,
// the worst first.
func (e *Engine) Standing() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Alert{}
	for _, t := range e.tracked {
		for i := range t.states {
			if a := t.states[i].alert; a != nil {
				out = append(out, *a)
			}
		}
	}
	slices.SortFunc(out, func(a, b Alert) int { return compareAlerts(&a, &b) })
	return out
}

// Firing is how many alerts stand.
func (e *Engine) Firing() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, t := range e.tracked {
		for i := range t.states {
			if t.states[i].alert != nil {
				n++
			}
		}
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
	for _, t := range e.tracked {
		for i := range t.states {
			if t.states[i].alert != nil {
				firing[i]++
			}
		}
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

// capital begins a sentence and ends it.
func capital(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimRight(s[1:], ".") + "."
}
