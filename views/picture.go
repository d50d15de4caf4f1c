package views

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// fewLines is the largest number of devices that get a line each. For more devices, or several nodes, the picture shows the minimum, the
// median, the maximum and the hottest.
const fewLines = 12

const (
	finest   = 3 * time.Second  // distance of the picture's points
	coarsest = 15 * time.Second // the same for smaller charts
)

// crowd reports whether there are too many devices for a line each.
func (in *Input) crowd() bool {
	return in.only == nil && (len(in.Nodes) > 1 || len(in.devices()) > fewLines)
}

// table returns the recent past of a device, or of all for nil. It is empty if none is kept.
func (in *Input) table(device *gpu.Device, step time.Duration) *recent.Table {
	if in.Recent == nil {
		return new(recent.Table)
	}
	if device == nil {
		return in.Recent("", "", step)
	}
	return in.Recent(device.Node, device.UUID, step)
}

// recentAxis returns the time axis of a table. x is whole seconds since the start of a day: new points are appended to paths, and old ones
// are dropped once a minute. With little data the axis is short, and new points are drawn from the left.
func recentAxis(t *recent.Table) picture.Axis {
	from, to := t.End.Add(-recent.Span), t.End
	if t.From.After(from) {
		from = t.From
		length := to.Sub(from)
		for _, minutes := range []int{1, 2, 3, 4, 6, 8, 10, 12, 15} {
			if to = from.Add(time.Duration(minutes) * time.Minute); length <= time.Duration(minutes)*time.Minute {
				break
			}
		}
	}
	return picture.Axis{From: from.UTC(), To: to.UTC(), Zero: from.UTC().Truncate(24 * time.Hour), Unit: time.Second}
}

// A recentTable is a table with its axis.
type recentTable struct {
	*recent.Table
	steps picture.Steps
}

func newRecentTable(t *recent.Table) recentTable {
	return recentTable{t, picture.Steps{Axis: recentAxis(t), Begin: t.From, Step: t.Step}}
}

// sharesOf returns the power shares of a device's workers.
func (in *Input) sharesOf(r *recent.Row) (out []picture.Share) {
	if r == nil {
		return nil
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		out = append(out, picture.Share{Key: w.Name + "/" + w.User, Hue: in.Hues.hueOf(w.User), Watts: w.Watts})
	}
	return out
}

// A Picture shows cause and effect over time: who worked, the power draw, and what that did.
type Picture struct {
	Key          string // the device, or "all"; empty for no picture
	Title, About string
	Empty        bool // there is nothing to draw yet
	Crowd        bool
	Field        picture.Field
	Base         string // time at x = 0, in seconds since 1970
	End          string // where the drawing ends, if not at the right edge
	MoreBands    int
	Readings     []PictureReading
	From, To     time.Time
	Place, Kind  string
	Note         string

	Ranges []PastLink
	Share  string
	Choice PictureChoice
}

// A PictureReading is the newest value of a lane.
type PictureReading struct {
	Key, Label  string
	Value, Unit string
	Limit       string
	Level       Level
	Plain       bool // the value is words, not a figure
}

// A PictureChoice is the form that selects another GPU.
type PictureChoice struct {
	Options []PictureOption // all GPUs, if they are few
	Asked   string          // the search text, if they are many
	Unknown string          // a search text that matches no GPU
	Names   []string
	Kept    [][2]string // the other choices of the page
}

// A PictureOption is one GPU to select.
type PictureOption struct {
	Value, Name string
	Chosen      bool
}

const (
	pictureHeight = 360. // in units of about a pixel
	pictureFloor  = 336. // bottom of the lanes; the clock is below
)

// ChosenGPU returns the device that the address names by UUID, index, or words of its name and its node's; nil for none.
func (in *Input) ChosenGPU() *gpu.Device {
	asked := strings.Fields(strings.ToLower(in.Get("gpu")))
	if len(asked) == 0 {
		return nil
	}
	var found *gpu.Device
	for _, d := range in.devices() {
		index := strconv.Itoa(d.Index)
		if strings.EqualFold(d.UUID, in.Get("gpu")) || len(asked) == 1 && len(in.Nodes) == 1 && asked[0] == index || strings.EqualFold(plain(in.name(d)), in.Get("gpu")) {
			return d
		}
		text := strings.ToLower(d.Node + " gpu " + d.Name + " " + d.UUID)
		matches := !slices.ContainsFunc(asked, func(word string) bool { return word != index && !strings.Contains(text, word) })
		if matches && found == nil {
			found = d
		}
	}
	return found
}

// subject returns the device that the picture is about; nil for all.
func (in *Input) subject() *gpu.Device {
	if in.only != nil {
		return in.only
	}
	if d := in.ChosenGPU(); d != nil {
		return d
	}
	if in.crowd() {
		return nil
	}
	devices := in.devices()
	if lead := leadOf(in.Causes); lead != nil {
		if i := slices.IndexFunc(devices, func(d *gpu.Device) bool { return same(d, lead) }); i >= 0 {
			return devices[i]
		}
	}
	return devices[0]
}

// newPicture makes the picture of the page; it is empty without a device.
func newPicture(in *Input) Picture {
	if len(in.devices()) == 0 {
		return Picture{Empty: true}
	}
	d := in.subject()
	p := Picture{Place: in.place(), Crowd: d == nil, Key: "all"}
	if kind := in.Nodes.Kind(); kind != gpu.Live {
		p.Kind = string(kind)
	}
	p.Choice = in.pictureChoice(d)
	step := finest
	if d == nil {
		step = coarsest
	}
	table := newRecentTable(in.table(d, step))
	p.Field = picture.Field{Axis: table.steps.Axis, ID: "picture", Height: pictureHeight, Floor: pictureFloor, Clock: "94%", Foot: "94.2%", Local: true}
	p.Empty = table.Points == 0
	p.Base = strconv.FormatInt(table.steps.Zero.Unix(), 10)
	if table.End.Before(table.steps.To) {
		p.End = strconv.Itoa(table.steps.X(table.End))
	}
	p.From, p.To = table.steps.From, table.End
	if !p.Empty {
		p.Field.Ticks = slices.DeleteFunc(p.Field.Divide(p.whoHeight(), pictureFloor), func(t picture.Tick) bool {
			x := table.steps.Share(t.Time)
			return x <= .03 || x >= .94
		})
	}
	if d == nil {
		p.ofAll(in, table)
	} else {
		p.ofOne(in, d, table)
	}
	p.flags(in, d)
	p.links(in, d)
	return p
}

// whoHeight is where the bands end and the lanes begin.
func (p *Picture) whoHeight() float64 { return float64(either2(p.Crowd, 70, 42)) }

// links fills in the links to the page of the past and to the shared picture.
func (p *Picture) links(in *Input, d *gpu.Device) {
	asked := url.Values{}
	if d != nil {
		asked.Set("gpu", d.UUID)
	}
	p.Share = in.BasePath + "picture.svg" + query(asked)
	if !in.HasPast {
		return
	}
	for _, r := range [][2]string{{"1" + nbsp + "h", "1h"}, {"6" + nbsp + "h", "6h"}, {"24" + nbsp + "h", "24h"}, {"Last night", "last night"}} {
		asked.Set("from", r[1])
		p.Ranges = append(p.Ranges, PastLink{Label: r[0], Path: in.BasePath + "past" + query(asked)})
	}
}

func query(values url.Values) string {
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// mostOptions limits the GPU names that the form suggests.
const mostOptions = 128

func (in *Input) pictureChoice(d *gpu.Device) (c PictureChoice) {
	devices := in.devices()
	if in.only != nil || len(devices) < 2 {
		return c
	}
	c.Kept = in.kept("gpu")
	chosen := in.ChosenGPU()
	if chosen == nil {
		c.Unknown = clean(in.Get("gpu"), longestName)
	}
	if !in.crowd() {
		for _, device := range devices {
			c.Options = append(c.Options, PictureOption{device.UUID, in.name(device), d != nil && same(device, d)})
		}
		return c
	}
	if chosen != nil {
		c.Asked = plain(in.name(chosen))
	}
	for _, device := range devices[:min(len(devices), mostOptions)] {
		c.Names = append(c.Names, plain(in.name(device)))
	}
	return c
}

// ofOne fills in the picture of one device.
func (p *Picture) ofOne(in *Input, d *gpu.Device, table recentTable) {
	p.Key = d.Node + "/" + d.UUID
	p.Title, p.About = in.name(d), "cause and effect"
	if len(in.devices()) == 1 {
		p.About = dots(clean(d.Name, longestName), p.About)
	}
	row := table.Row(d.Node, d.UUID)
	working := in.working(d)
	p.Readings = append(p.Readings, working)
	if row != nil {
		p.bandsOf(in, row.Workers, table, nil)
	}
	power, temperature, fan, clock := row.Values("power_watts"), row.Values("temperature_celsius"), row.Values("fan_percent"), row.Values("sm_clock_mhz")
	limit := num(d.Power.EnforcedLimit)
	l := p.powerLane(42, 148, power, limit, table)
	l.Layers = table.steps.Stack(power, in.sharesOf(row), l.Scale)
	p.Readings = append(p.Readings, readingOf("power", "Power", num(d.Power.Draw), watts, limit.say(ofText, watts), Normal))

	slows := heatLimit(d.Thermal)
	t := p.heatLane(148, 256, temperature, slows)
	t.Areas = []picture.Path{{Class: "under", D: table.steps.Area(temperature, t.Scale)}}
	t.Lines = []picture.Path{{Class: "heat", D: table.steps.Line(temperature, t.Scale), Key: d.UUID}}
	p.Readings = append(p.Readings, readingOf("temperature", "Temperature", num(d.Thermal.GPU), celsius, slows.say(slowsAt, celsius), heatLevel(d.Thermal)))
	lanes := []picture.Lane{l, t}

	if figure := fanMeter(d.Fans); fan != nil || num(d.Fans.Commanded()).ok() {
		f := picture.NewScale(262, 332, -100, 100, 1)
		lanes = append(lanes, picture.Lane{Key: "fan", Scale: f, Base: p.Field.Part(336), Quantity: picture.Quantity{Label: "Fan", Unit: "%", Scale: "1", Digits: "0"}, Lines: []picture.Path{
			{Class: "wave", D: table.steps.Bars(fan, f, 2*barSeconds(table), 0), Key: d.UUID}, {Class: "wave more", D: table.steps.Bars(fan, f, 2*barSeconds(table), barSeconds(table))},
		}})
		r := readingOf("fan", "Fan", num(d.Fans.Commanded()), percent, figure.Remark, figure.Level)
		if num(d.Fans.Commanded()).ok() && num(d.Fans.Commanded()).value == 0 {
			r.Value, r.Unit, r.Plain = "off", "", true
		}
		p.Readings = append(p.Readings, r)
	} else {
		most := num(d.Clocks.MaxSM)
		c := p.clockLane(256, 336, clock, most)
		c.Lines = []picture.Path{{Class: "line", D: table.steps.Line(clock, c.Scale), Key: d.UUID}}
		lanes = append(lanes, c)
		p.Readings = append(p.Readings, readingOf("clock", "Clock", num(d.Clocks.SM), megahertz, most.say(ofText, megahertz), Normal))
		p.Note = either(num(d.Fans.Commanded()).quality == gpu.NotSupported, "the chassis cools this GPU: it has no fan of its own", "")
	}
	p.Field.Lanes, p.Field.Says = lanes, in.saysOf(p.Title, row, slows)
}

// barSeconds returns the time between two bars of the fan's wave.
func barSeconds(table recentTable) int {
	seconds := int(table.Step / time.Second)
	if table.steps.To.Sub(table.steps.From) >= recent.Span/2 {
		seconds = max(seconds, 6)
	}
	return seconds
}

// working returns the program that draws the most power now.
func (in *Input) working(d *gpu.Device) PictureReading {
	out := PictureReading{Key: "who", Label: "Working", Plain: true}
	list, listed := d.Processes.Get()
	switch {
	case d.State != gpu.StateOK:
		out.Value = stateText(string(d.State))
		return out
	case !listed:
		out.Value = absent(d.Processes.Quality()).Text
		return out
	case len(list) == 0:
		out.Value = either(d.ProcessesPartial.Or(false), noProcessSeen.text, "nothing")
		return out
	}
	if works, known := in.works(d); known && !works {
		out.Value, out.Limit = "nothing", processCount(len(list))
		return out
	}
	most := slices.MinFunc(list, busierProcess)
	if in.Attribution != nil {
		if a := in.Attribution(d); a != nil && len(a.Shares) == len(list) {
			best := 0.0
			for i := range list {
				if w := float64(a.Shares[i].Power.Or(0)); w > best {
					best, most = w, list[i]
				}
			}
		}
	}
	out.Value = cmp.Or(clean(programOf(&most).Or(""), longestName), someProcess.text)
	if n := len(list) - 1; n > 0 {
		out.Limit = moreProcesses(n)
	}
	return out
}

func readingOf(key, label string, n number, format func(float64) string, limit string, level Level) PictureReading {
	if !n.ok() {
		return PictureReading{Key: key, Label: label, Value: absent(n.quality).Text, Plain: true, Limit: limit}
	}
	value, unit, _ := strings.Cut(format(n.value), nbsp)
	return PictureReading{Key: key, Label: label, Value: value, Unit: unit, Limit: limit, Level: level}
}

// heatLevel is Near in the last ten degrees below the limit.
func heatLevel(t gpu.Thermal) Level { return level(heat(t), -10, 0) }

// mostOf returns the highest value; 0 if there is none.
func mostOf(lists ...[]float32) float64 {
	most := 0.0
	for _, list := range lists {
		for _, v := range list {
			if v == v && float64(v) > most {
				most = float64(v)
			}
		}
	}
	return most
}

// upTo returns the upper edge of a lane: its limit, or more if values are higher or the limit is doubtful.
func upTo(limit number, values []float32) float64 {
	if most := mostOf(values); !limit.trusted() || most > limit.value {
		return max(limit.value, picture.Round(most))
	}
	return limit.value
}

func (p *Picture) powerLane(top, bottom float64, draw []float32, limit number, table recentTable) picture.Lane {
	high := upTo(limit, draw)
	s := picture.NewScale(top+20, bottom-2, 0, high, picture.Resolution(high))
	q := picture.Quantity{Label: "Power", Unit: "W", Scale: exact(s.Step()), Digits: "0"}
	if high >= wattUnits[0].limit {
		q.Unit, q.Scale, q.Digits = "kW", exact(s.Step()/1000), "1"
	}
	return picture.Lane{
		Key: "power", Scale: s, Base: p.Field.Part(bottom), Quantity: q, Lines: []picture.Path{{Class: "line", D: table.steps.Line(draw, s), Key: "draw"}},
		Limit: p.limit(s, limit, "limit "+watts(limit.value)),
	}
}

func (p *Picture) limit(s picture.Scale, n number, text string) picture.Limit {
	if !n.trusted() || n.value > s.High()*1.001 {
		return picture.Limit{}
	}
	return picture.Limit{Y: p.Field.Part(s.Y(n.value)), Text: text, NameY: p.Field.Part(s.Y(n.value) - 5), X: limitPlaces[0].x}
}

func (p *Picture) heatLane(top, bottom float64, values []float32, limit number, more ...[]float32) picture.Lane {
	low, high := 20.0, 100.0
	if limit.trusted() {
		high = limit.value + 3
	}
	if most := mostOf(append(more, values)...); most > high {
		high = picture.Round(most)
	}
	for _, v := range slices.Concat(append(more, values)...) {
		if v == v && float64(v) < low {
			low = 10 * math.Floor(float64(v)/10)
		}
	}
	s := picture.NewScale(top+18, bottom-2, low, high, .5)
	l := picture.Lane{Key: "temperature", Scale: s, Base: p.Field.Part(bottom), Quantity: picture.Quantity{Label: "Temperature", Unit: "°C", Scale: ".5", Digits: "0"}}
	if limit.trusted() {
		l.Heat = [2]string{exact(math.Round(limit.value / s.Step())), exact(math.Round((limit.value - 10) / s.Step()))}
		l.Limit = p.limit(s, limit, "slows down at "+celsius(limit.value))
	}
	return l
}

func (p *Picture) clockLane(top, bottom float64, values []float32, limit number) picture.Lane {
	high := upTo(limit, values)
	s := picture.NewScale(top+18, bottom-2, 0, high, picture.Resolution(high))
	return picture.Lane{
		Key: "clock", Scale: s, Base: p.Field.Part(bottom), Quantity: picture.Quantity{Label: "Clock", Unit: "MHz", Scale: exact(s.Step()), Digits: "0"},
		Limit: p.limit(s, limit, "max "+whole(limit.value)+nbsp+"MHz"),
	}
}

// A banded is a worker with its total draw and the number of its devices.
type banded struct {
	recent.Worker
	energy  float64
	devices int
	hue     string
	accused bool
}

const (
	mostBands     = 24
	shortestNamed = 0.05 // share of the width that has room for a name
)

// bandsOf draws a band for each of the workers that drew the most, in few rows. Among counts each one's devices; nil means one.
func (p *Picture) bandsOf(in *Input, workers []recent.Working, table recentTable, among []int) {
	if p.Empty {
		return
	}
	rows, height := 2, 18.
	if p.Crowd {
		rows, height = 3, 19.
	}
	var list []banded
	all := 0.0
	for i := range workers {
		w := &workers[i]
		b := banded{w.Worker, picture.Sum(w.Watts), 1, in.Hues.hueOf(w.User), in.accused(worker{w.Name, w.User})}
		if among != nil {
			b.devices = among[i]
		}
		all += b.energy
		if slices.ContainsFunc(w.Visits, func(v recent.Visit) bool { return v.Open || v.To.After(table.steps.From) }) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b banded) int {
		return cmp.Or(-cmp.Compare(btoi(a.accused), btoi(b.accused)), cmp.Compare(b.energy, a.energy))
	})
	free, used := picture.NewRows(rows), 0
	var rowOf []int
	for _, b := range list {
		const little = .02 // share of the total draw
		if all > 0 && b.energy < little*all && !b.accused {
			p.MoreBands++
			continue
		}
		var spans [][2]time.Time
		for _, v := range b.Visits {
			spans = append(spans, [2]time.Time{v.From, visitEnd(v, table)})
		}
		row := -1
		if len(p.Field.Bands) < mostBands {
			row = free.Take(spans...)
		}
		if row < 0 {
			p.MoreBands++
			continue
		}
		used = max(used, row+1)
		for i, v := range b.Visits {
			if end := spans[i][1]; !end.Before(table.steps.From) {
				p.Field.Bands = append(p.Field.Bands, p.band(&b, i, v, end))
				rowOf = append(rowOf, row)
			}
		}
	}
	if used == 1 {
		height = 26
	}
	for i := range p.Field.Bands {
		b := &p.Field.Bands[i]
		y := 4 + float64(rowOf[i])*(height+2)
		p.Field.Rest(b, y, height)
		if !p.Crowd || b.Accused {
			b.Below = exact(pictureFloor - y)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// visitEnd returns when a visit ended; the end of the picture if it continues.
func visitEnd(v recent.Visit, table recentTable) time.Time {
	if v.Open {
		return table.End
	}
	return v.To
}

func (p *Picture) band(b *banded, n int, v recent.Visit, end time.Time) picture.Band {
	name := cmp.Or(clean(b.Name, longestName), someProcess.text)
	owner := clean(b.User, longestName)
	if b.devices > 1 {
		owner = dots(owner, gpuCount(b.devices))
	}
	out := picture.Band{Key: b.Name + "/" + b.User + "/" + strconv.Itoa(n), Hue: b.hue, Accused: b.accused, Name: name, Owner: owner, Title: dots(name, owner)}
	p.Field.Place(&out, v.From, end, v.Open)
	if p.Field.Share(end)-p.Field.Share(latest(v.From, p.Field.From)) < shortestNamed {
		out.Name, out.Owner = "", ""
	}
	return out
}

// rowName returns the name of a row on the page.
func (in *Input) rowName(r *recent.Row) string {
	if len(in.Nodes) > 1 {
		return inShort(clean(r.Node, longestName)) + " · " + strconv.Itoa(r.Index)
	}
	return gpuName(r.Index)
}

// ofAll fills in the picture of many devices.
func (p *Picture) ofAll(in *Input, table recentTable) {
	devices := in.devices()
	p.Title, p.About = gpuCount(len(devices)), "cause and effect"
	if n := len(in.Nodes); n > 1 {
		p.About = dots(nodeCount(n), p.About)
	}
	workers, among := table.Together()
	who := in.workingInAll(devices)
	p.Readings = append(p.Readings, who)
	p.bandsOf(in, workers, table, among)
	limit := limits(devices, func(d *gpu.Device) (number, number) { return num(d.Power.Draw), num(d.Power.EnforcedLimit) })
	power := table.Spread("power_watts")
	if table.Points == 0 {
		power = new(recent.Spread)
	}
	l := p.powerLane(70, 166, power.Sum, limit, table)
	l.Layers = table.steps.Stack(power.Sum, in.byUser(workers, table.Points), l.Scale)
	p.Readings = append(p.Readings, readingOf("power", "Power", num(gpu.TotalsOf(slices.Values(devices)).PowerDraw), wattsOf(limit), limit.say(ofText, watts), Normal))

	slows, alike := number{}, true
	for _, d := range devices {
		if n := heatLimit(d.Thermal); n.trusted() {
			alike = alike && (!slows.ok() || slows.value == n.value)
			slows = n
		}
	}
	if !alike {
		slows = number{}
	}
	heat := table.Spread("temperature_celsius")
	t := p.heatLane(166, 336, heat.Most, slows, heat.Least)
	t.Areas, t.Lines, p.Field.Ends = in.crowdPaths(table, "temperature_celsius", t.Scale, "heat")
	p.Field.Ends = placeEnds(p.Field.Ends, 178, 332, pictureHeight, 13, false)
	p.Field.Lanes = []picture.Lane{l, t}
	value, hot := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	r := readingOf("temperature", "Hottest", value, celsius, "", Normal)
	if hot != nil {
		r.Limit, r.Level = in.name(hot), heatLevel(hot.Thermal)
	}
	p.Readings = append(p.Readings, r)
	p.Field.Says = p.Title + ". " + saysRange("Total power", power.Sum, watts) + saysRange("The hottest", heat.Most, celsius) + saysRange("The median", heat.Median, celsius)
}

// crowdPaths draws the band from minimum to maximum, the median, and the hottest.
func (in *Input) crowdPaths(table recentTable, metric string, scale picture.Scale, strong string) (areas, lines []picture.Path, ends []picture.End) {
	s := table.Spread(metric)
	areas = []picture.Path{{Class: "spread", D: table.steps.Between(s.Least, s.Most, scale)}}
	lines = []picture.Path{{Class: "median", D: table.steps.Line(s.Median, scale), Key: "median"}}
	if table.Points == 0 {
		return areas, lines, nil
	}
	end := func(key, name string, values []float32, first bool) {
		if i := lastOf(values); i >= 0 {
			ends = append(ends, picture.End{Key: key, Name: name, At: scale.Y(float64(values[i])), Strong: first})
		}
	}
	for i, hot := range table.Hottest() {
		values := hot.Values(metric)
		if values == nil {
			continue
		}
		key := hot.Node + "/" + hot.UUID
		lines = append(lines, picture.Path{Class: either(i == 0, strong, "hotline"), D: table.steps.Line(values, scale), Key: key})
		end(key, in.rowName(hot), values, i == 0)
	}
	slices.Reverse(lines[1:]) // the hottest is drawn last
	end("median", "median", s.Median, false)
	if metric == "temperature_celsius" {
		end("least", "coolest", s.Least, false)
	}
	return areas, lines, ends
}

func lastOf(values []float32) int {
	for i, v := range slices.Backward(values) {
		if v == v {
			return i
		}
	}
	return -1
}

// byUser sums up the workers' draw by user.
func (in *Input) byUser(workers []recent.Working, n int) (out []picture.Share) {
	index := map[string]int{}
	for i := range workers {
		w := &workers[i]
		j, ok := index[w.User]
		if !ok {
			j = len(out)
			index[w.User] = j
			out = append(out, picture.Share{Key: w.User, Hue: in.Hues.hueOf(w.User), Watts: make([]float32, n)})
		}
		picture.Add(out[j].Watts, w.Watts)
	}
	slices.SortFunc(out, func(a, b picture.Share) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func (in *Input) workingInAll(devices []*gpu.Device) PictureReading {
	programs, users := map[worker]bool{}, map[string]bool{}
	for _, d := range devices {
		list := d.Processes.Or(nil)
		for i := range list {
			w := workerOf(&list[i])
			programs[w] = true
			if w.user != "" {
				users[w.user] = true
			}
		}
	}
	r := PictureReading{Key: "who", Label: "Working", Value: explain.Plural(len(programs), "program", "programs"), Plain: true}
	if len(users) > 0 {
		r.Limit = explain.Plural(len(users), "user", "users")
	}
	if len(programs) == 0 {
		r.Value = "nothing"
	}
	return r
}

func saysRange(what string, values []float32, format func(float64) string) string {
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range values {
		if v == v {
			least, most = min(least, v), max(most, v)
		}
	}
	if least > most {
		return ""
	}
	if format(float64(least)) == format(float64(most)) {
		return what + " " + format(float64(most)) + ". "
	}
	return what + " " + whole(float64(least)) + " to " + format(float64(most)) + ". "
}

// saysOf puts the picture of a device into words.
func (in *Input) saysOf(title string, row *recent.Row, slows number) string {
	if row == nil {
		return title + ": no readings yet."
	}
	var names []string
	for _, w := range row.Workers {
		if name := clean(w.Name, longestName); name != "" && picture.Sum(w.Watts) > 0 && len(names) < 4 {
			names = append(names, name+either(w.User == "", "", " ("+clean(w.User, longestName)+")"))
		}
	}
	out := title + " over the last minutes. "
	if len(names) > 0 {
		out += "At work: " + list(names) + ". "
	}
	out += saysRange("Power", row.Values("power_watts"), watts) + saysRange("Temperature", row.Values("temperature_celsius"), celsius)
	if slows.trusted() {
		out += "It slows down at " + celsius(slows.value) + ". "
	}
	return strings.TrimSpace(out + saysRange("Fan", row.Values("fan_percent"), percent))
}

// inWords turns the name of a rule into words.
var inWords = strings.NewReplacer("_", " ", "throttled", "slowed")

// mostFlags limits the alerts with a flag: the worst, then the newest.
const mostFlags = 3

const (
	// longestFlag is the longest text of a flag, in characters. A flag takes half of a picture that has room for its text.
	longestFlag = 34
	// narrowest is the width of that picture in the style sheet, in pixels.
	narrowest = 530.
)

func (p *Picture) flags(in *Input, d *gpu.Device) {
	if p.Empty {
		return
	}
	a := p.Field.Axis
	var list []alert.Alert
	for _, alarm := range slices.Concat(in.Alerts, in.PastAlerts) {
		about := d == nil || !alarm.About() || alarm.Device.Node == d.Node && alarm.Device.UUID == d.UUID
		if about && alarm.Severity != alert.Info && alarm.Since.After(a.From) && alarm.Since.Before(a.To) {
			list = append(list, alarm)
		}
	}
	slices.SortStableFunc(list, func(x, y alert.Alert) int {
		return cmp.Or(y.Severity.Rank()-x.Severity.Rank(), y.Since.Compare(x.Since))
	})
	var flags, marks []reach // on a wide and on a narrow picture
	for i, alarm := range list[:min(len(list), mostFlags)] {
		title := clean(inWords.Replace(alarm.Rule), longestName)
		text := clean(title, longestFlag)
		if d == nil && alarm.About() {
			text = clean(in.alertOn(&alarm, longestFlag/2)+" "+title, longestFlag)
			title = in.alertOn(&alarm, longestName) + " " + title
		}
		f := picture.Flag{
			Key: alarm.ID, Level: either(alarm.Severity == alert.Critical, "bad", "warn"), Text: text, Title: title, X: a.Percent(alarm.Since), Left: a.Share(alarm.Since) > .5,
			Line: "M" + strconv.Itoa(a.X(alarm.Since)) + " " + exact(p.whoHeight()+float64(i)*20) + "V" + exact(pictureFloor),
			Y:    exact(p.whoHeight() + float64(i)*22 + 2),
		}
		width := 30 + 13*len([]rune(text))/2
		f.Width = strconv.Itoa(width)
		p.Field.Flags = append(p.Field.Flags, f)
		from := a.Share(alarm.Since)
		to := from + float64(width)/narrowest
		if f.Left {
			from, to = from-float64(width)/narrowest, from
		}
		flags = append(flags, reach{from, to})
		marks = append(marks, reach{a.Share(alarm.Since) - halfMark, a.Share(alarm.Since) + halfMark})
	}
	p.giveRoom(flags, marks)
}

// halfMark is half the width of a flag's mark on the narrowest phone, as a share of the picture.
const halfMark = .03

// A reach is a horizontal part of a picture.
type reach struct{ from, to float64 }

func (r reach) meets(o reach) bool { return r.from < o.to && o.from < r.to }

// limitPlaces are the places for the name of a limit, in order of preference, with what each covers on the narrowest picture
// with flags and on the narrowest phone.
var limitPlaces = []struct {
	x, anchor    string
	wide, narrow reach
}{
	{"6", "", reach{0, .17}, reach{0, .4}}, {"99%", "end", reach{.82, 1}, reach{.6, 1}}, {"50%", "middle", reach{.41, .59}, reach{.31, .69}},
	{"30%", "middle", reach{.21, .39}, reach{.11, .49}}, {"70%", "middle", reach{.61, .79}, reach{.51, .89}},
}

// giveRoom moves the name of a limit to a place that neither flags nor, on a phone, their marks cover. If there is none, it
// avoids the flags; if that fails too, the name stays.
func (p *Picture) giveRoom(flags, marks []reach) {
	best := -1
	for i, place := range limitPlaces {
		if slices.ContainsFunc(flags, place.wide.meets) {
			continue
		}
		if !slices.ContainsFunc(marks, place.narrow.meets) {
			best = i
			break
		}
		if best < 0 {
			best = i
		}
	}
	if best < 0 {
		return
	}
	for i := range p.Field.Lanes {
		if l := &p.Field.Lanes[i]; l.Key == "power" && l.Limit.Y != "" { // flags are there
			l.Limit.X, l.Limit.Anchor = limitPlaces[best].x, limitPlaces[best].anchor
		}
	}
}

// alertOn names the device of an alert, with at most that many characters of its node's name.
func (in *Input) alertOn(a *alert.Alert, most int) string {
	name := gpuName(a.Device.Index)
	if len(in.Nodes) > 1 {
		return clean(a.Device.Node, most) + " " + name
	}
	return name
}

// wattsOf returns a format for watts in the unit of their limit.
func wattsOf(limit number) func(float64) string {
	if limit.value >= wattUnits[0].limit {
		return func(v float64) string { return tenth(v/1000) + nbsp + "kW" }
	}
	return watts
}
