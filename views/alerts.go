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

	"github.com/gpuwhy/gpuwhy/gpu"
)

// An Alert is one that stands, or stood.
type Alert struct {
	ID       string
	Rule     string
	Severity string // "info", "warning" or "critical"
	State    string // "firing", "resolved", or "no_data" where nothing is reported now that could end it
	GPU      int    // the device's index, for people
	Node     string // name of the machine
	UUID     string // of the device; empty where it is about the machine
	Message  string
	Advice   string // what to do; may be empty
	Why      string // why the device is as it is; may be empty
	Since    time.Time
	At       time.Time // when it was so, or when it was over
	// Acknowledged is nil where nobody has acknowledged it.
	Acknowledged  *Note
	SilencedUntil time.Time // zero where no silence covers it
}

// A Note is what somebody has written. Both may be empty.
type Note struct {
	By, Comment string // may be empty
}

// A Silence keeps people from being told of alerts.
type Silence struct {
	ID              string
	Rule, Node, GPU string // patterns, of which an empty one matches everything; GPU is of UUIDs
	Note
	Until time.Time
}

// A Rule is when an alert fires.
type Rule struct {
	Name, Watch, Severity string
	Enabled               bool
	Threshold             gpu.Reading[float64] // absent where what it watches either is so or not
	Unit                  string               // of Threshold and Margin
	Below                 bool                 // it fires below the threshold
	Margin                float64
	Hold, Clear           time.Duration
	Cooldown, Repeat      time.Duration // Repeat is 0 for never
	Scope                 []string      // patterns in words, such as "user alice"; everything where there are none
	Targets               []string      // names of those who are told; all where there are none
}

// A Target is somebody who is told of alerts, and how that goes.
type Target struct {
	Name, Service, Severity string // Severity is the least that it is told of
	Queued                  int    // events that wait
	LastSuccess             time.Time
	LastError               string // of the last try; empty where it worked
	FailingSince            time.Time
}

// An AlertsInput is all that the page of alerts is made of. It uses no causes and
// no sentence of Input.
type AlertsInput struct {
	Input
	// From is how many of the worst alerts are not listed: those of the pages
	// before this one. Beyond the last page it is the last page.
	From int
	// Explain adds why and what to do to an alert that is listed; may be nil.
	Explain  func(*Alert)
	Past     []Alert // newest first
	Silences []Silence
	Rules    []Rule
	Targets  []Target
}

// An AlertRow is an alert as the page shows it.
type AlertRow struct {
	Key, State, Severity, Label, Message string
	Since                                string // the moment, for those who point at the row
	Began                                string // the moment in Since, for scripts
	Said                                 string // what people said of it
	Until                                string // the moment in Said, for scripts; empty for none
	Known, Silenced                      bool
	Say                                  string // where forms about it go, with a slash at its end
	Page                                 string // the page's name in forms
}

// An AlertDetail is an alert with all that is known of it.
type AlertDetail struct {
	AlertRow
	Rule, Device, DevicePath string
	Advice, Why              string
	Span                     string // how long it has been so, or was
	At                       Moment // when it began
	Ended, NoData            bool
}

// A SilenceRow is a silence as the page shows it.
type SilenceRow struct {
	Key, Of, Said string
	Until         Moment
	End           string // where a form ends it
}

// A RuleRow is a rule as the page shows it.
type RuleRow struct {
	Key, Fires, Hold, Over, Cooldown, Repeat, Severity, Scope, Tells string
	Enabled                                                          bool
}

// A TargetRow is a target as the page shows it.
type TargetRow struct {
	Key, Service, Severity, Error, Queued string
	Success, Since                        Moment // the last success, and since when it fails; empty for never, and while it works
}

// A Choice is one of a list in a form.
type Choice struct{ Value, Label string }

// An AlertsPage is the view model of the page of alerts.
type AlertsPage struct {
	site
	Sentence string
	AsOf     Moment
	Firing   []AlertDetail
	// Listed says which alerts are listed. Worse and Milder lead to the others.
	// All three are empty where there is room for all alerts.
	Listed, Worse, Milder string
	Silences              []SilenceRow
	Past                  []AlertDetail
	PastCount             string
	Rules                 []RuleRow
	RuleCount, RuleTitle  string
	Targets               []TargetRow
	// GPUChoices and NodeChoices are what people can silence; none where there
	// are too many to choose from, or nothing to choose.
	GPUChoices, NodeChoices []Choice
}

// silenceSpans are for how long a silence can be made.
var silenceSpans = []Choice{{"3600", "1" + nbsp + "h"}, {"28800", "8" + nbsp + "h"}, {"86400", "1" + nbsp + "day"}, {"604800", "1" + nbsp + "week"}}

// NewAlertsPage makes the view model.
func NewAlertsPage(in AlertsInput) AlertsPage {
	p := AlertsPage{site: newSite(&in.Input), AsOf: newMoment(in.Now)}
	if len(in.Nodes) > 0 {
		p.GPUChoices, p.NodeChoices = silenceChoices(in.Nodes)
	}
	p.list(&in)
	p.Past = each(in.Past, func(a *Alert) AlertDetail { return newAlertDetail(a, &in.Input) })
	p.Silences = each(in.Silences, func(s *Silence) SilenceRow { return newSilence(s, &in.Input) })
	p.Rules, p.Targets = each(in.Rules, newRule), each(in.Targets, newTarget)
	enabled := slices.DeleteFunc(slices.Clone(in.Rules), func(r Rule) bool { return !r.Enabled })
	p.RuleCount = plural(len(enabled), "rule is", "rules are") + " in force"
	p.RuleTitle = plural(len(in.Rules), "rule", "rules")
	p.PastCount = plural(len(in.Past), "alert", "alerts")
	p.Sentence = firingSentence(in.Alerts, in.Nodes)
	p.Title = "Alerts · gpuwhy"
	if n := len(in.Alerts); n > 0 {
		p.Title = "▲ " + plural(n, "alert", "alerts") + " · gpuwhy"
	}
	return p
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AlertsPage) Render(ctx context.Context, w io.Writer) error {
	h := newHead(p.Title, p.asset, "alertpage.js", "app.css")
	h.Preload = []string{p.asset("shared.js")}
	return document(h, alertsBody(p)).Render(ctx, w)
}

// firingSentence says how many alerts fire, or whether it is known that none
// does.
func firingSentence(alerts []Alert, nodes gpu.Nodes) string {
	if len(alerts) == 0 {
		switch nodes.Status() {
		case gpu.StatusStarting:
			return "Nothing is known yet: the first reading is under way."
		case gpu.StatusNoGPU:
			return "Nothing fires, and no GPU can be read."
		default:
			return "Nothing fires."
		}
	}
	count := map[string]int{}
	for i := range alerts {
		count[alerts[i].Severity]++
	}
	var parts []string
	for _, of := range []struct{ severity, one, many string }{
		{"critical", "critical alert", "critical alerts"}, {"warning", "warning", "warnings"}, {"info", "note", "notes"},
	} {
		if n := count[of.severity]; n > 0 {
			parts = append(parts, plural(n, of.one, of.many))
		}
	}
	return list(parts) + "."
}

// list puts the alerts of this page of the list on it, the worst first.
func (p *AlertsPage) list(in *AlertsInput) {
	all := sortedAlerts(in.Alerts)
	from := min(max(in.From, 0), max(len(all)-1, 0)) / mostAlerts * mostAlerts
	to := min(from+mostAlerts, len(all))
	p.Firing = each(all[from:to], func(a *Alert) AlertDetail {
		if in.Explain != nil {
			in.Explain(a)
		}
		return newAlertDetail(a, &in.Input)
	})
	if len(all) <= mostAlerts {
		return
	}
	p.Listed = fmt.Sprintf("Alerts %d to %d of %d, the worst first", from+1, to, len(all))
	at := func(n int) string { return in.BasePath + "alerts?from=" + strconv.Itoa(n) }
	if from > 0 {
		p.Worse = at(from - mostAlerts)
	}
	if to < len(all) {
		p.Milder = at(to)
	}
}

func newAlertDetail(a *Alert, in *Input) AlertDetail {
	out := AlertDetail{
		AlertRow: newAlertRow(a, in, "alerts"),
		Rule:     a.Rule, Device: "the machine",
		Advice: sentence(a.Advice), Why: sentence(a.Why),
		Span: "for " + between(a.Since, in.Now), At: newMoment(a.Since),
		Ended: a.State == "resolved", NoData: a.State == "no_data",
	}
	if a.UUID != "" {
		out.Device, out.DevicePath = say("gpu", strconv.Itoa(a.GPU)), in.BasePath+devicePath(a.UUID)
	}
	if out.Ended {
		out.Label, out.Span = severityName(a.Severity), between(a.Since, a.At)
	}
	return out
}

// severityName is a severity in a word; empty for an empty one.
func severityName(severity string) string { return say("alert " + severity) }

func newSilence(s *Silence, in *Input) SilenceRow {
	of := []string{"every rule"}
	if s.Rule != "" {
		of[0] = "rule " + clean(s.Rule, longestName)
	}
	d, known := in.Nodes.Device(s.Node, s.GPU)
	switch {
	case known:
		of = append(of, say("gpu", strconv.Itoa(d.Index)))
	case s.GPU != "":
		of = append(of, "GPUs "+clean(s.GPU, longestName))
	}
	if s.Node != "" && (len(in.Nodes) != 1 || s.Node != in.Nodes[0].Node) {
		of = append(of, "machine "+clean(s.Node, longestName))
	}
	var made string
	if s.Note != (Note{}) {
		made = saying("made", &s.Note)
	}
	return SilenceRow{
		Key: s.ID, Of: dots(of...), Said: made,
		Until: newMoment(s.Until), End: in.BasePath + "api/silences/" + url.PathEscape(s.ID) + "/end",
	}
}

func newRule(r *Rule) RuleRow {
	fires := strings.ReplaceAll(r.Watch, "_", " ")
	amount := func(v float64) string {
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', -1, 64)+nbsp+r.Unit, nbsp)
	}
	over := "after " + length(r.Clear)
	if threshold, ok := r.Threshold.Get(); ok {
		side := " above "
		if r.Below {
			side = " below "
		}
		fires += side + amount(threshold)
		if r.Margin > 0 {
			over = "back by " + amount(r.Margin) + " for " + length(r.Clear)
		}
	}
	out := RuleRow{
		Key: r.Name, Fires: fires, Hold: "at once", Over: over, Cooldown: length(r.Cooldown), Repeat: "never",
		Severity: severityName(r.Severity), Enabled: r.Enabled,
		Scope: cmp.Or(clean(strings.Join(r.Scope, ", "), longestSentence), "everything"),
		Tells: cmp.Or(strings.Join(r.Targets, ", "), "all"),
	}
	if r.Hold > 0 {
		out.Hold = length(r.Hold)
	}
	if r.Repeat > 0 {
		out.Repeat = "every " + length(r.Repeat)
	}
	return out
}

func newTarget(t *Target) TargetRow {
	return TargetRow{
		Key: t.Name, Service: t.Service, Severity: cmp.Or(severityName(t.Severity), "everything"),
		Error: cmp.Or(clean(t.LastError, longestSentence), "none"), Queued: strconv.Itoa(t.Queued),
		Success: newMoment(t.LastSuccess), Since: newMoment(t.FailingSince),
	}
}

// silenceChoices are the GPUs and machines that people can choose.
func silenceChoices(of gpu.Nodes) (gpus, nodes []Choice) {
	if of.Totals().Devices > mostTiles {
		return nil, nil
	}
	for d := range of.Devices() {
		gpus = append(gpus, Choice{d.UUID, say("gpu", strconv.Itoa(d.Index)) + " · " + clean(d.Name, longestName)})
		if !slices.ContainsFunc(nodes, func(c Choice) bool { return c.Value == d.Node }) {
			nodes = append(nodes, Choice{d.Node, clean(d.Node, longestName)})
		}
	}
	if len(nodes) < 2 {
		nodes = nil
	}
	return gpus, nodes
}

// newAlertRow is an alert on the page that forms call page.
func newAlertRow(a *Alert, in *Input, page string) AlertRow {
	out := AlertRow{
		Key: a.ID, State: a.State, Severity: a.Severity, Label: alertLabel(*a), Message: sentence(a.Message),
		Since: say("since", moment(a.Since)), Began: stamp(a.Since), Known: a.Acknowledged != nil, Silenced: !a.SilencedUntil.IsZero(),
		Say: in.BasePath + "api/alerts/" + url.PathEscape(a.ID) + "/", Page: page,
	}
	var known, silenced string
	if out.Known {
		known = saying(say("acknowledged"), a.Acknowledged)
	}
	if out.Silenced {
		silenced, out.Until = say("silenced", moment(a.SilencedUntil)), stamp(a.SilencedUntil)
	}
	out.Said = dots(known, silenced)
	return out
}

// saying is what somebody did, who did it, and what they say of it.
func saying(did string, n *Note) string {
	if by := clean(n.By, longestName); by != "" {
		did = say("by", did, by)
	}
	if comment := clean(n.Comment, longestSentence); comment != "" {
		did = say("says", did, comment)
	}
	return did
}

// length writes a time that somebody has set, such as "4 h".
func length(d time.Duration) string {
	text, _, _ := strings.Cut(span(d.Seconds()), " 0")
	return text
}

// plural is a number of things: "1 note", "2 notes".
func plural(n int, one, many string) string {
	if n != 1 {
		one = many
	}
	return strconv.Itoa(n) + " " + one
}
