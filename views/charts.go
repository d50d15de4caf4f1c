package views

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// A Chart shows one reading of all devices over the last minutes.
type Chart struct {
	Key, Label, Unit string
	Path             templ.SafeURL // link to the page of the past; empty if no history is kept
	Field            picture.Field
	Device           string // the device of Least, Mean and Most; empty for the only one, or for all
	// Least, Mean and Most cover the emphasized line over the whole time, or all devices if there are many. Middle is the label of Mean.
	Least, Mean, Most, Middle string
}

const chartHeight = 100.

// charted lists the readings that have a chart, with its title.
var charted = []struct {
	reading, label string
	high           float64 // the value at the upper edge; 0: the highest that there is
	format         func(float64) string
}{
	{"thermal.gpu", "Temperature", 0, celsius}, {"power.draw", "Power", 0, watts}, {"fans.commanded", "Fan", 100, percent}, {"clocks.sm", "Clock", 0, megahertz},
	{"utilization.gpu", "Utilization", 100, percent}, {"memory.share", "Memory", 100, percent}, {"activity.memory_bandwidth", "Bandwidth", 100, percent},
}

// newCharts makes the charts of the page's devices, or of a machine without devices. A quantity without readings has no chart.
func newCharts(in *Input) (out []Chart) {
	devices := in.devices()
	t := in.table(in.only, coarsest)
	table := newRecentTable(t)
	if t.Points == 0 {
		return nil
	}
	if len(devices) == 0 {
		return in.hostCharts(table)
	}
	subject := in.subject()
	for _, c := range charted {
		row := catalog.Reading(c.reading)
		if !slices.ContainsFunc(t.Rows, func(r recent.Row) bool { return r.Values(row.Kept) != nil }) {
			continue
		}
		limit := in.chartLimit(c.reading, devices)
		chart := in.chart(table, row.Kept, c.label, row.Unit.String(), 1, c.high, limit, c.format, subject)
		if subject != nil && len(devices) > 1 {
			chart.Device = in.name(subject)
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

// hostCharts makes the charts of a machine without a device.
func (in *Input) hostCharts(table recentTable) (out []Chart) {
	for i := range catalog.OfHost {
		c := &catalog.OfHost[i]
		if slices.ContainsFunc(table.Rows, func(r recent.Row) bool { return r.Values(c.Kept) != nil }) {
			high := 0.
			if c.Unit == "%" {
				high = 100
			}
			most := mostOf(table.Spread(c.Kept).Most)
			name, scale := c.Unit, 1.
			if name == "MB/s" { // the chart uses the unit of its highest value
				const mega = 1e6
				u := unitFor(rateUnits, most*mega)
				name, scale = u.name, mega/u.size
			}
			format := func(v float64) string { return decimals(v*scale, digitsFor(max(high, most)*scale)) + nbsp + name }
			out = append(out, in.chart(table, c.Kept, c.Label, name, scale, high, number{}, format, nil))
		}
	}
	return out
}

// chartLimit returns the limit of a reading if all devices share it.
func (in *Input) chartLimit(reading string, devices []*gpu.Device) (limit number) {
	limitOf := func(*gpu.Device) number { return number{} }
	switch reading {
	case "thermal.gpu":
		limitOf = func(d *gpu.Device) number { return heatLimit(d.Thermal) }
	case "power.draw":
		limitOf = func(d *gpu.Device) number { return num(d.Power.EnforcedLimit) }
	}
	for _, d := range devices {
		n := limitOf(d)
		if n.trusted() && limit.ok() && n.value != limit.value {
			return number{}
		}
		if n.trusted() {
			limit = n
		}
	}
	return limit
}

// chart makes the chart of a series. Scale converts the unit of the series to the unit shown.
func (in *Input) chart(table recentTable, metric, label, unit string, scale, high float64, limit number, format func(float64) string, subject *gpu.Device) Chart {
	most := mostOf(table.Spread(metric).Most)
	if high == 0 || most > high {
		high = max(limit.value, picture.Round(most))
	}
	step := picture.Resolution(high)
	if metric == "temperature_celsius" || high <= 100 {
		step = .5
	}
	if high < 10 {
		step = picture.Resolution(high)
	}
	low := 0.
	if metric == "temperature_celsius" && !slices.ContainsFunc(table.Spread(metric).Least, func(v float32) bool { return v < 20 }) {
		low = 20
	}
	l := picture.Lane{
		Key: metric, Scale: picture.NewScale(8, chartHeight-2, low, high, step), Base: "99%",
		Quantity: picture.Quantity{Label: label, Unit: unit, Scale: exact(step * scale), Digits: strconv.Itoa(digitsFor(high * scale))},
	}
	c := Chart{Key: metric, Label: label, Unit: unit, Middle: "mean"}
	c.Field = picture.Field{Axis: table.steps.Axis, ID: metric, Height: chartHeight}
	if limit.trusted() {
		l.Limit.Y = c.Field.Part(l.Scale.Y(limit.value))
	}
	var ends []picture.End
	var strong []float32
	if in.crowd() {
		l.Areas, l.Lines, ends = in.crowdPaths(table, metric, l.Scale, "hotline first")
		if subject == nil {
			all := table.Spread(metric)
			c.stats(all.Median, format)
			c.Middle = "median"
			c.Least, c.Most = format(leastOf(all.Least)), format(mostOf(all.Most))
		} else {
			key := subject.Node + "/" + subject.UUID
			strong = table.Row(subject.Node, subject.UUID).Values(metric)
			l.Lines = append(slices.DeleteFunc(l.Lines, func(p picture.Path) bool { return p.Key == key }),
				picture.Path{Class: "line strong", D: table.steps.Line(strong, l.Scale), Key: key})
		}
	} else {
		l.Lines, ends, strong = in.lines(table, metric, l.Scale, subject)
	}
	c.Field.Lanes, c.Field.Ends = []picture.Lane{l}, placeEnds(ends, 8, chartHeight-4, chartHeight, 13, !in.crowd())
	if strong != nil {
		c.stats(strong, format)
	}
	c.Field.Says = strings.TrimSpace(label + " over the last minutes. " + in.saysChart(table, metric, format))
	return c
}

// digitsFor returns the number of decimals for values up to high.
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

func (in *Input) saysChart(table recentTable, metric string, format func(float64) string) string {
	s := table.Spread(metric)
	if len(table.Rows) == 1 {
		return saysRange("It was", s.Most, format)
	}
	return saysRange("The lowest was", s.Least, format) + saysRange("The highest was", s.Most, format)
}

// lines draws a line for each row. The line of the picture's device, or of the only row, is strong; lines returns its values.
func (in *Input) lines(table recentTable, metric string, scale picture.Scale, subject *gpu.Device) (lines []picture.Path, ends []picture.End, strong []float32) {
	for i := range table.Rows {
		r := &table.Rows[i]
		values := r.Values(metric)
		first := len(table.Rows) == 1 || subject != nil && r.Node == subject.Node && r.UUID == subject.UUID
		line := picture.Path{Class: either(first, "line strong", "hotline"), D: table.steps.Line(values, scale), Key: r.Node + "/" + r.UUID}
		if line.D == "" {
			continue
		}
		if first {
			strong = values
		}
		lines = append(lines, line)
		if last := lastOf(values); last >= 0 && len(table.Rows) > 1 {
			ends = append(ends, picture.End{Key: line.Key, Name: in.rowName(r), Strong: first, At: scale.Y(float64(values[last]))})
		}
	}
	slices.SortStableFunc(lines, func(a, b picture.Path) int { return btoi(a.Class != "hotline") - btoi(b.Class != "hotline") })
	return lines, ends, strong
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

// placeEnds spaces names apart between top and bottom of a picture. With merge, names that are too close become one.
func placeEnds(ends []picture.End, top, bottom, height, apart float64, merge bool) (out []picture.End) {
	slices.SortStableFunc(ends, func(a, b picture.End) int { return cmp.Compare(a.At, b.At) })
	var together []int
	for _, e := range ends {
		if n := len(out) - 1; merge && n >= 0 && !e.Strong && !out[n].Strong && e.At-out[n].At < apart-1 {
			together[n]++
			continue
		}
		out, together = append(out, e), append(together, 1)
	}
	for i := range out {
		if together[i] > 1 {
			out[i].Name = gpuCount(together[i])
		}
		out[i].At = max(out[i].At, top)
		if i > 0 {
			out[i].At = max(out[i].At, out[i-1].At+apart)
		}
	}
	for i := len(out) - 1; i >= 0; i-- {
		out[i].At = min(out[i].At, bottom)
		if i+1 < len(out) {
			out[i].At = min(out[i].At, out[i+1].At-apart)
		}
	}
	for i := range out {
		out[i].Y = picture.Percent(out[i].At / height)
	}
	return out
}

const sparkHeight = 30.

// newSpark makes a card's small picture: power by user, below the temperature. It is empty with fewer than two points.
func newSpark(in *Input, d *gpu.Device) picture.Field {
	t := in.table(in.only, coarsest)
	row := t.Row(d.Node, d.UUID)
	if row == nil || t.Points < 2 {
		return picture.Field{Axis: picture.Axis{To: time.Unix(1, 0), From: time.Unix(0, 0), Zero: time.Unix(0, 0), Unit: time.Second}, Height: 1}
	}
	table := newRecentTable(t)
	power, temperature := row.Values("power_watts"), row.Values("temperature_celsius")
	high := num(d.Power.EnforcedLimit).value
	if most := mostOf(power); most > high {
		high = picture.Round(most)
	}
	drawn := picture.NewScale(10, sparkHeight, 0, high, high/50)
	limit := heatLimit(d.Thermal)
	top := max(limit.value, mostOf(temperature), 60)
	heat := picture.NewScale(2, sparkHeight-4, min(20, top-1), top, 1)
	return picture.Field{Axis: table.steps.Axis, Height: sparkHeight, Lanes: []picture.Lane{
		{Key: "power", Scale: drawn, Layers: table.steps.Stack(power, in.sharesOf(row), drawn)},
		{Key: "temperature", Scale: heat, Lines: []picture.Path{{Class: either(heatLevel(d.Thermal) == Normal, "line", "line hot"), D: table.steps.Line(temperature, heat)}}},
	}}
}
