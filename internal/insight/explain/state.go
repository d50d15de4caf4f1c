package explain

import "github.com/gpuwhy/gpuwhy/gpu"

// These rules are about devices that can't be read: they say why, and nothing
// else.

func lost(d *device) *finding {
	return d.inState(gpu.StateLost, " is lost: the driver no longer finds it",
		"look for \"Xid 79\" in the kernel log, check its power cables and seating, and restart the machine")
}

func notAnswering(d *device) *finding {
	return d.inState(gpu.StateNotAnswering, " is not answering",
		"look for NVRM and Xid lines in the kernel log; a restart of the machine may be needed")
}

func asleep(d *device) *finding {
	return d.inState(gpu.StateAsleep, " is asleep: the system has powered it down", "")
}

func (d *device) inState(state gpu.State, is, try string) *finding {
	if d.State != state {
		return nil
	}
	if d.Reason.Try != "" {
		try = d.Reason.Try
	}
	f := &finding{clause: it + is, confidence: High, since: d.Since, advice: advice(try), evidence: evidence{at: d.s.Time}}
	f.add(fact("state", string(state), d.Since))
	f.fact("reason", textOf(d.Reason.What))
	return f
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
