package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Shape is in which form a page has devices.
type Shape string

// The shapes, by the number of devices.
const (
	One     Shape = "one"     // or none: no card, but small figures
	Cards   Shape = "cards"   // up to mostCards
	Tiles   Shape = "tiles"   // up to mostTiles, by node
	Squares Shape = "squares" // of more; words are for what is wrong
)

const (
	mostCards = 12
	mostTiles = 128
	mostWrong = 24 // that have words beside squares
	inGroup   = 8  // devices of a node that has more are parted into groups
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

// Counts are of all devices of a page. All that says how many are busy says it with these.
type Counts struct{ All, Busy, Problem, Unknown int }

// A GPUList is the devices of a page, in the order and selection that its address asks for.
type GPUList struct {
	Counts
	Shape   Shape
	Filters []Option
	Unknown string   // how many may be busy or not
	Sorts   []Option // none where the order is fixed
	Colors  []Option // of tiles and squares
	Color   string   // the one that is chosen; empty for who works
	Cards   []Tile   // of cards; of one its figures; of squares what is wrong
	Left    string   // what is not in Cards, or why there is none
	Groups  []Group  // of tiles and squares
	pages            // of groups, where there are very many
	Figures []Figure // of one
}

// An Option is one of several that a person can choose.
type Option struct {
	Value, Label, Count string
	Chosen              bool
	Level               Level
	Path                templ.SafeURL
}

// A Group is a node with its devices, or a part of one that has many.
type Group struct {
	Key, Name string
	Path      string // of the node's own page; empty where there is none
	Says      string // who works there
	Right     string // its power, or what is wrong
	Level     Level
	Pinned    bool
	Spots     []Spot
	Sums      string // of squares, for those who can't see them
	Silence   *Silence
	node      string
	Of, Title string // the group of nodes that it is in, and what that is called
}

// A WallPart is the groups of nodes of one cluster or rack, or with one label.
type WallPart struct {
	Key, Title string
	Groups     []Group
}

// parts are the groups by what the address asks for.
func (l *GPUList) parts() (out []WallPart) {
	for _, g := range l.Groups {
		if n := len(out); n == 0 || out[n-1].Key != g.Of {
			out = append(out, WallPart{Key: g.Of, Title: g.Title})
		}
		last := &out[len(out)-1]
		last.Groups = append(last.Groups, g)
	}
	return out
}

// A Spot is a device as a tile or a square.
type Spot struct {
	Key, Path, Title string
	Number           string // "GPU 3"
	Figure, Small    string // what the tile shows
	Step             string // "u0" to "u3", by what the color stands for; empty where that is not known
	Level            Level
	Dim              bool // the filter leaves it out, and it keeps its place
	X, Y             string
}

type deviceColor struct {
	name, label string
	meter       int
}

type deviceOrder struct {
	name, label string
	of          func(*gpu.Device) number
}

// colors are what the color of tiles and squares can stand for, with the meter that has it.
var colors = []deviceColor{{"", "Use", 0}, {"temperature", "Temperature", 2}, {"power", "Power", 3}, {"memory", "Memory", 1}}

// sorts are the orders of devices. All but the first put the largest first.
var sorts = []deviceOrder{
	{"", "By number", nil},
	{"temperature", "Hottest first", func(d *gpu.Device) number { return num(d.Thermal.GPU) }},
	{"power", "Most power first", func(d *gpu.Device) number { return num(d.Power.Draw) }},
	{"utilization", "Busiest first", func(d *gpu.Device) number { return topEngine(d).value }},
	{"memory", "Most memory first", func(d *gpu.Device) number { return mebi(d.Memory.Used) }},
}

// newGPUList makes the list of tiles that are in the order of the devices.
func newGPUList(in *Input, tiles []Tile) GPUList {
	l := GPUList{Counts: countOf(tiles), Shape: shapeOf(len(tiles))}
	if l.Shape == One {
		l.Cards = tiles
		if len(tiles) == 1 && tiles[0].Answers {
			l.Figures = newFigures(tiles[0].device)
		}
		return l
	}
	show := in.Choices.Of("show")
	l.Filters = []Option{
		{Label: say("all"), Count: strconv.Itoa(l.All)},
		{Value: "busy", Label: say("busy"), Count: strconv.Itoa(l.Busy)},
		{Value: "problem", Label: say("problem"), Count: strconv.Itoa(l.Problem), Level: worst(tiles)},
	}
	if l.Counts.Unknown > 0 {
		l.Unknown = say("not known", strconv.Itoa(l.Counts.Unknown))
	}
	if !slices.ContainsFunc(l.Filters, func(o Option) bool { return o.Value == show }) {
		show = ""
	}
	for i := range l.Filters {
		o := &l.Filters[i]
		o.Chosen, o.Path = o.Value == show, in.With("show", o.Value)
	}
	pins := in.pins()
	for i := range tiles {
		tiles[i].Pinned = slices.Contains(pins, in.pinOf(tiles[i].device))
	}
	shown := func(t *Tile) bool {
		return show == "" || show == "busy" && t.Busy || show == "problem" && t.problem()
	}
	if l.Shape == Cards {
		l.cards(in, tiles, shown)
	} else {
		l.spots(in, tiles, shown)
	}
	for i := range l.Cards {
		t := &l.Cards[i]
		t.Pin = in.pin(in.pinOf(t.device), pins)
	}
	return l
}

func countOf(tiles []Tile) (c Counts) {
	c.All = len(tiles)
	for i := range tiles {
		t := &tiles[i]
		switch {
		case t.Busy:
			c.Busy++
		case t.Unknown:
			c.Unknown++
		}
		if t.problem() {
			c.Problem++
		}
	}
	return c
}

func worst(tiles []Tile) Level {
	level := Normal
	for i := range tiles {
		if l := tiles[i].Level; l == Bad || level == Normal {
			level = cmp.Or(l, level)
		}
	}
	return level
}

// mostPins is how many devices can be pinned.
const mostPins = 64

// pins are the devices that a person put first: "3" or "node/3".
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

// pinOf is what the address calls a device.
func (in *Input) pinOf(d *gpu.Device) string {
	if len(in.Nodes) > 1 {
		return d.Node + "/" + strconv.Itoa(d.Index)
	}
	return strconv.Itoa(d.Index)
}

// pin is where a device is pinned, or is not any more.
func (in *Input) pin(name string, pins []string) templ.SafeURL {
	others := slices.DeleteFunc(slices.Clone(pins), func(p string) bool { return p == name })
	if len(others) == len(pins) {
		others = append(others, name)
	}
	return in.With("pin", strings.Join(others, ","))
}

// cards sorts the cards, pinned ones first, and leaves out what nobody asked for.
func (l *GPUList) cards(in *Input, tiles []Tile, shown func(*Tile) bool) {
	order := sorts[0]
	for _, s := range sorts {
		l.Sorts = append(l.Sorts, Option{Value: s.name, Label: s.label, Chosen: s.name == in.Choices.Of("sort")})
		if s.name == in.Choices.Of("sort") {
			order = s
		}
	}
	for i := range tiles {
		if shown(&tiles[i]) {
			l.Cards = append(l.Cards, tiles[i])
		}
	}
	slices.SortStableFunc(l.Cards, func(a, b Tile) int {
		pinned := either01(b.Pinned) - either01(a.Pinned)
		if pinned != 0 || order.of == nil {
			return pinned
		}
		return compareNumbers(order.of(b.device), order.of(a.device))
	})
	if len(l.Cards) == 0 {
		l.Left = say(either(in.Choices.Of("show") == "busy", "none busy", "no problem"))
	}
}

func either2(is bool, yes, no int) int {
	if is {
		return yes
	}
	return no
}

// spots makes the groups of tiles and squares.
func (l *GPUList) spots(in *Input, tiles []Tile, shown func(*Tile) bool) {
	color := colors[0]
	for _, c := range colors {
		l.Colors = append(l.Colors, Option{Value: c.name, Label: c.label, Chosen: c.name == in.Choices.Of("color")})
		if c.name == in.Choices.Of("color") {
			color, l.Color = c, c.name
		}
	}
	several := len(in.Nodes) > 1
	var members []*Tile // of the group
	end := func() {
		if len(members) == 0 {
			return
		}
		g := newGroup(in, members, several, l.Shape)
		for i, t := range members {
			s := newSpot(t, color.meter, l.Shape)
			s.Dim = !shown(t)
			columns := (len(members) + 1) / 2
			s.X, s.Y = strconv.Itoa(i%columns), strconv.Itoa(i/columns)
			g.Spots = append(g.Spots, s)
		}
		l.Groups, members = append(l.Groups, g), nil
	}
	for i := range tiles {
		t := &tiles[i]
		if len(members) > 0 && (members[0].device.Node != t.device.Node || !several && len(members) == inGroup) {
			end()
		}
		members = append(members, t)
	}
	end()
	if l.Shape == Tiles {
		slices.SortStableFunc(l.Groups, func(a, b Group) int { return cmp.Compare(a.rank(), b.rank()) })
	} else {
		l.wrong(tiles)
	}
	if several {
		l.part(in)
	}
}

// part puts the nodes into the groups that the address asks for, and leaves out what is not asked for.
func (l *GPUList) part(in *Input) {
	if by := in.grouping(); by.name != "" {
		for i := range l.Groups {
			g := &l.Groups[i]
			if m := in.member(g.node); m != nil {
				of := by.of(m)
				g.Of, g.Title = asked(of), by.title(of)
			}
		}
		if of := in.Choices.Of("of"); of != "" {
			l.Groups = slices.DeleteFunc(l.Groups, func(g Group) bool { return g.Of != of })
		}
		slices.SortStableFunc(l.Groups, func(a, b Group) int {
			return cmp.Or(either01(a.Of == nowhere)-either01(b.Of == nowhere), strings.Compare(a.Of, b.Of))
		})
	}
	var from, to int
	l.pages, from, to = paged(in.Choices, "Nodes", len(l.Groups), mostOnWall)
	l.Groups = l.Groups[from:to]
}

// rank is the place of a group: what is wrong comes first, then what is pinned.
func (g *Group) rank() int {
	switch {
	case g.Level == Bad:
		return 0
	case g.Level != Normal:
		return 1
	case g.Pinned:
		return 2
	default:
		return 3
	}
}

// wrong are the cards beside squares: what somebody should look at, and what is pinned.
func (l *GPUList) wrong(tiles []Tile) {
	for i := range tiles {
		if tiles[i].problem() || tiles[i].Pinned {
			l.Cards = append(l.Cards, tiles[i])
		}
	}
	rank := func(t *Tile) int {
		switch {
		case t.Level == Bad:
			return 0
		case t.problem():
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(l.Cards, func(a, b Tile) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(heat(b.device.Thermal), heat(a.device.Thermal)))
	})
	if n := len(l.Cards); n > mostWrong {
		l.Left = say("more wrong", strconv.Itoa(n-mostWrong))
		l.Cards = l.Cards[:mostWrong]
	}
}

// newGroup says what a node is like.
func newGroup(in *Input, members []*Tile, several bool, shape Shape) Group {
	first := members[0].device
	g := Group{Key: members[0].Key, Name: clean(first.Node, longestName)}
	if several {
		g.Path, g.node, g.Silence = in.nodePath(first.Node), first.Node, in.silence(in.member(first.Node))
	} else {
		g.Name = say("GPUs from", strconv.Itoa(first.Index), strconv.Itoa(members[len(members)-1].device.Index))
	}
	var draw number
	workers := map[string]int{}
	wrong := map[string]int{}
	busy, unknown := 0, 0
	for _, t := range members {
		if n := num(t.device.Power.Draw); n.trusted() && t.Answers {
			draw = newNumber(draw.value+n.value, gpu.Good)
		}
		if t.Busy {
			busy++
			if t.Who.Mark == Plain && t.Who.Text != "" {
				workers[t.Who.Text]++
			}
		}
		if t.Unknown {
			unknown++
		}
		g.Pinned = g.Pinned || t.Pinned
		if t.problem() {
			wrong[t.Says]++
			if t.Level == Bad || g.Level == Normal {
				g.Level = t.Level
			}
		}
	}
	if draw.ok() {
		g.Right = watts(draw.value)
	}
	if g.Level != Normal {
		var parts []string
		for _, says := range sortedKeys(wrong) {
			parts = append(parts, strconv.Itoa(wrong[says])+" "+says)
		}
		g.Right = strings.Join(parts, ", ")
	}
	switch names := sortedKeys(workers); len(names) {
	case 0:
		g.Says = either(busy > 0, say("busy"), either(unknown > 0, "", say("resting")))
	case 1, 2:
		g.Says = strings.Join(names, ", ")
	default:
		g.Says = names[0] + say("and others", strconv.Itoa(len(names)-1))
	}
	if g.Silence != nil {
		g.Says, g.Right, g.Sums = "", "", say("state silent")
	} else if shape == Squares {
		g.Sums = dots(count("GPUs", len(members)), strconv.Itoa(busy)+" "+say("state busy"), either(g.Level != Normal, g.Right, ""))
	}
	return g
}

// sortedKeys are those that are most often first.
func sortedKeys(m map[string]int) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return out
}

// newSpot is a device in little room.
func newSpot(t *Tile, meter int, shape Shape) Spot {
	m := t.Meters[meter]
	s := Spot{Key: t.Key, Path: t.Page, Number: t.Title, Level: t.Level, Step: step(m.Fill)}
	if t.device != nil {
		s.Number = say("gpu", strconv.Itoa(t.device.Index))
	}
	if !t.Answers {
		s.Step = ""
	}
	if shape == Squares {
		return s
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

// short is a figure for a tile: without its unit, and memory in percent. What is not known is a dash.
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

// step is the class of a color, by how much of a limit is used.
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

// newFigures are the six small figures of a page with one device: engines, the busiest first, then what else it reports.
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
			label = say("compute")
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
	add(Figure{Key: "clock", Label: say("clock"), Value: show(clock, megahertz), Remark: num(d.Clocks.MaxSM).say("of", megahertz)})
	add(Figure{Key: "pcie", Label: say("PCIe"), Value: show(num(d.Activity.PCIeReceived), rate), Remark: say("in")})
	add(Figure{Key: "hotspot", Label: say("hot spot"), Value: show(num(d.Thermal.HotSpot), celsius)})
	add(Figure{Key: "memory heat", Label: say("memory heat"), Value: show(num(d.Thermal.Memory), celsius)})
	add(Figure{Key: "bandwidth", Label: say("bandwidth"), Value: show(num(d.Activity.MemoryBandwidth), percent)})
	add(Figure{Key: "memory clock", Label: say("memory clock"), Value: show(num(d.Clocks.Memory), megahertz)})
	return out
}
