package views

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An AlertItem is an alert as pages show it, in one line.
type AlertItem struct {
	Alert       *alert.Alert
	Mark        string // its drawing and its color: "bad", "warn" or "info"
	Kind        string // "Critical"
	Title, More string // what is so now, and sentences about it
	Lasts       string // "at least 18 min"
	Said        string // what people said of it
	Say         string // where forms about it go, with a slash at its end
	Page        string // the page's name in forms
}

// An AlertLine is what a page says of its alerts in one line.
type AlertLine struct {
	Item       AlertItem // the worst that nobody has acknowledged; without a Title there is none
	Quiet      string    // stands in its place
	More, Info string    // how many more there are, and how many are information; may be empty
	All        string    // the address of all
}

// AlertNews is an alert that people are to be told of who look at another page.
type AlertNews struct{ ID, Title, Body string }

// newAlertLine is that of a page on which so many GPUs have a problem.
func newAlertLine(in *Input, problems int) AlertLine {
	l := AlertLine{All: in.BasePath + "alerts", Quiet: "No alert needs attention."}
	if in.only != nil {
		l.All += "?q=" + url.QueryEscape(in.only.UUID)
	}
	open := in.open()
	known := 0
	for i := range in.Alerts {
		if in.Alerts[i].Severity != alert.Info && !isOpen(&in.Alerts[i]) {
			known++
		}
	}
	switch status := in.Nodes.Status(); {
	case len(open) > 0:
		l.Item, l.Quiet = newAlertItem(&open[0], in, in.formsOn()), ""
	case status == gpu.StatusStarting:
		l.Quiet = "No alerts yet: the first reading is under way."
	case status == gpu.StatusNoGPU:
		l.Quiet = "No alerts."
	case known > 0:
		l.Quiet = "No new alerts: " + explain.Plural(known, "is", "are") + " acknowledged or silenced."
	case problems > 0: // a rule takes its time, or none is about it
		l.Quiet = sentence("No alert has fired, but " + explain.Plural(problems, "GPU has a problem.", "GPUs have a problem."))
	}
	if n := len(open) - 1; n > 0 {
		l.More = strconv.Itoa(n) + " more"
	}
	if n := len(in.Alerts) - len(open) - known; n > 0 {
		l.Info = strconv.Itoa(n) + " for your information"
	}
	return l
}

// mostNews is how many alerts are told to people on other pages.
const mostNews = 20

// newAlertNews are the newest alerts that need somebody. They do not change while they stand.
func newAlertNews(in *Input) []AlertNews {
	open := slices.DeleteFunc(in.open(), func(a alert.Alert) bool { return a.State != alert.Firing })
	slices.SortStableFunc(open, func(a, b alert.Alert) int { return b.Since.Compare(a.Since) })
	return each(open[:min(len(open), mostNews)], func(a *alert.Alert) AlertNews {
		return AlertNews{a.ID, severityName(a.Severity) + ": " + in.nameOf(&a.Device), sentence(strings.TrimSpace(beingOf(a.Watch).one + " · rule " + a.Rule))}
	})
}

// isOpen reports whether somebody should look at an alert.
func isOpen(a *alert.Alert) bool {
	return a.Severity != alert.Info && a.Acknowledged == nil && a.SilencedUntil.IsZero() && a.State != alert.Resolved
}

// open are the alerts that somebody should look at, the worst first.
func (in *Input) open() []alert.Alert {
	return in.sorted(slices.DeleteFunc(slices.Clone(in.Alerts), func(a alert.Alert) bool { return !isOpen(&a) }))
}

// sorted puts first what somebody should look at, of that what is so now, of that what matters most, of that what can't
// be read at all, and of that the oldest.
func (in *Input) sorted(alerts []alert.Alert) []alert.Alert {
	type ranked struct {
		alert.Alert
		known, past, whole int
	}
	list := make([]ranked, len(alerts))
	for i := range alerts {
		a := &alerts[i]
		list[i] = ranked{Alert: *a}
		if !isOpen(a) && a.Severity != alert.Info {
			list[i].known = 1
		}
		switch in.isNow(a) {
		case noData, easing:
			list[i].past = 1
		case alert.Lost, alert.NotAnswering, alert.DriverGone:
		default:
			list[i].whole = 1
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		info := func(r ranked) int { return either01(r.Severity == alert.Info) }
		return cmp.Or(info(a)-info(b), a.known-b.known, a.past-b.past, b.Severity.Rank()-a.Severity.Rank(), a.whole-b.whole, a.Since.Compare(b.Since))
	})
	return each(list, func(r *ranked) alert.Alert { return r.Alert })
}

func either01(is bool) int {
	if is {
		return 1
	}
	return 0
}

// What can be so of an alert in place of what is watched.
const (
	noData alert.Watch = "no_data"
	easing alert.Watch = "easing"
)

// isNow is what is so now of an alert: mostly what is watched. An alert about a lost device that
// merely does not answer now is about that.
func (in *Input) isNow(a *alert.Alert) alert.Watch {
	if a.Watch == alert.Lost || a.Watch == alert.NotAnswering {
		if d, known := in.Nodes.Device(a.Device.Node, a.Device.UUID); known {
			switch d.State {
			case gpu.StateLost:
				return alert.Lost
			case gpu.StateNotAnswering:
				return alert.NotAnswering
			}
		}
	}
	switch {
	case a.State == alert.NoData:
		return noData
	case a.Easing:
		return easing
	default:
		return a.Watch
	}
}

// nameOf is what an alert is about: "GPU 3", with several nodes "GPU 3 on gx-07".
func (in *Input) nameOf(d *gpu.Identity) string {
	name := "The driver (" + clean(d.Source, longestName) + ")"
	switch {
	case d.UUID != "":
		name = gpuName(d.Index)
	case d.Source == "": // the machine itself
		return clean(d.Node, longestName)
	}
	if len(in.Nodes) > 1 && d.Node != "" {
		name += " on " + clean(d.Node, longestName)
	}
	return name
}

// newAlertItem is an alert on the page that forms call page.
func newAlertItem(a *alert.Alert, in *Input, page string) AlertItem {
	out := AlertItem{
		Alert: a, Kind: severityName(a.Severity), Title: sentence(a.Message),
		Mark:  map[alert.Severity]string{alert.Critical: "bad", alert.Warning: "warn"}[a.Severity],
		Lasts: either(a.Before, "at least ", "") + lastsFor(a.Since, later(in.nowOf(a.Device.Node), a.Since)),
		Say:   in.BasePath + "api/alerts/" + url.PathEscape(a.ID) + "/", Page: page,
	}
	out.Mark = cmp.Or(out.Mark, "info")
	if a.Is != "" {
		out.Title, out.More = in.nameOf(&a.Device)+" "+sentence(a.Is)+".", sentence(a.More)
	}
	if a.State != alert.Firing {
		out.Kind = alertStateName(a.State)
	}
	if ack := a.Acknowledged; ack != nil {
		out.Said = saying(acknowledgedText, ack.By, ack.Comment)
	}
	return out
}

// nowOf is the time of what the page says of a node: of its newest reading. Of one that is silent time goes on.
func (in *Input) nowOf(node string) time.Time {
	if m := in.member(node); m != nil && !m.Silent() {
		return m.Snapshot.Time
	}
	return in.Now
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// saying is what somebody did, who did it, and what they say of it.
func saying(did, who, comment string) string {
	if who = clean(who, longestName); who != "" {
		did = didBy(did, who)
	}
	if comment = clean(comment, longestSentence); comment != "" {
		did = didSaying(did, comment)
	}
	return did
}

// numerals are numbers at which nobody stops reading.
var numerals = []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

func numeral(n int) string {
	if n < len(numerals) {
		return numerals[n]
	}
	return strconv.Itoa(n)
}

// mostWords is how long a headline is.
const mostWords = 10

// summary says in a sentence what alerts are about: "One GPU is lost, two are slowed by heat." Of a device with
// several alerts the first counts. That of a single device names it. It has no reading, which would change all the time.
func (in *Input) summary(alerts []alert.Alert) string {
	type kind struct {
		is   alert.Watch
		noun string
		n    int
	}
	var kinds []kind
	seen := map[gpu.Identity]bool{}
	var first *alert.Alert
	for i := range alerts {
		a := &alerts[i]
		about := gpu.Identity{Node: a.Device.Node, UUID: a.Device.UUID}
		if !a.About() {
			about.Source = a.Device.Source
		}
		if seen[about] {
			continue
		}
		if seen[about] = true; first == nil {
			first = a
		}
		k := kind{in.isNow(a), a.Noun(), 1}
		found := slices.IndexFunc(kinds, func(other kind) bool { return other.is == k.is && other.noun == k.noun })
		if found < 0 {
			kinds = append(kinds, k)
		} else {
			kinds[found].n++
		}
	}
	if len(seen) == 1 {
		one := beingOf(kinds[0].is).one
		if one == "" {
			return newAlertItem(first, in, "").Title
		}
		return in.nameOf(&first.Device) + " " + one + "."
	}
	sentence := func(most int) string {
		var parts []string
		left := len(seen)
		noun := ""
		for _, k := range kinds[:min(most, len(kinds))] {
			words := numeral(k.n)
			if k.noun != noun {
				words += " " + k.noun + either(k.n == 1, "", "s")
				noun = k.noun
			}
			parts = append(parts, words+" "+beingOf(k.is).counted(k.n))
			left -= k.n
		}
		text := strings.Join(parts, ", ")
		if left > 0 {
			text += " and " + numeral(left) + either(left == 1, " more needs attention", " more need attention")
		}
		return strings.ToUpper(text[:1]) + text[1:] + "."
	}
	for most := 3; most > 1; most-- {
		if text := sentence(most); len(strings.Fields(text)) <= mostWords {
			return text
		}
	}
	return sentence(1)
}
