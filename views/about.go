package views

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An AboutPage says what gpuwhy costs, reads and may not.
type AboutPage struct {
	in       *Input
	Costs    []AboutFact
	Reads    []AboutFact
	Failures []Failure
	Limits   []string
	Kept     []AboutFact
	Calls    []AboutFact // to drivers: the most costly
	Readings []AboutGroup
}

// An AboutFact is one fact, and what it means.
type AboutFact struct {
	Label string
	Value Value
	Means string
	At    time.Time // the moment that it is, if it is one
}

// An AboutGroup is readings that belong together, with what each means.
type AboutGroup struct {
	Title    string
	Readings []AboutFact
}

// NewAboutPage makes the view model.
func NewAboutPage(in Input) AboutPage {
	in.keep()
	p := AboutPage{in: &in, Failures: each(in.Nodes.Failures(), func(f *gpu.Failure) Failure { return newFailure(f, in.now()) })}
	self := gpu.Self{}
	for _, n := range in.Nodes {
		if n.Host != nil {
			self = n.Host.Self // all nodes are read by this program
			break
		}
	}
	p.Costs = []AboutFact{
		{Label: "Processor", Value: show(num(self.CPU), tenthPercent), Means: "Of one core, since the reading before."},
		{Label: "Memory", Value: show(mebi(self.RSS), memory), Means: "Resident memory of the machine; none of a GPU."},
	}
	if in.Nodes.Kind() != gpu.Live { // what their host says of gpuwhy is not of this program
		for i := range p.Costs {
			p.Costs[i].Value, p.Costs[i].Means = missing("not measured"), "These readings are not of this machine. /metrics says what gpuwhy takes now (process_…)."
		}
	}
	if f := in.Footprint; f != nil {
		p.Costs = append(p.Costs, AboutFact{Label: "Disk", Value: Value{Text: explain.Size(f.Bytes)}, Means: "What is kept of the past; about " + explain.Size(f.Full) + " when it is full."})
		for _, k := range f.Kinds {
			p.Kept = append(p.Kept, AboutFact{Label: k.Name, Value: Value{Text: explain.Size(k.Bytes)}, Means: keptFor(k.For)})
		}
	}
	for _, c := range in.Costs[:min(len(in.Costs), mostCalls)] {
		p.Calls = append(p.Calls, newCall(&c))
	}
	p.Reads = []AboutFact{
		{Label: "Version", Value: Value{Text: clean(in.Version, longestName)}},
		{Label: "Reads from", Value: Value{Text: either(in.Nodes.Source() != "", in.Nodes.Source(), in.Source)}, Means: sentence(contract.Found(in.Nodes))},
		{Label: "Driver", Value: Value{Text: either(newDriver(in.Nodes.Drivers()) != "", newDriver(in.Nodes.Drivers()), say("none"))}},
		{Label: "A reading every", Value: Value{Text: in.seconds() + nbsp + "s"}, Means: in.seldom()},
		{Label: "Runs since", At: in.Started},
		{Label: "Alert of high usage above", Value: Value{Text: percent(float64(in.AlertThreshold))}},
	}
	if len(in.Nodes) > 1 {
		p.Reads[2] = AboutFact{Label: "Nodes", Value: Value{Text: count("nodes", len(in.Nodes))}}
	}
	p.Limits = slices.Compact(each(in.Nodes.Notes(), func(n *gpu.Advice) string { return sentence(n.Text()) }))
	for _, g := range catalog.Groups {
		out := AboutGroup{Title: g.Title}
		for _, parts := range []bool{false, true} {
			for _, r := range g.Page(parts) {
				if r.Means != "" {
					out.Readings = append(out.Readings, AboutFact{Label: r.Label, Means: sentence(r.Means)})
				}
			}
		}
		if len(out.Readings) > 0 {
			p.Readings = append(p.Readings, out)
		}
	}
	return p
}

// mostCalls is how many calls to drivers are shown; /metrics has all.
const mostCalls = 12

// newCall says what the calls of one function took.
func newCall(c *gpu.Cost) AboutFact {
	ms := func(d time.Duration) string { return decimals(d.Seconds()*1000, 3) + nbsp + "ms" }
	return AboutFact{
		Label: clean(c.Source+" · "+c.Call, longestName),
		Value: Value{Text: ms(c.Total / time.Duration(max(c.Count, 1)))},
		Means: "On average, of " + strconv.FormatUint(c.Count, 10) + "; the longest took " + ms(c.Longest) + ".",
	}
}

func tenthPercent(v float64) string { return tenth(v) + nbsp + "%" }

// keptFor says how long something is kept.
func keptFor(d time.Duration) string {
	if d == 0 {
		return "Kept for ever."
	}
	text := strings.TrimSuffix(strings.TrimSuffix(span(d.Seconds()), " 0"+nbsp+"h"), " 0"+nbsp+"min")
	return "Kept for " + text + "."
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AboutPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("About · gpuwhy", ""), aboutBody(p)).Render(ctx, w)
}

// An EmbedPage is the card of one device, for a frame of another page.
type EmbedPage struct {
	in   *Input
	Tile Tile
}

// NewEmbedPage makes the view model of the card of a device.
func NewEmbedPage(in Input, d *gpu.Device) EmbedPage {
	in.keep()
	t := newTile(&in, d, in.now())
	if in.Next != nil && t.Answers && t.Notice == "" {
		t.Notice = soon(in.Next(d))
	}
	t.Spark = newSpark(&in, d)
	return EmbedPage{in: &in, Tile: t}
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p EmbedPage) Render(ctx context.Context, w io.Writer) error {
	h := p.in.head(p.Tile.Title+" · gpuwhy", "")
	h.Manifest = "" // a frame is not installed, and has no palette
	return document(h, embedBody(p)).Render(ctx, w)
}
