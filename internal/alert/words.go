package alert

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// words tell a watch of a device. Where there is %s in one of them, it stands
// for an amount with its unit.
type words struct {
	what string // what may not be reported: "its utilization"
	// now is what is so: "is %s busy", "is lost". Of what is counted it has two
	// forms, of one and of more: "had %s error|had %s errors".
	now string
	// began is what happened first, of a threshold: "it rose above %s". Empty
	// for what just began.
	began string
	// beganAbove and overAbove stand for began and over of a distance that is
	// below the threshold where the threshold is itself a distance passed.
	beganAbove, overAbove string
	// part stands for now, and partWhat for what, where the rule looks at some of
	// the processes alone, whose they are in the last %s. Empty where it looks at
	// the whole device, or the words fit both.
	part, partWhat string
	// over is what is so when it is not so any more. Beside began it stands
	// after what is so now: "no longer above %s"; else alone: "answers again".
	over string
	// advice is what to do, a sentence; empty where the causes of the device
	// say it.
	advice string
}

// told fills in an alert's words: what it is about, what is so now, since when,
// and who causes it; once it is so no more, when the alert ends, or that it has.
func (a *Alert) told(r *Rule, w *watch, detail, advice string) {
	name := explain.DeviceName(&gpu.Device{Identity: a.Device})
	if w.machine {
		name = "The driver (" + a.Device.Source + ")"
	}
	switch {
	case a.State == NoData:
		a.Message = name + " now does not report " + w.unreported(r) + ", so whether this is over can't be told; " + a.first(w) + "."
	case w.kind == counter:
		a.Message = name + " " + a.counted(r, w, detail) + "."
	case a.State == Resolved:
		a.Message = name + " " + a.back(r, w) + ". The alert is over after " + explain.Span(a.Time.Sub(a.Since)) + "."
	case a.now.beyond:
		a.Message = name + " " + a.beyond(r, w, detail) + "; " + a.first(w) + "." + a.culprit(r, w)
	default:
		a.Message = name + " " + a.back(r, w) + ". " + a.ends(r, w) + "."
	}
	a.Advice = w.words.advice
	if advice != "" {
		a.Advice = advice
	}
}

// unreported is what may not be reported of what the rule looks at.
func (s *watch) unreported(r *Rule) string {
	if r.Scope.narrows() && s.words.partWhat != "" {
		return fmt.Sprintf(s.words.partWhat, r.Scope.whose())
	}
	return s.words.what
}

// beyond is what is so: "is 98 % busy".
func (a *Alert) beyond(r *Rule, w *watch, detail string) string {
	if detail != "" {
		detail = ": " + detail
	}
	return a.reads(r, w) + detail
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

// back is what is so once it is as it should be, or on its way there: "is 3 %
// busy, no longer above 50 %", "answers again".
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

// against fills in the threshold: in text, or in above where the threshold is a
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
	lasts := a.Time.Sub(a.Since)
	if lasts < time.Second {
		return "just now"
	}
	return explain.Span(lasts) + " ago"
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

// ends is what has to be for the alert to be over.
func (a *Alert) ends(r *Rule, w *watch) string {
	if a.now.rest > 0 {
		return "If it stays so, the alert ends in " + explain.Span(max(a.now.rest, time.Second))
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

// culprit names who causes it, as far as that is known: a sentence.
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
	case works(first) && !w.holds && n == 1:
		text = name + " keeps it busy"
	case works(first) && !w.holds:
		text = fmt.Sprintf("Of %d processes%s that work on it, %s works the most", n, r.Scope.whose(), name)
	case known && n == 1:
		text = name + " holds " + memory
	case known:
		text = fmt.Sprintf("Of %d compute processes%s on it, %s holds the most, %s", n, r.Scope.whose(), name, memory)
	default:
		text = name + " runs on it"
	}
	if strings.HasPrefix(text, "a process ") { // one without a name; a name stays as it is
		text = "A" + text[1:]
	}
	return " " + text + "."
}

// works reports whether the driver says of a process that it works.
func works(p *gpu.Process) bool {
	for _, share := range []gpu.Reading[gpu.Percent]{p.SM, p.Encoder, p.Decoder} {
		if v, ok := share.Trusted(); ok && v > 0 {
			return true
		}
	}
	return false
}

// amount writes a value with its unit, memory as the page has it.
func amount(v float64, unit string) string {
	if unit == "MiB" && v >= 1024 {
		return strconv.FormatFloat(v/1024, 'f', 1, 64) + " GiB"
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', digits(v), 64) + " " + unit)
}

// digits is how many decimals a value is told with: those of small thresholds
// that are no whole numbers.
func digits(v float64) int {
	if v != float64(int64(v)) && v > -10 && v < 10 {
		return 1
	}
	return 0
}
