package views

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// perStep is the width of a step in units of the picture: readings are drawn in its middle.
const perStep = 2

// axisOf returns the time axis of a grid, in the time zone of the span.
func axisOf(g history.Grid, zone *time.Location) picture.Axis {
	return picture.Axis{From: g.From.In(zone), To: g.Time(g.Len()).In(zone), Zero: g.From, Unit: g.Step / perStep}
}

// stepsOf returns the steps of a grid on an axis that starts with its first step.
func stepsOf(g history.Grid, a picture.Axis) picture.Steps {
	return picture.Steps{Axis: a, Begin: a.From, Step: g.Step, Middle: true, First: a.From, Last: a.To}
}

// clocksOf writes the UTC offsets of a span: a browser may not know the zone, and the zone may have no name.
func clocksOf(from, to time.Time) string {
	var out []string
	for from.Before(to) {
		_, offset := from.Zone()
		out = append(out, millis(from)+":"+strconv.Itoa(offset*1000))
		if _, from = from.ZoneBounds(); from.IsZero() {
			break
		}
	}
	return strings.Join(out, " ")
}

const (
	pastHeight = 100. // of a lane, in units
	below      = 1e4  // all of a field's height, and more
)

func newPastPicture(in *PastInput, p *PastPage) *PastPicture {
	a := axisOf(in.Grid, in.From.Location())
	steps := stepsOf(in.Grid, a)
	out := &PastPicture{
		Base: exact(float64(a.Zero.UnixMilli()) / 1000), Unit: exact(a.Unit.Seconds()), Page: exact(float64(a.Width()) / 10), Clocks: clocksOf(a.From, a.To),
		Axis: picture.Field{Axis: a, ID: "past-axis", Height: below, Pixels: "18", Foot: "13", Clock: "0"},
	}
	out.Axis.Show(in.At)
	if out.Axis.Shown != "" {
		out.Shown = strconv.Itoa(a.X(in.At))
	}
	ticks := out.Axis.Divide(0, below)
	bare := picture.Field{Axis: a, Grid: out.Axis.Grid, Shown: out.Axis.Shown}
	out.Axis.Ticks, out.Axis.Grid, out.Axis.Shown = ticks, "", ""
	first, last := in.known()
	steps.First, steps.Last = latest(first, a.From), a.To
	if last.Before(a.To) {
		steps.Last = last
	}
	tops := topsOf(in)
	for i := range in.Drawn {
		d := &in.Drawn[i]
		row := PastDevice{Key: d.UUID, Title: p.name(d), Name: clean(d.Name, longestName), Index: gpuName(d.Index)}
		if row.Title != row.Index {
			row.Node = inShort(clean(d.Node, longestName))
		}
		if len(in.Devices) > 1 && len(in.Drawn) > 1 {
			row.Path = p.path("gpu", d.UUID)
		}
		row.Who = bare
		row.bands(in, in.Sessions[d.Key()], len(in.Drawn) == 1)
		series := seriesOf(in.Series, d.Key(), in.Grid)
		for j := range pastLanes {
			if read(in, j) {
				row.Lanes = append(row.Lanes, newPastLane(in, d.Key(), j, series.Values, bare, steps, tops[j]))
				l := &row.Lanes[len(row.Lanes)-1]
				l.Field.Says = l.Label + " of " + row.Title + ": " + l.Field.Says
			}
		}
		out.Devices = append(out.Devices, row)
	}
	return out
}

// newPastLane makes the lane of a quantity, with its limit and its comparison.
func newPastLane(in *PastInput, k store.Key, lane int, columns [][]store.Value, bare picture.Field, steps picture.Steps, top float64) PastLane {
	l, values, alone := &pastLanes[lane], columns[lane], len(in.Drawn) == 1
	const room = pastHeight / 22 // above the highest value, and below the lowest
	scale := picture.NewScale(room, pastHeight-room, l.floor, top, 1)
	drawn := picture.Lane{Key: l.key, Scale: scale, Quantity: picture.Quantity{Label: l.label, Unit: l.unit, Scale: "1", Digits: "0"}}
	out := PastLane{Key: l.key, Label: l.label, Field: bare}
	out.Field.Height = pastHeight
	out.Reading, out.Field.Says = extentOf(l, values, in.Grid)
	mean := column(values, middle)
	line := func(class string, steps picture.Steps, values []float32) {
		if d := steps.Line(values, scale); d != "" || class == "line" {
			drawn.Lines = append(drawn.Lines, picture.Path{Class: class, D: d})
		}
	}
	switch l.key {
	case "power":
		if shares := powerBy(in.Sessions[k].Longest, values, in.Grid, in.Hues); shares != nil {
			drawn.Layers = steps.Stack(mean, shares, scale)
		}
		line("limit", steps, column(columns[powerLimit], middle))
		out.LimitText = limitOf(columns[powerLimit])
	case "temperature":
		if limit, known := in.slowdown(k); known {
			drawn.Limit.Y, out.LimitText = out.Field.Part(scale.Y(limit)), slowsAt(celsius(limit))
		}
	}
	if alone || l.band && len(drawn.Layers) == 0 { // with several devices there is no room for both
		if d := steps.Between(column(values, least), column(values, most), scale); d != "" {
			drawn.Areas = []picture.Path{{Class: "spread", D: d}}
		}
	}
	line("line", steps, mean)
	if b := in.Beside; b != nil {
		if s, known := b.Series[k]; known {
			line("beside", stepsOf(b.Grid, bare.Axis), column(s.Values[lane], middle))
		}
	}
	out.Field.Lanes = []picture.Lane{drawn}
	return out
}

// column returns one figure of each value; NaN if nothing was read.
func column(values []store.Value, figure func(*store.Value) float64) []float32 {
	out := make([]float32, len(values))
	for i := range values {
		if out[i] = float32(figure(&values[i])); values[i].Count == 0 {
			out[i] = float32(math.NaN())
		}
	}
	return out
}

func least(v *store.Value) float64  { return v.Least }
func middle(v *store.Value) float64 { return v.Mean }
func most(v *store.Value) float64   { return v.Most }

// known returns the span in which the devices in the picture can have data. Steps at its ends go beyond it; the causes tell
// when the first reading was.
func (in *PastInput) known() (first, last time.Time) {
	point := in.Grid.Len()
	for i := range in.Series {
		for _, values := range in.Series[i].Values {
			if first := slices.IndexFunc(values, func(v store.Value) bool { return v.Count > 0 }); first >= 0 {
				point = min(point, first)
			}
		}
	}
	first, last = in.Grid.Time(point), in.To
	if len(in.Story.Causes) == 0 {
		return first, last
	}
	began := slices.MinFunc(in.Story.Causes, func(a, b store.Cause) int { return a.From.Compare(b.From) }).From
	if began.Before(in.Grid.Time(point + 1)) {
		first = latest(first, began)
	}
	return first, last
}

// inShort cuts the middle out of a long name: names usually differ at an end.
func inShort(name string) string {
	const head, tail = 7, 6
	runes := []rune(name)
	if len(runes) <= head+1+tail {
		return name
	}
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}

// seriesOf returns the series of a device; only gaps if nothing was read.
func seriesOf(all []history.Series, k store.Key, g history.Grid) history.Series {
	if i := slices.IndexFunc(all, func(s history.Series) bool { return s.Key == k }); i >= 0 {
		return all[i]
	}
	out := history.Series{Key: k, Values: make([][]store.Value, len(PastColumns))}
	for i := range out.Values {
		out.Values[i] = make([]store.Value, g.Len())
	}
	return out
}

// read reports whether any device has a value for a lane; otherwise the lane is left out.
func read(in *PastInput, lane int) bool {
	return slices.ContainsFunc(in.Series, func(s history.Series) bool {
		return slices.ContainsFunc(s.Values[lane], func(v store.Value) bool { return v.Count > 0 })
	})
}

// topsOf returns the values at the upper edges of the lanes, the same for all devices so that they can be compared.
func topsOf(in *PastInput) []float64 {
	tops := make([]float64, len(pastLanes))
	for j := range pastLanes {
		tops[j] = max(pastLanes[j].top, 1)
		see := func(s *history.Series) {
			values := s.Values[j]
			if pastLanes[j].key == "power" {
				values = slices.Concat(values, s.Values[powerLimit])
			}
			for _, v := range values {
				if v.Count > 0 && !math.IsInf(v.Most, 0) {
					tops[j] = max(tops[j], math.Ceil(v.Most))
				}
			}
		}
		for i := range in.Series {
			see(&in.Series[i])
		}
		if in.Beside != nil {
			for _, s := range in.Beside.Series {
				see(&s)
			}
		}
	}
	return tops
}

// extentOf describes the values: short for the end of the lane, long for screen readers.
func extentOf(l *pastLane, values []store.Value, g history.Grid) (short, long string) {
	var all store.Value
	var sum float64
	missing := 0
	for i := range values {
		v := &values[i]
		if v.Count == 0 {
			missing++
			continue
		}
		if all.Count == 0 {
			all.Least, all.Most = v.Least, v.Most
		}
		all.Least, all.Most, all.Count = min(all.Least, v.Least), max(all.Most, v.Most), all.Count+v.Count
		sum += v.Mean * float64(v.Count)
	}
	if all.Count == 0 {
		return "–", "no readings."
	}
	least, most := l.format(all.Least), l.format(all.Most)
	short = whole(all.Least) + "–" + most
	if least == most {
		short = most
	}
	long = least + " to " + most + ", " + l.format(sum/float64(all.Count)) + " on average."
	if missing > 0 {
		long += " No readings for " + span(float64(missing)*g.Step.Seconds()) + " in total."
	}
	return short, long
}

// limitOf describes a limit during the span.
func limitOf(values []store.Value) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v.Count > 0 {
			least, most = min(least, v.Least), max(most, v.Most)
		}
	}
	switch {
	case least > most:
		return ""
	case whole(least) == whole(most):
		return ofText(watts(most))
	default:
		return ofText(whole(least) + "–" + watts(most))
	}
}

// slowdown returns the slowdown temperature of a device, as reported now or at the shown time.
func (in *PastInput) slowdown(k store.Key) (celsius float64, known bool) {
	all := in.Nodes
	if in.Then != nil {
		all = append(slices.Clone(all), in.Then.Snapshot)
	}
	for d := range all.Devices() {
		if d.Node == k.Node && d.UUID == k.UUID {
			if limit := heatLimit(d.Thermal); limit.trusted() {
				return limit.value, true
			}
		}
	}
	return 0, false
}

// atRest returns the draw of a device without its processes: its lowest draw, or what the sessions leave of its draw.
func atRest(values []store.Value, sessions [][people + 1]float64) float64 {
	rest, above, n := math.Inf(1), 0.0, 0.0
	for i := range values {
		if values[i].Count == 0 {
			continue
		}
		rest = min(rest, values[i].Least)
		drawn := 0.0
		for _, w := range sessions[i] {
			drawn += w
		}
		if drawn > 0 {
			above, n = above+values[i].Mean-drawn, n+1
		}
	}
	if n > 0 {
		rest = min(rest, above/n)
	}
	return max(rest, 0)
}

// powerBy divides a device's draw among the users of its processes, by the mean draw of each session. The draw at idle, or
// while nobody was there, belongs to nobody. It is empty if no session has a draw.
func powerBy(sessions []store.Session, values []store.Value, g history.Grid, hues *Hues) (out []picture.Share) {
	weights := make([][people + 1]float64, len(values))
	known := false
	for i := range sessions {
		s := &sessions[i]
		if s.Joules <= 0 || s.JoulesKnown <= 0 {
			continue
		}
		known = true
		hue := hues.hueOf(s.User)[1] - '1'
		for point := max(int(s.From.Sub(g.From)/g.Step), 0); point < len(values); point++ {
			begin := g.Time(point)
			from, to := latest(begin, s.From), begin.Add(g.Step)
			if s.To.Before(to) {
				to = s.To
			}
			if !to.After(from) {
				break
			}
			weights[point][hue] += s.Joules / s.JoulesKnown.Seconds() * to.Sub(from).Seconds() / g.Step.Seconds()
		}
	}
	if !known {
		return nil
	}
	rest := atRest(values, weights)
	out = []picture.Share{}
	for hue := range people + 1 {
		watts := make([]float32, len(values))
		drew := false
		for i, w := range weights {
			if w[hue] > 0 {
				all, draw := 0.0, values[i].Mean
				for _, weight := range w {
					all += weight
				}
				watts[i], drew = float32((draw-min(rest, draw))*w[hue]/all), true
			}
		}
		if drew {
			class := "p" + strconv.Itoa(1+hue)
			out = append(out, picture.Share{Key: class, Hue: class, Watts: watts})
		}
	}
	return out
}

const (
	pastBands = 60 // bands of a device
	bandRow   = 18 // pixels
)

// bands draws a band for each of the longest processes, in few rows.
func (d *PastDevice) bands(in *PastInput, sessions PastSessions, alone bool) {
	rows, used := 2, 1
	if alone {
		rows = 5
	}
	list := slices.Clone(sessions.Longest)
	slices.SortStableFunc(list, func(x, y store.Session) int { return cmp.Compare(y.To.Sub(y.From), x.To.Sub(x.From)) })
	f := &d.Who
	length := f.To.Sub(f.From)
	free := picture.NewRows(rows)
	var names []string
	var places []int
	for i := range list {
		s := &list[i]
		end := latest(s.To, latest(s.From, f.From).Add(length/500)) // the thinnest
		if s.To.Before(f.From) || s.From.After(f.To) || len(f.Bands) == pastBands {
			continue
		}
		row := free.Take([2]time.Time{s.From, end})
		if row < 0 {
			continue
		}
		used = max(used, row+1)
		name := clean(cmp.Or(s.Program, s.Name, "process "+strconv.Itoa(s.PID)), longestName)
		owner := clean(s.User, longestName)
		zone := f.From.Location()
		band := picture.Band{
			Key: strconv.Itoa(s.PID) + "/" + stamp(s.From), Hue: in.Hues.hueOf(s.User), Name: name, Owner: owner,
			Title: dots(name, owner, spanOf(s.From.In(zone), s.To.In(zone), in.Now), pidText(s.PID), outcomes[s.Outcome]),
		}
		f.Place(&band, s.From, end, false)
		const narrowest = 0.022 // that has room for a name
		if min(f.Share(end), 1)-max(f.Share(s.From), 0) < narrowest {
			band.Name, band.Owner = "", ""
		}
		names = append(names, name+either(owner == "", "", " ("+owner+")"))
		f.Bands, places = append(f.Bands, band), append(places, row)
	}
	f.Height, f.Pixels = float64(used*bandRow), strconv.Itoa(used*bandRow)
	for i := range f.Bands {
		f.Rest(&f.Bands[i], float64(places[i]*bandRow), bandRow-2)
	}
	if n := sessions.Count - len(d.Who.Bands); n > 0 {
		d.More = fmt.Sprintf("+%d more", n)
	}
	d.Who.Says = "No process ran on " + d.Title + "."
	if sessions.Count > 0 {
		d.Who.Says = explain.Plural(sessions.Count, "process", "processes") + " ran on " + d.Title + "."
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			d.Who.Says += " The longest: " + strings.Join(names[:min(len(names), 4)], ", ") + "."
		}
	}
}

var outcomes = map[store.Outcome]string{
	store.Open: "still running", store.Ended: "ended", store.Unseen: "end not seen", store.GPULost: "until the GPU was lost",
}
