package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// The kinds and severities of events that a Recorder finds.
const (
	kindState, kindXID, kindFault, kindThrottling   = "state", "xid", "fault", "throttling"
	kindClockSet, kindStarted, kindStopped          = "clock_set", "started", "stopped"
	severityInfo, severityWarning, severityCritical = "info", "warning", "critical"
)

const (
	// lasting is how long heat or power must hold the clocks down before an event is written; brief is how long they may pause meanwhile.
	lasting, brief = 30 * time.Second, time.Minute
	// over is how long they must have stopped before the end is written: work at the power limit touches it now and then.
	over = 3 * time.Minute
)

// changes are what events of a device are found by.
type changes struct {
	known    bool         // it was seen before in this run
	identity gpu.Identity // as it was seen last
	state    gpu.State
	xids     map[int]uint64 // how often, by code
	faults   map[gpu.FaultKind]uint64
	held     [len(throttles)]throttle
}

// A throttle is what holds the clocks down.
type throttle struct {
	since, last time.Time // it was seen; zero: it does not go on
	told        bool
}

// throttles are the kinds of throttling.
var throttles = [...]struct {
	name    string
	text    string // after "GPU 0 is "
	reasons gpu.ClockEventReasons
}{
	{"heat", "slowed by heat", gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal},
	{"power", "held back by power", gpu.ReasonPowerCap | gpu.ReasonHardwarePowerBrake},
}

// observeChanges finds what happened to a device since its reading before.
func (r *Recorder) observeChanges(d *device, seen *gpu.Device, readAt time.Time) {
	x := &d.changes
	if was := x.state; seen.State != was && (x.known || seen.State != gpu.StateOK) {
		r.happened(d, stateEvent(d.Key(), seen, was, readAt))
	}
	x.state = seen.State
	if x.xids == nil {
		x.xids, x.faults = map[int]uint64{}, map[gpu.FaultKind]uint64{}
	}
	for _, e := range seen.Health.XIDs.Or(nil) {
		if e.Count > x.xids[e.Code] {
			r.happened(d, xidEvent(d.Key(), seen, e, e.Count-x.xids[e.Code]))
		}
		x.xids[e.Code] = e.Count
	}
	for _, f := range seen.Health.Faults.Or(nil) {
		if f.Count > x.faults[f.Kind] {
			r.happened(d, faultEvent(d.Key(), seen, f, f.Count-x.faults[f.Kind]))
		}
		x.faults[f.Kind] = f.Count
	}
	reasons, known := seen.Clocks.EventReasons.Trusted()
	for i := range throttles {
		r.observeThrottle(d, seen, i, known && reasons&throttles[i].reasons != 0, readAt)
	}
	x.identity = seen.Identity
	x.known = true
}

// observeThrottle takes in whether something holds the clocks down.
func (r *Recorder) observeThrottle(d *device, seen *gpu.Device, i int, held bool, readAt time.Time) {
	t := &d.changes.held[i]
	pause := brief
	if t.told {
		pause = over
	}
	ended := !t.since.IsZero() && (readAt.Sub(t.last) >= pause || readAt.Before(t.last)) // nobody knows what was in a gap
	if ended {
		if t.told {
			r.out.event(throttlingEnds(d.Key(), seen, i, t.since, t.last))
		}
		*t = throttle{}
	}
	switch {
	case held && t.since.IsZero():
		t.since, t.last = readAt, readAt
	case held:
		t.last = readAt
		if !t.told && readAt.Sub(t.since) >= lasting {
			t.told = true
			r.out.event(throttling(d.Key(), seen, i, phaseBegins, t.since))
		}
	}
}

// leaveThrottles takes in that a device is not there: what it was last held down by ends, too.
func (r *Recorder) leaveThrottles(d *device, readAt time.Time) {
	gone := gpu.Device{Identity: d.changes.identity}
	for i := range throttles {
		r.observeThrottle(d, &gone, i, false, readAt)
	}
}

// A throttled is what an earlier run told of, and never told the end of.
type throttled struct {
	store.Key
	kind int // of throttles
}

// throttlesOf finds what an earlier run told of last, of events by time.
func (e *earlier) throttlesOf(event *store.Event) {
	var data struct{ By, Phase string }
	if json.Unmarshal(event.Data, &data) != nil {
		return
	}
	for i := range throttles {
		switch key := (throttled{event.Key, i}); {
		case throttles[i].name != data.By:
		case data.Phase == phaseBegins:
			e.throttles[key] = event.Time
		default:
			delete(e.throttles, key)
		}
	}
}

// resumeThrottle goes on with what an earlier run told of, until it has ended.
func (r *Recorder) resumeThrottle(former throttled, since, looked time.Time) {
	d := r.device(r.node(former.Node), former.UUID)
	if looked.Before(since) {
		looked = since
	}
	t := &d.changes.held[former.kind]
	if !t.since.IsZero() && t.since.Sub(looked) >= over { // it is another one
		device := gpu.Device{Identity: d.changes.identity}
		r.out.event(throttlingEnds(former.Key, &device, former.kind, since, looked))
		return
	}
	if t.since.IsZero() {
		t.last = looked
	}
	if t.told { // it was told of once more
		remove(&r.out, r.out.events, throttling(former.Key, &gpu.Device{}, former.kind, phaseBegins, t.since).ID, sizeOfEvent)
	}
	t.since, t.told = since, true
}

// throttledFor is how far back an earlier run may have told of what goes on.
const throttledFor = 30 * 24 * time.Hour

// happened keeps an event of a device, unless a run before has it: the kernel's log tells of old errors again.
func (r *Recorder) happened(d *device, e store.Event) {
	if d.changes.known || r.earlier == nil || !r.earlier.knows(&e) {
		r.out.event(e)
	}
}

// eventOf makes an event of a device. What says what makes it the same event; data is its JSON.
func eventOf(key store.Key, kind, what string, t time.Time, severity, text string, data any) store.Event {
	t = milliseconds(t)
	e := store.Event{Key: key, Time: t, Kind: kind, Severity: severity, Text: text}
	e.ID = strings.Join([]string{kind, key.Node, key.UUID, what, t.Format(time.RFC3339Nano)}, "/")
	if data != nil {
		e.Data, _ = json.Marshal(data) // of texts and numbers alone
	}
	return e
}

func stateEvent(key store.Key, d *gpu.Device, was gpu.State, t time.Time) store.Event {
	severity := severityInfo
	switch d.State {
	case gpu.StateLost:
		severity = severityCritical
	case gpu.StateNotAnswering:
		severity = severityWarning
	}
	text := explain.DeviceName(d) + " answers again"
	switch {
	case d.State == gpu.StateOK && was == gpu.StateAsleep:
		text = explain.DeviceName(d) + " is awake again"
	case d.State != gpu.StateOK:
		text = explain.DeviceName(d) + " is " + strings.ReplaceAll(string(d.State), "_", " ")
		if d.Reason.What != "" {
			text += ": " + d.Reason.What
		}
	}
	if since := milliseconds(d.Since); !d.Since.IsZero() && !since.After(t) {
		t = since
	}
	return eventOf(key, kindState, string(d.State), t, severity, text+".", map[string]string{"state": string(d.State)})
}

func xidEvent(key store.Key, d *gpu.Device, x gpu.XID, times uint64) store.Event {
	text := fmt.Sprintf("%s: XID %d", explain.DeviceName(d), x.Code)
	if what, _ := x.Meaning(); what != "" {
		text += ": " + what
	}
	data := map[string]any{"code": x.Code, "times": times}
	return eventOf(key, kindXID, fmt.Sprint(x.Code), x.Last, severityOf(x.Severity()), text+culpritText(x.Culprit)+".", data)
}

func faultEvent(key store.Key, d *gpu.Device, f gpu.Fault, times uint64) store.Event {
	text := explain.DeviceName(d) + ": " + string(f.Kind)
	if what, _ := f.Kind.Meaning(); what != "" {
		text = explain.DeviceName(d) + ": " + what
	}
	data := map[string]any{"kind": f.Kind, "times": times}
	return eventOf(key, kindFault, string(f.Kind), f.Last, severityOf(f.Kind.Severity()), text+culpritText(f.Culprit)+".", data)
}

func culpritText(c gpu.Culprit) string {
	switch {
	case c.Name != "":
		return fmt.Sprintf(", while running %s (pid %d)", c.Name, c.PID)
	case c.PID != 0:
		return fmt.Sprintf(", while running pid %d", c.PID)
	}
	return ""
}

// severityOf is a driver's severity as one of events.
func severityOf(s gpu.Severity) string {
	switch s {
	case gpu.SeverityWarning:
		return severityWarning
	case gpu.SeverityError, gpu.SeverityCritical:
		return severityCritical
	}
	return severityInfo
}

// The phases of throttling.
const phaseBegins, phaseEnds = "begins", "ends"

func throttling(key store.Key, d *gpu.Device, i int, phase string, t time.Time) store.Event {
	reason := throttles[i].name
	text := fmt.Sprintf("%s is %s.", explain.DeviceName(d), throttles[i].text)
	return eventOf(key, kindThrottling, reason+" "+phase, t, severityInfo, text, map[string]string{"by": reason, "phase": phase})
}

func throttlingEnds(key store.Key, d *gpu.Device, i int, since, end time.Time) store.Event {
	reason := throttles[i].name
	text := fmt.Sprintf("%s is no longer %s.", explain.DeviceName(d), throttles[i].text)
	data := map[string]any{"by": reason, "phase": phaseEnds, "since": since.Format(time.RFC3339), "seconds": end.Sub(since).Seconds()}
	return eventOf(key, kindThrottling, reason+" "+phaseEnds, end, severityInfo, text, data)
}

func clockSet(node string, t time.Time, change time.Duration) store.Event {
	direction := "forward"
	if change < 0 {
		direction = "back"
	}
	text := fmt.Sprintf("The machine's clock was set %s by %s.", direction, explain.Span(change.Abs()))
	return eventOf(store.Key{Node: node}, kindClockSet, "", t, severityInfo, text, map[string]float64{"seconds": change.Seconds()})
}

// program says that gpuwhy began or ended.
func program(node, version, kind string, t time.Time) store.Event {
	text := "gpuwhy " + version + " started."
	if kind == kindStopped {
		text = "gpuwhy " + version + " stopped."
	}
	return eventOf(store.Key{Node: node}, kind, "", t, severityInfo, text, map[string]string{"version": version})
}
