package views

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Gallery is a document with every component in every state, of made-up
// values: for those who work on the page, without a GPU. Components that no
// script changes are there as they are; the rest is in frames.
type Gallery struct {
	Asset  func(name string) string // as in [Input]
	Script string                   // address of what presses buttons in frames
	// Machine returns the made-up machine of a name, as of Now.
	Machine func(name string) *gpu.Snapshot
	Now     time.Time
	Frames  []FrameGroup
}

// A FrameGroup is frames of one part of the page.
type FrameGroup struct {
	Title  string
	Frames []Frame
}

// A Frame shows a whole page in one state.
type Frame struct {
	ID    string // "large": of its heading, for links
	Title string
	Says  string // what is to be seen; may be empty
	Press string // CSS selector of what is pressed once it is there; empty for nothing
	URL   string
}

// Render writes the whole page as HTML.
func (g Gallery) Render(ctx context.Context, w io.Writer) error {
	h := head{
		Title:  "gallery · gpuwhy",
		Style:  []string{g.Asset("vendor/uplot/uPlot.min.css"), g.Asset("app.css")},
		Icon:   g.Asset("icon.svg"),
		Script: g.Script,
	}
	return document(h, galleryBody(newGallery(&g), g.Frames)).Render(ctx, w)
}

// about says of which group a frame is, to those who hear its title alone.
func (f Frame) about(group FrameGroup) string { return group.Title + ": " + f.Title }

// place is the URL without what it points at, which a frame scrolls to alone: a
// browser would scroll to it through all pages around.
func (f Frame) place() (url, at string) {
	url, at, _ = strings.Cut(f.URL, "#")
	return url, at
}

// menuMessages are what the menu may say; the scripts have the same.
var menuMessages = []string{
	"The browser does not allow it here: it needs your permission, and https or this very machine.",
	"Copied. It has no names of users, processes or machines.",
	"The browser does not let pages copy here: it was saved as a file.",
}

type gallery struct {
	Cards     []Tile
	Totals    []Figure
	Alerts    []AlertRow
	Failures  []Failure
	Processes []Process
	Host      []Figure
	Uses      []Use
	Facts     []FactGroup
	Causes    []CauseRow
	AlertPage AlertsPage
}

func newGallery(in *Gallery) gallery {
	now := in.Now
	one, eight, none, odd := in.Machine("one"), in.Machine("eight"), in.Machine("none"), in.Machine("odd")
	g := gallery{
		Totals: newTotals(devicesOf(eight), new(Input).name),
		Alerts: append(newAlertRows(&Input{Now: now, BasePath: "/", Alerts: []Alert{
			{ID: "1", Rule: "high_gpu_usage", Severity: "warning", State: "firing", Since: now.Add(-42 * time.Second), Message: "GPU 0 (NVIDIA GeForce RTX 4090) is 97 % busy; 42 s ago it rose above 50 %. python (pid 48213, alice) keeps it busy."},
			{ID: "2", Rule: "gpu_lost", Severity: "critical", State: "firing", Since: now.Add(-time.Minute), Message: "GPU 6 (NVIDIA H100 80GB HBM3) is lost, the driver no longer finds it; this began 60 s ago."},
			{ID: "3", Rule: "hot", Severity: "warning", State: "no_data", Since: now.Add(-time.Minute), Message: "GPU 5 (NVIDIA H100 80GB HBM3) now does not report its temperature, so whether this is over can't be told; 60 s ago it rose above 85 °C."},
			{ID: "4", Rule: "new", Severity: "info", State: "firing", Since: now.Add(-time.Minute), Message: "GPU 7 (NVIDIA H100 80GB HBM3) is new."},
			{ID: "6", Rule: "hot", Severity: "warning", State: "firing", Since: now.Add(-time.Hour), Message: "GPU 1 (NVIDIA H100 80GB HBM3) is at 91 °C; 1 h ago it rose above 85 °C.", Acknowledged: &Note{By: "<b>ann</b>", Comment: "a new fan is on its way"}},
			{ID: "7", Rule: "fan_loud", Severity: "info", State: "firing", Since: now.Add(-time.Hour), Message: "GPU 1 (NVIDIA H100 80GB HBM3) has its fan at 97 %; 1 h ago that rose above 90 %.", Acknowledged: &Note{}, SilencedUntil: now.Add(3 * time.Hour)},
		}}, ""), AlertRow{Key: "5", State: "resolved", Label: say("alert resolved"), Message: "GPU 0 (NVIDIA GeForce RTX 4090) is 2 % busy, no longer above 50 %. The alert is over after 9 min."}),
		Host: newHostRows(one.Host),
	}
	for i, d := range slices.Concat(one.Devices, eight.Devices, odd.Devices) {
		d.UUID += "-" + strconv.Itoa(i)
		g.Cards = append(g.Cards, newTile(say("gpu", strconv.Itoa(d.Index)), &d, "/", now))
	}
	g.Causes = newCauses(exampleCauses(one, now), now)
	g.Uses = newUses(&one.Devices[0], &Attribution{
		Method:      "sm_share",
		Memory:      Split[gpu.Bytes]{Processes: gpu.Of(gpu.Bytes(15 << 30)), Orphans: gpu.Of(gpu.Bytes(3 << 30)), Rest: gpu.Of(gpu.Bytes(500 << 20)), Coverage: gpu.Of[gpu.Percent](97.4), Reason: "the driver keeps it for itself"},
		Power:       Split[gpu.Watts]{Idle: gpu.Of[gpu.Watts](22), Processes: gpu.Of[gpu.Watts](301), Rest: gpu.Of[gpu.Watts](89), Coverage: gpu.Of[gpu.Percent](78.4), Reason: "processes of another pid namespace are not listed"},
		Utilization: Split[gpu.Percent]{},
	})
	g.Facts = newFacts(&one.Devices[0])
	g.AlertPage = NewAlertsPage(exampleAlerts(eight, now))
	for i := range none.Failures {
		g.Failures = append(g.Failures, newFailure(&none.Failures[i], now))
	}
	g.Processes = append(newProcesses(devicesOf(one), false, nil, now), newProcesses(devicesOf(odd), false, nil, now)...)
	return g
}

// exampleAlerts is a page of alerts with everything that one can have.
func exampleAlerts(eight *gpu.Snapshot, now time.Time) AlertsInput {
	uuid := eight.Devices[1].UUID
	hot := Alert{
		ID: "p1", Rule: "hot", Severity: "critical", State: "firing", GPU: 1, UUID: uuid, Since: now.Add(-9 * time.Minute), At: now,
		Message: "GPU 1 (NVIDIA H100 80GB HBM3) is at 91 °C; 9 min ago it rose above 85 °C.",
		Why:     "python (pid 9001, carol) keeps GPU 1 (NVIDIA H100 80GB HBM3) busy at 99 %, 91 °C.", Advice: "look at its fans and at the air around it",
	}
	known, gone, over := hot, hot, hot
	known.ID, known.Severity, known.Acknowledged, known.SilencedUntil = "p2", "warning", &Note{By: "<b>ann</b>", Comment: "a new fan is on its way"}, now.Add(30*time.Hour)
	gone.ID, gone.Severity, gone.State, gone.Why, gone.UUID = "p3", "info", "no_data", "", ""
	over.ID, over.State, over.At = "p4", "resolved", now.Add(-time.Minute)
	dismissed := over
	dismissed.ID, dismissed.Message = "p5", "GPU 1 (NVIDIA H100 80GB HBM3) was above 85 °C, and nothing was reported. Dismissed by hand."
	return AlertsInput{
		Input: Input{Nodes: gpu.Nodes{eight}, Alerts: []Alert{hot, known, gone}, Now: now, BasePath: "/"},
		Past:  []Alert{over, dismissed},
		Silences: []Silence{
			{ID: "s1", Rule: "hot", GPU: uuid, Note: *known.Acknowledged, Until: now.Add(30 * time.Hour)},
			{ID: "s2", GPU: "GPU-5c*", Node: "other", Until: now.Add(time.Hour)},
		},
		Rules: []Rule{
			{Name: "hot", Watch: "temperature", Severity: "critical", Enabled: true, Threshold: gpu.Of(85.0), Unit: "°C", Margin: 5, Hold: 30 * time.Second, Clear: time.Minute, Cooldown: 5 * time.Minute, Repeat: 4 * time.Hour},
			{Name: "alice_too_much", Watch: "utilization", Severity: "info", Threshold: gpu.Of(90.0), Unit: "%", Hold: 2 * time.Hour, Clear: time.Minute, Scope: []string{"user alice"}, Targets: []string{"chat", "phone"}},
			{Name: "lost", Watch: "lost", Severity: "critical", Enabled: true, Clear: 30 * time.Second},
		},
		Targets: []Target{
			{Name: "chat", Service: "slack", Severity: "warning", LastSuccess: now.Add(-time.Minute)},
			{Name: "phone", Service: "ntfy", Queued: 3, LastError: "it answered 503", FailingSince: now.Add(-time.Hour)},
		},
	}
}

// exampleCauses are what a sentence about a machine could rest on.
func exampleCauses(s *gpu.Snapshot, now time.Time) []Cause {
	d := &s.Devices[0]
	began := now.Add(-134 * time.Minute)
	return []Cause{
		{ID: "note:0", Sentence: "Processes of other users are listed without their commands.", Certainty: "high", Advice: "Start gpuwhy with --show-commands."},
		{
			ID: "work:" + d.UUID, Node: d.Node, UUID: d.UUID, Since: began, Certainty: "high",
			Sentence: "python (pid 48213, alice) keeps the GPU busy.", Advice: "End it, or let it run with less power (nvidia-smi -pl).",
			Evidence: []Evidence{
				{"utilization", show(num(d.Utilization.GPU), percent).Text, now, false},
				{"temperature", show(num(d.Thermal.GPU), celsius).Text, now, false},
				{"power draw", show(num(d.Power.Draw), watts).Text, now, false},
				{"work began", moment(began), began, true},
			},
		},
		{
			ID: "limited_by_power:" + d.UUID, Node: d.Node, UUID: d.UUID, Certainty: "medium",
			Sentence: "GPU 0 is at its power limit, which holds its clocks down.",
			Evidence: []Evidence{{"clocks held down by", "the power limit", now, false}},
		},
		{
			ID: "not_knowable:" + d.UUID, Node: d.Node, UUID: d.UUID, Certainty: "low",
			Sentence: "What can't be told: the temperature of its memory, which this product does not report.",
		},
	}
}

func devicesOf(s *gpu.Snapshot) []*gpu.Device { return slices.Collect(gpu.Nodes{s}.Devices()) }
