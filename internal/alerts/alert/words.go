package alert

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// This file has the texts of alerts: edit them here. testdata/words.golden.txt shows what each watch says; "go test
// ./internal/alerts/alert -run TestWordsOfEachWatch -update" writes it.

// words describe what a watch finds on a device. A watch is a condition, a counter or a level, and has the words for that kind.
type words struct {
	what string // the value that may be missing: "its utilization"

	// For a condition: "is lost", in one sentence with "the driver no longer finds it". over is the state once the alert ends,
	// also for a level without a subject: "is back". short replaces both in one line.
	is, also, short, over string

	// For a counter: what came, one and several, after "had 2 ".
	one, many string

	// For a level: "is 97 % busy".
	now func(amount string) string
	// The same for a part of the processes, instead of what and now. whose is, for example, " of alice named python". Both are
	// nil if the rule always covers the whole device, or if the words fit both.
	partWhat func(whose string) string
	part     func(amount, whose string) string
	// subject is what has passed the threshold, such as "it" or "power draw"; empty if the state itself began.
	subject string
	line    line
	beyond  line // replaces line for a watch below a threshold that is negative or 0: a distance beyond the limit

	advice func(logs string) string // what to do, in a sentence; nil if the device's causes have advice. logs: "NVRM and Xid lines"
}

// A line describes a threshold: how it is passed, "rose", and on which side the value is, "above 50
// %".
type line struct {
	moves string
	side  func(threshold string) string
}

func above(threshold string) string { return "above " + threshold }

// advise is advice that is the same for all vendors.
func advise(text string) func(string) string { return func(string) string { return text } }

var wordsOf = map[Watch]words{
	// is 97 % busy; 30 s ago it rose above 50 %
	Utilization: {
		what:     "its utilization",
		now:      func(amount string) string { return "is " + amount + " busy" },
		partWhat: func(whose string) string { return "usage by processes" + whose },
		part:     func(amount, whose string) string { return "is kept " + amount + " busy by processes" + whose },
		subject:  "it",
		line:     line{"rose", above},
	},
	// is at 92 °C; 30 s ago it rose above 85 °C
	Temperature: {
		what:    "its temperature",
		now:     func(amount string) string { return "is at " + amount },
		subject: "it",
		line:    line{"rose", above},
	},
	// is 3 °C below its slowdown temperature; 30 s ago it came within 5 °C of it
	TemperatureMargin: {
		what:    "how close it is to its slowdown temperature",
		now:     func(amount string) string { return "is " + amount + " its slowdown temperature" }, // "3 °C below"
		subject: "it",
		line:    line{"came", func(threshold string) string { return "within " + threshold + " of it" }},
		beyond: line{"rose", func(distance string) string {
			if distance == "" {
				return "above it"
			}
			return "more than " + distance + " above it"
		}},
	},
	// has a memory temperature of 98 °C; 30 s ago it rose above 95 °C
	MemoryTemperature: {
		what:    "its memory temperature",
		now:     func(amount string) string { return "has a memory temperature of " + amount },
		subject: "it",
		line:    line{"rose", above},
	},
	// has 97 % of its memory in use; 30 s ago usage rose above 95 %
	Memory: {
		what:     "its memory usage",
		now:      func(amount string) string { return "has " + amount + " of its memory in use" },
		partWhat: func(whose string) string { return "usage by processes" + whose },
		part:     func(amount, whose string) string { return "has " + amount + " of its memory held by processes" + whose },
		subject:  "usage",
		line:     line{"rose", above},
	},
	// will fill its memory in about 24 min; 2 min ago the estimate fell below 30 min
	MemoryFullIn: {
		what:    "its memory growth",
		now:     func(amount string) string { return "will fill its memory in about " + amount },
		subject: "the estimate",
		line:    line{"fell", func(threshold string) string { return "below " + threshold }},
		advice:  advise("Check whether a program leaks memory. Stop it, or have it save its work, before it fails with an error."),
	},
	// draws 390 W; 30 s ago power draw rose above 300 W
	Power: {
		what:    "its power draw",
		now:     func(amount string) string { return "draws " + amount },
		subject: "power draw",
		line:    line{"rose", above},
	},
	// draws 99 % of its power limit; 30 s ago power draw rose above 98 %
	PowerShare: {
		what:    "its power draw or its power limit",
		now:     func(amount string) string { return "draws " + amount + " of its power limit" },
		subject: "power draw",
		line:    line{"rose", above},
	},
	// runs its fan at 97 %; 5 min ago fan speed rose above 90 %
	Fan: {
		what:    "its fan speed",
		now:     func(amount string) string { return "runs its fan at " + amount },
		subject: "fan speed",
		line:    line{"rose", above},
	},
	FanFailing: {
		what:   "its fans",
		is:     "has a fan that is not turning as it should",
		over:   "no longer shows a failing fan",
		advice: advise("Check whether something blocks the fan or its cable is loose, and watch the temperature."),
	},
	ThrottledByHeat: {
		what: "what limits its clocks",
		is:   "is slowed by heat",
		over: "is no longer slowed by heat",
	},
	ThrottledByPower: {
		what: "what limits its clocks",
		is:   "is held back by its power limit or power supply",
		over: "is no longer held back by power",
	},
	XID:   {what: "its driver errors", one: "driver error", many: "driver errors"},
	Fault: {what: "its driver's lines in the kernel log", one: "hang, reset or error", many: "hangs, resets or errors"},
	NeedsAction: {
		what:   "whether it needs attention",
		is:     "needs attention, according to its driver",
		short:  "needs attention",
		over:   "no longer needs attention, according to its driver",
		advice: advise("Reset the GPU while nothing uses it (nvidia-smi --gpu-reset, as root), or restart the machine."),
	},
	FanUnreadable: {
		what: "whether its fan can be read",
		is:   "has a fan that the driver can't read",
		over: "has a fan that can be read again",
		advice: advise("Check whether the fan is turning, and watch the temperature. Restart the machine; if the fan still can't be read, " +
			"have the card tested."),
	},
	ECC: {
		what:   "its memory errors",
		one:    "uncorrected memory error",
		many:   "uncorrected memory errors",
		advice: advise("Work that ran on it may have failed or produced wrong results. If it happens again, drain the GPU and have it tested."),
	},
	RowRemap: {
		what:   "whether it has faulty memory",
		is:     "has faulty memory that spare memory has not replaced yet",
		over:   "has no faulty memory left to replace",
		advice: advise("Restart the machine, or reset the GPU while nothing uses it. If no spare memory is left, have the GPU replaced."),
	},
	Lost: {
		what: "its state",
		is:   "is lost",
		also: "the driver no longer finds it",
		over: "is back",
		advice: func(logs string) string {
			return "Look for " + logs + " in the kernel log (dmesg), check the card's power cables and seating, and restart the machine."
		},
	},
	NotAnswering: {
		what: "its state",
		is:   "is not answering",
		over: "answers again",
		advice: func(logs string) string {
			return "Look for " + logs + " in the kernel log; you may have to restart the machine."
		},
	},
	DriverGone: {what: "anything", is: "can no longer be read", over: "can be read again"},
	NodeSilent: {what: "anything", is: "no longer sends data", over: "sends data again"},
	// is idle while processes hold 2.0 GiB of its memory
	IdleHeld: {
		what: "its utilization or its processes",
		now:  func(amount string) string { return "is idle while processes hold " + amount + " of its memory" },
		part: func(amount, whose string) string {
			return "is idle while processes" + whose + " hold " + amount + " of its memory"
		},
		line:   line{side: above},
		over:   "has work again",
		advice: advise("Ask the owner whether it is still needed; ending the processes frees the memory."),
	},
	IdleReserved: {
		what: "its utilization or its reservations",
		is:   "is reserved but idle",
		over: "has work again",
	},
	// has 2.0 GiB of memory left behind by ended processes
	OrphanMemory: {
		what: "its processes",
		now: func(amount string) string {
			return "has " + amount + " of memory left behind by ended processes"
		},
		line: line{side: above},
		over: "has reclaimed the memory left behind by ended processes",
		advice: advise("Look for child processes that are still running, also in containers. If there are none, " +
			"reset the GPU while nothing uses it."),
	},
}

// A telling is an alert as people are told about it.
type telling struct {
	*Alert
	rule           *Rule
	watch          *watch
	detail, advice string        // more than the watch's words say; may be empty
	value          float64       // the watched value
	beyond         bool          // the value is beyond the threshold
	instead        string        // the current state if it is not beyond, instead of the watch's words; may be empty
	remaining      time.Duration // how long the value must still stay back; 0 if it is not back
}

// write sets the alert's message and advice: the subject, its current state, since when, and who
// causes it; later, when it ends or that it has ended.
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
		t.Is, t.More = "does not report "+t.unreported(), "It is unclear whether this is over."
		text = "currently does not report " + t.unreported() + ", so it is unclear whether this is over; " + t.first() + "."
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
	t.Message, t.Advice = name+" "+text, t.advice
	if advice := t.watch.words.advice; t.Advice == "" && advice != nil {
		t.Advice = advice(t.Device.Vendor.LogLines())
	}
}

// inShort returns the current state, and sentences with everything else to say except since when.
func (t *telling) inShort() (is, more string) {
	is = t.reads()
	var also string
	switch words := &t.watch.words; {
	case words.short != "":
		is = words.short
	case t.watch.Condition:
		is, also = words.is, words.also
	}
	var said []string
	for _, text := range []string{also, t.detail} {
		if text != "" {
			said = append(said, capital(text)+".")
		}
	}
	if t.watch.words.subject != "" {
		_, side := t.line()
		said = append(said, capital(side)+".")
	}
	return is, strings.TrimSpace(strings.Join(said, " ") + t.culprit(explain.ShortName))
}

// howMany says how many came: "had 2 driver errors".
func (t *telling) howMany() string {
	what := t.watch.words.many
	if t.value == 1 {
		what = t.watch.words.one
	}
	return "had " + t.amount(t.value) + " " + what
}

// newest describes the last one, in sentences.
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
	if words := &t.watch.words; t.rule.Scope.narrows() && words.partWhat != nil {
		return words.partWhat(t.rule.Scope.whose())
	}
	return t.watch.words.what
}

func (t *telling) reads() string {
	words := &t.watch.words
	switch {
	case words.also != "":
		return words.is + ", and " + words.also
	case t.watch.Condition:
		return words.is
	case words.beyond.side != nil && t.value < 0: // a distance to what it has passed
		return words.now(t.amount(-t.value) + " above")
	case words.beyond.side != nil:
		return words.now(t.amount(t.value) + " below")
	case t.rule.Scope.narrows() && words.part != nil:
		return words.part(t.amount(t.value), t.rule.Scope.whose())
	default:
		return words.now(t.amount(t.value))
	}
}

func (t *telling) amount(v float64) string { return amount(v, t.watch.Unit) }

// back is the state once the value is back: "is 3 % busy, no longer above 50 %".
func (t *telling) back() string {
	words := &t.watch.words
	switch {
	case t.instead != "":
		return t.instead
	case words.line.side != nil && (words.subject != "" || t.value > 0):
		_, side := t.line()
		return t.reads() + ", no longer " + side
	default:
		return words.over
	}
}

// line returns how the value passed the threshold, "rose", and on which side it is, "above 50 %".
func (t *telling) line() (moves, side string) {
	words, threshold := &t.watch.words, t.rule.Threshold
	switch {
	case words.beyond.side == nil || threshold > 0:
		return words.line.moves, words.line.side(t.amount(threshold))
	case threshold == 0: // "it rose above it"
		return words.beyond.moves, words.beyond.side("")
	default:
		return words.beyond.moves, words.beyond.side(t.amount(-threshold))
	}
}

// first says how it began: "30 s ago it rose above 50 %"; or since when it is known: "it has been
// above 50 % for at least 30 s".
func (t *telling) first() string {
	words := &t.watch.words
	switch {
	case t.watch.Counter:
		return "the first came " + t.ago()
	case t.Before:
		return t.already()
	case words.subject == "":
		return "this began " + t.ago()
	default:
		moves, side := t.line()
		return t.ago() + " " + words.subject + " " + moves + " " + side
	}
}

// already says since when it is known, if the beginning was not seen.
func (t *telling) already() string {
	subject, so := "this", "the case"
	if words := &t.watch.words; words.subject != "" {
		subject = words.subject
		_, so = t.line()
	}
	if lasts := t.Time.Sub(t.Since); lasts >= time.Second && t.State != NoData {
		return subject + " has been " + so + " for " + t.atLeast() + explain.Span(lasts)
	}
	return subject + " was " + so + " at the first reading, " + t.ago()
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

// counted says how many came, the newest, and when: "had 2 driver errors, the last one XID 79; the
// first came 4 min ago".
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
		return "If it stays that way, the alert ends in " + explain.Span(max(t.remaining, time.Second))
	}
	line := t.rule.line(t.watch)
	value, side := t.amount(line), "less"
	switch {
	case t.watch.Below && line < 0:
		value = t.amount(-line) + " above it"
	case t.watch.Below && t.watch.words.beyond.side != nil: // a distance to a limit
		value, side = value+" below it", "more"
	case t.watch.Below:
		side = "more"
	}
	return "The alert ends after " + explain.Span(t.rule.Clear) + " at " + value + " or " + side
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
		text = name + " left " + memory + " behind"
	case works && n == 1:
		text = name + " keeps it busy"
	case works:
		text = "Of " + strconv.Itoa(n) + " processes" + t.rule.Scope.whose() + " that use it, " + name + " uses it the most"
	case known && n == 1:
		text = name + " holds " + memory
	case known:
		text = "Of " + strconv.Itoa(n) + " compute processes" + t.rule.Scope.whose() + " on it, " + name + " holds the most, " + memory
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

// These functions return the state once an alert ends, instead of words.over, or an empty text if words.over says it; and what
// else to say while it is open.

// notFullSoon says that there is no longer a forecast of when the memory is full.
func notFullSoon(s *look) string {
	if !math.IsInf(s.value, 1) {
		return ""
	}
	return "no longer seems to fill its memory"
}

// inOtherState describes the new state of a device that could not be read.
func inOtherState(s *look) string {
	switch s.d.State {
	case gpu.StateLost:
		return "is lost now, not just silent: the driver does not find it"
	case gpu.StateNotAnswering:
		return "is not answering, and is no longer reported as lost"
	case gpu.StateAsleep:
		if s.Watch == Lost {
			return "is back and asleep"
		}
		return "is asleep now, so no answer is expected"
	default:
		return ""
	}
}

// notHeldIdle says that no memory is held without work.
func notHeldIdle(s *look) string {
	if works, _ := s.works(); works || s.value > 0 {
		return ""
	}
	return "is idle, and no compute process" + s.Scope.whose() + " holds its memory any more"
}

// notReservedIdle says, if so, that the device is no longer reserved.
func notReservedIdle(s *look) string {
	if len(s.d.Reservations.Or(nil)) > 0 {
		return ""
	}
	if works, _ := s.works(); works {
		return "has work again and is no longer reserved"
	}
	return "is no longer reserved"
}

func reservedBy(s *look) (text, advice string) {
	who := s.d.ReservedBy().Or("")
	if who == "" {
		return "", ""
	}
	return "it is reserved for " + who, "Ask whether it is still needed; deleting the pod frees the GPU."
}
