package views

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// An Input is all that a page is made of.
type Input struct {
	// Snapshot is the newest one; nil before the first reading.
	Snapshot *gpu.Snapshot
	// Why answers the page's question in one sentence.
	Why string
	// Causes are those behind it, in the order in which they are told; on a
	// GPU's own page those of that GPU.
	Causes  []Cause
	Version string
	// Node and Source are what was asked for; the snapshot knows better
	// once there is one.
	Node, Source string
	// Interval is the time between two readings.
	Interval time.Duration
	// AlertThreshold is the utilization above which alerts fire.
	AlertThreshold gpu.Percent
	// BasePath is where the page is served; it begins and ends with "/".
	BasePath string
	// Asset gives the address of a file of package static by its name.
	Asset func(name string) string
	// Attribution says whose a device's memory, work and watts are; nil where
	// it is not known.
	Attribution func(*gpu.Device) Attribution
	// Kept says whether there is a reading of that metric in the recent past, of
	// those devices; nil: of any. It is nil where no past is kept.
	Kept func(metric string, of []*gpu.Device) bool
	// Alerts are those that are firing.
	Alerts []Alert
	// Now is the server's clock.
	Now time.Time
}

// A Page is the page's view model: words and numbers, ready to be placed.
type Page struct {
	Version, Node, Source, Status string
	Title                         string // of the browser's tab
	BasePath                      string
	Interval                      string // seconds
	Now, Taken                    string // milliseconds since 1970; Taken is empty before the first reading
	AsOf                          string // when the reading was taken, in words
	Footer                        string

	Simulated bool
	Starting  bool
	Driver    string // "driver 550.54.15 · CUDA 12.4"; empty where none answers
	Why       string
	LongWhy   bool // it takes a smaller type
	Causes    []CauseRow

	Totals    []Total
	Cards     []Card
	CardCount string // how many devices have none
	Density   Density
	Charts    []Chart
	Failures  []Failure
	FailTitle string
	Alerts    []AlertRow // the worst
	// MoreAlerts is how many there are beside the first, or in all; empty for
	// none.
	MoreAlerts string
	Processes  []Process
	Count      string // how many processes are left out
	Unlisted   string
	Notes      []string // what gpuwhy can't see here, and what would change that
	Machine    string
	Host       []HostRow

	// Device is set on a device's own page; Cards and Processes are then its
	// alone, and there are no Totals and no Host.
	Device *DevicePage

	asset func(string) string
}

// A DevicePage is what a device's own page has more.
type DevicePage struct {
	UUID  string
	Title string // "GPU 0"
	Name  string
	Uses  []Use // none where nothing is attributed
	Facts []FactGroup
}

// Density is how much room each card gets.
type Density string

// The densities, by the number of devices.
const (
	Roomy   Density = "roomy"   // one or two
	Compact Density = "compact" // up to 16
	Dense   Density = "dense"
	// Wall is beyond what cards can show: a canvas has all devices, and only
	// those that stand out have cards.
	Wall Density = "wall"
)

// mostCards is up to how many devices each has a card, and fewCards how many
// have one beside the wall.
const (
	mostCards = 128
	fewCards  = 24
)

func density(devices int) Density {
	switch {
	case devices <= 2:
		return Roomy
	case devices <= 16:
		return Compact
	case devices <= mostCards:
		return Dense
	default:
		return Wall
	}
}

// standingOut are the devices that have cards: all, or of very many those that
// are lost or don't answer, then those nearest to the limit of their heat.
func standingOut(devices []gpu.Device) []*gpu.Device {
	out := make([]*gpu.Device, len(devices))
	for i := range devices {
		out[i] = &devices[i]
	}
	if len(out) <= mostCards {
		return out
	}
	away := func(d *gpu.Device) int {
		if d.State == gpu.StateLost || d.State == gpu.StateNotAnswering {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b *gpu.Device) int {
		return cmp.Or(cmp.Compare(away(b), away(a)), cmp.Compare(heat(b.Thermal), heat(a.Thermal)))
	})
	return out[:fewCards]
}

func newCardCount(devices int) string {
	if devices <= mostCards {
		return ""
	}
	return say("stand out", strconv.Itoa(fewCards), strconv.Itoa(devices))
}

// A Total is one figure over all devices.
type Total struct {
	Key, Label string
	Value      Value
	Note       string
}

// A Failure is a source that can't be read.
type Failure struct {
	Key, Source, Since, What, Try, Next string
}

// longWhy is the number of characters from which the answer takes a smaller
// type.
const longWhy = 150

// NewPage makes the view model.
func NewPage(in Input) Page {
	p := Page{
		Version:  in.Version,
		Node:     clean(in.Node, longestName),
		Source:   in.Source,
		Status:   string(in.Snapshot.Status()),
		Title:    "gpuwhy",
		BasePath: in.BasePath,
		Interval: strconv.FormatFloat(in.Interval.Seconds(), 'f', -1, 64),
		Now:      strconv.FormatInt(in.Now.UnixMilli(), 10),
		AsOf:     "no reading yet",
		Starting: in.Snapshot == nil,
		Why:      sentence(in.Why),
		Footer:   newFooter(in),
		asset:    in.Asset,
	}
	p.LongWhy = utf8.RuneCountInString(p.Why) > longWhy
	s := in.Snapshot
	if s == nil {
		s = &gpu.Snapshot{Node: in.Node, Source: in.Source, Time: in.Now}
	} else {
		p.Taken = strconv.FormatInt(s.Time.UnixMilli(), 10)
		p.AsOf = "as of " + s.Time.UTC().Format("2006-01-02 15:04:05 UTC")
		p.Node, p.Source = clean(s.Node, longestName), s.Source
	}
	if len(s.Devices) > 0 || len(s.Failures) == 0 { // else what was tried is on the page
		p.Causes = newCauses(in.Causes, s.Time)
	}
	p.Simulated = s.Simulated()
	p.Title = newTitle(s)
	if len(in.Alerts) > 0 {
		p.Title = "▲ " + p.Title
	}
	p.Driver = newDriver(s.Drivers)
	p.Totals = newTotals(s)
	p.Density = density(len(s.Devices))
	p.CardCount = newCardCount(len(s.Devices))
	lead := leadOf(in.Causes)
	shown := standingOut(s.Devices)
	for _, d := range shown {
		c := newCard(d, in.BasePath, s.Time)
		c.Answer = lead != nil && len(s.Devices) > 1 && d.Node == lead.Node && d.UUID == lead.UUID
		p.Cards = append(p.Cards, c)
	}
	p.Charts = newCharts(in, shown)
	p.FailTitle = failTitle(len(s.Devices))
	for i := range s.Failures {
		p.Failures = append(p.Failures, newFailure(&s.Failures[i], s.Time))
	}
	p.Alerts, p.MoreAlerts = newAlertRows(&in, ""), moreAlerts(len(in.Alerts))
	p.Processes = newProcesses(s, in.Attribution)
	p.Count = newCount(len(p.Processes))
	p.Processes = p.Processes[:min(len(p.Processes), mostProcesses)]
	p.Unlisted = newUnlisted(s)
	for i := range s.Notes {
		p.Notes = append(p.Notes, sentence(s.Notes[i].Text()))
	}
	p.Machine = newMachine(s.Host)
	p.Host = newHostRows(s.Host)
	return p
}

// NewDevicePage makes the view model of the page of one device, which is in the
// input's snapshot.
func NewDevicePage(in Input, d *gpu.Device) Page {
	in.Snapshot = in.Snapshot.Filtered(func(other *gpu.Device) bool { return other.Node == d.Node && other.UUID == d.UUID })
	in.Alerts = slices.DeleteFunc(slices.Clone(in.Alerts), func(a Alert) bool { return a.GPU != d.Index })
	in.Causes = causesOf(in.Causes, d)
	if kept := in.Kept; kept != nil {
		in.Kept = func(metric string, _ []*gpu.Device) bool { return kept(metric, []*gpu.Device{d}) }
	}
	in.Why = firstSentence(in.Causes)
	p := NewPage(in)
	p.Alerts = newAlertRows(&in, "gpu/"+d.UUID)
	p.Device = &DevicePage{
		UUID:  d.UUID,
		Title: say("gpu", strconv.Itoa(d.Index)),
		Name:  clean(d.Name, longestName),
		Facts: newFacts(d),
	}
	if in.Attribution != nil {
		a := in.Attribution(d)
		p.Device.Uses = newUses(d, &a)
	}
	p.Title = strings.TrimSuffix(p.Title, "gpuwhy") + p.Device.Title + " · gpuwhy"
	p.Totals, p.Host, p.Machine = nil, nil, ""
	return p
}

// body are the attributes that only some pages' bodies have.
func (p Page) body() templ.Attributes {
	if p.Device == nil {
		return nil
	}
	return templ.Attributes{"data-gpu": p.Device.UUID}
}

// formsOn is what forms say of the page that they are on.
func (p Page) formsOn() string {
	if p.Device == nil {
		return ""
	}
	return "gpu/" + p.Device.UUID
}

// Render writes the whole page as HTML. Write it into a buffer first: an
// error leaves half a page.
func (p Page) Render(ctx context.Context, w io.Writer) error {
	return document(p.head(), dashboard(p)).Render(ctx, w)
}

func (p Page) head() head {
	return head{
		Title:   p.Title,
		Style:   []string{p.asset("vendor/uplot/uPlot.min.css"), p.asset("app.css")},
		Icon:    p.asset("icon.svg"),
		Script:  p.asset("page.js"),
		Preload: []string{p.asset("shared.js"), p.asset("vendor/uplot/uPlot.esm.js")},
	}
}

// head is what a document is besides its body.
type head struct {
	Title   string
	Style   []string
	Icon    string
	Script  string // a module; none where it is empty
	Preload []string
	Again   bool // the browser asks again in a few seconds
}

// newTitle has what a narrow tab can hold: the highest utilization and
// temperature.
func newTitle(s *gpu.Snapshot) string {
	var util, heat number
	for i := range s.Devices {
		if d := &s.Devices[i]; d.State == gpu.StateOK {
			util = higher(util, num(d.Utilization.GPU))
			heat = higher(heat, num(d.Thermal.GPU))
		}
	}
	var parts []string
	if util.ok() {
		parts = append(parts, percent(util.value))
	}
	if heat.ok() {
		parts = append(parts, celsius(heat.value))
	}
	return dots(append(parts, "gpuwhy"))
}

func higher(a, b number) number {
	if !a.ok() || b.ok() && b.value > a.value {
		return b
	}
	return a
}

func newDriver(drivers []gpu.Driver) string {
	var parts []string
	for _, d := range drivers {
		if v := clean(d.Version.Or(""), longestName); v != "" {
			parts = append(parts, say("driver", v))
		}
		if v := clean(d.CUDA.Or(""), longestName); v != "" {
			parts = append(parts, say("CUDA", v))
		}
	}
	return dots(parts)
}

func newTotals(s *gpu.Snapshot) []Total {
	t := s.Totals()
	return []Total{
		memoryTotal(s, t),
		powerTotal(s, t),
		busyTotal(s, t),
		{Key: "processes", Label: "Processes", Value: Value{Text: strconv.Itoa(t.Processes)}},
		hottest(s),
	}
}

func memoryTotal(s *gpu.Snapshot, t gpu.Totals) Total {
	out := Total{Key: "memory", Label: "VRAM", Value: show(mebi(t.MemoryUsed), memory)}
	total := limits(s, func(d *gpu.Device) (number, number) { return mebi(d.Memory.Used), mebi(d.Memory.Total) })
	if total.ok() {
		out.Note = say("of", memory(total.value))
	}
	return out
}

func powerTotal(s *gpu.Snapshot, t gpu.Totals) Total {
	out := Total{Key: "power", Label: "Power", Value: show(num(t.PowerDraw), watts)}
	limit := limits(s, func(d *gpu.Device) (number, number) { return num(d.Power.Draw), num(d.Power.EnforcedLimit) })
	if limit.ok() {
		out.Note = say("of", watts(limit.value))
	}
	return out
}

// limits are the limits of all devices added up, if those are the same devices
// whose values make the total: sums of different ones can't be held against each
// other.
func limits(s *gpu.Snapshot, of func(*gpu.Device) (value, limit number)) number {
	var sum number
	for i := range s.Devices {
		d := &s.Devices[i]
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

// busyTotal says of how many devices it is not known whether they are busy:
// those that don't answer, and those whose utilization isn't told, as with MIG.
func busyTotal(s *gpu.Snapshot, t gpu.Totals) Total {
	out := Total{Key: "busy", Label: "Busy", Value: Value{Text: strconv.Itoa(t.Busy)}, Note: say("of", count("GPUs", t.Devices))}
	unknown := 0
	for i := range s.Devices {
		if d := &s.Devices[i]; d.State == gpu.StateOK && !num(d.Utilization.GPU).trusted() {
			unknown++
		}
	}
	if unknown > 0 {
		out.Note = say("not told", out.Note, strconv.Itoa(unknown))
	}
	if away := t.Devices - t.Answering; away > 0 {
		out.Note = say("not read", out.Note, strconv.Itoa(away))
	}
	return out
}

func hottest(s *gpu.Snapshot) Total {
	var heat number
	index := 0
	for i := range s.Devices {
		d := &s.Devices[i]
		if t := num(d.Thermal.GPU); d.State == gpu.StateOK && t.ok() && (!heat.ok() || t.value > heat.value) {
			heat, index = t, d.Index
		}
	}
	out := Total{Key: "hottest", Label: "Hottest", Value: show(heat, celsius)}
	if heat.ok() && len(s.Devices) > 1 {
		out.Note = say("gpu", strconv.Itoa(index))
	}
	return out
}

func failTitle(devices int) string {
	if devices == 0 {
		return say("no GPU read")
	}
	return say("not all read")
}

func newFailure(f *gpu.Failure, now time.Time) Failure {
	out := Failure{
		Key:    f.Source,
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

// newAlertRows are the alerts on the page that page names, as forms do.
func newAlertRows(in *Input, page string) []AlertRow {
	var rows []AlertRow
	sorted := sortedAlerts(in.Alerts)
	for _, a := range sorted[:min(len(sorted), mostAlerts)] {
		rows = append(rows, newAlertRow(&a, in, page))
	}
	return rows
}

// sortedAlerts puts what matters most first, and of that what has been so for
// longest.
func sortedAlerts(alerts []Alert) []Alert {
	return slices.SortedStableFunc(slices.Values(alerts), func(a, b Alert) int {
		return cmp.Or(severity(b.Severity)-severity(a.Severity), a.Since.Compare(b.Since))
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

func severity(name string) int { return slices.Index([]string{"info", "warning", "critical"}, name) }

// alertLabel is an alert in a word or two.
func alertLabel(a Alert) string {
	if a.State != "firing" {
		return say("alert " + a.State)
	}
	return cmp.Or(say("alert "+a.Rule), say("alert "+a.Severity))
}

func newFooter(in Input) string {
	return strings.Join([]string{
		"gpuwhy " + in.Version,
		"a reading every " + strconv.FormatFloat(in.Interval.Seconds(), 'f', -1, 64) + nbsp + "s",
		"alerts above " + percent(float64(in.AlertThreshold)) + " utilization",
	}, " · ")
}
