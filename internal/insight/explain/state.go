package explain

import (
	"cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// These rules are about devices that can't be read: they say why, and nothing
// else.

// inState is a rule about a state. is follows the device's name; try is what to
// do where the source has no advice of its own.
func inState(state gpu.State, is, try string) func(*device) *finding {
	return func(d *device) *finding {
		if d.State != state {
			return nil
		}
		f := &finding{clause: it + is, confidence: High, since: d.Since, evidence: evidence{at: d.s.Time}}
		f.advice = Advice(cmp.Or(d.Reason.Try, try))
		f.add(fact("state", string(state), d.Since))
		f.fact("reason", textOf(d.Reason.What))
		return f
	}
}

// noReadings is about a device that answers and reports nothing now: gpuwhy
// leaves it alone on purpose, or its driver offers nothing.
func noReadings(d *device) *finding {
	if d.reportsAnything() {
		return nil
	}
	f := &finding{clause: it + " has no readings now", confidence: High, evidence: evidence{at: d.at}}
	if reason := textOf(d.Reason.Text()); reason != "" {
		f.clause += ": " + reason
		f.fact("reason", reason)
	}
	return f
}

func (d *device) reportsAnything() bool {
	return d.doing != unknown || d.figures() != "" || len(d.Processes.Or(nil)) > 0
}
