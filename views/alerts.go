package views

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
)

// An AlertsInput is the input of the alerts page. The page uses neither the causes nor
// the sentences of Input.
type AlertsInput struct {
	Input
	// First is how many alerts come before this page of the list. A value beyond
	// the last page selects the last page.
	First int
	// AnswerOf returns the answer about an alert's device; nil if there is none, or
	// if the alert is about the machine.
	AnswerOf  func(*alert.Alert) *explain.DeviceAnswer
	Past      []alert.Alert // newest first
	Ended     int           // how many ended in the last 24 hours, including those that Past lacks
	Silences  []alert.Silence
	Rules     []alert.Rule
	Targets   []notify.Status
	Unwritten bool // alerts and silences can't be saved to the state directory
}

// An AlertDetail is an alert with all known facts.
type AlertDetail struct {
	AlertItem
	Device, DevicePath string
	Open               bool // its details are expanded
	Why, Advice        string
	long               string // Why with all readings, which change constantly
	Command            string // to run exactly as it is
	Told               string // who was notified, and who could not be reached
	ToldAt             time.Time
}

// An EndedAlert is a past alert.
type EndedAlert struct {
	AlertItem
	Node  string // empty if there is only one
	Users string // whose work it was; empty if unknown
	Peak  string // the value furthest beyond the threshold; empty if there is none
	Span  string // how long it lasted
	End   string // what ended it early, such as "Dismissed by hand."; otherwise empty
}

// newEnded describes a past alert by what it fired for, not by the present state.
func (in *AlertsInput) newEnded(a *alert.Alert, several bool) EndedAlert {
	out := EndedAlert{AlertItem: newAlertItem(a, &in.Input, ""), Span: between(a.Since, a.Since.Add(a.Lasted())), Users: listUsers(a.Users), End: sentence(a.CutShort)}
	out.Title, out.More, out.Kind = sentence(history.Earlier(cmp.Or(a.Fired, a.Message))), "", severityName(a.Severity)
	if a.FiredIs != "" {
		out.Title = in.nameOf(&a.Device) + " " + sentence(a.FiredIs) + "."
	}
	if several {
		out.Node = clean(a.Device.Node, longestName)
	}
	out.Peak = a.PeakText()
	return out
}

// historyHeader returns the columns of the history.
func historyHeader(rows []EndedAlert) []string {
	header := []string{"Alert", "User", "Rule", "Severity", "Peak", "Started", "Duration"}
	if len(rows) > 0 && rows[0].Node != "" {
		header = slices.Insert(header, 1, "Machine")
	}
	return header
}

func listUsers(users []string) string {
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = clean(u, longestName)
	}
	return strings.Join(names, ", ")
}

// endedMore says how many more alerts have ended than are listed.
func (in *AlertsInput) endedMore() string {
	lately := 0
	for i := range in.Past {
		if in.Now.Sub(in.Past[i].Time) < 24*time.Hour {
			lately++
		}
	}
	if in.Ended <= lately {
		return ""
	}
	return "These are the newest " + strconv.Itoa(len(in.Past)) + ". " + strconv.Itoa(in.Ended) + " ended in the last 24" + nbsp + "hours."
}

// An AlertGroup is a part of the list. An ungrouped list is a single group without a title.
type AlertGroup struct {
	Key, Title string
	Items      []AlertDetail
	Open       []string // IDs of the alerts that nobody has acknowledged
}

// An AlertFold is a collapsed list of less urgent alerts, with a line that says what and how many.
type AlertFold struct {
	Key, Icon   string
	Count, Text string
	Lines       []AlertFoldLine
	All         templ.SafeURL // address of the full list
	AllText     string
}

// An AlertFoldLine is a line of a fold. A moment may follow the text.
type AlertFoldLine struct {
	Key, Text string
	Time      time.Time
}

// An AlertChoice is a link that selects what the page shows.
type AlertChoice struct {
	Key, Mark, Count, Label string
	Here                    bool
	Path                    templ.SafeURL
}

// A SilenceRow is a silence as a row of the page.
type SilenceRow struct {
	Silence       *alert.Silence
	Subject, Said string
	End           string // address of the form that ends it
	May           bool   // who looks may end it
}

// A Choice is one option of a form's list.
type Choice struct{ Value, Label string }

// An AlertsPage is the view model of the alerts page.
type AlertsPage struct {
	in              *AlertsInput
	Title, Headline string
	Broken          bool // a critical alert needs attention
	Chips, Tabs     []AlertChoice
	Tab             string
	Groups          []AlertGroup
	Shown           []string // IDs of the listed alerts that nobody has acknowledged
	Several         bool     // more than one alert is listed
	May             bool     // who looks may act on a listed alert, or make a silence
	Confined        bool     // a silence must name a machine, for who looks may not act on all
	Empty           string   // shown instead of an empty list
	// Listed says which alerts are listed. Worse and Milder link to the others.
	// All three are empty if all alerts fit.
	Listed        string
	Worse, Milder templ.SafeURL
	Folds         []AlertFold
	Silences      []SilenceRow
	Past          []EndedAlert
	PastMore      string // how many more ended lately; empty if none
	// GPUChoices and NodeChoices are what people can silence; empty if there are
	// too many to choose from, or only one.
	GPUChoices, NodeChoices []Choice
}

// silenceSpans are the lengths of silences that the page offers, in seconds.
var silenceSpans = []Choice{{"3600", "1" + nbsp + "h"}, {"28800", "8" + nbsp + "h"}, {"86400", "1" + nbsp + "day"}, {"604800", "1" + nbsp + "week"}}

// Parameters of the page's address: the tab and, in the first tab, which alerts are listed and how.
const (
	chosenTab   = "tab"   // "history", "silenced", "rules" or "told"; empty for open alerts
	chosenOnly  = "only"  // a severity, "acknowledged" or "silenced"; empty for alerts that need attention
	chosenGroup = "group" // "rule", "gpu" or "node"
	chosenText  = "q"
	chosenFrom  = "from"
)

// groupings are the ways to group the list.
var groupings = []Choice{{"", "Not grouped"}, {"rule", "By rule"}, {"gpu", "By GPU"}, {"node", "By machine"}}

// NewAlertsPage makes the view model of the alerts page.
func NewAlertsPage(in AlertsInput) AlertsPage {
	in.keep(chosenTab, chosenOnly, chosenGroup, chosenText, chosenFrom)
	p := AlertsPage{in: &in, Title: "Alerts · gpuwhy", Tab: in.Get(chosenTab)}
	open := in.open()
	p.Headline = in.needs(open)
	p.Broken = slices.ContainsFunc(open, func(a alert.Alert) bool { return a.Severity == alert.Critical })
	if n := len(open); n > 0 {
		p.Title = "▲ " + explain.Plural(n, "alert", "alerts") + " · gpuwhy"
	}
	p.Chips, p.Tabs = in.chips(open), in.tabs()
	switch p.Tab {
	case "history":
		several := in.Root == in.BasePath && slices.ContainsFunc(in.Past, func(a alert.Alert) bool { return a.Device.Node != in.Past[0].Device.Node })
		p.Past = each(in.Past, func(a *alert.Alert) EndedAlert { return in.newEnded(a, several) })
		p.PastMore = in.endedMore()
	case "silenced":
		p.GPUChoices, p.NodeChoices = silenceChoices(in.Nodes)
		if p.May = in.mayOperate(""); !p.May {
			p.NodeChoices = in.confined()
			p.May, p.Confined = len(p.NodeChoices) > 0, true
		}
		p.Silences = each(in.Silences, func(s *alert.Silence) SilenceRow { return newSilence(s, &in.Input) })
	case "rules", "told":
	default:
		p.Tab = ""
		p.list(&in)
		p.Folds = in.folds()
	}
	return p
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AlertsPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head(p.Title, "Alerts"), alertsBody(p)).Render(ctx, w)
}

// needs says what needs attention, or that nothing does, or that this is unknown.
func (in *AlertsInput) needs(open []alert.Alert) string {
	status := in.status()
	switch {
	case len(open) > 0:
		return in.summary(open)
	case status == gpu.StatusStarting:
		return "Nothing to report yet: the first reading is under way."
	case status == gpu.StatusNoGPU:
		return "No alert is firing, but no GPU can be read."
	case slices.ContainsFunc(in.Alerts, func(a alert.Alert) bool { return a.Severity != alert.Info }):
		return "Nothing new needs attention."
	default:
		return "Nothing needs attention."
	}
}

// only returns the address of the list narrowed to some alerts; empty lists those that need attention.
func (in *AlertsInput) only(which string) templ.SafeURL {
	return in.Link(chosenOnly, which, chosenFrom, "", chosenTab, "")
}

// chips counts the alerts of each severity. Each chip links to those alerts.
func (in *AlertsInput) chips(open []alert.Alert) (chips []AlertChoice) {
	count := map[alert.Severity]int{}
	for i := range open {
		count[open[i].Severity]++
	}
	for i := range in.Alerts {
		if in.Alerts[i].Severity == alert.Info {
			count[alert.Info]++
		}
	}
	for _, row := range []struct {
		severity  alert.Severity
		mark      string
		one, many string
	}{
		{alert.Critical, "bad", "critical", "critical"}, {alert.Warning, "warn", "warning", "warnings"}, {alert.Info, "info", "for your information", "for your information"},
	} {
		here := in.Get(chosenOnly) == string(row.severity)
		n := count[row.severity]
		if n == 0 && !here {
			continue
		}
		only := string(row.severity)
		if here {
			only = ""
		}
		chips = append(chips, AlertChoice{Key: string(row.severity), Mark: row.mark, Count: strconv.Itoa(n), Label: either(n == 1, row.one, row.many), Here: here, Path: in.only(only)})
	}
	return chips
}

func (in *AlertsInput) tabs() (tabs []AlertChoice) {
	enabled := slices.DeleteFunc(slices.Clone(in.Rules), func(r alert.Rule) bool { return !r.Enabled })
	for _, t := range []struct {
		key, label string
		n          int
	}{{"", "Open now", 0}, {"history", "History", max(in.Ended, len(in.Past))}, {"silenced", "Silenced", len(in.Silences)}, {"rules", "Rules", len(enabled)}, {"told", "Notifications", len(in.Targets)}} {
		tabs = append(tabs, AlertChoice{
			Key: cmp.Or(t.key, "open"), Label: t.label, Count: either(t.n > 0, strconv.Itoa(t.n), ""), Here: in.Get(chosenTab) == t.key,
			Path: in.Link(chosenTab, t.key, chosenOnly, "", chosenGroup, "", chosenText, "", chosenFrom, ""),
		})
	}
	return tabs
}

// narrowed reports whether the address selects only some of the alerts.
func (in *AlertsInput) narrowed() bool {
	return in.Get(chosenOnly) != "" || in.Get(chosenText) != ""
}

// chosen returns the alerts that the address selects, in the order of [Input.sorted]. A search text matches alerts with all its words.
func (in *AlertsInput) chosen() []alert.Alert {
	only, words := in.Get(chosenOnly), strings.Fields(strings.ToLower(in.Get(chosenText)))
	return in.sorted(slices.DeleteFunc(slices.Clone(in.Alerts), func(a alert.Alert) bool {
		switch only {
		case "":
			return !isOpen(&a) && len(words) == 0 || !in.matches(&a, words)
		case "acknowledged":
			return a.Acknowledged == nil || !in.matches(&a, words)
		case "silenced":
			return a.SilencedUntil.IsZero() || !in.matches(&a, words)
		case string(alert.Info):
			return a.Severity != alert.Info || !in.matches(&a, words)
		default:
			return string(a.Severity) != only || !isOpen(&a) || !in.matches(&a, words)
		}
	}))
}

// matches reports whether all words occur in the texts of an alert.
func (in *AlertsInput) matches(a *alert.Alert, words []string) bool {
	if len(words) == 0 {
		return true
	}
	parts := []string{in.nameOf(&a.Device), a.Message, a.Is, a.Rule, string(a.Severity), a.Device.UUID, a.Device.Node, a.Device.Name, a.Advice}
	if ack := a.Acknowledged; ack != nil {
		parts = append(parts, ack.By, ack.Comment)
	}
	text := strings.ToLower(strings.ReplaceAll(strings.Join(parts, "\n"), nbsp, " "))
	whole := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return !slices.ContainsFunc(words, func(w string) bool {
		if _, err := strconv.Atoi(w); err == nil { // "GPU 3" is not any GPU with a 3 in its UUID
			return !slices.Contains(whole, w)
		}
		return !strings.Contains(text, w)
	})
}

// mostAlerts is how many alerts a page of the list has.
const mostAlerts = 100

// list fills in the alerts of this page of the list, worst first.
func (p *AlertsPage) list(in *AlertsInput) {
	all := in.chosen()
	begin := min(max(in.First, 0), max(len(all)-1, 0)) / mostAlerts * mostAlerts
	end := min(begin+mostAlerts, len(all))
	listed := all[begin:end]
	p.Groups = in.grouped(listed)
	for _, g := range p.Groups {
		p.Shown = append(p.Shown, g.Open...)
		p.May = p.May || slices.ContainsFunc(g.Items, func(a AlertDetail) bool { return a.May })
	}
	p.Several = len(listed) > 1
	if len(listed) > 0 && begin == 0 && !in.narrowed() && in.Get(chosenGroup) == "" {
		worst := &p.Groups[0].Items[0]
		worst.Open, worst.Why = true, cmp.Or(worst.long, worst.Why)
	}
	switch {
	case len(all) > 0:
	case in.narrowed():
		p.Empty = "No alert matches."
	default:
		p.Empty = "No alert needs attention now."
	}
	if len(all) <= mostAlerts {
		return
	}
	p.Listed = fmt.Sprintf("Alerts %d to %d of %d, worst first", begin+1, end, len(all))
	if begin > 0 {
		p.Worse = in.Link(chosenFrom, either(begin > mostAlerts, strconv.Itoa(begin-mostAlerts), ""))
	}
	if end < len(all) {
		p.Milder = in.Link(chosenFrom, strconv.Itoa(end))
	}
}

// grouped groups alerts as the address asks, the group with the worst alert first.
func (in *AlertsInput) grouped(list []alert.Alert) (groups []AlertGroup) {
	for i := range list {
		a := &list[i]
		var key, title string
		switch in.Get(chosenGroup) {
		case "rule":
			key, title = a.Rule, ruleName(a.Rule)
		case "gpu":
			key, title = strings.Join([]string{a.Device.Node, a.Device.UUID, either(a.About(), "", a.Device.Source)}, " "), in.nameOf(&a.Device)
		case "node":
			key, title = a.Device.Node, clean(a.Device.Node, longestName)
		}
		found := slices.IndexFunc(groups, func(g AlertGroup) bool { return g.Key == key })
		if found < 0 {
			found = len(groups)
			groups = append(groups, AlertGroup{Key: key, Title: title})
		}
		g := &groups[found]
		g.Items = append(g.Items, in.detail(a))
		if a.Acknowledged == nil && in.mayOperate(a.Device.Node) {
			g.Open = append(g.Open, a.ID)
		}
	}
	return groups
}

// ruleName returns the name of a rule with spaces for underscores.
func ruleName(name string) string { return strings.ReplaceAll(clean(name, longestName), "_", " ") }

// withoutBegin cuts the start time from a message: the page shows how long the alert has lasted by now.
func withoutBegin(message string) string {
	text, _, found := strings.Cut(message, "; this began ")
	return text + either(found, ".", "")
}

func (in *AlertsInput) detail(a *alert.Alert) AlertDetail {
	out := AlertDetail{AlertItem: newAlertItem(a, &in.Input, in.page()), Device: in.nameOf(&a.Device), Why: sentence(withoutBegin(a.Message)), Advice: sentence(a.Advice)}
	if a.About() {
		out.DevicePath = in.BasePath + devicePath(a.Device.UUID)
	}
	if answer := in.AnswerOf(a); answer != nil {
		out.Why, out.long = sentence(cmp.Or(answer.Headline, answer.Sentence, a.Message)), sentence(answer.Sentence)
		if out.Advice == "" && a.Severity != alert.Info {
			out.Advice, out.Command = sentence(answer.Action.Text), answer.Action.Command
			if out.Advice == "" && len(answer.Causes) > 0 {
				out.Advice = sentence(answer.Causes[0].Advice)
			}
		}
	}
	out.Told, out.ToldAt = in.told(a)
	return out
}

// page returns the address that forms return to, with its parameters.
func (in *AlertsInput) page() string {
	if len(in.Asked) == 0 {
		return "alerts"
	}
	return "alerts?" + in.Asked.Encode()
}

// told says who was notified of an alert. The moment follows the text unless it is zero.
func (in *AlertsInput) told(a *alert.Alert) (who string, when time.Time) {
	var names, failing []string
	for _, t := range in.Targets {
		if len(a.Targets) > 0 && !slices.Contains(a.Targets, t.Name) || t.Severity != "" && a.Severity.Rank() < t.Severity.Rank() {
			continue
		}
		if name := clean(t.Name, longestName); t.FailingSince.IsZero() {
			names = append(names, name)
		} else {
			failing = append(failing, name)
		}
	}
	switch {
	case len(names)+len(failing) == 0:
		return "Nobody: no target takes this alert", time.Time{}
	case a.Told.IsZero() && !a.SilencedUntil.IsZero():
		return "Nobody, while it is silenced", time.Time{}
	case a.Told.IsZero():
		return "Nobody yet", time.Time{}
	case len(names) == 0:
		return list(failing) + " can’t be reached now: see “Notifications”", time.Time{}
	case len(failing) > 0:
		return list(names) + ", not " + list(failing) + ", which can’t be reached now; at", a.Told
	default:
		return list(names) + " at", a.Told
	}
}

// mostLines limits the lines of a fold; its full list has an address of its own.
const mostLines = 10

// folds returns the alerts that need no attention now.
func (in *AlertsInput) folds() (folds []AlertFold) {
	if in.narrowed() {
		return nil
	}
	var info, known, silenced, ended []alert.Alert
	for _, a := range in.sorted(in.Alerts) {
		switch {
		case a.Severity == alert.Info:
			info = append(info, a)
		case a.Acknowledged != nil:
			known = append(known, a)
		case !a.SilencedUntil.IsZero():
			silenced = append(silenced, a)
		}
	}
	for i := range in.Past {
		if in.Now.Sub(in.Past[i].Time) < 24*time.Hour {
			ended = append(ended, in.Past[i])
		}
	}
	add := func(f AlertFold, n int) {
		if n == 0 {
			return
		}
		f.Count = strconv.Itoa(n)
		f.Lines = f.Lines[:min(len(f.Lines), mostLines)]
		folds = append(folds, f)
	}
	title := func(a *alert.Alert) AlertFoldLine {
		item := newAlertItem(a, &in.Input, "")
		text := item.Title
		if ack := a.Acknowledged; ack != nil {
			text = dots(text, saying(acknowledgedText, ack.By, ack.Comment))
		}
		if !a.SilencedUntil.IsZero() {
			text = dots(text, "silenced until")
		}
		return AlertFoldLine{a.ID, text, a.SilencedUntil}
	}
	add(AlertFold{Key: "info", Icon: "info", Text: "for your information: " + in.kinds(info), Lines: in.kindLines(info), All: in.only(string(alert.Info)), AllText: "All of them"}, len(info))
	add(AlertFold{Key: "acknowledged", Icon: "bell", Text: "acknowledged: " + in.kinds(known), Lines: each(known, title), All: in.only("acknowledged"), AllText: "All of them, with undo"}, len(known))
	add(AlertFold{Key: "silenced", Icon: "moon", Text: "silenced: " + in.kinds(silenced), Lines: each(silenced, title), All: in.only("silenced"), AllText: "All of them"}, len(silenced))
	add(AlertFold{Key: "ended", Icon: "clock", Text: "ended in the last 24" + nbsp + "hours", AllText: "History", All: in.Link(chosenTab, "history", chosenGroup, "", chosenFrom, ""), Lines: each(ended, func(a *alert.Alert) AlertFoldLine {
		return AlertFoldLine{a.ID, in.nameOf(&a.Device) + ": " + ruleName(a.Rule) + ", for " + between(a.Since, a.Since.Add(a.Lasted())) + ", ended", a.Time}
	})}, max(in.Ended, len(ended)))
	return folds
}

// byKind groups alerts that say the same.
func (in *AlertsInput) byKind(list []alert.Alert, also func(*alert.Alert) string) (kinds [][]alert.Alert) {
	places := map[string]int{}
	for _, a := range list {
		key := string(in.isNow(&a)) + " " + also(&a)
		i, known := places[key]
		if !known {
			i = len(kinds)
			places[key] = i
			kinds = append(kinds, nil)
		}
		kinds[i] = append(kinds[i], a)
	}
	return kinds
}

// kindText says what alerts of one kind have in common: "8 GPUs are busy".
func (in *AlertsInput) kindText(kind []alert.Alert) string {
	is := beingOf(in.isNow(&kind[0]))
	switch {
	case is == being{}:
		return ruleName(kind[0].Rule)
	case len(kind) == 1:
		return in.nameOf(&kind[0].Device) + " " + is.one
	}
	return strconv.Itoa(len(kind)) + " " + kind[0].Noun() + "s " + is.many
}

// kinds sums up alerts in a line, by kind.
func (in *AlertsInput) kinds(list []alert.Alert) string {
	kinds := in.byKind(list, func(*alert.Alert) string { return "" })
	var parts []string
	for _, kind := range kinds[:min(len(kinds), 2)] {
		parts = append(parts, in.kindText(kind))
	}
	return strings.Join(parts, ", ") + either(len(kinds) > 2, " and others", "")
}

// kindLines sums up alerts in lines, by kind and node.
func (in *AlertsInput) kindLines(list []alert.Alert) (lines []AlertFoldLine) {
	for _, kind := range in.byKind(list, func(a *alert.Alert) string { return a.Device.Node }) {
		first := &kind[0]
		text := in.kindText(kind)
		if len(kind) > 1 && len(in.Nodes) > 1 {
			text += " on " + clean(first.Device.Node, longestName)
		}
		lines = append(lines, AlertFoldLine{Key: string(in.isNow(first)) + " " + first.Device.Node, Text: text})
	}
	return lines
}

func newSilence(s *alert.Silence, in *Input) SilenceRow {
	about := []string{"all rules"}
	if s.Rule != "" {
		about[0] = "rule " + clean(s.Rule, longestName)
	}
	d, known := in.Nodes.Device(s.Node, s.GPU)
	switch {
	case known:
		about = append(about, gpuName(d.Index))
	case s.GPU != "":
		about = append(about, "GPUs "+clean(s.GPU, longestName))
	}
	if s.Node != "" && (len(in.Nodes) != 1 || s.Node != in.Nodes[0].Node) {
		about = append(about, "machine "+clean(s.Node, longestName))
	}
	var made string
	if s.By != "" || s.Comment != "" {
		made = saying("created", s.By, s.Comment)
	}
	node, one := s.One()
	return SilenceRow{
		Silence: s, Subject: dots(about...), Said: made, End: in.BasePath + "api/silences/" + url.PathEscape(s.ID) + "/end",
		May: in.mayOperate("") || one && in.mayOperate(node),
	}
}

// firesWhen says when a rule fires.
func firesWhen(r *alert.Rule) string {
	what := strings.ReplaceAll(string(r.Watch), "_", " ")
	if r.Watch.Condition() {
		return what
	}
	return what + either(r.Watch.Below(), " below ", " above ") + amount(r, r.Threshold)
}

// overWhen says when an alert of a rule resolves.
func overWhen(r *alert.Rule) string {
	if r.Watch.Condition() || r.Margin <= 0 {
		return "gone for " + length(r.Clear)
	}
	return amount(r, r.Margin) + either(r.Watch.Below(), " above that for ", " below that for ") + length(r.Clear)
}

func amount(r *alert.Rule, v float64) string {
	return strings.TrimSuffix(exact(v)+nbsp+r.Watch.Unit(), nbsp)
}

// looksAt says what a rule applies to, in words such as "user alice".
func looksAt(r *alert.Rule) string {
	numeral := func(n *int) string { return strconv.Itoa(*n) }
	var words []string
	for _, scope := range []struct {
		what string
		list []string
	}{
		{"machine ", r.Scope.Nodes}, {"GPU ", r.Scope.GPUs}, {"user ", r.Scope.Users}, {"process ", r.Scope.Processes},
		{"XID ", each(r.Codes, numeral)}, {"all XIDs except ", each(r.IgnoreCodes, numeral)},
	} {
		if len(scope.list) > 0 {
			words = append(words, scope.what+strings.Join(scope.list, ", "))
		}
	}
	return cmp.Or(clean(strings.Join(words, "; "), longestSentence), "everything")
}

// confined returns the machines on which who looks may silence alerts, for those who may not do so on all.
func (in *Input) confined() (nodes []Choice) {
	for _, s := range in.Nodes {
		if in.mayOperate(s.Node) {
			nodes = append(nodes, Choice{alert.Literally(s.Node), clean(s.Node, longestName)})
		}
	}
	return nodes
}

// silenceChoices returns the GPUs and machines that the form of a silence offers.
func silenceChoices(machines gpu.Nodes) (gpus, nodes []Choice) {
	if machines.Totals().Devices > mostTiles {
		return nil, nil
	}
	for d := range machines.Devices() {
		gpus = append(gpus, Choice{d.UUID, gpuName(d.Index) + " · " + clean(d.Name, longestName)})
		if !slices.ContainsFunc(nodes, func(c Choice) bool { return c.Value == d.Node }) {
			nodes = append(nodes, Choice{d.Node, clean(d.Node, longestName)})
		}
	}
	if len(nodes) < 2 {
		nodes = nil
	}
	return gpus, nodes
}

// length writes a configured duration, such as "4 h".
func length(d time.Duration) string {
	text, _, _ := strings.Cut(span(d.Seconds()), " 0")
	return text
}
