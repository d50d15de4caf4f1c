package views

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// A Chart shows one reading of all devices over the last minutes.
type Chart struct {
	Key, Label, Unit string
	Path             templ.SafeURL // leads to the page of the past; empty where none is kept
	Says             string
	View, Transform  string
	Areas, Lines     []PicturePath
	Limit            string // its height in percent; empty: none
	Ends             []PictureEnd
	Of               string // of which device Least, Mean and Most are; empty: of the only one, or of all
	// Least, Mean and Most are of what is drawn strong, over all of the time; of many devices of all. Middle is what Mean is called.
	Least, Mean, Most, Middle string
	Data                      LaneData
}

const chartHeight = 100

// charted are the readings that have a chart each, with its title.
var charted = []struct {
	reading, label string
	high           float64 // the value at the upper edge; 0: the highest that there is
	format         func(float64) string
}{
	{"thermal.gpu", "Temperature", 0, celsius}, {"power.draw", "Power", 0, watts}, {"fans.commanded", "Fan", 100, percent}, {"clocks.sm", "Clock", 0, megahertz},
	{"utilization.gpu", "Utilization", 100, percent}, {"memory.share", "Memory", 100, percent}, {"activity.memory_bandwidth", "Bandwidth", 100, percent},
}

// newCharts are those of the page's devices, or of a machine without any. What has no reading has no chart.
func newCharts(in *Input) (out []Chart) {
	devices := in.devices()
	t := in.table(in.only, coarsest)
	at := points{t, newRecentAxis(t)}
	if t.Points == 0 {
		return nil
	}
	if len(devices) == 0 {
		return in.hostCharts(at)
	}
	subject := in.subject()
	for _, c := range charted {
		of := catalog.Reading(c.reading)
		if !slices.ContainsFunc(t.Rows, func(r recent.Row) bool { return r.Values(of.Kept) != nil }) {
			continue
		}
		limit := in.chartLimit(c.reading, devices)
		chart := in.chart(at, of.Kept, c.label, of.Unit.String(), 1, c.high, limit, c.format, subject)
		if subject != nil && len(devices) > 1 {
			chart.Of = in.name(subject)
		}
		if in.HasPast {
			asked := url.Values{"from": {"15m"}}
			if subject != nil {
				asked.Set("gpu", subject.UUID)
			}
			chart.Path = templ.SafeURL(in.BasePath + "past" + query(asked))
		}
		out = append(out, chart)
	}
	return out
}

// hostCharts are those of a machine without a device.
func (in *Input) hostCharts(at points) (out []Chart) {
	for i := range catalog.OfHost {
		c := &catalog.OfHost[i]
		if slices.ContainsFunc(at.Rows, func(r recent.Row) bool { return r.Values(c.Kept) != nil }) {
			high := 0.
			if c.Unit == "%" {
				high = 100
			}
			most := mostOf(at.Spread(c.Kept).Most)
			name, scale := c.Unit, 1.
			if name == "MB/s" { // what is drawn has the unit of the highest value
				const mega = 1e6
				u := unitFor(rateUnits, most*mega)
				name, scale = u.name, mega/u.size
			}
			format := func(v float64) string { return decimals(v*scale, digitsFor(max(high, most)*scale)) + nbsp + name }
			out = append(out, in.chart(at, c.Kept, c.Label, name, scale, high, number{}, format, nil))
		}
	}
	return out
}

// chartLimit is that of a reading, where all devices have the same.
func (in *Input) chartLimit(reading string, devices []*gpu.Device) (limit number) {
	of := func(*gpu.Device) number { return number{} }
	switch reading {
	case "thermal.gpu":
		of = func(d *gpu.Device) number { return heatLimit(d.Thermal) }
	case "power.draw":
		of = func(d *gpu.Device) number { return num(d.Power.EnforcedLimit) }
	}
	for _, d := range devices {
		n := of(d)
		if n.trusted() && limit.ok() && n.value != limit.value {
			return number{}
		}
		if n.trusted() {
			limit = n
		}
	}
	return limit
}

// chart is that of a series. A unit of it is scale of the unit that is shown.
func (in *Input) chart(at points, metric, label, unit string, scale, high float64, limit number, format func(float64) string, subject *gpu.Device) Chart {
	most := mostOf(at.Spread(metric).Most)
	if high == 0 || most > high {
		high = max(limit.value, round125(most))
	}
	step := resolution(high)
	if metric == "temperature_celsius" || high <= 100 {
		step = .5
	}
	if high < 10 {
		step = resolution(high)
	}
	low := 0.
	if metric == "temperature_celsius" && !slices.ContainsFunc(at.Spread(metric).Least, func(v float32) bool { return v < 20 }) {
		low = 20
	}
	l := newLane(8, chartHeight-2, low, high, step)
	c := Chart{
		Key: metric, Label: label, Unit: unit, View: at.axis.view(chartHeight), Transform: l.transform(),
		Data: LaneData{Label: label, Unit: unit, Scale: exact(step * scale), Digits: strconv.Itoa(digitsFor(high * scale))},
	}
	if limit.trusted() {
		c.Limit = exact(l.y(limit.value)) + "%"
	}
	var strong []float32
	c.Middle = "mean"
	if in.crowd() {
		c.Areas, c.Lines, c.Ends = in.crowdPaths(at, metric, l, "hotline first")
		if subject == nil {
			all := at.Spread(metric)
			c.stats(all.Median, format)
			c.Middle = "median"
			c.Least, c.Most = format(leastOf(all.Least)), format(mostOf(all.Most))
		} else {
			strong = at.Row(subject.Node, subject.UUID).Values(metric)
			c.Lines = append(slices.DeleteFunc(c.Lines, func(p PicturePath) bool { return p.Key == subject.Node+"/"+subject.UUID }),
				PicturePath{"line strong", at.line(strong, l), subject.Node + "/" + subject.UUID})
		}
	} else {
		strong = in.lines(&c, at, metric, l, subject)
	}
	c.Ends = placeEnds(c.Ends, 8, chartHeight-4, chartHeight, 13, !in.crowd())
	if strong != nil {
		c.stats(strong, format)
	}
	c.Says = strings.TrimSpace(label + ", the last minutes. " + in.saysChart(at, metric, format))
	return c
}

// digitsFor is how many decimals values have that go up to high.
func digitsFor(high float64) int {
	switch {
	case high >= 10:
		return 0
	case high >= 1:
		return 1
	default:
		return 2
	}
}

func (in *Input) saysChart(at points, metric string, format func(float64) string) string {
	s := at.Spread(metric)
	if len(at.Rows) == 1 {
		return saysRange("It was", s.Most, format)
	}
	return saysRange("The lowest was", s.Least, format) + saysRange("The highest was", s.Most, format)
}

// lines gives each row a line, and the picture's device, or else the only row, a strong one. It returns the values of that.
func (in *Input) lines(c *Chart, at points, metric string, l lane, subject *gpu.Device) (strong []float32) {
	for i := range at.Rows {
		r := &at.Rows[i]
		values := r.Values(metric)
		first := len(at.Rows) == 1 || subject != nil && r.Node == subject.Node && r.UUID == subject.UUID
		line := PicturePath{either(first, "line strong", "hotline"), at.line(values, l), r.Node + "/" + r.UUID}
		if line.D == "" {
			continue
		}
		if first {
			strong = values
		}
		c.Lines = append(c.Lines, line)
		if last := lastOf(values); last >= 0 && len(at.Rows) > 1 {
			c.Ends = append(c.Ends, PictureEnd{Key: line.Key, Name: in.rowName(r), Strong: first, at: l.y(float64(values[last]))})
		}
	}
	slices.SortStableFunc(c.Lines, func(a, b PicturePath) int { return btoi(a.Class != "hotline") - btoi(b.Class != "hotline") })
	return strong
}

func leastOf(values []float32) float64 {
	least := math.Inf(1)
	for _, v := range values {
		if v == v {
			least = min(least, float64(v))
		}
	}
	return least
}

func (c *Chart) stats(values []float32, format func(float64) string) {
	sum, n := 0., 0
	least, most := 0., 0.
	for _, v := range values {
		if v != v {
			continue
		}
		if n == 0 {
			least, most = float64(v), float64(v)
		}
		least, most = min(least, float64(v)), max(most, float64(v))
		sum, n = sum+float64(v), n+1
	}
	if n > 0 {
		c.Least, c.Mean, c.Most = format(least), format(sum/float64(n)), format(most)
	}
}

// placeEnds puts names apart, within top and bottom of a picture of that height, or gives those that stand together one name.
func placeEnds(ends []PictureEnd, top, bottom, height, apart float64, merge bool) (out []PictureEnd) {
	slices.SortStableFunc(ends, func(a, b PictureEnd) int { return cmp.Compare(a.at, b.at) })
	var together []int
	for _, e := range ends {
		if n := len(out) - 1; merge && n >= 0 && !e.Strong && !out[n].Strong && e.at-out[n].at < apart-1 {
			together[n]++
			continue
		}
		out, together = append(out, e), append(together, 1)
	}
	for i := range out {
		if together[i] > 1 {
			out[i].Name = gpuCount(together[i])
		}
		out[i].at = max(out[i].at, top)
		if i > 0 {
			out[i].at = max(out[i].at, out[i-1].at+apart)
		}
	}
	for i := len(out) - 1; i >= 0; i-- {
		out[i].at = min(out[i].at, bottom)
		if i+1 < len(out) {
			out[i].at = min(out[i].at, out[i+1].at-apart)
		}
	}
	for i := range out {
		out[i].Y = tenth(100*out[i].at/height) + "%"
	}
	return out
}

// A Spark is a card's small picture: who draws its power, below its temperature.
type Spark struct {
	View, Transform string
	Layers          []Layer
	Heat, HeatBy    string // the line of the temperature and its transform
	Hot             bool   // it is near its limit
}

const sparkHeight = 30

// newSpark makes the small picture of a device. With less than two points there is nothing in it.
func newSpark(in *Input, d *gpu.Device) (s Spark) {
	s.View = "0 0 1 1"
	t := in.table(in.only, coarsest)
	row := t.Row(d.Node, d.UUID)
	if row == nil || t.Points < 2 {
		return s
	}
	at := points{t, newRecentAxis(t)}
	s.View = at.axis.view(sparkHeight)
	power, temperature := row.Values("power_watts"), row.Values("temperature_celsius")
	high := num(d.Power.EnforcedLimit).value
	if most := mostOf(power); most > high {
		high = round125(most)
	}
	l := newLane(10, sparkHeight, 0, high, high/50)
	s.Transform = l.transform()
	s.Layers = at.layers(power, in.sharesOf(row), l)
	limit := heatLimit(d.Thermal)
	top := max(limit.value, mostOf(temperature), 60)
	h := newLane(2, sparkHeight-4, min(20, top-1), top, 1)
	s.Heat, s.HeatBy = at.line(temperature, h), h.transform()
	s.Hot = heatLevel(d.Thermal) != Normal
	return s
}
