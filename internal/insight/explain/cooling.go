package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// coolingDown is about heat that work has left: who did the work, when it
// ended, and how much longer the cool-down takes, judged by earlier ones.
func coolingDown(d *device) *finding {
	if !d.cooling() {
		return nil
	}
	w := &d.m.work
	since := d.age(w.ended)
	f := &finding{
		since:      w.ended,
		evidence:   d.heat(),
		confidence: Medium, // until something falls
		advice:     "Nothing needs to be done: it gets quiet by itself.",
	}
	if d.temp < w.endTemp || d.fan < w.endFan {
		f.confidence = High
	}
	who, p := "work", w.who()
	if p != nil {
		who = ProcessName(p)
		f.add(fact("last work", who, w.ended))
	}
	f.add(happened("work ended", w.ended))
	if has(w.endTemp) {
		f.add(figure("temperature when it ended", w.endTemp, "°C", w.ended))
	}
	if has(w.endFan) {
		f.add(figure("fan when it ended", w.endFan, "%", w.ended))
	}
	ends := "; how long that takes is not known yet"
	if took, seen := d.m.cooling.usual(w.endTemp); seen > 0 {
		f.add(figure("earlier cool-downs took", took.Seconds(), "s", time.Time{}),
			figure("cool-downs seen", float64(seen), "", time.Time{}))
		ends = "; that takes longer than the " + Span(took) + " of earlier times"
		if left := took - since; left > 0 {
			ends = "; about " + Span(roundUp(left)) + " more, going by earlier times"
		}
	}
	does := " is cooling down after "
	if since < settling && d.load() > 0.35 {
		does = " begins to cool down after " // the power draw is a mean and follows
	}
	f.clause = it + does + who
	switch {
	case p == nil:
		f.clause += " that ended " + ago(since)
	case since < pause && d.lists(p.PID):
		f.clause += ", which stopped working " + ago(since)
	default:
		f.clause += ", whose work ended " + ago(since)
	}
	f.clause += inBrackets + ends
	return f
}

// ago is how long before now something happened.
func ago(d time.Duration) string {
	if d < 2*time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// lists reports whether the driver still lists a process.
func (d *device) lists(pid int) bool {
	return slices.ContainsFunc(d.Processes.Or(nil), func(p gpu.Process) bool { return p.PID == pid })
}

// roundUp rounds a time to come: it can't be known exactly.
func roundUp(d time.Duration) time.Duration {
	step := 10 * time.Second
	if d > 2*time.Minute {
		step = time.Minute
	}
	return (d + step - 1).Truncate(step)
}
