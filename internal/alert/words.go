package alert

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// words describe what a watch finds on a device; watches.yaml says how.
type words struct {
	What, Now, Began, Over, Less, Part, Advice string

	Short      string
	PartWhat   string `yaml:"part_what"`
	BeganAbove string `yaml:"began_above"`
	OverAbove  string `yaml:"over_above"`
}

// A telling is an alert as people are told of it.
type telling struct {
	*Alert
	rule           *Rule
	watch          *watch
	detail, advice string        // of the watch, more than its words say; may be empty
	value          float64       // of what is watched
	beyond         bool          // the value is beyond the threshold
	instead        string        // where it is not: what is so, in place of the watch's words; may be empty
	remaining      time.Duration // the value is back, and must stay so for that long; 0 where it is not
}

// write sets the alert's message and advice: what it is about, what is so now, since
// when, and who causes it; later, when it ends, or that it has ended.
func (t *telling) write() {
	name := explain.DeviceName(&gpu.Device{Identity: t.Device})
	switch t.watch.About {
	case aSource:
		name = "The driver (" + t.Device.Source + ")"
	case aNode:
		name = "The machine"
	}
	var text string
	t.Easing = false
	switch {
	case t.State == NoData:
		t.Is, t.More = "does not report "+t.unreported(), "Whether this is over can't be told."
		text = "now does not report " + t.unreported() + ", so whether this is over can't be told; " + t.first() + "."
	case t.watch.Counter:
		t.Is, t.More = t.howMany(), t.newest()
		text = t.counted() + "."
	case t.State == Resolved:
		t.Is, t.More = t.back(), ""
		text = t.back() + ". The alert is over after " + t.atLeast() + explain.Span(t.Lasted()) + "."
	case t.beyond:
		t.Is, t.More = t.inShort()
		if t.detail != "" {
			t.detail = ": " + t.detail
		}
		text = t.reads() + t.detail + "; " + t.first() + "." + t.culprit(explain.ProcessName)
	default:
		t.Is, t.More, t.Easing = t.back(), t.ends()+".", true
		text = t.back() + ". " + t.ends() + "."
	}
	t.Message, t.Advice = name+" "+text, cmp.Or(t.advice, strings.Replace(t.watch.Words.Advice, "{lines}", t.Device.Vendor.LogLines(), 1))
}

// inShort is what is so now, and in sentences what there is to say of it beside since when.
func (t *telling) inShort() (is, more string) {
	is = t.reads()
	var also string
	if t.watch.Condition {
		is, also, _ = strings.Cut(cmp.Or(t.watch.Words.Short, is), ", ")
	}
	var said []string
	for _, text := range []string{also, t.detail} {
		if text != "" {
			said = append(said, capital(text)+".")
		}
	}
	if t.watch.Words.Began != "" {
		said = append(said, capital(t.line())+".")
	}
	return is, strings.TrimSpace(strings.Join(said, " ") + t.culprit(explain.ShortName))
}

// howMany is how many came: "had 2 driver errors".
func (t *telling) howMany() string {
	one, many, _ := strings.Cut(t.watch.Words.Now, "|")
	if t.value == 1 {
		many = one
	}
	return fmt.Sprintf(many, t.amount(t.value))
}

// newest is the last of those that came, as sentences.
func (t *telling) newest() string {
	switch {
	case t.value == 1 && t.detail != "":
		return capital(t.detail) + "."
	case t.value == 1:
		return ""
	case t.detail != "":
		return "The last one: " + t.detail + ". " + capital(t.first()) + "."
	default:
		return capital(t.first()) + "."
	}
}

func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

func (t *telling) unreported() string {
	if words := &t.watch.Words; t.rule.Scope.narrows() && words.PartWhat != "" {
		return fmt.Sprintf(words.PartWhat, t.rule.Scope.whose())
	}
	return t.watch.Words.What
}

func (t *telling) reads() string {
	words, at := &t.watch.Words, t.amount(t.value)
	switch {
	case t.watch.Condition:
		return words.Now
	case t.watch.Below && t.value < 0: // a distance to what it has passed
		return fmt.Sprintf(strings.Replace(words.Now, "below", "above", 1), t.amount(-t.value))
	case t.rule.Scope.narrows() && words.Part != "":
		return fmt.Sprintf(words.Part, at, t.rule.Scope.whose())
	default:
		return fmt.Sprintf(words.Now, at)
	}
}

func (t *telling) amount(v float64) string { return amount(v, t.watch.Unit) }

// back is what is so once the value is back: "is 3 % busy, no longer above 50 %".
func (t *telling) back() string {
	words := &t.watch.Words
	switch {
	case t.instead != "":
		return t.instead
	case words.Less != "" && t.value > 0:
		return t.reads() + ", " + t.against(words.Less, "")
	case words.Began == "":
		return words.Over
	default:
		return t.reads() + ", " + t.against(words.Over, words.OverAbove)
	}
}

// against fills the threshold into text, or into above where a distance was passed.
func (t *telling) against(text, above string) string {
	threshold := t.rule.Threshold
	switch {
	case !t.watch.Below || threshold > 0:
		return fmt.Sprintf(text, t.amount(threshold))
	case threshold == 0: // "it rose above it"
		return strings.Replace(above, "more than %s ", "", 1)
	default:
		return fmt.Sprintf(above, t.amount(-threshold))
	}
}

// first is how it began: "30 s ago it rose above 50 %"; or since when it is known to be so:
// "it has been above 50 % for at least 30 s".
func (t *telling) first() string {
	words := &t.watch.Words
	switch {
	case t.watch.Counter:
		return "the first came " + t.ago()
	case t.Before:
		return t.already()
	case words.Began == "":
		return "this began " + t.ago()
	default:
		return t.ago() + " " + t.against(words.Began, words.BeganAbove)
	}
}

// already is since when it is known to be so, where nobody saw it begin.
func (t *telling) already() string {
	subject, so := "this", "so"
	if words := &t.watch.Words; words.Began != "" {
		subject, _, _ = strings.Cut(words.Began, " ")
		so = t.line()
	}
	if lasts := t.Time.Sub(t.Since); lasts >= time.Second && t.State != NoData {
		return subject + " has been " + so + " for " + t.atLeast() + explain.Span(lasts)
	}
	return subject + " was " + so + " at the first reading, " + t.ago()
}

// line is which side of the threshold it is on: "above 50 %".
func (t *telling) line() string {
	return strings.TrimPrefix(t.against(t.watch.Words.Over, t.watch.Words.OverAbove), "no longer ")
}

func (t *telling) atLeast() string {
	if t.Before {
		return "at least "
	}
	return ""
}

func (t *telling) ago() string {
	if lasts := t.Time.Sub(t.Since); lasts >= time.Second {
		return explain.Span(lasts) + " ago"
	}
	return "just now"
}

// counted is how many came, the newest of them, and when: "had 2 driver errors,
// the last one XID 79; the first came 4 min ago".
func (t *telling) counted() string {
	single, text := t.value == 1, t.howMany()
	switch {
	case t.detail != "" && single:
		text += ": " + t.detail
	case t.detail != "":
		text += ", the last one " + t.detail
	}
	switch {
	case t.State == Resolved:
		return text + ", and no more for " + explain.Span(t.rule.Clear) + ". The alert is over"
	case single:
		return text + ", " + t.ago()
	default:
		return text + "; " + t.first()
	}
}

func (t *telling) ends() string {
	if t.remaining > 0 {
		return "If it stays so, the alert ends in " + explain.Span(max(t.remaining, time.Second))
	}
	line := t.rule.line(t.watch)
	at, side := t.amount(line), "less"
	switch {
	case t.watch.Below && line < 0:
		at = t.amount(-line) + " above it"
	case t.watch.Below:
		at, side = at+" below it", "more"
	}
	return fmt.Sprintf("The alert ends after %s at %s or %s", explain.Span(t.rule.Clear), at, side)
}

// culprit is a sentence that names the process that causes the alert, if known.
func (t *telling) culprit(nameOf func(*gpu.Process) string) string {
	n := len(t.Processes)
	if n == 0 {
		return ""
	}
	first := &t.Processes[0]
	name, works := nameOf(first), explain.Works(first) && !t.watch.Holds
	held, known := first.Memory.Get()
	memory := amount(held.MiB(), "MiB")
	var text string
	switch {
	case !first.Facts.Exists.Or(true) && known:
		text = name + " left " + memory
	case works && n == 1:
		text = name + " keeps it busy"
	case works:
		text = fmt.Sprintf("Of %d processes%s that work on it, %s works the most", n, t.rule.Scope.whose(), name)
	case known && n == 1:
		text = name + " holds " + memory
	case known:
		text = fmt.Sprintf("Of %d compute processes%s on it, %s holds the most, %s", n, t.rule.Scope.whose(), name, memory)
	default:
		text = name + " runs on it"
	}
	if strings.HasPrefix(text, "a process ") { // a process without a name
		text = "A" + text[1:]
	}
	return " " + text + "."
}

// amount writes a value with its unit. Small fractions have one decimal.
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
