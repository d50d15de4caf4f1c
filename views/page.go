package views

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// An Input is all that a page is made of.
type Input struct {
	// The snapshots, once there are any, have the Node and the Source that are
	// true.
	contract.Monitor
	Choices                           // of the page
	Fleet    *insight.Fleet           // the newest Moments; nil where only snapshots are known
	Nodes    gpu.Nodes                // the newest snapshots; none before the first reading
	Layers   contract.Layers          // the answer to the page's question; on a GPU's own page that about the GPU
	Ways     []explain.Way            // what can be done; nil: what Layers say
	Past     string                   // its headline in the past, for readings that are old
	Why      string                   // the same in one sentence; a GPU's own page does not have it
	Causes   []explain.Cause          // those behind the answer, in their order; on a GPU's own page those of that GPU
	BasePath string                   // where the page is served; begins and ends with "/"
	Root     string                   // where the program is served, and with it all nodes; empty: at BasePath
	Health   string                   // the address of the health of the program, which is not about a node
	Asset    func(name string) string // the address of a file of package static
	// Attribution says whose a device's memory, work and watts are; nil where
	// it is not known.
	Attribution func(*gpu.Device) *attribute.Attribution
	// Next is what comes next of a device; nil where no forecasts are made.
	Next func(*gpu.Device) []explain.Prospect
	// Hues are the colors of people's work, the same on all pages; nil: as names say.
	Hues *Hues
	// Said is what is said of a device; nil where nothing is.
	Said func(*gpu.Device) *explain.DeviceAnswer
	// Forecasts are what that rests on, of the devices of a page that shows it; empty where no forecasts are made.
	Forecasts []contract.GPUForecast
	// Recent is the recent past of a node or a device, or of all; nil where there is none.
	Recent     func(node, uuid string, step time.Duration) *recent.Table
	HasPast    bool          // there is a page of the past
	Alerts     []alert.Alert // those that fire
	PastAlerts []alert.Alert // those that were over lately
	Now        time.Time     // the server's clock
	// Footprint is how much of the past is kept; nil where that is not known.
	Footprint *past.Footprint
	// Costs are what calls to drivers took, the most in all first.
	Costs []gpu.Cost
	// Member is what the program has to do with a fleet; nil for nothing. Parts is how it does.
	Member *contract.Member
	Parts  map[string]contract.Part

	only *gpu.Device   // that the page is about; nil: all
	list []*gpu.Device // all, once a page has asked for them; nil: not yet
	// everywhere are the open alerts of all devices, where Alerts are of one.
	everywhere []alert.Alert
	pageOf     func(*gpu.Device) string // the address of a device's page; nil: that of now
}

// name is what the page calls a device; of several nodes each may have its index.
func (in *Input) name(d *gpu.Device) string {
	if len(in.Nodes) > 1 {
		return clean(d.Node, longestName) + " " + gpuName(d.Index)
	}
	return gpuName(d.Index)
}

// devices are those that the page is about.
func (in *Input) devices() []*gpu.Device {
	if in.only != nil {
		return []*gpu.Device{in.only}
	}
	if in.list != nil {
		return in.list
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
		return nodeCount(n)
	}
}

// seconds is how many seconds are between two readings; of several nodes, of the one that is read most often.
func (in *Input) seconds() string {
	least, _, _ := in.Pace(in.Fleet)
	return exact(least.Seconds())
}

// every is the same in words; a range where nodes differ.
func (in *Input) every() string {
	least, _, most := in.Pace(in.Fleet)
	text := exact(most.Seconds()) + nbsp + "s"
	if least < most {
		text = exact(least.Seconds()) + " to " + text
	}
	return text
}

// seldom says how often there is a reading while nobody looks, if that is another thing.
func (in *Input) seldom() string {
	if in.Idle <= in.Interval {
		return ""
	}
	return "Every " + exact(in.Idle.Seconds()) + nbsp + "s while nobody is watching."
}

// A Page is the page's view model: words and numbers, ready to be placed.
type Page struct {
	in    *Input
	Title string    // of the browser's tab
	Taken time.Time // when the reading was taken; zero before the first

	Driver string // "driver 550.54.15 · CUDA 12.4"; empty where none answers, and of several nodes
	Answer Answer
	Why    string
	Causes []CauseRow

	GPUs      GPUList
	Picture   Picture
	Charts    []Chart
	Failures  []Failure
	Found     string // what each source found
	FailTitle string
	AlertLine AlertLine
	Processes ProcessBlock
	Process   *ProcessDialog // the process that is asked for; nil for none
	Notes     []string       // what gpuwhy can't see here, and what would change that
	Machine   string
	Sums      []Figure // of the machine, in one line
	Host      []Figure
	Busiest   []Figure // who uses the CPU

	Nodes   NodeList // of several, what stands out
	Users   UserTable
	Back    string     // from a node's own page to that of all; empty where there is no other
	Silence *Silence   // of the one node that the page is about; nil while its news come
	Said    []NodeNote // what is wrong with its news

	// Device is set on a device's own page. Such a page has the processes of that device only, and no Host.
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

// A Failure is a source that can't be read.
type Failure struct {
	Source, Since, What, Try, Next string
}

// NewPage makes the view model.
func NewPage(in Input) Page {
	pins := in.pins()
	if in.keep("gpu", "process", "show", "sort", "color", "by", "of", "from"); len(pins) > 0 {
		in.Asked.Set("pin", strings.Join(pins, ","))
	}
	in.list = slices.Collect(in.Nodes.Devices())
	devices, failures := in.devices(), in.failures()
	p := Page{in: &in, Title: newTitle(devices), Taken: in.Nodes.Time(), Why: sentence(in.Why)}
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
	p.Answer, p.GPUs = newAnswer(&in), newGPUList(&in, devices, now)
	p.Picture, p.Charts = newPicture(&in), newCharts(&in)
	for i := range p.GPUs.Cards {
		p.GPUs.Cards[i].Spark = newSpark(&in, p.GPUs.Cards[i].device)
	}
	p.Sums = newSums(&in, devices)
	p.FailTitle = either(len(devices) == 0, noGPURead, notAllRead)
	p.Failures = each(failures, func(f *gpu.Failure) Failure { return newFailure(f, now) })
	p.AlertLine = newAlertLine(&in, p.GPUs.Problem)
	processes := bareProcesses(&in, devices)
	p.Processes, p.Process = newProcessBlock(&in, devices, processes), newProcessDialog(&in, processes)
	if len(in.Nodes) > 1 {
		p.Nodes, p.Users = newNodeList(&in, true), newUserTable(&in, processes)
	} else if all := in.Fleet.Moments(); len(all) == 1 {
		if p.Silence, p.Said = in.silence(all[0]), nodeNotes(all[0]); p.Silence != nil {
			p.Title = dots(stateText(stateSilent), "gpuwhy")
		}
	}
	if in.Root != "" && in.Root != in.BasePath {
		p.Back = in.Root
	}
	p.Found = sentence(contract.Found(in.Nodes))
	p.Notes = each(in.Nodes.Notes(), func(n *gpu.Advice) string { return asSentence(n.Text()) })
	return p
}

// NewDevicePage makes the view model of the page of one device, which is in the
// input's nodes.
func NewDevicePage(in Input, d *gpu.Device) Page {
	in.only = d
	in.everywhere = in.open()
	in.Alerts = slices.DeleteFunc(slices.Clone(in.Alerts), func(a alert.Alert) bool {
		return a.Device.Node != d.Node || a.Device.UUID != d.UUID
	})
	in.Causes = slices.DeleteFunc(slices.Clone(in.Causes), func(c explain.Cause) bool { return c.Device == nil || !same(c.Device, d) })
	p := NewPage(in)
	p.Device = &DevicePage{
		UUID:  d.UUID,
		Title: gpuName(d.Index),
		Name:  clean(d.Name, longestName),
		Facts: newFacts(d),
		Next:  newOutlooks(d, in.Forecasts),
	}
	if in.Attribution != nil {
		p.Device.Uses = newUses(d, in.Attribution(d))
	}
	p.Title = strings.TrimSuffix(p.Title, "gpuwhy") + p.Device.Title + " · gpuwhy"
	p.Sums, p.Host, p.Busiest, p.Machine, p.Why = nil, nil, nil, "", ""
	return p
}

// Render writes the whole page as HTML. Write it into a buffer first: an error
// leaves half a page.
func (p Page) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head(p.Title, either(p.Device == nil, "Now", "")), dashboard(p)).Render(ctx, w)
}

// head is what a document is besides its body.
type head struct {
	Lasting, Base   string // the choices that browsers remember of the page, and where that is
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
func highest(devices []*gpu.Device, measure func(*gpu.Device) number) (most number, whose *gpu.Device) {
	for _, d := range devices {
		if n := measure(d); d.State == gpu.StateOK && n.over(most) {
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
			parts = append(parts, driverText(v))
		}
		if v := clean(d.CUDA.Or(""), longestName); v != "" {
			parts = append(parts, cudaText(v))
		}
	}
	return dots(parts...)
}

// memoryTotal says how many devices are not in the sum, since they use the machine's memory.
func memoryTotal(t gpu.Totals, most string) Figure {
	out := Figure{Key: "memory", Label: "GPU memory", Value: show(mebi(t.MemoryUsed), memory), Remark: most}
	switch {
	case t.Unified == 0:
	case t.MemoryUsed.Present():
		out.Remark = strings.TrimPrefix(most+", "+withoutUnified(gpuCount(t.Unified)), ", ")
	default:
		out.Value = missing(machinesMemory)
	}
	return out
}

// limits adds up limits, if the same devices make the total: others can't be compared.
func limits(devices []*gpu.Device, measure func(*gpu.Device) (value, limit number)) number {
	var sum number
	for _, d := range devices {
		if d.State != gpu.StateOK {
			continue
		}
		value, limit := measure(d)
		if value.trusted() != limit.trusted() {
			return number{}
		}
		if limit.trusted() {
			sum = newNumber(sum.value+limit.value, gpu.Good)
		}
	}
	return sum
}

// mostFailures is how many sources of several nodes are told of.
const mostFailures = 12

// failures are the sources that can't be read, of nodes whose news come. Of several nodes they are named.
func (in *Input) failures() (out []gpu.Failure) {
	for _, s := range in.Nodes {
		if in.silent(s.Node) {
			continue
		}
		for _, f := range s.Failures {
			if len(in.Nodes) > 1 {
				f.Source = clean(s.Node, longestName) + ": " + f.Source
			}
			if len(out) < mostFailures {
				out = append(out, f)
			}
		}
	}
	return out
}

func newFailure(f *gpu.Failure, now time.Time) Failure {
	out := Failure{
		Source: f.Source,
		Since:  failingFor(between(f.Since, now)),
		What:   asSentence(f.Advice.What),
		Try:    asSentence(f.Advice.Try),
	}
	if !f.Next.IsZero() {
		out.Next = tryingAgainIn(between(now, f.Next))
	}
	return out
}

// formsOn is what forms call the page; empty for the dashboard.
func (in *Input) formsOn() string {
	if in.only == nil {
		return ""
	}
	return "gpu/" + in.only.UUID
}

// each makes a row of each element of a list.
func each[T, Row any](list []T, row func(*T) Row) []Row {
	var rows []Row
	for i := range list {
		rows = append(rows, row(&list[i]))
	}
	return rows
}
