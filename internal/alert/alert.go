package alert

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/explain"
)

// State is what an alert says.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	NoData   State = "no_data" // it fired, and what it is about is not reported now: that ends nothing
	Resolved State = "resolved"
)

// An Alert is what one rule says of one device, or of the machine. It does not
// change: how it stands later is another Alert with the same ID.
type Alert struct {
	ID       string // the same when it fires, stands and is resolved
	Rule     string
	Watch    Watch
	Severity Severity
	State    State
	// Device is what it is about. Of an alert about the machine only the Node
	// and Source are set.
	Device gpu.Identity
	// Utilization of the device; absent where it does not answer now.
	Utilization gpu.Reading[gpu.Percent]
	// Value of what is watched, in Unit; absent for conditions, and in the
	// state NoData.
	Value     gpu.Reading[float64]
	Unit      string
	Threshold gpu.Reading[float64] // absent for conditions
	Since     time.Time            // when it first was so
	Time      time.Time            // of the snapshot that this is about
	// Processes that cause it, busiest first; those of the last moment at which
	// it was so where it is no more.
	Processes []gpu.Process
	Message   string
	Advice    string // what to do, a sentence; empty where the causes of the device say it
	// Acknowledged is nil where nobody has.
	Acknowledged *Acknowledgment
	// SilencedUntil is when the silence ends that covers it; zero for none.
	SilencedUntil time.Time

	now present // of one that fires
	// Targets are the rule's.
	Targets []string
}

// present is how what an alert is about does now, while the alert fires.
type present struct {
	beyond bool          // it is as it was when the alert fired
	clear  time.Duration // it is back, and has to stay so for that long; 0 where it is not
}

// About reports whether the alert is about a device, not the machine.
func (a *Alert) About() bool { return a.Device.UUID != "" }

// An Acknowledgment says that somebody knows: the alert is not repeated.
type Acknowledgment struct {
	By      string    `json:"by"`      // who, as they call themselves; may be empty
	Comment string    `json:"comment"` // may be empty
	At      time.Time `json:"at"`
}

// News is what changed about an alert.
type News string

// What can change.
const (
	Fired    News = "fired"
	Repeated News = "repeated" // nothing changed, for long enough to say it again
	DataGone News = "data_gone"
	DataBack News = "data_back"
	Marked   News = "marked" // acknowledged or silenced, or not any more
	Over     News = "over"
)

// A Change is an alert with what is new about it.
type Change struct {
	Alert
	News News
	// Tell says that those who want to be told of alerts are to be told.
	Tell bool
}

// told fills in an alert's words.
func (a *Alert) told(w *watch, detail, advice string) {
	name := explain.DeviceName(&gpu.Device{Identity: a.Device})
	if w.machine {
		name = "The driver (" + a.Device.Source + ")"
	}
	a.Message = name + " " + a.reads(w, detail) + a.past(w) + a.culprit() + "."
	a.Advice = w.words.advice
	if advice != "" {
		a.Advice = advice
	}
}

// reads is what is so now: "is at 98 % now".
func (a *Alert) reads(w *watch, detail string) string {
	v, ok := a.Value.Get()
	switch {
	case a.State == NoData:
		return "does not report its " + w.words.what + " now"
	case w.kind == condition && v == 0:
		return w.words.over + " now"
	case w.kind == condition:
		return w.words.now + detail
	case !ok:
		return "does not report its " + w.words.what + " now"
	case w.kind == counter:
		return fmt.Sprintf(w.words.now, plural(v, "error")) + detail
	default:
		return fmt.Sprintf(w.words.now, amount(v, w.unit)) + detail
	}
}

// past is since when, and whether it is over.
func (a *Alert) past(w *watch) string {
	span := explain.Span(a.Time.Sub(a.Since))
	began := "it began"
	switch {
	case w.kind == level && w.below:
		began = "it went below " + amount(a.Threshold.Or(0), w.unit)
	case w.kind == level:
		began = "it went above " + amount(a.Threshold.Or(0), w.unit)
	case w.kind == counter:
		began = "the first came"
	}
	if a.State == Resolved {
		return ": it is over, " + span + " after " + began
	}
	text := "; " + began + " " + span + " ago"
	if a.Time.Sub(a.Since) < time.Second {
		text = "; " + began + " just now"
	}
	if a.State == Firing && a.now.clear > 0 && w.kind != counter {
		text += ", and is over once it stays as it is for " + explain.Span(a.now.clear)
	}
	return text
}

// culprit names who causes it, if that is known and it still is so.
func (a *Alert) culprit() string {
	if a.State != Firing || !a.now.beyond || len(a.Processes) == 0 {
		return ""
	}
	first := explain.ProcessName(&a.Processes[0])
	does := "uses"
	if a.Unit == "MiB" {
		does = "holds"
	}
	if n := len(a.Processes); n > 1 {
		return fmt.Sprintf("; %s %s most of it, of %d processes", first, does, n)
	}
	return "; " + first + " " + does + " it"
}

func amount(v float64, unit string) string {
	if unit == "MiB" && v >= 1024 { // as the page has it
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

func plural(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " " + noun + "s"
}
