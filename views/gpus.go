package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Shape is how a page shows its devices.
type Shape string

// The shapes, by the number of devices.
const (
	One     Shape = "one"     // one device or none: small figures instead of a card
	Cards   Shape = "cards"   // up to mostCards
	Tiles   Shape = "tiles"   // up to mostTiles, by node
	Squares Shape = "squares" // more; only problems have words
)

const (
	mostCards = 12
	mostTiles = 128
	mostWrong = 24 // cards beside squares
	inGroup   = 8  // devices of a group; a node with more is split
)

func shapeOf(devices int) Shape {
	switch {
	case devices <= 1:
		return One
	case devices <= mostCards:
		return Cards
	case devices <= mostTiles:
		return Tiles
	default:
		return Squares
	}
}

// Counts are the counts over all devices of a page. Every text that counts busy devices uses them.
type Counts struct{ All, Busy, Problem, Unknown int }

// A GPUList is the devices of a page, sorted and filtered as its address asks.
type GPUList struct {
	Counts
	Shape   Shape
	Filters []Option
	Unknown string   // how many devices don't report whether they are busy
	Sorts   []Option // none if the order is fixed
	Colors  []Option // what colors can show, for tiles and squares
	Color   string   // the chosen one; empty for utilization
	Cards   []Tile   // the cards; for One its figures; for Squares the problems
	Left    string   // how many have no card, or why there is none
	Groups  []Group  // tiles and squares
	pages            // of Groups, if there are very many
	Figures []Figure // for One
}

// An Option is one of several choices.
type Option struct {
	Value, Label, Count string
	Chosen              bool
	Level               Level
	Path                templ.SafeURL
}

// A Group is a node with its devices, or a part of a node with many devices.
type Group struct {
	Key, Name    string
	Path         string // address of the node's own page; empty if there is none
	Says         string // which programs work there
	Right        string // its power draw, or its problems
	Level        Level
	Pinned       bool
	Spots        []Spot
	Sums         string // squares in words, for screen readers
	Silence      *Silence
	Group, Title string // its group of nodes, and the title of that group
}

// A WallPart is the groups of one cluster or rack, or with one label value.
type WallPart struct {
	Key, Title string
	Groups     []Group
}

// parts returns the groups by cluster, rack or label, as the address asks.
func (l *GPUList) parts() (out []WallPart) {
	for _, g := range l.Groups {
		if n := len(out); n == 0 || out[n-1].Key != g.Group {
			out = append(out, WallPart{Key: g.Group, Title: g.Title})
		}
		last := &out[len(out)-1]
		last.Groups = append(last.Groups, g)
	}
	return out
}

// A Spot is one device as a tile or a square.
type Spot struct {
	Key, Path, Title string
	Number           string // "GPU 3"
	Figure, Small    string // what the tile shows
	Step             string // "u0" to "u3", the level that the color shows; empty if unknown
	Level            Level
	Dim              bool // filtered out, but kept in its place
}

// A square draws all devices of a node that look alike.
type square struct{ class, path string }

// columns returns the number of columns, for two rows of squares.
func (g *Group) columns() int { return (len(g.Spots) + 1) / 2 }

// viewBox covers all squares. Few squares are as large as many.
func (g *Group) viewBox() string { return "0 0 " + strconv.Itoa(max(4, g.columns())) + " 2" }

// squares draws the devices.
func (g *Group) squares() (out []square) {
	columns := g.columns()
	paths := make([][]byte, 0, 4)
	for i := range g.Spots {
		class := g.Spots[i].class()
		found := slices.IndexFunc(out, func(q square) bool { return q.class == class })
		if found < 0 {
			found, out, paths = len(out), append(out, square{class: class}), append(paths, make([]byte, 0, 32*len(g.Spots)))
		}
		p := append(strconv.AppendInt(append(paths[found], 'M'), int64(i%columns), 10), ".14 "...)
		paths[found] = append(strconv.AppendInt(p, int64(i/columns), 10), ".14h.58v.58h-.58z"...)
	}
	for i := range out {
		out[i].path = string(paths[i])
	}
	return out
}

// class returns the class that colors a square.
func (s *Spot) class() string {
	switch {
	case s.Level != Normal && s.Dim:
		return s.Step + " " + string(s.Level) + " dim"
	case s.Level != Normal:
		return s.Step + " " + string(s.Level)
	case s.Dim:
		return s.Step + " dim"
	default:
		return s.Step
	}
}

type deviceColor struct {
	name, label string
	meter       int
}

type deviceOrder struct {
	name, label string
	reading     func(*gpu.Device) number
}

// colors lists what the color of tiles and squares can show, and the meter it comes from.
var colors = []deviceColor{{"", "Use", 0}, {"temperature", "Temperature", 2}, {"power", "Power", 3}, {"memory", "Memory", 1}}

// sorts lists the orders of devices. All but the first put the largest value first.
var sorts = []deviceOrder{
	{"", "By number", nil},
	{"temperature", "Hottest first", func(d *gpu.Device) number { return num(d.Thermal.GPU) }},
	{"power", "Most power first", func(d *gpu.Device) number { return num(d.Power.Draw) }},
	{"utilization", "Busiest first", func(d *gpu.Device) number { return topEngine(d).value }},
	{"memory", "Most memory first", func(d *gpu.Device) number { return mebi(d.Memory.Used) }},
}

// newGPUList makes the list of devices.
func newGPUList(in *Input, devices []*gpu.Device, now time.Time) GPUList {
	all := make([]glance, len(devices))
	for i, d := range devices {
		all[i] = newGlance(in, d)
	}
	l := GPUList{Counts: countOf(all), Shape: shapeOf(len(all))}
	lead := leadOf(in.Causes)
	tile := func(g *glance) Tile {
		t := g.tile(in, now)
		t.Answer = lead != nil && len(devices) > 1 && same(g.device, lead)
		return t
	}
	if l.Shape == One {
		for i := range all {
			l.Cards = append(l.Cards, tile(&all[i]))
		}
		if len(all) == 1 && all[0].answers {
			l.Figures = newFigures(devices[0])
		}
		return l
	}
	show := in.Get("show")
	l.Filters = []Option{
		{Label: allText, Count: strconv.Itoa(l.All)},
		{Value: "busy", Label: busyText, Count: strconv.Itoa(l.Busy)},
		{Value: "problem", Label: problemText, Count: strconv.Itoa(l.Problem), Level: worst(all)},
	}
	if l.Counts.Unknown > 0 {
		l.Unknown = notKnown(l.Counts.Unknown)
	}
	if !slices.ContainsFunc(l.Filters, func(o Option) bool { return o.Value == show }) {
		show = ""
	}
	for i := range l.Filters {
		o := &l.Filters[i]
		o.Chosen, o.Path = o.Value == show, in.Link("show", o.Value)
	}
	pins := in.pins()
	if len(pins) > 0 {
		for i := range all {
			all[i].pinned = slices.Contains(pins, in.pinOf(all[i].device))
		}
	}
	shown := func(g *glance) bool {
		return show == "" || show == "busy" && g.busy || show == "problem" && g.problem()
	}
	var cards []*glance
	if l.Shape == Cards {
		cards = l.cards(in, all, shown)
	} else {
		cards = l.spots(in, all, shown, tile)
	}
	for _, g := range cards {
		t := tile(g)
		t.Pin = in.pin(in.pinOf(g.device), pins)
		l.Cards = append(l.Cards, t)
	}
	return l
}

func countOf(all []glance) (c Counts) {
	c.All = len(all)
	for i := range all {
		g := &all[i]
		switch {
		case g.busy:
			c.Busy++
		case g.unknown:
			c.Unknown++
		}
		if g.problem() {
			c.Problem++
		}
	}
	return c
}

func worst(all []glance) Level {
	level := Normal
	for i := range all {
		if l := all[i].level; l == Bad || level == Normal {
			level = cmp.Or(l, level)
		}
	}
	return level
}

// mostPins limits how many devices can be pinned.
const mostPins = 64

// pins returns the pinned devices, such as "3" or "node/3".
func (in *Input) pins() []string {
	var out []string
	for _, asked := range in.Asked["pin"] {
		for name := range strings.SplitSeq(asked, ",") {
			if name = cut(name); name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
			if len(out) == mostPins {
				return out
			}
		}
	}
	return out
}

// pinOf returns the name of a device in the address.
func (in *Input) pinOf(d *gpu.Device) string {
	if len(in.Nodes) > 1 {
		return d.Node + "/" + strconv.Itoa(d.Index)
	}
	return strconv.Itoa(d.Index)
}

// pin returns the address of the page with the device pinned, or no longer pinned.
func (in *Input) pin(name string, pins []string) templ.SafeURL {
	others := slices.DeleteFunc(slices.Clone(pins), func(p string) bool { return p == name })
	if len(others) == len(pins) {
		others = append(others, name)
	}
	return in.Link("pin", strings.Join(others, ","))
}

// cards sorts the cards, pinned ones first, and applies the filter.
func (l *GPUList) cards(in *Input, all []glance, shown func(*glance) bool) (cards []*glance) {
	order := sorts[0]
	for _, s := range sorts {
		l.Sorts = append(l.Sorts, Option{Value: s.name, Label: s.label, Chosen: s.name == in.Get("sort")})
		if s.name == in.Get("sort") {
			order = s
		}
	}
	for i := range all {
		if shown(&all[i]) {
			cards = append(cards, &all[i])
		}
	}
	slices.SortStableFunc(cards, func(a, b *glance) int {
		pinned := either01(b.pinned) - either01(a.pinned)
		if pinned != 0 || order.reading == nil {
			return pinned
		}
		return compareNumbers(order.reading(b.device), order.reading(a.device))
	})
	if len(cards) == 0 {
		l.Left = either(in.Get("show") == "busy", noneBusy, noProblem)
	}
	return cards
}

func either2(is bool, yes, no int) int {
	if is {
		return yes
	}
	return no
}

// spots makes the groups of tiles and squares, and returns the devices that get a card beside squares.
func (l *GPUList) spots(in *Input, all []glance, shown func(*glance) bool, tile func(*glance) Tile) (cards []*glance) {
	color := colors[0]
	for _, c := range colors {
		l.Colors = append(l.Colors, Option{Value: c.name, Label: c.label, Chosen: c.name == in.Get("color")})
		if c.name == in.Get("color") {
			color, l.Color = c, c.name
		}
	}
	several := len(in.Nodes) > 1
	var groups []members
	for i := range all {
		n := len(groups) - 1
		if n < 0 || groups[n].list[0].device.Node != all[i].device.Node || !several && len(groups[n].list) == inGroup {
			groups, n = append(groups, members{list: all[i:i]}), n+1
		}
		groups[n].list = groups[n].list[:len(groups[n].list)+1]
	}
	if l.Shape == Tiles {
		slices.SortStableFunc(groups, func(a, b members) int { return cmp.Compare(a.rank(), b.rank()) })
	} else {
		cards = l.wrong(all)
	}
	if several {
		groups = l.part(in, groups)
	}
	for _, m := range groups {
		g := newGroup(in, m.list, several, l.Shape)
		g.Group, g.Title = m.group, m.title
		for i := range m.list {
			var s Spot
			if l.Shape == Squares {
				s = newSquare(&m.list[i], color.meter)
			} else {
				t := tile(&m.list[i])
				s = newSpot(&t, color.meter)
			}
			s.Dim = !shown(&m.list[i])
			g.Spots = append(g.Spots, s)
		}
		l.Groups = append(l.Groups, g)
	}
	return cards
}

// members are the devices of a group, with its group of nodes.
type members struct {
	list         []glance
	group, title string
}

// part groups and filters the nodes as the address asks.
func (l *GPUList) part(in *Input, groups []members) []members {
	if chosen := in.grouping(); chosen.name != "" {
		for i := range groups {
			g := &groups[i]
			if m := in.member(g.list[0].device.Node); m != nil {
				value := chosen.value(m)
				g.group, g.title = asked(value), chosen.title(value)
			}
		}
		if value := in.Get("of"); value != "" {
			groups = slices.DeleteFunc(groups, func(g members) bool { return g.group != value })
		}
		slices.SortStableFunc(groups, func(a, b members) int {
			return cmp.Or(either01(a.group == nowhere)-either01(b.group == nowhere), strings.Compare(a.group, b.group))
		})
	}
	var from, to int
	l.pages, from, to = paged(in.Choices, "Machines", len(groups), mostOnWall)
	return groups[from:to]
}

// rank orders groups: problems first, then pinned ones.
func (m *members) rank() int {
	level, pinned := levelOf(m.list), slices.ContainsFunc(m.list, func(g glance) bool { return g.pinned })
	switch {
	case level == Bad:
		return 0
	case level != Normal:
		return 1
	case pinned:
		return 2
	default:
		return 3
	}
}

// levelOf returns the level of the worst device, or else of the first with a problem.
func levelOf(list []glance) (level Level) {
	for i := range list {
		if g := &list[i]; g.problem() && (g.level == Bad || level == Normal) {
			level = g.level
		}
	}
	return level
}

// wrong returns the devices that get a card beside squares: those with problems, and pinned ones.
func (l *GPUList) wrong(all []glance) (cards []*glance) {
	for i := range all {
		if all[i].problem() || all[i].pinned {
			cards = append(cards, &all[i])
		}
	}
	rank := func(g *glance) int {
		switch {
		case g.level == Bad:
			return 0
		case g.problem():
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(cards, func(a, b *glance) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(heat(b.device.Thermal), heat(a.device.Thermal)))
	})
	if n := len(cards); n > mostWrong {
		l.Left = moreWrong(n - mostWrong)
		cards = cards[:mostWrong]
	}
	return cards
}

// newGroup makes the group of a node.
func newGroup(in *Input, list []glance, several bool, shape Shape) Group {
	first := list[0].device
	g := Group{Key: list[0].key(), Name: clean(first.Node, longestName), Level: levelOf(list)}
	if several {
		g.Path, g.Silence = in.nodePath(first.Node), in.silence(in.member(first.Node))
	} else {
		g.Name = gpusFrom(first.Index, list[len(list)-1].device.Index)
	}
	var draw number
	workers := map[string]int{}
	wrong := map[string]int{}
	busy, unknown := 0, 0
	for i := range list {
		t := &list[i]
		if n := num(t.device.Power.Draw); n.trusted() && t.answers {
			draw = newNumber(draw.value+n.value, gpu.Good)
		}
		if t.busy {
			busy++
			if shape != Squares {
				if who, _, _ := newWho(t.device); who.Mark == Plain && who.Text != "" {
					workers[who.Text]++
				}
			}
		}
		if t.unknown {
			unknown++
		}
		g.Pinned = g.Pinned || t.pinned
		if t.problem() {
			wrong[t.says()]++
		}
	}
	if g.Level != Normal {
		var parts []string
		for _, says := range sortedKeys(wrong) {
			parts = append(parts, strconv.Itoa(wrong[says])+" "+says)
		}
		g.Right = strings.Join(parts, ", ")
	}
	if shape == Squares { // no room for programs and power
		g.Sums = dots(gpuCount(len(list)), strconv.Itoa(busy)+" "+stateText(stateBusy), g.Right)
		if g.Silence != nil {
			g.Right, g.Sums = "", stateText(stateSilent)
		}
		return g
	}
	if g.Level == Normal && draw.ok() {
		g.Right = watts(draw.value)
	}
	switch names := sortedKeys(workers); len(names) {
	case 0:
		g.Says = either(busy > 0, busyText, either(unknown > 0, "", restingText))
	case 1, 2:
		g.Says = strings.Join(names, ", ")
	default:
		g.Says = names[0] + andOthers(len(names)-1)
	}
	if g.Silence != nil {
		g.Says, g.Right, g.Sums = "", "", stateText(stateSilent)
	}
	return g
}

// sortedKeys returns the keys, the most frequent first.
func sortedKeys(m map[string]int) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return out
}

// newSquare makes the square of a device.
func newSquare(g *glance, meter int) Spot {
	s := Spot{Key: g.key(), Level: g.level}
	if g.answers {
		s.Step = step(fillOf(g.device, meter))
	}
	return s
}

// newSpot makes the tile of a device.
func newSpot(t *Tile, meter int) Spot {
	m := t.Meters[meter]
	s := Spot{Key: t.Key, Path: t.Page, Number: gpuName(t.device.Index), Level: t.Level}
	if t.Answers {
		s.Step = step(m.Fill)
	}
	if !t.Answers {
		s.Figure, s.Title = t.StateText, dots(t.Title, t.StateText, t.Notice)
		return s
	}
	who := ""
	if t.Who.Mark == Plain {
		who = strings.TrimSpace(t.Who.Text + " " + either(t.User == "", "", "("+t.User+")"))
	}
	s.Title = dots(t.Title, who, either(t.problem(), t.Says, ""), t.Notice)
	s.Figure, s.Small = short(m, meter), short(t.Meters[2], 2)
	if meter == 2 {
		s.Small = short(t.Meters[0], 0)
	}
	return s
}

// short writes a figure for a tile: without its unit, and memory in percent. An unknown value is a dash.
func short(m Figure, meter int) string {
	text := m.Value.Text
	switch {
	case m.Value.Mark == Missing:
		return "–"
	case meter == 1:
		if m.Fill == "" {
			return "–"
		}
		v, _ := strconv.ParseFloat(m.Fill, 64)
		return whole(v)
	case meter == 2:
		return strings.TrimSuffix(text, nbsp+"°C") + "°"
	}
	n, _, _ := strings.Cut(text, nbsp)
	return n
}

// step returns the class of a color, by how much of a limit is used.
func step(fill string) string {
	v, err := strconv.ParseFloat(fill, 64)
	switch {
	case err != nil:
		return ""
	case v < gpu.BusyFrom:
		return "u0"
	case v < 50:
		return "u1"
	case v < 85:
		return "u2"
	default:
		return "u3"
	}
}

// newFigures returns the six small figures of a page with one device: engines, the busiest first, then its other readings.
func newFigures(d *gpu.Device) []Figure {
	const most = 6
	var out []Figure
	add := func(f Figure) {
		if f.Value.Mark == Plain && len(out) < most {
			out = append(out, f)
		}
	}
	for _, e := range engines(d) {
		label := e.label
		if e.key == "utilization" {
			label = computeText
		}
		f := Figure{Key: e.key, Label: label, Value: show(e.value, percent)}
		if len(out) < 3 && (f.Value.Mark == Plain || e.key == "utilization") {
			out = append(out, f)
		}
	}
	memory := memoryMeter(d)
	out = append(out, memory)
	clock := num(d.Clocks.SM)
	if !clock.ok() {
		clock = num(d.Clocks.Graphics)
	}
	add(Figure{Key: "clock", Label: clockText, Value: show(clock, megahertz), Remark: num(d.Clocks.MaxSM).say(ofText, megahertz)})
	add(Figure{Key: "pcie", Label: pcieText, Value: show(num(d.Activity.PCIeReceived), rate), Remark: incoming})
	add(Figure{Key: "hotspot", Label: hotSpotText, Value: show(num(d.Thermal.HotSpot), celsius)})
	add(Figure{Key: "memory heat", Label: memoryHeatText, Value: show(num(d.Thermal.Memory), celsius)})
	add(Figure{Key: "bandwidth", Label: bandwidthText, Value: show(num(d.Activity.MemoryBandwidth), percent)})
	add(Figure{Key: "memory clock", Label: memoryClockText, Value: show(num(d.Clocks.Memory), megahertz)})
	return out
}
