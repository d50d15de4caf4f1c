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
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An AlertsInput is all that the page of alerts is made of. It uses no causes and
// no sentence of Input.
type AlertsInput struct {
	Input
	// From is how many of the worst alerts are not listed: those of the pages
	// before this one. Beyond the last page it is the last page.
	From int
	// AnswerOf says why the device of an alert that is listed is as it is; nil
	// where that is not known, or the alert is about the machine.
	AnswerOf  func(*alert.Alert) *explain.DeviceAnswer
	Past      []alert.Alert // newest first
	Silences  []alert.Silence
	Rules     []alert.Rule
	Targets   []notify.Status
	Unwritten bool // alerts and silences are to be kept over a restart, and can't be written
}

// An AlertRow is an alert as the page shows it.
type AlertRow struct {
	Alert          *alert.Alert
	Label, Message string
	Said           string // what people said of it; a moment in it is SilencedUntil
	Say            string // where forms about it go, with a slash at its end
	Page           string // the page's name in forms
}

// An AlertDetail is an alert with all that is known of it.
type AlertDetail struct {
	AlertRow
	Device, DevicePath string
	Advice, Why        string
	Span               string // how long it has been so, or was
}

// A SilenceRow is a silence as the page shows it.
type SilenceRow struct {
	Silence  *alert.Silence
	Of, Said string
	End      string // where a form ends it
}

// A Choice is one of a list in a form.
type Choice struct{ Value, Label string }

// An AlertsPage is the view model of the page of alerts.
type AlertsPage struct {
	in              *AlertsInput
	Title, Sentence string
	Firing          []AlertDetail
	// Listed says which alerts are listed. Worse and Milder lead to the others.
	// All three are empty where there is room for all alerts.
	Listed, Worse, Milder string
	Silences              []SilenceRow
	Past                  []AlertDetail
	RuleCount             string
	// GPUChoices and NodeChoices are what people can silence; none where there
	// are too many to choose from, or nothing to choose.
	GPUChoices, NodeChoices []Choice
}

// silenceSpans are for how long a silence can be made.
var silenceSpans = []Choice{{"3600", "1" + nbsp + "h"}, {"28800", "8" + nbsp + "h"}, {"86400", "1" + nbsp + "day"}, {"604800", "1" + nbsp + "week"}}

// NewAlertsPage makes the view model.
func NewAlertsPage(in AlertsInput) AlertsPage {
	p := AlertsPage{in: &in, Title: "Alerts · gpuwhy", Sentence: firingSentence(in.Alerts, in.Nodes)}
	p.GPUChoices, p.NodeChoices = silenceChoices(in.Nodes)
	p.list(&in)
	p.Past = each(in.Past, func(a *alert.Alert) AlertDetail { return newAlertDetail(a, &in.Input) })
	p.Silences = each(in.Silences, func(s *alert.Silence) SilenceRow { return newSilence(s, &in.Input) })
	enabled := slices.DeleteFunc(slices.Clone(in.Rules), func(r alert.Rule) bool { return !r.Enabled })
	p.RuleCount = explain.Plural(len(enabled), "rule is", "rules are") + " in force"
	if n := len(in.Alerts); n > 0 {
		p.Title = "▲ " + explain.Plural(n, "alert", "alerts") + " · gpuwhy"
	}
	return p
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AlertsPage) Render(ctx context.Context, w io.Writer) error {
	return document(head{
		Title: p.Title, asset: p.in.Asset, Manifest: p.in.manifest(), Styles: []string{"app.css"}, Script: p.in.Asset("alertpage.js"), Preload: []string{"shared.js"},
	}, alertsBody(p)).Render(ctx, w)
}

// firingSentence says how many alerts fire, or whether it is known that none does.
func firingSentence(alerts []alert.Alert, nodes gpu.Nodes) string {
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
	count := map[alert.Severity]int{}
	for i := range alerts {
		count[alerts[i].Severity]++
	}
	called := map[alert.Severity]string{alert.Critical: "critical alert", alert.Warning: "warning", alert.Info: "note"}
	var parts []string
	for _, severity := range slices.Backward(alert.Severities()) {
		if n := count[severity]; n > 0 {
			parts = append(parts, explain.Plural(n, called[severity], called[severity]+"s"))
		}
	}
	return list(parts) + "."
}

// list puts the alerts of this page of the list on it, the worst first.
func (p *AlertsPage) list(in *AlertsInput) {
	all := sortedAlerts(in.Alerts)
	from := min(max(in.From, 0), max(len(all)-1, 0)) / mostAlerts * mostAlerts
	to := min(from+mostAlerts, len(all))
	p.Firing = each(all[from:to], func(a *alert.Alert) AlertDetail {
		out := newAlertDetail(a, &in.Input)
		if answer := in.AnswerOf(a); answer != nil {
			out.Why = sentence(answer.Sentence)
			if out.Advice == "" && len(answer.Causes) > 0 {
				out.Advice = sentence(answer.Causes[0].Advice)
			}
		}
		return out
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

func newAlertDetail(a *alert.Alert, in *Input) AlertDetail {
	out := AlertDetail{
		AlertRow: newAlertRow(a, in, "alerts"),
		Device:   "the machine", Advice: sentence(a.Advice), Span: "for " + between(a.Since, in.Now),
	}
	if a.About() {
		out.Device, out.DevicePath = say("gpu", strconv.Itoa(a.Device.Index)), in.BasePath+devicePath(a.Device.UUID)
	}
	if a.State == alert.Resolved {
		out.Label, out.Span = severityName(a.Severity), between(a.Since, a.Since.Add(a.Lasted()))
	}
	return out
}

// severityName is a severity in a word; empty for an empty one.
func severityName(s alert.Severity) string { return say("alert " + string(s)) }

func newSilence(s *alert.Silence, in *Input) SilenceRow {
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
	if s.By != "" || s.Comment != "" {
		made = saying("made", s.By, s.Comment)
	}
	return SilenceRow{Silence: s, Of: dots(of...), Said: made, End: in.BasePath + "api/silences/" + url.PathEscape(s.ID) + "/end"}
}

// firesWhen is what a rule fires at.
func firesWhen(r *alert.Rule) string {
	what := strings.ReplaceAll(string(r.Watch), "_", " ")
	if r.Watch.Condition() {
		return what
	}
	return what + either(r.Watch.Below(), " below ", " above ") + amount(r, r.Threshold)
}

// overWhen is when an alert of a rule is over.
func overWhen(r *alert.Rule) string {
	if r.Watch.Condition() || r.Margin <= 0 {
		return "after " + length(r.Clear)
	}
	return "back by " + amount(r, r.Margin) + " for " + length(r.Clear)
}

func amount(r *alert.Rule, v float64) string {
	return strings.TrimSuffix(exact(v)+nbsp+r.Watch.Unit(), nbsp)
}

// looksAt is what a rule is about, in words such as "user alice".
func looksAt(r *alert.Rule) string {
	numeral := func(n *int) string { return strconv.Itoa(*n) }
	var words []string
	for _, of := range []struct {
		what string
		list []string
	}{
		{"machine ", r.Scope.Nodes}, {"GPU ", r.Scope.GPUs}, {"user ", r.Scope.Users}, {"process ", r.Scope.Processes},
		{"XID ", each(r.Codes, numeral)}, {"all XIDs but ", each(r.IgnoreCodes, numeral)},
	} {
		if len(of.list) > 0 {
			words = append(words, of.what+strings.Join(of.list, " or "))
		}
	}
	return cmp.Or(clean(strings.Join(words, ", "), longestSentence), "everything")
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
func newAlertRow(a *alert.Alert, in *Input, page string) AlertRow {
	out := AlertRow{
		Alert: a, Label: alertLabel(a), Message: sentence(a.Message),
		Say: in.BasePath + "api/alerts/" + url.PathEscape(a.ID) + "/", Page: page,
	}
	var known, silenced string
	if by := a.Acknowledged; by != nil {
		known = saying(say("acknowledged"), by.By, by.Comment)
	}
	if !a.SilencedUntil.IsZero() {
		silenced = say("silenced", moment(a.SilencedUntil))
	}
	out.Said = dots(known, silenced)
	return out
}

// saying is what somebody did, who did it, and what they say of it.
func saying(did, by, comment string) string {
	if by = clean(by, longestName); by != "" {
		did = say("by", did, by)
	}
	if comment = clean(comment, longestSentence); comment != "" {
		did = say("says", did, comment)
	}
	return did
}

// length writes a time that somebody has set, such as "4 h".
func length(d time.Duration) string {
	text, _, _ := strings.Cut(span(d.Seconds()), " 0")
	return text
}
