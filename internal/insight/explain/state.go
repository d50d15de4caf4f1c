package explain

import "github.com/gpuwhy/gpuwhy/gpu"

// The family of states: a device that can't be read says nothing but why.

func lost(c *card) *finding {
	return c.inState(gpu.StateLost, " is lost: the driver no longer finds it", "look for \"Xid 79\" in the kernel log, check its power cables and seating, and restart the machine")
}

func notAnswering(c *card) *finding {
	return c.inState(gpu.StateNotAnswering, " is not answering", "look for NVRM and Xid lines in the kernel log; a restart of the machine may be needed")
}

func asleep(c *card) *finding {
	return c.inState(gpu.StateAsleep, " is asleep: the system has powered it down", "")
}

func (c *card) inState(state gpu.State, is, advice string) *finding {
	if c.d.State != state {
		return nil
	}
	f := &finding{
		clause:     func(it string) string { return it + is },
		confidence: High,
		since:      c.d.Since,
		evidence:   &proofs{at: c.s.Time},
	}
	f.evidence.add(fact("state", string(state), c.d.Since))
	if c.d.Reason.What != "" {
		f.evidence.fact("reason", textOf(c.d.Reason.What))
	}
	if c.d.Reason.Try != "" {
		advice = c.d.Reason.Try
	}
	if advice != "" {
		f.advice = sentence(capital(advice))
	}
	return f
}

// noReadings is about a device that answers, and reports nothing now: it is
// left alone on purpose, or its driver offers nothing.
func noReadings(c *card) *finding {
	if c.reportsAnything() {
		return nil
	}
	reason := textOf(c.d.Reason.Text())
	f := &finding{
		clause: func(it string) string {
			if reason == "" {
				return it + " has no readings now"
			}
			return it + " has no readings now: " + reason
		},
		confidence: High,
		evidence:   &proofs{at: c.at},
	}
	if reason != "" {
		f.evidence.fact("reason", reason)
	}
	return f
}

func (c *card) reportsAnything() bool {
	return c.doing != unknown || c.figures() != "" || len(c.d.Processes.Or(nil)) > 0
}
