package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of heat that is left over.

// coolingDown is about heat of work that has ended: whose it was, when it
// ended, and how long the rest will take if it goes as it went before.
func coolingDown(c *card) *finding {
	if !c.cooling() {
		return nil
	}
	w := &c.m.work
	since := c.age(w.ended)
	f := &finding{
		since:      w.ended,
		evidence:   c.heat(),
		confidence: Medium, // until it falls
		advice:     "Nothing needs to be done: it gets quiet by itself.",
	}
	if c.v.temp < w.endTemp || c.v.fan < w.endFan {
		f.confidence = High
	}
	who, p := "work", w.who()
	if p != nil {
		who = ProcessName(p)
		f.evidence.add(fact("last work", who, w.ended))
	}
	f.evidence.add(happened("work ended", w.ended))
	if has(w.endTemp) {
		f.evidence.add(figure("temperature when it ended", w.endTemp, "°C", w.ended))
	}
	if has(w.endFan) {
		f.evidence.add(figure("fan when it ended", w.endFan, "%", w.ended))
	}
	took, seen := c.m.cooling.usual(w.endTemp)
	ends := "; how long that takes is not known yet"
	if seen > 0 {
		f.evidence.add(figure("earlier cool-downs took", took.Seconds(), "s", time.Time{}), figure("cool-downs seen", float64(seen), "", time.Time{}))
		ends = "; that takes longer than the " + Span(took) + " of earlier times"
		if left := took - since; left > 0 {
			ends = "; about " + Span(roundUp(left)) + " more, going by earlier times"
		}
	}
	f.clause = func(it string) string {
		does := "is cooling down"
		if since < settling && c.v.load() > 0.35 {
			does = "begins to cool down" // its power is a mean, and follows
		}
		clause := fmt.Sprintf("%s %s after %s", it, does, who)
		switch {
		case p == nil:
			clause += " that ended " + ago(since)
		case since < pause && c.lists(p.PID):
			clause += ", which stopped working " + ago(since)
		default:
			clause += ", whose work ended " + ago(since)
		}
		return c.aside(it, clause) + ends
	}
	return f
}

// ago is how long before something happened.
func ago(d time.Duration) string {
	if d < 2*time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// lists reports whether the driver still lists a process.
func (c *card) lists(pid int) bool {
	return slices.ContainsFunc(c.d.Processes.Or(nil), func(p gpu.Process) bool { return p.PID == pid })
}

// roundUp is a time to come, no more exact than it can be known.
func roundUp(d time.Duration) time.Duration {
	step := 10 * time.Second
	if d > 2*time.Minute {
		step = time.Minute
	}
	return (d + step - 1).Truncate(step)
}
