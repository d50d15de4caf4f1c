package views

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An AlertItem is an alert as a line on a page.
type AlertItem struct {
	Alert       *alert.Alert
	Mark        string // icon and color: "bad", "warn" or "info"
	Kind        string // "Critical"
	Title, More string // the current state, and sentences that add to it
	Lasts       string // "at least 18 min"
	Said        string // who acknowledged it, with the comment; may be empty
	Say         string // address prefix of the forms about it; ends with a slash
	Page        string // the page that forms return to
	May         bool   // who looks may act on it
}

// An AlertLine is the one-line summary of a page's alerts.
type AlertLine struct {
	Item       AlertItem // the worst alert that nobody has acknowledged; no Title if there is none
	Quiet      string    // shown instead if there is none
	More, Info string    // how many more there are, and how many are informational; may be empty
	All        string    // address of the alerts page
}

// AlertNews is an alert to announce to people who look at another page.
type AlertNews struct{ ID, Title, Body string }

// newAlertLine summarizes the alerts of a page. Problems is how many of its GPUs have a problem.
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
	switch status := in.status(); {
	case len(open) > 0:
		l.Item, l.Quiet = newAlertItem(&open[0], in, in.formsOn()), ""
	case status == gpu.StatusStarting:
		l.Quiet = "No alerts yet: the first reading is under way."
	case status == gpu.StatusNoGPU:
		l.Quiet = "No alerts."
	case known > 0:
		l.Quiet = "No new alerts: " + explain.Plural(known, "is", "are") + " acknowledged or silenced."
	case problems > 0: // a rule has not fired yet, or no rule covers it
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

// mostNews limits how many alerts are announced on other pages.
const mostNews = 20

// newAlertNews returns the newest open alerts. An entry does not change while its alert is firing.
func newAlertNews(in *Input) []AlertNews {
	open := slices.DeleteFunc(in.open(), func(a alert.Alert) bool { return a.State != alert.Firing })
	slices.SortStableFunc(open, func(a, b alert.Alert) int { return b.Since.Compare(a.Since) })
	return each(open[:min(len(open), mostNews)], func(a *alert.Alert) AlertNews {
		return AlertNews{a.ID, severityName(a.Severity) + ": " + in.nameOf(&a.Device), sentence(strings.TrimSpace(beingOf(a.Watch).one + " · rule " + a.Rule))}
	})
}

// isOpen reports whether an alert needs attention: not informational, acknowledged, silenced or resolved.
func isOpen(a *alert.Alert) bool {
	return a.Severity != alert.Info && a.Acknowledged == nil && a.SilencedUntil.IsZero() && a.State != alert.Resolved
}

// open returns the alerts that need attention, worst first.
func (in *Input) open() []alert.Alert {
	return in.sorted(slices.DeleteFunc(slices.Clone(in.Alerts), func(a alert.Alert) bool { return !isOpen(&a) }))
}

// sorted orders alerts: informational ones last; then open before known ones, current before past states, by severity,
// devices that can't be read at all first, and finally the oldest first.
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

// States of an alert that replace what its rule watches.
const (
	noData alert.Watch = "no_data"
	easing alert.Watch = "easing"
)

// isNow returns what is true of an alert now, usually what its rule watches. If a lost device
// merely does not answer now, that is what the alert is about.
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

// nameOf names the device that an alert is about: "GPU 3", or with several nodes "GPU 3 on gx-07".
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

// newAlertItem makes the line of an alert. Forms return to the given page.
func newAlertItem(a *alert.Alert, in *Input, page string) AlertItem {
	out := AlertItem{
		Alert: a, Kind: severityName(a.Severity), Title: sentence(a.Message),
		Mark:  map[alert.Severity]string{alert.Critical: "bad", alert.Warning: "warn"}[a.Severity],
		Lasts: either(a.Before, "at least ", "") + lastsFor(a.Since, later(in.nowOf(a.Device.Node), a.Since)),
		Say:   in.BasePath + "api/alerts/" + url.PathEscape(a.ID) + "/", Page: page,
		May: in.mayOperate(a.Device.Node),
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

// nowOf returns the time of a node's newest reading, or the current time if the node is silent.
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

// saying joins an action, who did it and the comment; the last two may be empty.
func saying(did, who, comment string) string {
	if who = clean(who, longestName); who != "" {
		did = didBy(did, who)
	}
	if comment = clean(comment, longestSentence); comment != "" {
		did = didSaying(did, comment)
	}
	return did
}

// numerals are the small numbers that headlines write as words.
var numerals = []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}

func numeral(n int) string {
	if n < len(numerals) {
		return numerals[n]
	}
	return strconv.Itoa(n)
}

// mostWords is the longest headline, in words.
const mostWords = 10

// summary sums up alerts in a sentence: "One GPU is lost, two are slowed by heat." Each device counts once, by its
// first alert. A single device is named. The sentence has no readings, since they change all the time.
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
