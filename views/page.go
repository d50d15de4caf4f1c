package views

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
)

// An Input is everything that a page is made from.
type Input struct {
	// Once there are snapshots, their Node and Source count, not the Monitor's.
	contract.Monitor
	Sight    auth.Sight               // who looks
	Choices                           // of the page
	Fleet    *insight.Fleet           // the newest Moments; nil if only snapshots are known
	Nodes    gpu.Nodes                // the newest snapshots; empty before the first reading
	Layers   contract.Layers          // the answer to the page's question; on a GPU's own page, about that GPU
	Ways     []explain.Way            // what to do; nil uses the action of Layers
	Past     string                   // the headline in the past tense, for old readings
	Why      string                   // the answer in one sentence; not on a GPU's own page
	Causes   []explain.Cause          // causes behind the answer, in order; on a GPU's own page, of that GPU
	BasePath string                   // path where the page is served; begins and ends with "/"
	Root     string                   // path where gpuwhy is served with all nodes; empty for BasePath
	Notices  []gpu.Advice             // what every page says of who may do what here
	Health   string                   // address of gpuwhy's own health, which is not about a node
	Asset    func(name string) string // returns the address of a file of package static
	// Attribution returns who uses a device's memory, time and power; nil if
	// unknown.
	Attribution func(*gpu.Device) *attribute.Attribution
	// Next returns what comes next for a device; nil if there are no forecasts.
	Next func(*gpu.Device) []explain.Prospect
	// Hues are the colors of people's work, the same on all pages; nil chooses them by name alone.
	Hues *Hues
	// Said returns the answer about a device; nil if there are none.
	Said func(*gpu.Device) *explain.DeviceAnswer
	// Forecasts are the forecasts of the page's devices; empty if it shows none.
	Forecasts []contract.GPUForecast
	// Recent returns the recent past of a node, a device or everything; nil if there is none.
	Recent     func(node, uuid string, step time.Duration) *recent.Table
	HasPast    bool          // whether there is a page of the past
	SignIn     bool          // whether people can sign in
	Accounts   bool          // whether there are pages of accounts
	Alerts     []alert.Alert // firing alerts
	PastAlerts []alert.Alert // recently resolved alerts
	Now        time.Time     // the server's clock
	// Footprint is the size of the stored history; nil if unknown.
	Footprint *history.Footprint
	// Costs are the times of driver calls, the highest total first.
	Costs []gpu.Cost
	// Member is the process's part in a fleet; nil if it has none. Parts is the state of its parts.
	Member *contract.Member
	Parts  map[string]contract.Part

	only *gpu.Device   // the device that the page is about; nil for all
	list []*gpu.Device // all devices, once collected; nil before
	// everywhere are the open alerts of all devices, if Alerts are those of one.
	everywhere []alert.Alert
	pageOf     func(*gpu.Device) string // address of a device's page; nil for the live one
}

// mayOperate reports whether who looks may acknowledge and silence what is about a machine. Without a name it is about all of them.
func (in *Input) mayOperate(node string) bool {
	if node == "" {
		return in.Sight.MayOnAll(auth.Operate)
	}
	return in.Sight.MayOn(auth.Operate, in.Fleet.Machine(node))
}

// name returns the name of a device on the page. With several nodes it includes the node.
func (in *Input) name(d *gpu.Device) string {
	if len(in.Nodes) > 1 {
		return clean(d.Node, longestName) + " " + gpuName(d.Index)
	}
	return gpuName(d.Index)
}

// devices returns the devices that the page is about.
func (in *Input) devices() []*gpu.Device {
	if in.only != nil {
		return []*gpu.Device{in.only}
	}
	if in.list != nil {
		return in.list
	}
	return slices.Collect(in.Nodes.Devices())
}

// place returns the name of the machine, or how many there are.
func (in *Input) place() string {
	switch n := len(in.Nodes); n {
	case 0:
		return clean(in.Node, longestName)
	case 1:
		return clean(in.Nodes[0].Node, longestName)
	default:
		return fleetText(n)
	}
}

// seconds returns the reading interval in seconds; the shortest of several nodes.
func (in *Input) seconds() string {
	least, _, _ := in.Pace(in.Fleet)
	return exact(least.Seconds())
}

// every returns the reading interval in words; a range if nodes differ.
func (in *Input) every() string {
	least, _, most := in.Pace(in.Fleet)
	text := exact(most.Seconds()) + nbsp + "s"
	if least < most {
		text = exact(least.Seconds()) + " to " + text
	}
	return text
}

// seldom says how often gpuwhy reads while nobody is watching, if that differs.
func (in *Input) seldom() string {
	if in.Idle <= in.Interval {
		return ""
	}
	return "Every " + exact(in.Idle.Seconds()) + nbsp + "s while nobody is watching."
}

// A Page is the view model of the start page or of a device's own page: words and numbers, ready to lay out.
type Page struct {
	in    *Input
	Title string    // title of the browser tab
	Taken time.Time // when the reading was taken; zero before the first

	Driver string // "driver 550.54.15 · CUDA 12.4"; empty if none answers, or with several nodes
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
	Process   *ProcessDialog // the selected process; nil for none
	Notes     []string       // what gpuwhy can't see here, and how to change that
	Machine   string
	Sums      []Figure // totals of the GPUs and the machine, for one line
	Host      []Figure
	Busiest   []Figure // who uses the CPU

	Nodes   NodeList // with several nodes, those that stand out
	Users   UserTable
	Back    string     // link from a node's own page to the page of all; empty if there is none
	Silence *Silence   // if the page's only node is silent; nil otherwise
	Said    []NodeNote // problems with its updates

	// Device is set on a device's own page, which has only that device's processes and no Host.
	Device *DevicePage
}

// A DevicePage is what a device's own page has in addition.
type DevicePage struct {
	UUID  string
	Title string // "GPU 0"
	Name  string
	Uses  []Use // empty if nothing is attributed
	Next  []Outlook
	Facts []FactGroup
}

// A Failure is a source that can't be read.
type Failure struct {
	Source, Since, What, Try, Next string
}

// NewPage makes the view model of the start page.
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
	if len(devices) == 0 && len(failures) > 0 { // the page lists what was tried
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

// NewDevicePage makes the view model of a device's own page. The device must be in the
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

// Render writes the whole page as HTML. Render into a buffer: after an error, half a
// page has been written.
func (p Page) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head(p.Title, either(p.Device == nil, "Now", "")), dashboard(p)).Render(ctx, w)
}

// A head is everything in a document but its body.
type head struct {
	Lasting, Base   string // the choices that browsers remember for the page, and its base path
	Title           string
	asset           func(string) string
	Styles, Preload []string // files of package static
	Script          string   // address of a module; empty for none
	Deferred        []string // addresses of plain scripts, which also work in a page that is a file
	Again           bool     // the browser reloads it after a few seconds
	Manifest        string   // address of the web app manifest; empty for a document without a shell
}

// newTitle returns a title for narrow tabs: the highest utilization and temperature.
func newTitle(devices []*gpu.Device) string {
	util, _ := highest(devices, func(d *gpu.Device) number { return num(d.Utilization.GPU) })
	heat, _ := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	return dots(util.text(percent), heat.text(celsius), "gpuwhy")
}

// highest returns the highest reading of the devices that answer, and its device.
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

// memoryTotal sums up GPU memory, and says how many devices it excludes because they use the machine's memory.
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

// limits adds up limits, if exactly the devices in the total have one; otherwise the two can't be compared.
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

// mostFailures limits the failing sources that are listed with several nodes.
const mostFailures = 12

// failures returns the sources that can't be read, except on silent nodes. With several nodes they include the node.
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

// formsOn returns the address that forms on the page return to; empty for the start page.
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
