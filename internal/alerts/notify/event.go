package notify

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// What an event says is new.
const (
	fired    = string(alert.Fired)
	repeated = string(alert.Repeated)
	over     = string(alert.Over)
	brief    = "brief" // it fired and was over before a message was sent
)

// An Event is one alert in a message: what templates see of it, and what survives a restart. Its
// texts have no secrets.
type Event struct {
	ID       string `json:"id"`   // the alert's, the same when it fires and when it is over
	News     string `json:"news"` // fired, repeated (it lasts), over, or brief (fired and over already)
	Rule     string `json:"rule"` // "too_hot"
	Severity string `json:"severity"`
	State    string `json:"state"`  // firing, no_data or resolved
	Node     string `json:"node"`   // the machine's name
	Device   string `json:"device"` // "GPU 0 (NVIDIA H100 PCIe)", "The driver (nvml)", or "The machine"
	Index    int    `json:"index"`  // of the GPU; -1 for a machine's
	UUID     string `json:"uuid"`   // of the GPU; empty for a machine's
	Name     string `json:"name"`   // of the GPU: "NVIDIA H100 PCIe"; empty for a machine's
	// Value and Threshold have their unit, "98 %". For a watch that fires below its threshold they
	// are a distance: "3 °C left", or "2 °C above the slowdown temperature". They are empty if the
	// rule has none or there is no reading.
	Value     string    `json:"value"`
	Threshold string    `json:"threshold"`
	Since     time.Time `json:"since"` // when the alert began
	Time      time.Time `json:"time"`  // the time of the reading
	// Ended is when the condition ended, for an alert that is over; zero if that was not seen.
	Ended   time.Time `json:"ended,omitzero"`
	Sent    time.Time `json:"-"` // the time of the message
	Message string    `json:"message"`
	// Why explains the GPU's state in a sentence; empty if the alert is over or the reason is
	// unknown.
	Why string `json:"why"`
	// Headline is the same in a few words: "train.py (ann) is heating GPU 3." Facts are the figures
	// behind it: "85 °C · 579 W of 600 · fan 58 %". Both are empty if Why is, and may be empty
	// otherwise.
	Headline string `json:"headline,omitzero"`
	Facts    string `json:"facts,omitzero"`
	Advice   string `json:"advice"` // what to do, in a sentence; empty if the causes say it: see Action
	// Action is what would end the causes, and Command the exact command for it, never shortened.
	// Both may be empty.
	Action  string `json:"action,omitzero"`
	Command string `json:"command,omitzero"`
	What    string `json:"-"` // the rule in words: "too hot"
	Link    string `json:"-"` // to the GPU's page; empty without a public_url
}

// The longest texts that are kept of an alert, in characters.
const (
	longestName     = 120
	longestSentence = 600
	longestCommand  = 300
)

// event makes an event from a change that people get messages about. The answer about its device
// may be nil.
func event(c *alert.Change, why *Answer) Event {
	e := Event{
		ID: c.ID, News: string(c.News), Rule: c.Rule, Severity: string(c.Severity), State: string(c.State),
		Node: c.Device.Node, Device: "The driver (" + c.Device.Source + ")", Index: -1,
		Value: amount(c, c.Value, " left"), Threshold: amount(c, c.Threshold, ""),
		Since: c.Since, Time: c.Time, Ended: c.Ended, Message: c.Message, Advice: c.Advice,
	}
	if c.Device.Source == "" {
		e.Device = theMachine
	}
	if c.About() {
		e.Index, e.UUID, e.Name = c.Device.Index, c.Device.UUID, c.Device.Name
		e.Device = explain.DeviceName(&gpu.Device{Identity: c.Device})
	}
	if c.News == alert.Over {
		e.Advice = ""
	} else if why != nil {
		e.explain(why)
	}
	return e.bounded()
}

// explain adds the answer about the alert's device.
func (e *Event) explain(why *Answer) {
	facts := make([]string, len(why.Facts))
	for i, f := range why.Facts {
		facts[i] = f.Text
	}
	e.Why, e.Headline, e.Facts = why.Sentence, why.Headline, strings.TrimRight(strings.Join(facts, " · "), ".")
	e.Action, e.Command = why.Action.Text, why.Action.Command
}

func (e Event) bounded() Event {
	e.ID = cut(e.ID, 2*longestName)
	for _, text := range []*string{&e.Rule, &e.Node, &e.Device, &e.UUID, &e.Name, &e.Value, &e.Threshold} {
		*text = cut(clean(*text), longestName)
	}
	for _, text := range []*string{&e.Message, &e.Why, &e.Headline, &e.Facts, &e.Advice, &e.Action} {
		*text = cut(clean(*text), longestSentence)
	}
	if cut(clean(e.Command), longestCommand) != e.Command { // a shortened command would do something else
		e.Command = ""
	}
	return e
}

// amount returns a value of an alert with its unit. For a watch that fires below its threshold it
// is a distance, which may be negative.
func amount(c *alert.Change, r gpu.Reading[float64], left string) string {
	v, ok := r.Get()
	if !ok {
		return ""
	}
	v = math.Round(v*10)/10 + 0 // not the sign of a zero
	if !c.Watch.Below() {
		left = ""
	} else if v < 0 {
		v, left = -v, " above the slowdown temperature"
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', -1, 64)+" "+c.Unit) + left
}

// weight says how much an event matters: by severity, then by news. The end matters most, so that
// it is not dropped for something no worse.
func (e *Event) weight() int {
	order := []string{brief, repeated, fired, over}
	return e.rank()*len(order) + slices.Index(order, e.News)
}

func (e *Event) rank() int { return alert.Severity(e.Severity).Rank() }

// place is higher for an event that stands earlier in a message.
func (e *Event) place() int {
	if e.IsOver() { // last
		return e.rank() - len(alert.Severities())
	}
	return e.rank()
}

// About reports whether it is about a GPU, not the machine.
func (e Event) About() bool { return e.UUID != "" }

// IsOver reports whether the alert is over.
func (e Event) IsOver() bool { return e.News == over || e.News == brief }

// For is how long the alert lasts, or lasted, without the clear time: "12 min".
func (e Event) For() string {
	until := e.Ended
	if until.IsZero() {
		until = e.Time
	}
	return explain.Span(until.Sub(e.Since))
}

// notNow is the age from which a message says how old a reading is.
const notNow = 30 * time.Second

// Late reports whether the message is sent long after the reading.
func (e Event) Late() bool { return e.Sent.Sub(e.Time) > notNow }

// Age is the time from the reading to the message: "12 min".
func (e Event) Age() string { return explain.Span(e.Sent.Sub(e.Time)) }

// When is the time of the reading: "12 min ago (14:05:06 UTC)", with the date if
// that is not the message's.
func (e Event) When() string {
	happened, sent := e.Time.UTC(), e.Sent.UTC()
	layout := "15:04:05 UTC"
	if happened.YearDay() != sent.YearDay() || happened.Year() != sent.Year() {
		layout = time.DateOnly + " " + layout
	}
	return e.Age() + " ago (" + happened.Format(layout) + ")"
}

const theMachine = "The machine"

// Short is the device without its name: "GPU 0", "driver", "machine".
func (e Event) Short() string {
	switch {
	case e.About():
		return "GPU " + strconv.Itoa(e.Index)
	case e.Device == theMachine:
		return "machine"
	default:
		return "driver"
	}
}

// merge combines two unsent events about the same alert.
func (e Event) merge(newer Event) Event {
	switch {
	case newer.News == over && (e.News == fired || e.News == brief):
		newer.News = brief
	case newer.News == repeated && e.News == fired:
		newer.News = fired
	}
	return newer
}

// A Message is the data of templates, which make a title and a text from it.
type Message struct {
	// Events are one or more alerts, each once: open alerts first, worst first, then those that are
	// over. Equal ones keep their order.
	Events []Event
	// More is how many events did not fit, and Rest says which: "3 critical, 40 warning, 2 over";
	// empty for none.
	More int
	Rest string
	// Firing and Over are how many of all alerts are open and over.
	Firing, Over int
	// Severity is the worst of all.
	Severity string
	// Dropped is how many other events were never sent: TooMany because worse ones waited, TooLate
	// because the target accepted nothing for a day.
	Dropped, TooMany, TooLate int
	Link                      string // to the page of alerts; empty without a public_url
	Test                      bool   // a test message
}

// circumstances are what a message says besides its events.
type circumstances struct {
	dropped   dropped
	publicURL string
	now       time.Time // the time of the message
}

// message makes a message from events, with room for n of them.
func message(events []Event, n int, about circumstances) Message {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(b.place(), a.place()) })
	worst := slices.MaxFunc(events, func(a, b Event) int { return cmp.Compare(a.rank(), b.rank()) })
	m := Message{
		Events: events[:n], More: len(events) - n, Rest: rest(events[n:]), Severity: worst.Severity,
		TooMany: about.dropped.Crowded, TooLate: about.dropped.Late, Dropped: about.dropped.Crowded + about.dropped.Late,
	}
	page := strings.TrimRight(about.publicURL, "/") + "/"
	if about.publicURL != "" {
		m.Link = page + "alerts"
	}
	for i := range events {
		e := &events[i]
		e.What, e.Sent = strings.ReplaceAll(e.Rule, "_", " "), about.now
		if m.Link != "" && e.About() {
			e.Link = page + "gpu/" + url.PathEscape(e.UUID)
		}
		if e.IsOver() {
			m.Over++
		} else {
			m.Firing++
		}
	}
	return m
}

// rest counts events by their kind: "3 critical, 40 warning, 2 over".
func rest(events []Event) string {
	counts := map[string]int{}
	for i := range events {
		if e := &events[i]; e.IsOver() {
			counts[over]++
		} else {
			counts[e.Severity]++
		}
	}
	var parts []string
	for _, kind := range []string{string(alert.Critical), string(alert.Warning), string(alert.Info), over} {
		if n := counts[kind]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+kind)
		}
	}
	return strings.Join(parts, ", ")
}

// One reports whether the message is about one alert alone.
func (m Message) One() bool { return len(m.Events) == 1 && m.More == 0 }
