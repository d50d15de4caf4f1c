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
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// What an event says is new.
const (
	fired    = "fired"
	repeated = "repeated"
	over     = "over"
	brief    = "brief" // it fired and was over before a message went out
)

// An Event is one alert in a message: what templates see of it, and what is
// kept over a restart. All of it is text that may be told.
type Event struct {
	ID       string `json:"id"`   // the alert's: the same when it fires and is over
	News     string `json:"news"` // fired, repeated (it stands still), over, or brief (fired and over already)
	Rule     string `json:"rule"` // "too_hot"
	Severity string `json:"severity"`
	State    string `json:"state"`  // firing, no_data or resolved
	Node     string `json:"node"`   // the machine's name
	Device   string `json:"device"` // "GPU 0 (NVIDIA H100 PCIe)", or "The driver (nvml)"
	Index    int    `json:"index"`  // of the GPU; -1 for a machine's
	UUID     string `json:"uuid"`   // of the GPU; empty for a machine's
	Name     string `json:"name"`   // of the GPU: "NVIDIA H100 PCIe"; empty for a machine's
	// Value and Threshold have their unit, "98 %". Of what fires below its
	// threshold they are a distance, "3 °C left" and "5 °C", or once that is
	// passed "2 °C above where it slows itself down". They are empty where the rule has none or there is no
	// reading.
	Value     string    `json:"value"`
	Threshold string    `json:"threshold"`
	Since     time.Time `json:"since"` // when it began
	Time      time.Time `json:"time"`  // when this was so
	Sent      time.Time `json:"-"`     // when the message is sent that says so
	Message   string    `json:"message"`
	// Why is the answer to why the GPU is as it is, one sentence; empty where
	// it is over or there is none.
	Why    string `json:"why"`
	Advice string `json:"advice"` // what to do, a sentence; may be empty
	What   string `json:"-"`      // the rule as words: "too hot"
	Link   string `json:"-"`      // to the GPU's page; empty without a public_url
}

// The longest texts that are kept of an alert, in characters.
const (
	longestName     = 120
	longestSentence = 600
)

// event makes an event of a change; false where it is none to be told.
func event(c *alert.Change, why string) (Event, bool) {
	news := map[alert.News]string{alert.Fired: fired, alert.Repeated: repeated, alert.Over: over}[c.News]
	name := func(text string) string { return cut(clean(text), longestName) }
	sentence := func(text string) string { return cut(clean(text), longestSentence) }
	e := Event{
		ID: cut(c.ID, 2*longestName), News: news, Rule: name(c.Rule), Severity: string(c.Severity), State: string(c.State),
		Node: name(c.Device.Node), Device: "The driver (" + name(c.Device.Source) + ")", Index: -1,
		Value: told(c, c.Value, " left"), Threshold: told(c, c.Threshold, ""),
		Since: c.Since, Time: c.Time,
		Message: sentence(c.Message), Why: sentence(why), Advice: sentence(c.Advice),
	}
	if c.About() {
		e.Index, e.UUID, e.Name = c.Device.Index, name(c.Device.UUID), name(c.Device.Name)
		e.Device = name(explain.DeviceName(&gpu.Device{Identity: c.Device}))
	}
	if news == over {
		e.Why, e.Advice = "", ""
	}
	return e, news != ""
}

// told is a value of an alert with its unit. What fires below its threshold is
// what is left of a distance, not where it is, or how far it is past it.
func told(c *alert.Change, r gpu.Reading[float64], left string) string {
	v, ok := r.Get()
	v = math.Round(v*10)/10 + 0 // of a zero not its sign
	switch {
	case !ok:
		return ""
	case c.Watch.Below() && v < 0:
		return amount(-v, c.Unit) + " above where it slows itself down"
	case c.Watch.Below():
		return amount(v, c.Unit) + left
	default:
		return amount(v, c.Unit)
	}
}

// amount is a rounded value with its unit.
func amount(v float64, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', -1, 64) + " " + unit)
}

// weight is how much it matters that an event is told: by its severity, and of
// one severity what is wrong more than what is not any more. Who was told that
// something is wrong is to hear of its end before anything that is not worse.
func (e *Event) weight() int {
	by := []string{brief, repeated, fired, over}
	return rank(e)*len(by) + slices.Index(by, e.News)
}

// rank is how bad it is, from 0.
func rank(e *Event) int { return slices.Index(alert.Severities(), alert.Severity(e.Severity)) }

// About reports whether it is about a GPU, not the machine.
func (e Event) About() bool { return e.UUID != "" }

// IsOver reports whether nothing is wrong any more.
func (e Event) IsOver() bool { return e.News == over || e.News == brief }

// For is how long it has been so, or was: "12 min".
func (e Event) For() string { return explain.Span(e.Time.Sub(e.Since)) }

// notNow is after how long what was so is not told as if it were so now.
const notNow = 30 * time.Second

// Late reports whether the message is sent more than half a minute after what it
// tells was so.
func (e Event) Late() bool { return e.Sent.Sub(e.Time) > notNow }

// Age is how long before the message is sent it was so: "12 min".
func (e Event) Age() string { return explain.Span(e.Sent.Sub(e.Time)) }

// When is when it was so: "12 min ago (14:05:06 UTC)", with the date where that
// was another day's.
func (e Event) When() string {
	at, sent := e.Time.UTC(), e.Sent.UTC()
	layout := "15:04:05 UTC"
	if at.YearDay() != sent.YearDay() || at.Year() != sent.Year() {
		layout = time.DateOnly + " " + layout
	}
	return e.Age() + " ago (" + at.Format(layout) + ")"
}

// Short is the device without its name: "GPU 0", "driver".
func (e Event) Short() string {
	if !e.About() {
		return "driver"
	}
	return "GPU " + strconv.Itoa(e.Index)
}

// merge makes one event of two about the same alert, of which neither was sent.
func (e Event) merge(newer Event) Event {
	switch {
	case newer.News == over && (e.News == fired || e.News == brief):
		newer.News = brief
	case newer.News == repeated && e.News == fired:
		newer.News = fired
	}
	return newer
}

// A Message is what templates make a title and a message of.
type Message struct {
	// Events are first what is wrong, the worst first, then what is over; those
	// alike in the order in which they came. Each alert is there once. There is
	// at least one.
	Events []Event
	// More is how many events there are beside those, for which there is no
	// room, and Rest which: "3 critical, 40 warning, 2 over"; empty for none.
	More int
	Rest string
	// Firing is how many alerts are not over, Over how many are, of all.
	Firing, Over int
	// Severity is the worst of all.
	Severity string
	// Dropped is how many events beside these were never told: TooMany, for
	// worse ones waited, and TooLate, for the target took nothing for a day.
	Dropped, TooMany, TooLate int
	Link                      string // to the page of alerts; empty without a public_url
	Test                      bool   // a message that somebody sends to see whether it arrives
}

// The circumstances are what a message tells beside its events.
type circumstances struct {
	dropped   dropped
	publicURL string
	now       time.Time // it is sent
}

// message puts events into a message, of which the n that matter most have room.
func message(events []Event, n int, about circumstances) Message {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Compare(b.place(), a.place())
	})
	m := Message{
		Events: events[:n], More: len(events) - n, Rest: rest(events[n:]),
		TooMany: about.dropped.Crowded, TooLate: about.dropped.Late, Dropped: about.dropped.Crowded + about.dropped.Late,
	}
	worst := slices.MaxFunc(events, func(a, b Event) int { return cmp.Compare(rank(&a), rank(&b)) })
	m.Severity = worst.Severity
	for i := range m.Events {
		m.Events[i].What, m.Events[i].Sent = strings.ReplaceAll(m.Events[i].Rule, "_", " "), about.now
	}
	for i := range events {
		if events[i].IsOver() {
			m.Over++
		} else {
			m.Firing++
		}
	}
	if about.publicURL == "" {
		return m
	}
	page := strings.TrimRight(about.publicURL, "/") + "/"
	m.Link = page + "alerts"
	for i := range m.Events {
		e := &m.Events[i]
		if e.About() {
			e.Link = page + "gpu/" + url.PathEscape(e.UUID)
		}
	}
	return m
}

// place is the higher, the earlier an event stands in a message: what is over
// comes last.
func (e *Event) place() int {
	if e.IsOver() {
		return rank(e) - len(alert.Severities())
	}
	return rank(e)
}

// rest counts events by what they are: "3 critical, 40 warning, 2 over".
func rest(events []Event) string {
	var parts []string
	count := func(what string, is func(Event) bool) {
		n := 0
		for _, e := range events {
			if is(e) {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+what)
		}
	}
	for _, s := range slices.Backward(alert.Severities()) {
		count(string(s), func(e Event) bool { return e.Severity == string(s) && !e.IsOver() })
	}
	count("over", Event.IsOver)
	return strings.Join(parts, ", ")
}

// One reports whether the message is about one alert alone.
func (m Message) One() bool { return len(m.Events) == 1 && m.More == 0 }
