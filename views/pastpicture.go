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
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

// perStep is how many units of a picture's width a step has: readings are drawn in its middle.
const perStep = 2

// An axis is the time of a picture, from left to right.
type axis struct{ from, to time.Time }

func (a axis) share(t time.Time) float64 { return float64(t.Sub(a.from)) / float64(a.to.Sub(a.from)) }

// percent is a place in percent of the picture's width.
func (a axis) percent(t time.Time) string { return hundredth(100*min(max(a.share(t), 0), 1)) + "%" }

func axisOf(g past.Grid) axis { return axis{g.From, g.At(g.Len())} }

// clocksOf says how far the clocks are from UTC: a browser may not know the zone, and the zone may have no name.
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

func newPastPicture(in *PastInput, p *PastPage) *PastPicture {
	a := axisOf(in.Grid)
	units := perStep * in.Grid.Len()
	out := &PastPicture{From: millis(a.from), To: millis(a.to), Step: exact(float64(in.Grid.Step.Milliseconds())), ViewWidth: strconv.Itoa(units)}
	out.Clocks = clocksOf(a.from.In(in.From.Location()), a.to)
	var path strings.Builder
	for _, t := range ticksOf(a.from.In(in.From.Location()), a.to.In(in.From.Location())) {
		out.Ticks = append(out.Ticks, PastTick{X: a.percent(t.at), Label: t.label, Minor: len(out.Ticks)%2 == 1})
		fmt.Fprintf(&path, "M%s 0v9999", tenth(a.share(t.at)*float64(units)))
	}
	out.TickPath = path.String()
	if x := a.share(in.At); !in.At.IsZero() && x >= 0 && x <= 1 {
		out.At = fmt.Sprintf("M%s 0v9999", tenth(x*float64(units)))
	}
	first, last := in.known()
	out.KnownX = tenth(max(a.share(first), 0) * float64(units))
	out.KnownWidth = tenth(max(min(a.share(last), 1)-max(a.share(first), 0), 0) * float64(units))
	tops := topsOf(in)
	for i := range in.Drawn {
		d := &in.Drawn[i]
		row := PastDevice{Key: d.UUID, Title: p.name(d), Name: clean(d.Name, longestName), Rows: 1, Index: gpuName(d.Index)}
		if row.Title != row.Index {
			row.Node = inShort(clean(d.Node, longestName))
		}
		if len(in.Devices) > 1 && len(in.Drawn) > 1 {
			row.Path = p.path("gpu", d.UUID)
		}
		row.bands(in, in.Sessions[d.Key()], a, len(in.Drawn) == 1, in.Now)
		series := seriesOf(in.Series, d.Key(), in.Grid)
		for j := range pastLanes {
			if !read(in, j) {
				continue
			}
			lane := newPastLane(&pastLanes[j], tops[j], series.Values[j], in.Grid, len(in.Drawn) == 1)
			if pastLanes[j].key == "power" {
				lane.limit(series.Values[powerLimit], tops[j], in.Grid)
				if lane.By = powerBy(in.Sessions[d.Key()].Longest, series.Values[j], in.Grid, tops[j], in.Hues); len(lane.By) > 0 && len(in.Drawn) > 1 {
					lane.Band = "" // there is no room for both
				}
			}
			if limit, known := in.slowdown(d.Key()); known && pastLanes[j].key == "temperature" {
				lane.Limit = fmt.Sprintf("M0 %dh%d", int(math.Round(tops[j]-limit)), units)
				lane.LimitText = slowsAt(celsius(limit))
			}
			lane.Says = pastLanes[j].label + " of " + row.Title + ": " + lane.Says
			if b := in.Beside; b != nil {
				if s, known := b.Series[d.Key()]; known {
					lane.Beside = lineOf(s.Values[j], tops[j], b.Grid.Step, in.Grid, middle)
				}
			}
			row.Lanes = append(row.Lanes, lane)
		}
		out.Devices = append(out.Devices, row)
	}
	return out
}

// known is the span of which something can be known of the devices in the picture. Steps at its ends go beyond it: when the
// first reading was, the causes know.
func (in *PastInput) known() (first, last time.Time) {
	point := in.Grid.Len()
	for i := range in.Series {
		for _, values := range in.Series[i].Values {
			if at := slices.IndexFunc(values, func(v store.Value) bool { return v.Count > 0 }); at >= 0 {
				point = min(point, at)
			}
		}
	}
	first, last = in.Grid.At(point), in.To
	if len(in.Story.Causes) == 0 {
		return first, last
	}
	began := slices.MinFunc(in.Story.Causes, func(a, b store.Cause) int { return a.From.Compare(b.From) }).From
	if began.Before(in.Grid.At(point + 1)) {
		first = latest(first, began)
	}
	return first, last
}

// inShort leaves out the middle of a long name: what differs between two is mostly at an end.
func inShort(name string) string {
	const head, tail = 7, 6
	runes := []rune(name)
	if len(runes) <= head+1+tail {
		return name
	}
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}

// seriesOf is that of a device; one of gaps where nothing was read.
func seriesOf(all []past.Series, k store.Key, g past.Grid) past.Series {
	if i := slices.IndexFunc(all, func(s past.Series) bool { return s.Key == k }); i >= 0 {
		return all[i]
	}
	out := past.Series{Key: k, Values: make([][]store.Value, len(PastColumns))}
	for i := range out.Values {
		out.Values[i] = make([]store.Value, g.Len())
	}
	return out
}

// read reports whether some device has a value of a lane: what no device has takes no room.
func read(in *PastInput, lane int) bool {
	return slices.ContainsFunc(in.Series, func(s past.Series) bool {
		return slices.ContainsFunc(s.Values[lane], func(v store.Value) bool { return v.Count > 0 })
	})
}

// topsOf are the values at the upper edges of the lanes: the same for all devices, so that they can be compared.
func topsOf(in *PastInput) []float64 {
	tops := make([]float64, len(pastLanes))
	for j := range pastLanes {
		tops[j] = max(pastLanes[j].top, 1)
		see := func(s *past.Series) {
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

func middle(v *store.Value) float64 { return v.Mean }

func newPastLane(l *pastLane, top float64, values []store.Value, g past.Grid, alone bool) PastLane {
	height := top - l.floor
	room := math.Ceil(height / 20)
	out := PastLane{Key: l.key, Label: l.label, Unit: l.unit, Above: exact(-room), Height: exact(height + 2*room), Top: exact(top)}
	out.Line = lineOf(values, top, g.Step, g, middle)
	if l.band || alone {
		out.Band = bandOf(values, top)
	}
	out.Reading, out.Says = extentOf(l, values, g)
	return out
}

// extentOf says what the values are: for the end of the lane, and for those who can't see it.
func extentOf(l *pastLane, values []store.Value, g past.Grid) (short, long string) {
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
		return "–", "nothing was read."
	}
	least, most := l.format(all.Least), l.format(all.Most)
	short = whole(all.Least) + "–" + most
	if least == most {
		short = most
	}
	long = least + " to " + most + ", " + l.format(sum/float64(all.Count)) + " on average."
	if missing > 0 {
		long += " For " + span(float64(missing)*g.Step.Seconds()) + " in all nothing was read."
	}
	return short, long
}

// A run is readings without a gap between them, from a first point up to and without an end.
type run struct{ first, end int }

func runsOf(values []store.Value) (out []run) {
	for i := range values {
		switch {
		case values[i].Count == 0:
		case len(out) > 0 && out[len(out)-1].end == i:
			out[len(out)-1].end++
		default:
			out = append(out, run{i, i + 1})
		}
	}
	return out
}

// lineOf draws one value of each reading as a path: each run from where its first step begins to where its last one ends, with
// nothing between two runs. A unit of height is one of the quantity's; the step may be another than that of the picture.
func lineOf(values []store.Value, top float64, step time.Duration, on past.Grid, of func(*store.Value) float64) string {
	x := func(i, half int) int {
		return int((2*int64(i) + int64(half)) * int64(step) * perStep / 2 / int64(on.Step))
	}
	end := perStep * on.Len()
	var out pathText
	for _, r := range runsOf(values) {
		if x(r.first, 0) >= end {
			break
		}
		y := func(i int) int { return int(math.Round(top - of(&values[i]))) }
		out.move(x(r.first, 0), y(r.first))
		last := r.first
		for i := r.first; i < r.end && x(i, 1) < end; i++ {
			out.line(x(i, 1), y(i))
			last = i
		}
		out.line(min(x(last, 2), end), y(last))
		out.flush()
	}
	return out.String()
}

// bandOf draws the room between the least and the most of each reading.
func bandOf(values []store.Value, top float64) string {
	y := func(v float64) int { return int(math.Round(top - v)) }
	return areaOf(runsOf(values), func(i int) (low, high int) { return y(values[i].Least), y(values[i].Most) })
}

// areaOf draws the room between two edges; where they are the same all along a run, there is none.
func areaOf(runs []run, edges func(point int) (low, high int)) string {
	var out pathText
	low := func(i int) int { y, _ := edges(i); return y }
	high := func(i int) int { _, y := edges(i); return y }
	for _, r := range runs {
		flat := true
		for i := r.first; i < r.end; i++ {
			flat = flat && low(i) == high(i)
		}
		if flat {
			continue
		}
		out.move(perStep*r.first, high(r.first))
		for i := r.first; i < r.end; i++ {
			out.line(perStep*i+1, high(i))
		}
		out.line(perStep*r.end, high(r.end-1))
		out.line(perStep*r.end, low(r.end-1))
		for i := r.end - 1; i >= r.first; i-- {
			out.line(perStep*i+1, low(i))
		}
		out.line(perStep*r.first, low(r.first))
		out.flush()
		out.WriteByte('z')
	}
	return out.String()
}

// limit draws the power limit over time, and says what it was.
func (l *PastLane) limit(values []store.Value, top float64, g past.Grid) {
	l.Limit = lineOf(values, top, g.Step, g, middle)
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v.Count > 0 {
			least, most = min(least, v.Least), max(most, v.Most)
		}
	}
	switch {
	case l.Limit == "":
	case whole(least) == whole(most):
		l.LimitText = ofText(watts(most))
	default:
		l.LimitText = ofText(whole(least) + "–" + watts(most))
	}
}

// slowdown is where a device slows itself down, as it says now or said at the time that is shown.
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

// atRest is what a device draws without its processes: the least that it drew, or what all its draw is above that of the sessions.
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

// powerBy divides what a device drew among the users of its processes, by the mean draw of each of their sessions. What is drawn
// also at rest, or while nobody was there, is nobody's: hue "rest". It is empty where no session has a draw.
func powerBy(sessions []store.Session, values []store.Value, g past.Grid, top float64, hues *Hues) (out []PastShare) {
	const nobody = people + 1
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
			begin := g.At(point)
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
	edges := make([][nobody + 2]float64, len(values)) // from the bottom: nobody, and then the hues
	for i := range values {
		draw, all := values[i].Mean, 0.0
		for _, w := range weights[i] {
			all += w
		}
		at := min(rest, draw)
		if all == 0 {
			at = draw
		}
		edges[i][1] = at
		for hue, w := range weights[i] {
			if all > 0 {
				at += (draw - min(rest, draw)) * w / all
			}
			edges[i][hue+2] = at
		}
	}
	y := func(v float64) int { return int(math.Round(top - v)) }
	for layer := range nobody + 1 {
		hue := "rest"
		if layer > 0 {
			hue = "p" + strconv.Itoa(layer)
		}
		var runs []run
		for _, r := range runsOf(values) { // of a hue only where it has something
			for i := r.first; i < r.end; i++ {
				switch {
				case y(edges[i][layer]) == y(edges[i][layer+1]):
				case len(runs) > 0 && runs[len(runs)-1].end == i && runs[len(runs)-1].first >= r.first:
					runs[len(runs)-1].end++
				default:
					runs = append(runs, run{i, i + 1})
				}
			}
		}
		path := areaOf(runs, func(i int) (low, high int) { return y(edges[i][layer]), y(edges[i][layer+1]) })
		if path != "" {
			out = append(out, PastShare{hue, path})
		}
	}
	return out
}

// A pathText is the text of a path: each part is one absolute place and then short steps from it. Steps along a straight level
// become one.
type pathText struct {
	strings.Builder
	x, y   int // where the text has come to
	ahead  int // how far the path is level from there, not written yet
	inLine bool
}

func (t *pathText) move(x, y int) {
	t.flush()
	t.inLine = false
	t.WriteByte('M')
	t.number(x, true)
	t.number(y, false)
	t.x, t.y = x, y
}

func (t *pathText) line(x, y int) {
	if y == t.y {
		t.ahead = x - t.x
		return
	}
	t.flush()
	t.step(x-t.x, y-t.y)
}

// flush writes what is level.
func (t *pathText) flush() {
	if t.ahead != 0 {
		t.step(t.ahead, 0)
	}
}

func (t *pathText) step(dx, dy int) {
	first := !t.inLine
	if first {
		t.WriteByte('l')
		t.inLine = true
	}
	t.number(dx, first)
	t.number(dy, false)
	t.x, t.y, t.ahead = t.x+dx, t.y+dy, 0
}

func (t *pathText) number(v int, first bool) {
	if !first && v >= 0 {
		t.WriteByte(' ')
	}
	t.WriteString(strconv.Itoa(v))
}

const (
	pastBands = 60 // of a device
	bandRow   = 18 // pixels
)

// bands gives the longest processes a band each, in few rows.
func (d *PastDevice) bands(in *PastInput, of PastSessions, a axis, alone bool, now time.Time) {
	most := 2
	if alone {
		most = 5
	}
	list := slices.Clone(of.Longest)
	slices.SortStableFunc(list, func(x, y store.Session) int { return cmp.Compare(y.To.Sub(y.From), x.To.Sub(x.From)) })
	const thinnest = 0.002 // of the width
	type taken struct{ from, to float64 }
	rows := make([][]taken, most)
	var names []string
	for i := range list {
		s := &list[i]
		from, to := max(a.share(s.From), 0), min(a.share(s.To), 1)
		if to < 0 || from > 1 || len(d.Bands) == pastBands {
			continue
		}
		to = max(to, from+thinnest)
		row := slices.IndexFunc(rows, func(r []taken) bool {
			return !slices.ContainsFunc(r, func(t taken) bool { return from < t.to && t.from < to })
		})
		if row < 0 {
			continue
		}
		rows[row] = append(rows[row], taken{from, to})
		d.Rows = max(d.Rows, row+1)
		name := clean(cmp.Or(s.Program, s.Name, "process "+strconv.Itoa(s.PID)), longestName)
		owner := clean(s.User, longestName)
		band := PastBand{
			X: hundredth(100*from) + "%", Width: hundredth(100*(to-from)) + "%", Y: strconv.Itoa(row * bandRow), Hue: in.Hues.hueOf(s.User),
			Name: name, Owner: owner,
		}
		zone := a.from.Location()
		const narrowest = 0.022 // that has room for a name
		if to-from < narrowest {
			band.Name, band.Owner = "", ""
		}
		band.Title = dots(name, owner, spanOf(s.From.In(zone), s.To.In(zone), now), pidText(s.PID), outcomes[s.Outcome])
		names = append(names, strings.TrimSuffix(name+" of "+owner, " of "))
		d.Bands = append(d.Bands, band)
	}
	if n := of.Count - len(d.Bands); n > 0 {
		d.More = fmt.Sprintf("+%d more", n)
	}
	d.Says = "Nobody was on " + d.Title + "."
	if of.Count > 0 {
		d.Says = explain.Plural(of.Count, "process was", "processes were") + " on " + d.Title + "."
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			d.Says += " The longest: " + strings.Join(names[:min(len(names), 4)], ", ") + "."
		}
	}
}

var outcomes = map[store.Outcome]string{
	store.Open: "goes on", store.Ended: "ended", store.Unseen: "its end was not seen", store.GPULost: "until the GPU was lost",
}

// A tick is a round time of a zone's clocks.
type tick struct {
	at    time.Time
	label string
}

// mostTicks is how many there are at most.
const mostTicks = 9

// tickMinutes are the times between ticks that are shorter than a day.
var tickMinutes = []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720}

// tickDays are the longer ones; those from 30 on are months.
var tickDays = []int{1, 2, 7, 14, 30, 61, 91, 182, 365}

// ticksOf are round times between two times, by the clocks of their zone: where these are set back, an hour comes twice, and
// where they are set forward, one is left out.
func ticksOf(from, to time.Time) []tick {
	length := to.Sub(from)
	for _, minutes := range tickMinutes {
		if length <= mostTicks*time.Duration(minutes)*time.Minute {
			return clockTicks(from, to, minutes)
		}
	}
	for _, days := range tickDays {
		if length <= mostTicks*time.Duration(days)*24*time.Hour {
			return dayTicks(from, to, days)
		}
	}
	return dayTicks(from, to, 365*int(1+length/(mostTicks*365*24*time.Hour)))
}

func clockTicks(from, to time.Time, minutes int) (out []tick) {
	// Zones differ from UTC by whole quarters of an hour.
	unit := time.Duration(min(minutes, 15)) * time.Minute
	if 15%min(minutes, 15) != 0 {
		unit = time.Minute
	}
	for at := from.Truncate(unit); !at.After(to); at = at.Add(unit) {
		clock := at.Hour()*60 + at.Minute()
		near := len(out) > 0 && at.Sub(out[len(out)-1].at) <= time.Duration(minutes)*time.Minute/2
		if at.Before(from) || clock%minutes != 0 || near {
			continue
		}
		label := at.Format("15:04")
		name, offset := at.Zone()
		if _, before := at.Add(-time.Duration(max(minutes, 60)) * time.Minute).Zone(); len(out) > 0 && before != offset {
			label += " " + name
		} else if clock == 0 {
			label = at.Format("Mon 2")
		}
		out = append(out, tick{at, label})
	}
	return out
}

// dayTicks are beginnings of days, of weeks or of months.
func dayTicks(from, to time.Time, days int) (out []tick) {
	months := days / 30
	for n := 0; ; n++ {
		at, label := when.Day(from, n), "Mon 2"
		round := days < 3 && (at.YearDay()%days == 0) || days >= 7 && at.Weekday() == time.Monday && (days == 7 || at.YearDay()/7%2 == 0)
		if months > 0 {
			at, label = when.Month(from, n), "Jan"
			round = (int(at.Month())-1)%min(months, 12) == 0 && (months < 12 || at.Year()%(months/12) == 0)
			if at.Month() == time.January {
				label = "2006"
			}
		} else if days >= 7 || at.Day() == 1 {
			label = "2 Jan"
		}
		if at.After(to) {
			return out
		}
		if round && !at.Before(from) {
			out = append(out, tick{at, at.Format(label)})
		}
	}
}
