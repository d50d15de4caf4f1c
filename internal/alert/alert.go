// Package alert decides when a device's utilization is worth a message: once
// when it has been high for a while, once when that is over, and not each time
// it crosses a line. It is told of snapshots and keeps no clock; whoever calls
// it sends the messages.
package alert

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/explain"
)

// Rule is when an alert fires, and when it is over.
type Rule struct {
	// Threshold: utilization above it, for Hold, fires.
	Threshold gpu.Percent
	Hold      time.Duration
	// Margin: utilization lower than Threshold by Margin or more, for
	// Clear, resolves. Between the two lines nothing changes.
	Margin gpu.Percent
	Clear  time.Duration
}

// DefaultRule is above 50 % for 10 s, until 45 % or less for 15 s.
func DefaultRule() Rule {
	return Rule{Threshold: 50, Hold: 10 * time.Second, Margin: 5, Clear: 15 * time.Second}
}

// lower is the line at which an alert is over. With a threshold so low that
// the margin reaches below zero it is half the threshold.
func (r Rule) lower() gpu.Percent { return max(r.Threshold-r.Margin, r.Threshold/2) }

// State is what an alert says.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// An Alert is one message about one device.
type Alert struct {
	ID     string // the same when it fires, stands and is resolved
	State  State
	Device gpu.Identity
	// Utilization is absent where the device does not answer now: that
	// resolves nothing.
	Utilization gpu.Reading[gpu.Percent]
	Threshold   gpu.Percent
	Since       time.Time // when utilization first was above the threshold
	Time        time.Time // of the snapshot that this message is about
	// Processes that cause it, busiest first; those of the last moment
	// above the threshold where it is resolved.
	Processes []gpu.Process
	Message   string
}

// An Engine holds the state of one rule on every device. It belongs to one
// goroutine.
type Engine struct {
	rule    Rule
	devices map[key]*state
}

type key struct{ node, uuid string }

type state struct {
	alert  *Alert    // non-nil while firing
	since  time.Time // above the threshold since, while not firing yet
	below  time.Time // under the lower line since, while firing
	blamed []gpu.Process
}

// New returns an engine that has seen nothing.
func New(rule Rule) *Engine {
	return &Engine{rule: rule, devices: map[key]*state{}}
}

// Observe takes the next snapshot and returns what changed, in the order of
// the devices. A device that is missing, or does not report its utilization,
// changes nothing but a hold time under way, which begins anew.
func (e *Engine) Observe(s *gpu.Snapshot) []Alert {
	var changes []Alert
	seen := make(map[key]bool, len(s.Devices))
	for i := range s.Devices {
		d := &s.Devices[i]
		k := key{d.Node, d.UUID}
		seen[k] = true
		st := e.devices[k]
		if st == nil {
			st = &state{}
			e.devices[k] = st
		}
		if change := e.step(st, d, s.Time); change != nil {
			changes = append(changes, *change)
		}
	}
	for k, st := range e.devices {
		switch {
		case seen[k]:
		case st.alert == nil:
			delete(e.devices, k)
		default:
			st.below = time.Time{}
		}
	}
	return changes
}

// Standing returns the alerts that are firing, as they stand at the newest
// snapshot, in the order of the devices.
func (e *Engine) Standing() []Alert {
	var out []Alert
	for _, st := range e.devices {
		if st.alert != nil {
			out = append(out, *st.alert)
		}
	}
	slices.SortFunc(out, func(a, b Alert) int { return a.Device.Index - b.Device.Index })
	return out
}

func (e *Engine) step(st *state, d *gpu.Device, now time.Time) *Alert {
	util, ok := d.Utilization.GPU.Trusted()
	if !ok {
		st.since, st.below = time.Time{}, time.Time{}
		if st.alert != nil {
			st.alert = e.message(st.alert, d, now, st.blamed)
		}
		return nil
	}
	if st.alert == nil {
		return e.rise(st, d, util, now)
	}
	return e.fall(st, d, util, now)
}

func (e *Engine) rise(st *state, d *gpu.Device, util gpu.Percent, now time.Time) *Alert {
	if util <= e.rule.Threshold {
		st.since = time.Time{}
		return nil
	}
	if st.since.IsZero() {
		st.since = now
	}
	if now.Sub(st.since) < e.rule.Hold {
		return nil
	}
	st.blamed = explain.Culprits(d.Processes.Or(nil))
	id := fmt.Sprintf("high_gpu_usage-%s-%d", d.UUID, st.since.UnixMilli())
	st.alert = e.message(&Alert{ID: id, State: Firing, Since: st.since}, d, now, st.blamed)
	return st.alert
}

func (e *Engine) fall(st *state, d *gpu.Device, util gpu.Percent, now time.Time) *Alert {
	if util > e.rule.Threshold {
		st.blamed = explain.Culprits(d.Processes.Or(nil))
	}
	st.alert = e.message(st.alert, d, now, st.blamed)
	if util > e.rule.lower() {
		st.below = time.Time{}
		return nil
	}
	if st.below.IsZero() {
		st.below = now
	}
	if now.Sub(st.below) < e.rule.Clear {
		return nil
	}
	over := *st.alert
	over.State = Resolved
	over.Message = e.sentence(&over)
	*st = state{}
	return &over
}

// message returns the alert as it stands now.
func (e *Engine) message(a *Alert, d *gpu.Device, now time.Time, blamed []gpu.Process) *Alert {
	next := *a
	next.Device = d.Identity
	next.Utilization = d.Utilization.GPU
	next.Threshold = e.rule.Threshold
	next.Time = now
	next.Processes = blamed
	next.Message = e.sentence(&next)
	return &next
}

func (e *Engine) sentence(a *Alert) string {
	device := explain.DeviceName(&gpu.Device{Identity: a.Device})
	span := a.Time.Sub(a.Since).Round(time.Second)
	now := "does not report its utilization now"
	if u, ok := a.Utilization.Trusted(); ok {
		now = fmt.Sprintf("is at %.0f %% now", float64(u))
	}
	if a.State == Resolved {
		return fmt.Sprintf("%s %s: it is over, %s after utilization first was above %.0f %%.", device, now, span, float64(a.Threshold))
	}
	text := fmt.Sprintf("%s %s and has been busy, above %.0f %%, for %s", device, now, float64(a.Threshold), span)
	switch len(a.Processes) {
	case 0:
		return text + "; no process is listed that explains it."
	case 1:
		return text + ": " + explain.ProcessName(&a.Processes[0]) + " uses it."
	default:
		return fmt.Sprintf("%s: %s uses it most, of %d processes.", text, explain.ProcessName(&a.Processes[0]), len(a.Processes))
	}
}
