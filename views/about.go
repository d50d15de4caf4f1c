package views

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An AboutPage is the view model of /about: what gpuwhy costs, what it reads and what it can't see.
type AboutPage struct {
	in       *Input
	Costs    []AboutFact
	Reads    []AboutFact
	Failures []Failure
	Limits   []string
	Kept     []AboutFact
	Calls    []AboutFact // the most expensive driver calls
	Fleet    []AboutFact // its part in a fleet, and the clusters that it reads
	Readings []AboutGroup
}

// An AboutFact is one fact with its meaning.
type AboutFact struct {
	Label string
	Value Value
	Means string
	Time  time.Time // the value, if it is a moment; zero otherwise
}

// An AboutGroup is a group of readings, each with its meaning.
type AboutGroup struct {
	Title    string
	Readings []AboutFact
}

// NewAboutPage makes the view model of /about.
func NewAboutPage(in Input) AboutPage {
	in.keep()
	p := AboutPage{in: &in, Failures: each(in.Nodes.Failures(), func(f *gpu.Failure) Failure { return newFailure(f, in.now()) })}
	self := gpu.Self{}
	elsewhere := in.Nodes.Kind() != gpu.Live // their host's readings about gpuwhy are not about this process
	for _, n := range in.Nodes {
		elsewhere = elsewhere || in.remote(n.Node)
		if n.Host != nil && !in.remote(n.Node) {
			self, elsewhere = n.Host.Self, n.Kind() != gpu.Live // all nodes that this process reads say the same
			break
		}
	}
	p.Costs = []AboutFact{
		{Label: "CPU", Value: show(num(self.CPU), tenthPercent), Means: "Of one core, since the previous reading."},
		{Label: "Memory", Value: show(mebi(self.RSS), memory), Means: "Resident memory on the machine, including gpuwhy’s helper processes; no GPU memory."},
	}
	if elsewhere {
		for i := range p.Costs {
			p.Costs[i].Value, p.Costs[i].Means = missing(notMeasured), "These readings aren’t from this machine. /metrics shows what gpuwhy uses now (process_…, gpuwhy_helper_…)."
		}
	}
	if f := in.Footprint; f != nil {
		p.Costs = append(p.Costs, AboutFact{Label: "Disk", Value: Value{Text: explain.Size(f.Bytes)}, Means: "Stored history; about " + explain.Size(f.Full) + " when full."})
		for _, k := range f.Kinds {
			p.Kept = append(p.Kept, AboutFact{Label: k.Name, Value: Value{Text: explain.Size(k.Bytes)}, Means: keptFor(k.For)})
		}
	}
	p.Fleet = newFleetFacts(&in)
	for _, c := range in.Costs[:min(len(in.Costs), mostCalls)] {
		p.Calls = append(p.Calls, newCall(&c))
	}
	p.Reads = []AboutFact{
		{Label: "Version", Value: Value{Text: clean(in.Version, longestName)}},
		{Label: "Reads from", Value: Value{Text: either(in.Nodes.Source() != "", in.Nodes.Source(), in.Source)}, Means: sentence(contract.Found(in.Nodes))},
		{Label: "Driver", Value: Value{Text: either(newDriver(in.Nodes.Drivers()) != "", newDriver(in.Nodes.Drivers()), noneText)}},
		{Label: "Reading interval", Value: Value{Text: in.every()}, Means: in.seldom()},
		{Label: "Running since", Time: in.Started},
		{Label: "High usage alert above", Value: Value{Text: percent(float64(in.AlertThreshold))}},
	}
	if in.Member != nil && in.Member.Shows || len(in.Nodes) > 1 {
		p.Reads[2] = AboutFact{Label: "Machines", Value: Value{Text: nodeCount(len(in.Nodes))}}
	}
	p.Limits = slices.Compact(each(in.Nodes.Notes(), func(n *gpu.Advice) string { return asSentence(n.Text()) }))
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

// remote reports whether another process reads the node.
func (in *Input) remote(node string) bool {
	if in.Fleet == nil {
		return false
	}
	m, ok := in.Fleet.Node(node)
	return ok && m.Link.Remote
}

// mostRefused limits how many nodes with refused messages are listed; /metrics has all of them.
const mostRefused = 12

// newFleetFacts returns the state of the process within a fleet, and of the clusters that it reads.
func newFleetFacts(in *Input) (facts []AboutFact) {
	part := func(name, label, well string) {
		p, ok := in.Parts[name]
		if !ok {
			return
		}
		f := AboutFact{Label: label, Value: Value{Text: well}}
		switch {
		case p.State == "failed":
			f.Value.Text, f.Means = "not working", sentence(*p.LastError)
		case p.State != "ok":
			f.Value = Value{Text: "not known yet", Mark: Missing}
		}
		facts = append(facts, f)
	}
	number := func(label string, n int, means string) {
		facts = append(facts, AboutFact{Label: label, Value: Value{Text: strconv.Itoa(n)}, Means: means})
	}
	part("fleet", "Connection", "working")
	if m := in.Member; m != nil {
		if m.Joins != "" {
			facts = append(facts, AboutFact{Label: "Machines join at", Value: Value{Text: m.Joins}, Means: "gpuwhy fleet join-command NODE prints the command for each machine."})
		}
		if m.Shows {
			number("Remote machines", m.Nodes, "")
			number("Silent machines", m.Silent, either(m.Silent > 0, "They send nothing. The page of each says why and what to do.", ""))
			names := slices.SortedFunc(maps.Keys(m.Refused), func(a, b string) int {
				return cmp.Or(cmp.Compare(m.Refused[b], m.Refused[a]), cmp.Compare(a, b))
			})
			for _, name := range names[:min(len(names), mostRefused)] {
				facts = append(facts, AboutFact{
					Label: "Refused from " + clean(name, longestName), Value: Value{Text: strconv.FormatUint(m.Refused[name], 10)},
					Means: "Messages refused since gpuwhy started. If this continues, the machine’s page says why.",
				})
			}
		}
		if m.Publishes {
			number("Events waiting", m.Events, "Alert changes that the fleet doesn’t have yet.")
		}
	}
	if _, ok := in.Parts["delivery"]; ok && in.Member != nil {
		part("delivery", "History delivery", "working")
		number("Parts waiting", in.Member.Past, "History is delivered once there is a connection and room.")
	}
	part("recorder", "Fleet history recording", "working")
	for _, name := range slices.Sorted(maps.Keys(in.Parts)) {
		if id, is := strings.CutPrefix(name, "cluster "); is {
			part(name, "Cluster "+clean(id, longestName), "being read")
		}
	}
	return facts
}

// mostCalls limits how many driver calls are shown; /metrics has all of them.
const mostCalls = 12

// newCall returns how long the calls of one driver function took.
func newCall(c *gpu.Cost) AboutFact {
	ms := func(d time.Duration) string { return decimals(d.Seconds()*1000, 3) + nbsp + "ms" }
	return AboutFact{
		Label: clean(c.Source+" · "+c.Call, longestName),
		Value: Value{Text: ms(c.Total / time.Duration(max(c.Count, 1)))},
		Means: "Average of " + strconv.FormatUint(c.Count, 10) + "; the longest took " + ms(c.Longest) + ".",
	}
}

func tenthPercent(v float64) string { return tenth(v) + nbsp + "%" }

// keptFor says for how long something is kept; 0 means forever.
func keptFor(d time.Duration) string {
	if d == 0 {
		return "Kept forever."
	}
	text := strings.TrimSuffix(strings.TrimSuffix(span(d.Seconds()), " 0"+nbsp+"h"), " 0"+nbsp+"min")
	return "Kept for " + text + "."
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AboutPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("About · gpuwhy", ""), aboutBody(p)).Render(ctx, w)
}

// An EmbedPage is the card of one device, to be framed by another site.
type EmbedPage struct {
	in     *Input
	Tile   Tile
	reload bool
}

// Reloading returns the page as one that has no script: the browser asks for it again every few seconds.
func (p EmbedPage) Reloading() EmbedPage {
	p.reload = true
	return p
}

// NewEmbedPage makes the view model of a device's card.
func NewEmbedPage(in Input, d *gpu.Device) EmbedPage {
	in.keep()
	t := newTile(&in, d, in.now())
	t.Spark = newSpark(&in, d)
	return EmbedPage{in: &in, Tile: t}
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p EmbedPage) Render(ctx context.Context, w io.Writer) error {
	h := p.in.head(p.Tile.Title+" · gpuwhy", "")
	h.Manifest = "" // a frame can't be installed, and has no palette
	if p.reload {
		h.Script, h.Again = "", true
	}
	return document(h, embedBody(p)).Render(ctx, w)
}
