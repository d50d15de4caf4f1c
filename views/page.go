package views

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past"
)

// An Input is all that a page is made of.
type Input struct {
	// The snapshots, once there are any, have the Node and the Source that are
	// true.
	contract.Monitor
	Choices                           // of the page
	Nodes    gpu.Nodes                // the newest snapshots; none before the first reading
	Layers   contract.Layers          // the answer to the page's question; on a GPU's own page that about the GPU
	Why      string                   // the same in one sentence; a GPU's own page does not have it
	Causes   []explain.Cause          // those behind the answer, in their order; on a GPU's own page those of that GPU
	BasePath string                   // where the page is served; begins and ends with "/"
	Health   string                   // the address of the health of the program, which is not about a node
	Asset    func(name string) string // the address of a file of package static
	// Attribution says whose a device's memory, work and watts are; nil where
	// it is not known.
	Attribution func(*gpu.Device) *attribute.Attribution
	// Next is what comes next of a device; nil where no forecasts are made.
	Next func(*gpu.Device) []explain.Prospect
	// Forecasts are what that rests on, of the devices of a page that shows it; empty where no forecasts are made.
	Forecasts []contract.GPUForecast
	// Kept reports whether the recent past has a reading of that metric of those
	// devices (nil: of any). It is nil where there is no recent past.
	Kept   func(metric string, of []*gpu.Device) bool
	Alerts []alert.Alert // those that fire
	Now    time.Time     // the server's clock
	// Footprint is how much of the past is kept; nil where that is not known.
	Footprint *past.Footprint

	only *gpu.Device // that the page is about; nil: all
}

// name is what the page calls a device; of several nodes each may have its index.
func (in *Input) name(d *gpu.Device) string {
	if len(in.Nodes) > 1 {
		return clean(d.Node, longestName) + " " + say("gpu", strconv.Itoa(d.Index))
	}
	return say("gpu", strconv.Itoa(d.Index))
}

// devices are those that the page is about.
func (in *Input) devices() []*gpu.Device {
	if in.only != nil {
		return []*gpu.Device{in.only}
	}
	return slices.Collect(in.Nodes.Devices())
}

// place is the machine, or how many there are.
func (in *Input) place() string {
	switch n := len(in.Nodes); n {
	case 0:
		return clean(in.Node, longestName)
	case 1:
		return clean(in.Nodes[0].Node, longestName)
	default:
		return count("nodes", n)
	}
}

func (in *Input) seconds() string { return exact(in.Interval.Seconds()) }

// A Page is the page's view model: words and numbers, ready to be placed.
type Page struct {
	in    *Input
	Title string    // of the browser's tab
	Taken time.Time // when the reading was taken; zero before the first

	Driver string // "driver 550.54.15 · CUDA 12.4"; empty where none answers, and of several nodes
	Answer Answer
	Why    string
	Causes []CauseRow

	Totals     []Figure
	Tiles      []Tile
	TileCount  string // how many devices have no tile
	Density    Density
	Charts     []Chart
	Failures   []Failure
	Found      string // what each source found
	FailTitle  string
	Alerts     []AlertRow // the worst
	MoreAlerts string     // how many there are beside the first, or in all; empty for none
	Processes  ProcessBlock
	Process    *ProcessDialog // the process that is asked for; nil for none
	Notes      []string       // what gpuwhy can't see here, and what would change that
	Machine    string
	Host       []Figure
	Busiest    []Figure // who uses the CPU

	// Device is set on a device's own page. Such a page has the tile and the
	// processes of that device only, and no Totals and no Host.
	Device *DevicePage
}

// A DevicePage is what a device's own page has in addition.
type DevicePage struct {
	UUID  string
	Title string // "GPU 0"
	Name  string
	Uses  []Use // none where nothing is attributed
	Next  []Outlook
	Facts []FactGroup
}

// Density is how much room each tile gets.
type Density string

// The densities, by the number of devices.
const (
	Roomy   Density = "roomy"   // one or two
	Compact Density = "compact" // up to 16
	Dense   Density = "dense"
	// Wall is for more devices than tiles can show: a canvas has all devices,
	// and only those that stand out have tiles.
	Wall Density = "wall"
)

// Up to mostTiles devices have a tile each. Of more, fewTiles devices have one
// beside the wall.
const (
	mostTiles = 128
	fewTiles  = 24
)

func density(devices int) Density {
	switch {
	case devices <= 2:
		return Roomy
	case devices <= 16:
		return Compact
	case devices <= mostTiles:
		return Dense
	default:
		return Wall
	}
}

// standingOut are the devices with tiles: all, or the lost, the mute and then the hottest of many.
func standingOut(devices []*gpu.Device) []*gpu.Device {
	if len(devices) <= mostTiles {
		return devices
	}
	out := slices.Clone(devices)
	away := func(d *gpu.Device) int {
		if d.State == gpu.StateLost || d.State == gpu.StateNotAnswering {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b *gpu.Device) int {
		return cmp.Or(cmp.Compare(away(b), away(a)), cmp.Compare(heat(b.Thermal), heat(a.Thermal)))
	})
	return out[:fewTiles]
}

// A Failure is a source that can't be read.
type Failure struct {
	Source, Since, What, Try, Next string
}

// NewPage makes the view model.
func NewPage(in Input) Page {
	devices, failures := in.devices(), in.Nodes.Failures()
	p := Page{in: &in, Title: newTitle(devices), Taken: in.Nodes.Time(), Answer: newAnswer(&in.Layers), Why: sentence(in.Why)}
	now := in.Now
	if len(in.Nodes) > 0 {
		now = p.Taken
	}
	if len(in.Nodes) == 1 {
		p.Machine, p.Host = newMachine(in.Nodes[0].Host), newHostRows(in.Nodes[0].Host)
		p.Busiest = newBusiest(in.Nodes[0].Host)
		p.Driver = newDriver(in.Nodes.Drivers())
	}
	if len(devices) == 0 && len(failures) > 0 { // the page has what was tried
		in.Causes = slices.DeleteFunc(slices.Clone(in.Causes), func(c explain.Cause) bool { return c.ID == string(explain.NoDevice) })
	}
	p.Causes = newCauses(in.Causes, now)
	if len(in.Alerts) > 0 {
		p.Title = "▲ " + p.Title
	}
	p.Totals = newTotals(devices, in.name)
	p.Density = density(len(devices))
	if n := len(devices); n > mostTiles {
		p.TileCount = say("stand out", strconv.Itoa(fewTiles), strconv.Itoa(n))
	}
	lead := leadOf(in.Causes)
	shown := standingOut(devices)
	for _, d := range shown {
		t := newTile(in.name(d), d, in.BasePath, now)
		t.Answer = lead != nil && len(devices) > 1 && same(d, lead)
		if in.Next != nil && t.Answers {
			t.Notice = cmp.Or(t.Notice, soon(in.Next(d)))
		}
		p.Tiles = append(p.Tiles, t)
	}
	p.Charts = newCharts(in, shown)
	p.FailTitle = say(either(len(devices) == 0, "no GPU read", "not all read"))
	p.Failures = each(failures, func(f *gpu.Failure) Failure { return newFailure(f, now) })
	p.Alerts, p.MoreAlerts = newAlertRows(&in), moreAlerts(len(in.Alerts))
	p.Processes, p.Process = newProcessBlock(&in, devices), newProcessDialog(&in, newProcesses(&in, devices))
	p.Found = sentence(contract.Found(in.Nodes))
	p.Notes = each(in.Nodes.Notes(), func(n *gpu.Advice) string { return sentence(n.Text()) })
	return p
}

// NewDevicePage makes the view model of the page of one device, which is in the
// input's nodes.
func NewDevicePage(in Input, d *gpu.Device) Page {
	in.only = d
	in.Alerts = slices.DeleteFunc(slices.Clone(in.Alerts), func(a alert.Alert) bool {
		return a.Device.Node != d.Node || a.Device.UUID != d.UUID
	})
	in.Causes = slices.DeleteFunc(slices.Clone(in.Causes), func(c explain.Cause) bool { return c.Device == nil || !same(c.Device, d) })
	p := NewPage(in)
	p.Device = &DevicePage{
		UUID:  d.UUID,
		Title: say("gpu", strconv.Itoa(d.Index)),
		Name:  clean(d.Name, longestName),
		Facts: newFacts(d),
		Next:  newOutlooks(d, in.Forecasts),
	}
	if in.Attribution != nil {
		p.Device.Uses = newUses(d, in.Attribution(d))
	}
	p.Title = strings.TrimSuffix(p.Title, "gpuwhy") + p.Device.Title + " · gpuwhy"
	p.Totals, p.Host, p.Busiest, p.Machine = nil, nil, nil, ""
	return p
}

// Render writes the whole page as HTML. Write it into a buffer first: an error
// leaves half a page.
func (p Page) Render(ctx context.Context, w io.Writer) error {
	return document(head{
		Title: p.Title, asset: p.in.Asset, Manifest: p.in.manifest(), Styles: []string{"vendor/uplot/uPlot.min.css", "app.css"},
		Script: p.in.Asset("page.js"), Preload: []string{"shared.js", "vendor/uplot/uPlot.esm.js"},
	}, dashboard(p)).Render(ctx, w)
}

// head is what a document is besides its body.
type head struct {
	Title           string
	asset           func(string) string
	Styles, Preload []string // files of package static
	Script          string   // the address of a module; none where it is empty
	Again           bool     // the browser asks again in a few seconds
	Manifest        string   // the address of what a browser needs to install the page; empty for a document without a shell
}

// newTitle has what fits into a narrow tab: the highest utilization and temperature.
func newTitle(devices []*gpu.Device) string {
	util, _ := highest(devices, func(d *gpu.Device) number { return num(d.Utilization.GPU) })
	heat, _ := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	return dots(util.text(percent), heat.text(celsius), "gpuwhy")
}

// highest is the highest reading of the devices that answer, and whose it is.
func highest(devices []*gpu.Device, of func(*gpu.Device) number) (most number, whose *gpu.Device) {
	for _, d := range devices {
		if n := of(d); d.State == gpu.StateOK && n.over(most) {
			most, whose = n, d
		}
	}
	return most, whose
}

func newDriver(drivers []gpu.Driver) string {
	var parts []string
	for _, d := range drivers {
		if v := clean(d.Version.Or(""), longestName); v != "" {
			if len(drivers) > 1 {
				v = d.Source + " " + v
			}
			parts = append(parts, say("driver", v))
		}
		if v := clean(d.CUDA.Or(""), longestName); v != "" {
			parts = append(parts, say("CUDA", v))
		}
	}
	return dots(parts...)
}

func newTotals(devices []*gpu.Device, name func(*gpu.Device) string) []Figure {
	t := gpu.TotalsOf(slices.Values(devices))
	vram := limits(devices, func(d *gpu.Device) (number, number) { return mebi(d.Memory.Used), mebi(d.Memory.Total) })
	power := limits(devices, func(d *gpu.Device) (number, number) { return num(d.Power.Draw), num(d.Power.EnforcedLimit) })
	return []Figure{
		memoryTotal(t, vram.say("of", memory)),
		{Key: "power", Label: "Power", Value: show(num(t.PowerDraw), watts), Remark: power.say("of", watts)},
		busyTotal(devices, t),
		{Key: "processes", Label: "Processes", Value: Value{Text: strconv.Itoa(t.Processes)}},
		hottest(devices, name),
	}
}

// memoryTotal says how many devices are not in the sum, since they use the machine's memory.
func memoryTotal(t gpu.Totals, of string) Figure {
	out := Figure{Key: "memory", Label: "VRAM", Value: show(mebi(t.MemoryUsed), memory), Remark: of}
	switch {
	case t.Unified == 0:
	case t.MemoryUsed.Present():
		out.Remark = strings.TrimPrefix(of+", "+say("without unified", count("GPUs", t.Unified)), ", ")
	default:
		out.Value = missing("unified")
	}
	return out
}

// limits adds up limits, if the same devices make the total: others can't be compared.
func limits(devices []*gpu.Device, of func(*gpu.Device) (value, limit number)) number {
	var sum number
	for _, d := range devices {
		if d.State != gpu.StateOK {
			continue
		}
		value, limit := of(d)
		if value.trusted() != limit.trusted() {
			return number{}
		}
		if limit.trusted() {
			sum = newNumber(sum.value+limit.value, gpu.Good)
		}
	}
	return sum
}

// busyTotal also says how many devices may be busy or not: those that don't
// answer, and those that report no utilization, as with MIG.
func busyTotal(devices []*gpu.Device, t gpu.Totals) Figure {
	out := Figure{Key: "busy", Label: "Busy", Value: Value{Text: strconv.Itoa(t.Busy)}, Remark: say("of", count("GPUs", t.Devices))}
	unknown := 0
	for _, d := range devices {
		if d.State == gpu.StateOK && !num(d.Utilization.GPU).trusted() {
			unknown++
		}
	}
	if unknown > 0 {
		out.Remark = say("not told", out.Remark, strconv.Itoa(unknown))
	}
	if away := t.Devices - t.Answering; away > 0 {
		out.Remark = say("not read", out.Remark, strconv.Itoa(away))
	}
	return out
}

func hottest(devices []*gpu.Device, name func(*gpu.Device) string) Figure {
	heat, hot := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	out := Figure{Key: "hottest", Label: "Hottest", Value: show(heat, celsius)}
	if heat.ok() && len(devices) > 1 {
		out.Remark = name(hot)
	}
	return out
}

func newFailure(f *gpu.Failure, now time.Time) Failure {
	out := Failure{
		Source: f.Source,
		Since:  say("failing", between(f.Since, now)),
		What:   sentence(f.Advice.What),
		Try:    sentence(f.Advice.Try),
	}
	if !f.Next.IsZero() {
		out.Next = say("again", between(now, f.Next))
	}
	return out
}

// mostAlerts is how many alerts are listed at once: the worst.
const mostAlerts = 100

// formsOn is what forms call the page; empty for the dashboard.
func (in *Input) formsOn() string {
	if in.only == nil {
		return ""
	}
	return "gpu/" + in.only.UUID
}

// newAlertRows are the alerts of the page. With several nodes each names its own.
func newAlertRows(in *Input) []AlertRow {
	sorted := sortedAlerts(in.Alerts)
	return each(sorted[:min(len(sorted), mostAlerts)], func(a *alert.Alert) AlertRow {
		row := newAlertRow(a, in, in.formsOn())
		if node := clean(a.Device.Node, longestName); len(in.Nodes) > 1 && node != "" {
			row.Message = say("says", node, row.Message)
		}
		return row
	})
}

// each makes a row of each element of a list.
func each[T, Row any](list []T, row func(*T) Row) []Row {
	var rows []Row
	for i := range list {
		rows = append(rows, row(&list[i]))
	}
	return rows
}

// sortedAlerts puts what matters most first, and of that the oldest.
func sortedAlerts(alerts []alert.Alert) []alert.Alert {
	return slices.SortedStableFunc(slices.Values(alerts), func(a, b alert.Alert) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), a.Since.Compare(b.Since))
	})
}

// moreAlerts stands beside the first.
func moreAlerts(n int) string {
	switch {
	case n < 2:
		return ""
	case n > mostAlerts:
		return say("worst", strconv.Itoa(mostAlerts), strconv.Itoa(n))
	default:
		return say("more", strconv.Itoa(n-1))
	}
}

// alertLabel is an alert in a word or two.
func alertLabel(a *alert.Alert) string {
	if a.State != alert.Firing {
		return say("alert " + string(a.State))
	}
	return cmp.Or(say("alert "+a.Rule), severityName(a.Severity))
}
