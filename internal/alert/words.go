package alert

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// words describe what a watch finds on a device. A %s in one of them stands for
// an amount with its unit.
type words struct {
	what string // what may not be reported: "its utilization"
	// now is what is so: "is %s busy", "is lost". A counter has two forms, for
	// one and for more: "had %s error|had %s errors".
	now string
	// began is what happened first, of a threshold: "it rose above %s". It is
	// empty where the state itself just began.
	began string
	// beganAbove and overAbove replace began and over where the watch is below
	// its threshold and the threshold itself is negative: a distance passed.
	beganAbove, overAbove string
	// part and partWhat replace now and what where the rule looks at a part of
	// the processes; the last %s says whose. They are empty where the rule looks
	// at the whole device, or the words fit both.
	part, partWhat string
	// over is what is so once the alert ends. With began it follows what is so
	// now: "no longer above %s". Without, it stands alone: "answers again".
	over string
	// advice is what to do, a sentence. It is empty where the causes of the
	// device have advice.
	advice string
}

// describe sets an alert's message and advice: what the alert is about, what is
// so now, since when, and who causes it; later, when the alert ends, or that it
// has ended.
func (a *Alert) describe(r *Rule, w *watch, detail, advice string) {
	name := explain.DeviceName(&gpu.Device{Identity: a.Device})
	if w.machine {
		name = "The driver (" + a.Device.Source + ")"
	}
	var text string
	switch {
	case a.State == NoData:
		text = "now does not report " + w.unreported(r) + ", so whether this is over can't be told; " + a.first(w) + "."
	case w.kind == counter:
		text = a.counted(r, w, detail) + "."
	case a.State == Resolved:
		text = a.back(r, w) + ". The alert is over after " + explain.Span(a.Time.Sub(a.Since)) + "."
	case a.now.beyond:
		if detail != "" {
			detail = ": " + detail
		}
		text = a.reads(r, w) + detail + "; " + a.first(w) + "." + a.culprit(r, w)
	default:
		text = a.back(r, w) + ". " + a.ends(r, w) + "."
	}
	a.Message, a.Advice = name+" "+text, cmp.Or(advice, w.words.advice)
}

// unreported is what may not be reported of what the rule looks at.
func (s *watch) unreported(r *Rule) string {
	if r.Scope.narrows() && s.words.partWhat != "" {
		return fmt.Sprintf(s.words.partWhat, r.Scope.whose())
	}
	return s.words.what
}

// reads is what the device reports.
func (a *Alert) reads(r *Rule, w *watch) string {
	v := a.Value.Or(0)
	switch {
	case w.kind == condition:
		return w.words.now
	case w.below && v < 0: // a distance to what it has passed
		return fmt.Sprintf(strings.Replace(w.words.now, "below", "above", 1), amount(-v, w.unit))
	case r.Scope.narrows() && w.words.part != "":
		return fmt.Sprintf(w.words.part, amount(v, w.unit), r.Scope.whose())
	default:
		return fmt.Sprintf(w.words.now, amount(v, w.unit))
	}
}

// back is what is so once the value is back, or on its way back: "is 3 % busy, no
// longer above 50 %", "answers again".
func (a *Alert) back(r *Rule, w *watch) string {
	switch {
	case a.now.back != "":
		return a.now.back
	case w.words.began == "":
		return w.words.over
	default:
		return a.reads(r, w) + ", " + a.against(w, w.words.over, w.words.overAbove)
	}
}

// against fills the threshold into text, or into above where the threshold is a
// distance passed.
func (a *Alert) against(w *watch, text, above string) string {
	threshold := a.Threshold.Or(0)
	switch {
	case !w.below || threshold > 0:
		return fmt.Sprintf(text, amount(threshold, w.unit))
	case threshold == 0: // "it rose above it"
		return strings.Replace(above, "more than %s ", "", 1)
	default:
		return fmt.Sprintf(above, amount(-threshold, w.unit))
	}
}

// first is how it began: "30 s ago it rose above 50 %".
func (a *Alert) first(w *watch) string {
	switch {
	case w.kind == counter:
		return "the first came " + a.ago()
	case w.words.began == "":
		return "this began " + a.ago()
	default:
		return a.ago() + " " + a.against(w, w.words.began, w.words.beganAbove)
	}
}

// ago is how long ago it began.
func (a *Alert) ago() string {
	if lasts := a.Time.Sub(a.Since); lasts >= time.Second {
		return explain.Span(lasts) + " ago"
	}
	return "just now"
}

// counted is how many came, the newest of them, and when: "had 2 driver errors,
// the last one XID 79; the first came 4 min ago".
func (a *Alert) counted(r *Rule, w *watch, detail string) string {
	v := a.Value.Or(0)
	one, text, _ := strings.Cut(w.words.now, "|")
	if v == 1 {
		text = one
	}
	text = fmt.Sprintf(text, amount(v, ""))
	switch {
	case detail != "" && v == 1:
		text += ": " + detail
	case detail != "":
		text += ", the last one " + detail
	}
	switch {
	case a.State == Resolved:
		return text + ", and no more for " + explain.Span(r.Clear) + ". The alert is over"
	case v == 1:
		return text + ", " + a.ago()
	default:
		return text + "; " + a.first(w)
	}
}

// ends says when the alert will be over.
func (a *Alert) ends(r *Rule, w *watch) string {
	if a.now.remaining > 0 {
		return "If it stays so, the alert ends in " + explain.Span(max(a.now.remaining, time.Second))
	}
	line := r.line(w)
	at, side := amount(line, w.unit), "less"
	switch {
	case w.below && line < 0:
		at = amount(-line, w.unit) + " above it"
	case w.below:
		at, side = at+" below it", "more"
	}
	return fmt.Sprintf("The alert ends after %s at %s or %s", explain.Span(r.Clear), at, side)
}

// culprit is a sentence that names the process that causes the alert, if known.
func (a *Alert) culprit(r *Rule, w *watch) string {
	n := len(a.Processes)
	if n == 0 {
		return ""
	}
	first := &a.Processes[0]
	name := explain.ProcessName(first)
	held, known := first.Memory.Get()
	memory := amount(held.MiB(), "MiB")
	var text string
	switch {
	case !first.Facts.Exists.Or(true) && known:
		text = name + " left " + memory
	case explain.Works(first) && !w.holds && n == 1:
		text = name + " keeps it busy"
	case explain.Works(first) && !w.holds:
		text = fmt.Sprintf("Of %d processes%s that work on it, %s works the most", n, r.Scope.whose(), name)
	case known && n == 1:
		text = name + " holds " + memory
	case known:
		text = fmt.Sprintf("Of %d compute processes%s on it, %s holds the most, %s", n, r.Scope.whose(), name, memory)
	default:
		text = name + " runs on it"
	}
	if strings.HasPrefix(text, "a process ") { // a process without a name
		text = "A" + text[1:]
	}
	return " " + text + "."
}

// amount writes a value with its unit, memory as the page does. Small values
// that are no whole numbers have one decimal.
func amount(v float64, unit string) string {
	if unit == "MiB" && v >= 1024 {
		return strconv.FormatFloat(v/1024, 'f', 1, 64) + " GiB"
	}
	digits := 0
	if v != float64(int64(v)) && v > -10 && v < 10 {
		digits = 1
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', digits, 64) + " " + unit)
}
