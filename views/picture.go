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
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// The recent past is drawn in its own coordinates: x is whole seconds since the beginning of a day, y steps of the reading's unit. What
// has come since is appended to a path, and once a minute what is too old goes. So a page that changes by patches receives little.

// fewLines is up to how many devices have a line each. Of more, or of several nodes, there are the least, the median, the most and
// the hottest.
const fewLines = 12

const (
	finest   = 3 * time.Second  // between points of the picture
	coarsest = 15 * time.Second // and of what is smaller
)

// crowd reports whether there are too many devices for a line each.
func (in *Input) crowd() bool {
	return in.only == nil && (len(in.Nodes) > 1 || len(in.devices()) > fewLines)
}

// table is the recent past of a device, nil: of all. It is empty where none is kept.
func (in *Input) table(of *gpu.Device, step time.Duration) *recent.Table {
	if in.Recent == nil {
		return new(recent.Table)
	}
	if of == nil {
		return in.Recent("", "", step)
	}
	return in.Recent(of.Node, of.UUID, step)
}

// A recentAxis is the time of a picture. While there is little to draw, it is short, and what comes is drawn from the left.
type recentAxis struct {
	axis
	base time.Time // when x is 0
}

func newRecentAxis(t *recent.Table) recentAxis {
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
	return recentAxis{axis{from, to}, from.UTC().Truncate(24 * time.Hour)}
}

func (a recentAxis) x(t time.Time) int { return int(t.Sub(a.base) / time.Second) }

// view is the viewBox of a picture of that height.
func (a recentAxis) view(height int) string {
	return strconv.Itoa(a.x(a.from)) + " 0 " + strconv.Itoa(int(a.to.Sub(a.from)/time.Second)) + " " + strconv.Itoa(height)
}

// A lane is where a reading is drawn: what stands at which height.
type lane struct {
	top, bottom float64 // of the lane, in units of the picture's height
	low, high   float64 // the values at its edges
	step        float64 // a unit of the path, in units of the reading
}

func newLane(top, bottom, low, high, step float64) lane {
	if !(high > low) {
		high = low + 1
	}
	return lane{top, bottom, low, high, step}
}

// resolution is a step of a path whose values go up to high: a hundredth of it at most.
func resolution(high float64) float64 {
	return math.Pow10(int(math.Floor(math.Log10(max(high, 1e-6) / 100))))
}

func (l lane) scale() float64 { return (l.bottom - l.top) / (l.high - l.low) }

// y is the height of a value in the picture.
func (l lane) y(v float64) float64 { return l.bottom - (v-l.low)*l.scale() }

// transform brings units of the path into the picture.
func (l lane) transform() string {
	return "matrix(1 0 0 " + brief(-l.scale()*l.step) + " 0 " + brief(l.bottom+l.low*l.scale()) + ")"
}

func (l lane) unit(v float32) int { return int(math.Round(float64(v) / l.step)) }

// brief has at most four decimals.
func brief(v float64) string { return exact(math.Round(v*1e4) / 1e4) }

// points are values over time.
type points struct {
	*recent.Table
	axis recentAxis
}

// at is where a point begins; its end is where the next one begins.
func (p points) at(i int) int { return p.axis.x(p.From) + i*int(p.Step/time.Second) }

// runs are the parts of a list that count, from a first point up to and without an end.
func runsWhere(n int, counts func(int) bool) (out []run) {
	for i := range n {
		switch {
		case !counts(i):
		case len(out) > 0 && out[len(out)-1].end == i:
			out[len(out)-1].end++
		default:
			out = append(out, run{i, i + 1})
		}
	}
	return out
}

func read32(values []float32) func(int) bool {
	return func(i int) bool { return values[i] == values[i] }
}

// line draws values: each run from where its first step begins, by the ends of its steps.
func (p points) line(values []float32, l lane) string {
	if values == nil {
		return ""
	}
	var out pathText
	for _, r := range runsWhere(len(values), read32(values)) {
		out.move(p.at(r.first), l.unit(values[r.first]))
		for i := r.first; i < r.end; i++ {
			out.line(p.at(i+1), l.unit(values[i]))
		}
		out.flush()
	}
	return out.String()
}

// area fills what is below values, down to the lane's floor.
func (p points) area(runs []run, values []float32, l lane) string {
	var out pathText
	floor := l.unit(float32(l.low))
	for _, r := range runs {
		out.move(p.at(r.first), floor)
		out.line(p.at(r.first), l.unit(values[r.first]))
		for i := r.first; i < r.end; i++ {
			out.line(p.at(i+1), l.unit(values[i]))
		}
		out.flush()
		out.line(p.at(r.end), floor)
		out.flush()
	}
	return out.String()
}

// bars draw values as a sound: one bar for each time that is a multiple of a step, as high above the middle as below.
func (p points) bars(values []float32, l lane, every, phase int) string {
	var out strings.Builder
	last, under := 0, 0
	for i, v := range values {
		x := p.at(i)
		if v != v || x%every != phase {
			continue
		}
		half := max(l.unit(v), 1)
		if out.Len() == 0 {
			out.WriteString("M" + strconv.Itoa(x) + " " + strconv.Itoa(-half))
		} else {
			out.WriteString("m" + strconv.Itoa(x-last) + " " + strconv.Itoa(-half-under))
		}
		out.WriteString("v" + strconv.Itoa(2*half))
		last, under = x, half
	}
	return out.String()
}

// A Layer is what somebody drew, from the floor to its upper edge: the highest comes first, and the others cover it.
type Layer struct {
	Key, Hue string // the hue of "rest" is nobody's
	Path     string
}

// A share32 is what somebody drew, by point.
type share32 struct {
	key, hue string
	watts    []float32
}

// mostLayers are told apart in one picture; the others are one.
const mostLayers = 8

// layers divide a draw among those who drew it. What nobody drew of whom gpuwhy knows is at the bottom: the draw at rest, and
// what is not known whose it is.
func (p points) layers(draw []float32, shares []share32, l lane) (out []Layer) {
	if draw == nil {
		return nil
	}
	shares = fewShares(shares)
	below := make([]float32, len(draw)) // what is below the layer
	for i, d := range draw {
		below[i] = d
		for _, s := range shares {
			if w := s.watts[i]; w == w {
				below[i] -= w
			}
		}
		below[i] = max(below[i], 0)
	}
	out = append(out, Layer{"rest", "rest", p.area(runsWhere(len(draw), read32(draw)), below, l)})
	for _, s := range shares {
		edge := slices.Clone(below)
		for i, w := range s.watts {
			if w == w {
				edge[i] = min(below[i]+w, draw[i])
			}
		}
		seen := func(i int) bool { return edge[i] == edge[i] && l.unit(edge[i]) > l.unit(below[i]) }
		runs := runsWhere(len(draw), func(i int) bool { // and a point beside, where the line goes up or down
			return seen(i) || edge[i] == edge[i] && (i > 0 && seen(i-1) || i+1 < len(edge) && seen(i+1))
		})
		if len(runs) > 0 {
			out = append(out, Layer{s.key, s.hue, p.area(runs, edge, l)})
		}
		below = edge
	}
	slices.Reverse(out)
	return slices.DeleteFunc(out, func(of Layer) bool { return of.Path == "" })
}

func energyOf(watts []float32) (sum float64) {
	for _, w := range watts {
		if w == w {
			sum += float64(w)
		}
	}
	return sum
}

// fewShares makes one of those that drew least, where there are many.
func fewShares(shares []share32) []share32 {
	shares = slices.DeleteFunc(shares, func(s share32) bool { return energyOf(s.watts) <= 0 })
	if len(shares) <= mostLayers {
		return shares
	}
	byEnergy := slices.SortedStableFunc(slices.Values(shares), func(a, b share32) int { return cmp.Compare(energyOf(b.watts), energyOf(a.watts)) })
	least := energyOf(byEnergy[mostLayers-2].watts)
	others := share32{"others", "p6", make([]float32, len(shares[0].watts))}
	shares = slices.DeleteFunc(shares, func(s share32) bool {
		if energyOf(s.watts) >= least {
			return false
		}
		add(others.watts, s.watts)
		return true
	})
	return append(shares, others)
}

func add(to, from []float32) {
	for i, v := range from {
		if v == v {
			to[i] += v
		}
	}
}

// sharesOf are those of the workers of a device.
func (in *Input) sharesOf(r *recent.Row) (out []share32) {
	if r == nil {
		return nil
	}
	for i := range r.Workers {
		w := &r.Workers[i]
		out = append(out, share32{w.Name + "/" + w.User, in.Hues.hueOf(w.User), w.Watts})
	}
	return out
}

// A Picture is cause and effect on one axis of time: who worked, what was drawn, and what that did.
type Picture struct {
	Key          string // of what it is about; empty for no picture
	Title, About string
	Says         string // the picture in words
	Empty        bool   // there is nothing to draw yet
	Crowd        bool
	View         string
	Base         string // when x is 0, in seconds since 1970
	End          string // where what is drawn ends, if not with the picture
	Grid         string
	Ticks        []PictureTick
	Bands        []PictureBand
	MoreBands    int
	Lanes        []PictureLane
	Flags        []PictureFlag
	Ends         []PictureEnd // names at the ends of lines
	Readings     []PictureReading
	From, To     time.Time
	Place, Kind  string
	Note         string

	Ranges []PastLink
	Share  string
	Choice PictureChoice

	paint palette // nil on a page, which has classes
}

// A PictureTick is a round time.
type PictureTick struct {
	X      string
	At     time.Time
	Second bool // every second one, for which a narrow picture has no room
}

// A PictureBand is a time for which somebody was at work. X and Width are of the picture, Left and Room in percent.
type PictureBand struct {
	Key, Hue         string
	X, Width         string
	Y, Height        string
	Below            string // the height of its shade; 0 for none
	Left, Room, Text string // Text is the height of the name, in percent
	Began, Ends      bool   // within the picture
	Accused          bool   // the answer names it
	Name, Owner      string
	Title            string
}

// A PictureLane is a reading over time.
type PictureLane struct {
	Key, Transform, Base string
	Layers               []Layer
	Areas, Lines         []PicturePath
	Limit, LimitText     string // the height of its limit, in percent, and what it is; empty: none
	LimitName            string // the height of the text
	LimitAt, LimitAnchor string // where it stands, and with which end; empty: where it begins
	Heat                 [2]string
	Data                 LaneData
}

// A PicturePath is a path with its look.
type PicturePath struct{ Class, D, Key string }

// LaneData is what a script needs to read a path.
type LaneData struct {
	Label, Unit string
	Scale       string // a unit of the path in units that are shown
	Digits      string
}

// A PictureFlag is an alert.
type PictureFlag struct {
	Key, Level, Text string
	Title            string // Text with whole names
	Line, X          string
	Left             bool // the text stands left of it
	Width            string
}

// A PictureEnd is a name at the end of lines.
type PictureEnd struct {
	Key, Y, Name string
	Strong       bool
	at           float64
}

// A PictureReading is the newest value of a lane.
type PictureReading struct {
	Key, Label  string
	Value, Unit string
	Limit       string
	Level       Level
	Plain       bool // the value is words
}

// A PictureChoice is how another GPU is chosen.
type PictureChoice struct {
	Options []PictureOption // few, and of each one
	Asked   string          // what was asked for, of many
	Unknown string          // what was asked for and is not there
	Names   []string
	Kept    [][2]string // the other choices
}

// A PictureOption is one GPU that can be chosen.
type PictureOption struct {
	Value, Name string
	Chosen      bool
}

// pictureHeight is in units that are about pixels.
const pictureHeight = 360

func ofHeight(y float64) string { return hundredth(100*y/pictureHeight) + "%" }

// blank reports whether no lane has anything to draw.
func (p *Picture) blank() bool {
	return !slices.ContainsFunc(p.Lanes, func(l PictureLane) bool {
		return slices.ContainsFunc(l.Lines, func(of PicturePath) bool { return of.D != "" }) || slices.ContainsFunc(l.Areas, func(of PicturePath) bool { return of.D != "" })
	})
}

// ChosenGPU is the device that the address names; nil for none. It may be named by its UUID, its index, or words of its name and its node's.
func (in *Input) ChosenGPU() *gpu.Device {
	asked := strings.Fields(strings.ToLower(in.Choices.Of("gpu")))
	if len(asked) == 0 {
		return nil
	}
	var found *gpu.Device
	for _, d := range in.devices() {
		index := strconv.Itoa(d.Index)
		if strings.EqualFold(d.UUID, in.Choices.Of("gpu")) || len(asked) == 1 && len(in.Nodes) == 1 && asked[0] == index || strings.EqualFold(plain(in.name(d)), in.Choices.Of("gpu")) {
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

// subject is the device that the picture is about; nil: all.
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

// newPicture makes the picture of the page; without a device there is none.
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
	t := in.table(d, step)
	a := newRecentAxis(t)
	at := points{t, a}
	p.Empty = t.Points == 0
	p.View, p.Base = a.view(pictureHeight), strconv.FormatInt(a.base.Unix(), 10)
	if t.End.Before(a.to) {
		p.End = strconv.Itoa(a.x(t.End))
	}
	p.From, p.To = a.from, t.End
	p.times(a)
	if d == nil {
		p.ofAll(in, at)
	} else {
		p.ofOne(in, d, at)
	}
	p.flags(in, d, a)
	p.links(in, d)
	return p
}

func (p *Picture) times(a recentAxis) {
	if p.Empty {
		return
	}
	var grid strings.Builder
	top, bottom := p.whoHeight(), p.axisTop()
	ticks := ticksOf(a.from.UTC(), a.to.UTC())
	every := time.Minute
	if len(ticks) > 1 {
		every = ticks[1].at.Sub(ticks[0].at)
	}
	for _, t := range ticks {
		grid.WriteString("M" + strconv.Itoa(a.x(t.at)) + " " + exact(top) + "V" + exact(bottom))
		if x := a.share(t.at); x > .03 && x < .94 {
			p.Ticks = append(p.Ticks, PictureTick{a.percent(t.at), t.at, t.at.Unix()/int64(every/time.Second)%2 != 0})
		}
	}
	p.Grid = grid.String()
}

// The edges of the lanes.
func (p *Picture) whoHeight() float64 { return float64(either2(p.Crowd, 70, 42)) }
func (p *Picture) axisTop() float64   { return 336 }

// links lead to the page of the past, and to the picture that is shared.
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

// mostOptions is of how many GPUs the names are offered.
const mostOptions = 128

func (in *Input) pictureChoice(d *gpu.Device) (c PictureChoice) {
	devices := in.devices()
	if in.only != nil || len(devices) < 2 {
		return c
	}
	c.Kept = in.kept("gpu")
	chosen := in.ChosenGPU()
	if chosen == nil {
		c.Unknown = clean(in.Choices.Of("gpu"), longestName)
	}
	if !in.crowd() {
		for _, of := range devices {
			c.Options = append(c.Options, PictureOption{of.UUID, in.name(of), d != nil && same(of, d)})
		}
		return c
	}
	if chosen != nil {
		c.Asked = plain(in.name(chosen))
	}
	for _, of := range devices[:min(len(devices), mostOptions)] {
		c.Names = append(c.Names, plain(in.name(of)))
	}
	return c
}

// ofOne fills in the picture of a device.
func (p *Picture) ofOne(in *Input, d *gpu.Device, at points) {
	p.Key = d.Node + "/" + d.UUID
	p.Title, p.About = in.name(d), "cause and effect"
	if len(in.devices()) == 1 {
		p.About = dots(clean(d.Name, longestName), p.About)
	}
	row := at.Row(d.Node, d.UUID)
	working := in.working(d)
	p.Readings = append(p.Readings, working)
	if row != nil {
		p.bandsOf(in, row.Workers, at, nil)
	}
	power, temperature, fan, clock := row.Values("power_watts"), row.Values("temperature_celsius"), row.Values("fan_percent"), row.Values("sm_clock_mhz")
	limit := num(d.Power.EnforcedLimit)
	l := p.powerLane(42, 148, power, limit, at)
	l.Layers = at.layers(power, in.sharesOf(row), l.lane)
	p.Lanes = append(p.Lanes, l.PictureLane)
	p.Readings = append(p.Readings, readingOf("power", "Power", num(d.Power.Draw), watts, limit.say(ofText, watts), Normal))

	slows := heatLimit(d.Thermal)
	t := p.heatLane(148, 256, temperature, slows)
	t.Areas = []PicturePath{{"under", at.area(runsWhere(len(temperature), read32(temperature)), temperature, t.lane), "under"}}
	t.Lines = []PicturePath{{"heat", at.line(temperature, t.lane), d.UUID}}
	p.Lanes = append(p.Lanes, t.PictureLane)
	p.Readings = append(p.Readings, readingOf("temperature", "Temperature", num(d.Thermal.GPU), celsius, slows.say(slowsAt, celsius), heatLevel(d.Thermal)))

	if figure := fanMeter(d.Fans); fan != nil || num(d.Fans.Commanded()).ok() {
		f := newLane(262, 332, -100, 100, 1)
		p.Lanes = append(p.Lanes, PictureLane{Key: "fan", Transform: f.transform(), Base: ofHeight(336), Data: LaneData{"Fan", "%", "1", "0"}, Lines: []PicturePath{
			{"wave", at.bars(fan, f, 2*barSeconds(at), 0), d.UUID}, {"wave more", at.bars(fan, f, 2*barSeconds(at), barSeconds(at)), ""},
		}})
		r := readingOf("fan", "Fan", num(d.Fans.Commanded()), percent, figure.Remark, figure.Level)
		if num(d.Fans.Commanded()).ok() && num(d.Fans.Commanded()).value == 0 {
			r.Value, r.Unit, r.Plain = "off", "", true
		}
		p.Readings = append(p.Readings, r)
	} else {
		most := num(d.Clocks.MaxSM)
		c := p.simpleLane("clock", "Clock", "MHz", 256, 336, clock, most)
		c.Lines = []PicturePath{{"line", at.line(clock, c.lane), d.UUID}}
		p.Lanes = append(p.Lanes, c.PictureLane)
		p.Readings = append(p.Readings, readingOf("clock", "Clock", num(d.Clocks.SM), megahertz, most.say(ofText, megahertz), Normal))
		p.Note = either(num(d.Fans.Commanded()).quality == gpu.NotSupported, "the chassis cools this GPU: it has no fan of its own", "")
	}
	p.Says = in.saysOf(p.Title, row, slows)
}

// barSeconds is the time between two bars of the wave, so that they are dense enough.
func barSeconds(at points) int {
	seconds := int(at.Step / time.Second)
	if at.axis.to.Sub(at.axis.from) >= recent.Span/2 {
		seconds = max(seconds, 6)
	}
	return seconds
}

// working is who draws most now.
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

// heatLevel is near in the last ten degrees below the limit.
func heatLevel(t gpu.Thermal) Level { return level(heat(t), -10, 0) }

type drawnLane struct {
	PictureLane
	lane
}

// most is the highest value that there is; 0 for none.
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

// round125 is a round number that is not below v.
func round125(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, f := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if f*p >= v*.9999 {
			return f * p
		}
	}
	return 10 * p
}

func (p *Picture) powerLane(top, bottom float64, draw []float32, limit number, at points) drawnLane {
	high := limit.value
	if most := mostOf(draw); !limit.trusted() || most > high {
		high = max(high, round125(most))
	}
	out := drawnLane{lane: newLane(top+20, bottom-2, 0, high, resolution(high))}
	unit, scale, digits := "W", out.step, "0"
	if high >= wattUnits[0].limit {
		unit, scale, digits = "kW", out.step/1000, "1"
	}
	out.PictureLane = PictureLane{Key: "power", Transform: out.transform(), Base: ofHeight(bottom), Data: LaneData{"Power", unit, exact(scale), digits}}
	out.Lines = []PicturePath{{"line", at.line(draw, out.lane), "draw"}}
	out.limit(limit, "limit "+watts(limit.value))
	return out
}

func (l *drawnLane) limit(n number, text string) {
	if n.trusted() && n.value <= l.high*1.001 {
		l.Limit, l.LimitText = ofHeight(l.y(n.value)), text
		l.LimitName, l.LimitAt = ofHeight(l.y(n.value)-5), limitPlaces[0].x
	}
}

func (p *Picture) heatLane(top, bottom float64, values []float32, limit number, more ...[]float32) drawnLane {
	low, high := 20.0, 100.0
	if limit.trusted() {
		high = limit.value + 3
	}
	if most := mostOf(append(more, values)...); most > high {
		high = round125(most)
	}
	for _, v := range slices.Concat(append(more, values)...) {
		if v == v && float64(v) < low {
			low = 10 * math.Floor(float64(v)/10)
		}
	}
	out := drawnLane{lane: newLane(top+18, bottom-2, low, high, .5)}
	out.PictureLane = PictureLane{Key: "temperature", Transform: out.transform(), Base: ofHeight(bottom), Data: LaneData{"Temperature", "°C", ".5", "0"}}
	if limit.trusted() {
		out.Heat = [2]string{exact(math.Round(limit.value / out.step)), exact(math.Round((limit.value - 10) / out.step))}
		out.limit(limit, "slows itself at "+celsius(limit.value))
	}
	return out
}

func (p *Picture) simpleLane(key, label, unit string, top, bottom float64, values []float32, limit number) drawnLane {
	high := limit.value
	if most := mostOf(values); !limit.trusted() || most > high {
		high = max(high, round125(most))
	}
	out := drawnLane{lane: newLane(top+18, bottom-2, 0, high, resolution(high))}
	out.PictureLane = PictureLane{Key: key, Transform: out.transform(), Base: ofHeight(bottom), Data: LaneData{label, unit, exact(out.step), "0"}}
	out.limit(limit, "at most "+whole(limit.value)+nbsp+unit)
	return out
}

// A banded is a worker with what it drew in all and on how many devices it is.
type banded struct {
	recent.Worker
	energy  float64
	devices int
	hue     string
	accused bool
}

const (
	mostBands     = 24
	shortestNamed = 0.05 // of the width, that has room for a name
)

// bandsOf gives the workers that drew most a band each, in few rows. among says on how many devices each is; nil: one.
func (p *Picture) bandsOf(in *Input, workers []recent.Working, at points, among []int) {
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
		b := banded{w.Worker, energyOf(w.Watts), 1, in.Hues.hueOf(w.User), in.accused(worker{w.Name, w.User})}
		if among != nil {
			b.devices = among[i]
		}
		all += b.energy
		if slices.ContainsFunc(w.Visits, func(v recent.Visit) bool { return v.Open || v.To.After(at.axis.from) }) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b banded) int {
		return cmp.Or(-cmp.Compare(btoi(a.accused), btoi(b.accused)), cmp.Compare(b.energy, a.energy))
	})
	type taken struct {
		row      int
		from, to time.Time
	}
	var places []taken
	used := 0
	var out []PictureBand
	for _, b := range list {
		const little = .02 // of all that was drawn
		if all > 0 && b.energy < little*all && !b.accused {
			p.MoreBands++
			continue
		}
		row := -1
		for r := range rows {
			if !slices.ContainsFunc(places, func(t taken) bool {
				return t.row == r && slices.ContainsFunc(b.Visits, func(v recent.Visit) bool { return v.From.Before(t.to) && t.from.Before(visitEnd(v, at)) })
			}) {
				row = r
				break
			}
		}
		if row < 0 || len(out) >= mostBands {
			p.MoreBands++
			continue
		}
		used = max(used, row+1)
		for i, v := range b.Visits {
			to := visitEnd(v, at)
			places = append(places, taken{row, v.From, to})
			if to.Before(at.axis.from) {
				continue
			}
			out = append(out, p.band(&b, i, v, to, row, at.axis))
		}
	}
	if used == 1 {
		height = 26
	}
	for i := range out {
		row, _ := strconv.Atoi(out[i].Y)
		y := 4 + float64(row)*(height+2)
		out[i].Y, out[i].Height, out[i].Text = exact(y), exact(height), ofHeight(y+height/2)
		out[i].Below = "0"
		if !p.Crowd || out[i].Accused {
			out[i].Below = exact(p.axisTop() - y)
		}
	}
	p.Bands = out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// visitEnd is when a visit ended; the end of the picture where it goes on.
func visitEnd(v recent.Visit, at points) time.Time {
	if v.Open {
		return at.End
	}
	return v.To
}

func (p *Picture) band(b *banded, n int, v recent.Visit, to time.Time, row int, a recentAxis) PictureBand {
	from := latest(v.From, a.from)
	name := cmp.Or(clean(b.Name, longestName), someProcess.text)
	owner := clean(b.User, longestName)
	if b.devices > 1 {
		owner = dots(owner, gpuCount(b.devices))
	}
	share := max(a.share(to)-a.share(from), 0)
	out := PictureBand{
		Key: b.Name + "/" + b.User + "/" + strconv.Itoa(n), Hue: b.hue, Accused: b.accused, Y: strconv.Itoa(row),
		Began: v.From.After(a.from), Ends: !v.Open, Name: name, Owner: owner,
		Left: a.percent(from), Room: hundredth(100*share) + "%",
		Title: dots(name, owner),
	}
	// A band that goes on is wider than the picture, so that it stays as it is. One that began before begins before it.
	const before, after = 3600, 9999
	x := a.x(v.From)
	if v.From.Before(a.from.Add(-before * time.Second)) {
		x = a.x(a.base) - before
	}
	width := max(a.x(to)-x, 1)
	if v.Open && !to.Before(a.to) {
		width = after * 10
	}
	out.X, out.Width = strconv.Itoa(x), strconv.Itoa(width)
	if v.Open { // what is to the right of the picture is not seen
		out.Room = "100%"
	}
	if share < shortestNamed {
		out.Name, out.Owner = "", ""
	}
	return out
}

// rowName is what a row is called among those of the page.
func (in *Input) rowName(r *recent.Row) string {
	if len(in.Nodes) > 1 {
		return inShort(clean(r.Node, longestName)) + " · " + strconv.Itoa(r.Index)
	}
	return gpuName(r.Index)
}

// ofAll fills in the picture of many devices.
func (p *Picture) ofAll(in *Input, at points) {
	devices := in.devices()
	p.Title, p.About = gpuCount(len(devices)), "cause and effect"
	if n := len(in.Nodes); n > 1 {
		p.About = dots(nodeCount(n), p.About)
	}
	workers, among := at.Together()
	who := in.workingInAll(devices)
	p.Readings = append(p.Readings, who)
	p.bandsOf(in, workers, at, among)
	limit := limits(devices, func(d *gpu.Device) (number, number) { return num(d.Power.Draw), num(d.Power.EnforcedLimit) })
	power := at.Spread("power_watts")
	if at.Points == 0 {
		power = new(recent.Spread)
	}
	l := p.powerLane(70, 166, power.Sum, limit, at)
	l.Layers = at.layers(power.Sum, in.byUser(workers, at.Points), l.lane)
	p.Lanes = append(p.Lanes, l.PictureLane)
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
	heat := at.Spread("temperature_celsius")
	t := p.heatLane(166, 336, heat.Most, slows, heat.Least)
	t.Areas, t.Lines, p.Ends = in.crowdPaths(at, "temperature_celsius", t.lane, "heat")
	p.Ends = placeEnds(p.Ends, 178, 332, pictureHeight, 13, false)
	p.Lanes = append(p.Lanes, t.PictureLane)
	value, hot := highest(devices, func(d *gpu.Device) number { return num(d.Thermal.GPU) })
	r := readingOf("temperature", "Hottest", value, celsius, "", Normal)
	if hot != nil {
		r.Limit, r.Level = in.name(hot), heatLevel(hot.Thermal)
	}
	p.Readings = append(p.Readings, r)
	p.Says = p.Title + ". " + saysRange("Power of all", power.Sum, watts) + saysRange("The hottest", heat.Most, celsius) + saysRange("The median", heat.Median, celsius)
}

// crowdPaths are the band from the least to the most, the median, and the hottest.
func (in *Input) crowdPaths(at points, metric string, l lane, strong string) (areas, lines []PicturePath, ends []PictureEnd) {
	s := at.Spread(metric)
	n := at.Points
	areas = []PicturePath{{"spread", at.between(s.Least, s.Most, l), "spread"}}
	lines = []PicturePath{{"median", at.line(s.Median, l), "median"}}
	if n == 0 {
		return areas, lines, nil
	}
	end := func(key, name string, values []float32, first bool) {
		if i := lastOf(values); i >= 0 {
			ends = append(ends, PictureEnd{Key: key, Name: name, at: l.y(float64(values[i])), Strong: first})
		}
	}
	for i, hot := range at.Hottest() {
		values := hot.Values(metric)
		if values == nil {
			continue
		}
		key := hot.Node + "/" + hot.UUID
		lines = append(lines, PicturePath{either(i == 0, strong, "hotline"), at.line(values, l), key})
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

// between fills what is between two lists, each run as bars of which each has the width of a step: so what comes is appended.
func (p points) between(low, high []float32, l lane) string {
	var out strings.Builder
	step := int(p.Step / time.Second)
	for _, r := range runsWhere(len(low), func(i int) bool { return low[i] == low[i] && high[i] == high[i] }) {
		out.WriteString("M" + strconv.Itoa(p.at(r.first)) + " " + strconv.Itoa(l.unit(high[r.first])))
		for i := r.first; i < r.end; i++ {
			down := l.unit(high[i]) - l.unit(low[i])
			before := l.unit(high[max(i-1, r.first)])
			// from the upper edge at the left to that at the right, down, back, and on along the upper edge
			out.WriteString("m0 " + strconv.Itoa(l.unit(high[i])-before) + "v" + strconv.Itoa(-down) + "h" + strconv.Itoa(step) + "v" + strconv.Itoa(down) + "h" + strconv.Itoa(-step) + "m" + strconv.Itoa(step) + " 0")
		}
	}
	return out.String()
}

// byUser adds up what workers drew by user.
func (in *Input) byUser(workers []recent.Working, n int) (out []share32) {
	index := map[string]int{}
	for i := range workers {
		w := &workers[i]
		j, ok := index[w.User]
		if !ok {
			j = len(out)
			index[w.User] = j
			out = append(out, share32{w.User, in.Hues.hueOf(w.User), make([]float32, n)})
		}
		add(out[j].watts, w.Watts)
	}
	slices.SortFunc(out, func(a, b share32) int { return cmp.Compare(a.key, b.key) })
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

// saysOf is the picture of a device in words.
func (in *Input) saysOf(title string, row *recent.Row, slows number) string {
	if row == nil {
		return title + ": nothing was read yet."
	}
	var names []string
	for _, w := range row.Workers {
		if name := clean(w.Name, longestName); name != "" && energyOf(w.Watts) > 0 && len(names) < 4 {
			names = append(names, name+either(w.User == "", "", " of "+clean(w.User, longestName)))
		}
	}
	out := title + ", the last minutes. "
	if len(names) > 0 {
		out += "At work: " + list(names) + ". "
	}
	out += saysRange("Power", row.Values("power_watts"), watts) + saysRange("Temperature", row.Values("temperature_celsius"), celsius)
	if slows.trusted() {
		out += "It slows itself at " + celsius(slows.value) + ". "
	}
	return strings.TrimSpace(out + saysRange("Fan", row.Values("fan_percent"), percent))
}

// inWords makes words of the name of a rule.
var inWords = strings.NewReplacer("_", " ", "throttled", "slowed")

// mostFlags are how many alerts have a flag: the worst, and of these the newest.
const mostFlags = 3

const (
	// longestFlag is how many characters a flag has: it stands in half of the picture that has room for its text.
	longestFlag = 34
	// narrowest is the width of that picture, as the style sheet has it, in pixels.
	narrowest = 530.
)

func (p *Picture) flags(in *Input, d *gpu.Device, a recentAxis) {
	if p.Empty {
		return
	}
	var list []alert.Alert
	for _, of := range slices.Concat(in.Alerts, in.PastAlerts) {
		about := d == nil || !of.About() || of.Device.Node == d.Node && of.Device.UUID == d.UUID
		if about && of.Severity != alert.Info && of.Since.After(a.from) && of.Since.Before(a.to) {
			list = append(list, of)
		}
	}
	slices.SortStableFunc(list, func(x, y alert.Alert) int {
		return cmp.Or(y.Severity.Rank()-x.Severity.Rank(), y.Since.Compare(x.Since))
	})
	var flags, marks []reach // on a wide picture, and on a narrow one
	for i, of := range list[:min(len(list), mostFlags)] {
		title := clean(inWords.Replace(of.Rule), longestName)
		text := clean(title, longestFlag)
		if d == nil && of.About() {
			text = clean(in.alertOn(&of, longestFlag/2)+" "+title, longestFlag)
			title = in.alertOn(&of, longestName) + " " + title
		}
		f := PictureFlag{
			Key: of.ID, Level: either(of.Severity == alert.Critical, "bad", "warn"), Text: text, Title: title, X: a.percent(of.Since), Left: a.share(of.Since) > .5,
			Line: "M" + strconv.Itoa(a.x(of.Since)) + " " + exact(p.whoHeight()+float64(i)*20) + "V" + exact(p.axisTop()),
		}
		width := 30 + 13*len([]rune(text))/2
		f.Width = strconv.Itoa(width)
		p.Flags = append(p.Flags, f)
		from := a.share(of.Since)
		to := from + float64(width)/narrowest
		if f.Left {
			from, to = from-float64(width)/narrowest, from
		}
		flags = append(flags, reach{from, to})
		marks = append(marks, reach{a.share(of.Since) - halfMark, a.share(of.Since) + halfMark})
	}
	p.giveRoom(flags, marks)
}

// halfMark is half of the mark of a flag on the narrowest phone, of the width of its picture.
const halfMark = .03

// A reach is a part of the width of a picture.
type reach struct{ from, to float64 }

func (r reach) meets(o reach) bool { return r.from < o.to && o.from < r.to }

// limitPlaces are where the name of a limit can stand, in the order in which they are taken, and what it covers there of the
// narrowest picture with flags, and of that of the narrowest phone.
var limitPlaces = []struct {
	x, anchor    string
	wide, narrow reach
}{
	{"6", "", reach{0, .17}, reach{0, .4}}, {"99%", "end", reach{.82, 1}, reach{.6, 1}}, {"50%", "middle", reach{.41, .59}, reach{.31, .69}},
	{"30%", "middle", reach{.21, .39}, reach{.11, .49}}, {"70%", "middle", reach{.61, .79}, reach{.51, .89}},
}

// giveRoom puts the name of a limit where neither flags cover it nor, on a phone, the marks in their place. Where no place is free of
// both, flags count; where none is free of flags, it stays.
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
	for i := range p.Lanes {
		if p.Lanes[i].Key == "power" { // that is where flags stand
			p.Lanes[i].LimitAt, p.Lanes[i].LimitAnchor = limitPlaces[best].x, limitPlaces[best].anchor
		}
	}
}

// alertOn is the device of an alert, with so much of its node's name.
func (in *Input) alertOn(a *alert.Alert, most int) string {
	name := gpuName(a.Device.Index)
	if len(in.Nodes) > 1 {
		return clean(a.Device.Node, most) + " " + name
	}
	return name
}

// palette has what paints an element, by its kind and hue, where there is no style sheet.
type palette func(kind, hue string) templ.Attributes

// look is how an element of the picture looks: its classes, or its colors.
func (p *Picture) look(kind, hue string) templ.Attributes {
	if p.paint != nil {
		return p.paint(kind, hue)
	}
	return templ.Attributes{"class": strings.TrimSpace(kind + " " + hue)}
}

// lookOfLine is how a line looks: that of a temperature by how near it is to its limit.
func (p *Picture) lookOfLine(l PictureLane, of PicturePath) templ.Attributes {
	out := p.look(of.Class, "")
	if of.Class == "heat" && l.Heat[0] != "" {
		out["stroke"] = "url(#heat)"
	}
	return out
}

func (d LaneData) attrs() templ.Attributes {
	return templ.Attributes{"data-label": d.Label, "data-unit": d.Unit, "data-scale": d.Scale, "data-digits": d.Digits}
}

// wattsOf writes watts in the unit of their limit.
func wattsOf(limit number) func(float64) string {
	if limit.value >= wattUnits[0].limit {
		return func(v float64) string { return tenth(v/1000) + nbsp + "kW" }
	}
	return watts
}
