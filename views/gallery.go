package views

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
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
	h := newHead("gallery · gpuwhy", g.Asset, "", "vendor/uplot/uPlot.min.css", "app.css")
	h.Script = g.Script
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

// A gallery is pages of made-up machines, of which the gallery has the parts.
type gallery struct {
	One, Eight, Odd Page
	Device          DevicePage
	Alerts          AlertsPage
	Failures        []Failure
}

func newGallery(in *Gallery) gallery {
	on := func(name string) Input { return Input{Nodes: gpu.Nodes{in.Machine(name)}, Now: in.Now, BasePath: "/"} }
	one, eight := on("one"), on("eight")
	answer := explain.Explain(one.Nodes[0])
	one.Causes = answer.Main()
	one.Attribution = func(d *gpu.Device) *attribute.Attribution {
		return &attribute.Attribution{
			Shares: make([]attribute.Share, len(d.Processes.Or(nil))),
			Memory: attribute.Memory{
				Split: attribute.Split[gpu.Bytes]{
					Processes: gpu.Of(gpu.Bytes(15 << 30)), Remainder: gpu.Of(gpu.Bytes(500 << 20)),
					Coverage: gpu.Of[gpu.Percent](97.4), Reason: attribute.ReasonDriver,
				},
				Orphans: gpu.Of(gpu.Bytes(3 << 30)),
			},
			Power: attribute.Power{
				Split: attribute.Split[gpu.Watts]{
					Processes: gpu.Of[gpu.Watts](301), Remainder: gpu.Of[gpu.Watts](89),
					Coverage: gpu.Of[gpu.Percent](78.4), Reason: attribute.ReasonNamespace,
				},
				Idle: gpu.Of[gpu.Watts](22), Method: attribute.BySM,
			},
		}
	}
	standing, over := galleryAlerts(eight.Nodes[0], in.Now)
	eight.Alerts = append(standing, over)
	board := NewPage(eight)
	eight.Alerts = standing
	return gallery{
		One: NewPage(one), Eight: board, Odd: NewPage(on("odd")), Failures: NewPage(on("none")).Failures,
		Device: *NewDevicePage(one, &one.Nodes[0].Devices[0]).Device,
		Alerts: NewAlertsPage(AlertsInput{
			Input: eight, Past: []alert.Alert{over}, Rules: alert.Defaults(),
			AnswerOf: func(*alert.Alert) *explain.DeviceAnswer { return &answer.Devices[0] },
			Silences: []alert.Silence{
				{ID: "s1", Rule: "hot", GPU: over.Device.UUID, By: "<b>ann</b>", Comment: "a new fan is on its way", Until: in.Now.Add(30 * time.Hour)},
				{ID: "s2", GPU: "GPU-5c*", Node: "other", Until: in.Now.Add(time.Hour)},
			},
			Targets: []notify.Status{
				{Name: "chat", Service: "slack", Severity: alert.Warning, LastSuccess: in.Now.Add(-time.Minute)},
				{Name: "phone", Service: "ntfy", Queued: 3, LastError: "it answered 503", FailingSince: in.Now.Add(-time.Hour)},
			},
		}),
	}
}

// galleryAlerts are alerts of each severity and in each state, and one that is over.
func galleryAlerts(s *gpu.Snapshot, now time.Time) (standing []alert.Alert, over alert.Alert) {
	began, ann := now.Add(-time.Minute), &alert.Acknowledgment{By: "<b>ann</b>", Comment: "a new fan is on its way"}
	list := []alert.Alert{
		{Rule: "high_gpu_usage", Severity: alert.Warning, State: alert.Firing, Message: "GPU 0 (NVIDIA H100 80GB HBM3) is 97 % busy; 60 s ago it rose above 50 %."},
		{Rule: "hot", Severity: alert.Warning, State: alert.Firing, Message: "GPU 1 (NVIDIA H100 80GB HBM3) is at 91 °C; 60 s ago it rose above 85 °C.", Acknowledged: ann},
		{Rule: "fan_loud", Severity: alert.Info, State: alert.Firing, Message: "GPU 2 (NVIDIA H100 80GB HBM3) has its fan at 97 %.", Acknowledged: &alert.Acknowledgment{}, SilencedUntil: now.Add(3 * time.Hour)},
		{Rule: "new", Severity: alert.Info, State: alert.Firing, Message: "GPU 3 (NVIDIA H100 80GB HBM3) is new."},
		{Rule: "hot", Severity: alert.Warning, State: alert.NoData, Message: "GPU 5 (NVIDIA H100 80GB HBM3) now does not report its temperature, so whether this is over can't be told; 60 s ago it rose above 85 °C."},
		{Rule: "gpu_lost", Severity: alert.Critical, State: alert.Firing, Message: "GPU 6 (NVIDIA H100 80GB HBM3) is lost, the driver no longer finds it; this began 60 s ago."},
		{Rule: "high_gpu_usage", Severity: alert.Warning, State: alert.Resolved, Message: "GPU 4 (NVIDIA H100 80GB HBM3) is 2 % busy, no longer above 50 %. The alert is over after 9 min.", Acknowledged: ann},
	}
	for i, of := range []int{0, 1, 2, 3, 5, 6, 4} {
		list[i].ID, list[i].Device, list[i].Since, list[i].Time = strconv.Itoa(of), s.Devices[of].Identity, began, now
	}
	last := len(list) - 1
	return list[:last:last], list[last]
}
