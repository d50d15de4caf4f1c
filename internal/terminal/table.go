package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
)

// gap is the space between columns.
const gap = 2

// A column is a column of a table about values of a type.
type column[T any] struct {
	title string
	least int // cells that it has at least; more if a figure needs them
	want  int // cells that it gets before others get more than they need; 0: least
	most  int // cells that it can use
	right bool
	rank  int    // the higher, the earlier it is left out where there is no room; 0: never
	sort  *order // sorts processes by it; nil: it does not
	cell  func(c *cells, v T) []piece
}

// cells is what a cell knows of the frame.
type cells struct {
	m     *model
	width int
}

func single(role role, text string) []piece { return []piece{{text, role}} }

// value is a reading's text, dim where there is none.
func value(role role, text string) []piece {
	if text == absent {
		role = dim
	}
	return single(role, text)
}

// A table is columns that fit a width.
type table[T any] struct {
	columns []column[T]
	widths  []int
}

// newTable leaves out columns until the others fit, and gives them the room that is left, in their order. No figure of the values is cut.
func newTable[T any](m *model, all []column[T], width int, values []T) table[T] {
	t := table[T]{columns: slices.Clone(all)}
	for i := range t.columns {
		c := &t.columns[i]
		for _, v := range values {
			if c.right {
				c.least = max(c.least, widthOf(c.cell(&cells{m, c.least}, v)))
			}
		}
		c.most = max(c.most, c.least)
	}
	need := func() (n int) {
		for _, c := range t.columns {
			n += c.least + gap
		}
		return n - gap + 1 // a space at the left edge
	}
	for need() > width {
		worst := 0
		for i, c := range t.columns {
			if c.rank > t.columns[worst].rank {
				worst = i
			}
		}
		if t.columns[worst].rank == 0 {
			break
		}
		t.columns = slices.Delete(t.columns, worst, worst+1)
	}
	left := max(0, width-need())
	grow := func(i, to int) {
		more := max(0, min(left, to-t.widths[i]))
		t.widths[i] += more
		left -= more
	}
	for _, c := range t.columns {
		t.widths = append(t.widths, c.least)
	}
	for i, c := range t.columns {
		grow(i, c.want)
	}
	for i, c := range t.columns {
		grow(i, c.most)
	}
	return t
}

func widthOf(pieces []piece) (n int) {
	for _, p := range pieces {
		n += width(clean(p.text))
	}
	return n
}

// header is the line with the titles. at has the columns' places, for the mouse.
func (t *table[T]) header(m *model, focused bool) (line row, at []titlePlace) {
	line.add(plain, " ")
	x := 1
	for i, c := range t.columns {
		title := c.title
		role := dim
		if focused {
			role = heading
		}
		if c.sort != nil && *c.sort == m.sort {
			if arrow := "▾"; m.upward {
				title += "▴"
			} else {
				title += arrow
			}
		}
		w := t.widths[i]
		line.add(role, fit(title, w, c.right))
		at = append(at, titlePlace{x, x + w, c.sort})
		if i < len(t.columns)-1 {
			line.add(plain, strings.Repeat(" ", gap))
		}
		x += w + gap
	}
	return line, at
}

// titlePlace is where a column's title is.
type titlePlace struct {
	from, to int
	sort     *order
}

// line is the line about a value, or from the column named until on a note in their place.
func (t *table[T]) line(m *model, v T, selected bool, from string, note []piece) (line row) {
	line.selected = selected
	line.add(plain, either(selected, "▸", " "))
	for i, c := range t.columns {
		if note != nil && c.title == from {
			line.pieces = append(line.pieces, note...)
			return line
		}
		w := t.widths[i]
		pieces := c.cell(&cells{m, w}, v)
		n := 0
		for j := range pieces {
			pieces[j].text = clean(pieces[j].text)
			n += width(pieces[j].text)
		}
		if n > w { // only texts are ever longer than their column
			last := &pieces[len(pieces)-1]
			last.text = fit(last.text, w-(n-width(last.text)), false)
			n = w
		}
		space := piece{strings.Repeat(" ", max(0, w-n)), plain}
		if c.right {
			line.pieces = append(append(line.pieces, space), pieces...)
		} else {
			line.pieces = append(append(line.pieces, pieces...), space)
		}
		if i < len(t.columns)-1 {
			line.pieces = append(line.pieces, piece{strings.Repeat(" ", gap), plain})
		}
	}
	return line
}

func either(is bool, a, b string) string {
	if is {
		return a
	}
	return b
}

// doubtful adds a question mark to a reading that gpuwhy doubts.
func doubtful(g *client.UpdateGPU, path, text string) string {
	if text != absent && g.Quality[path] == gpu.Doubtful.String() {
		return text + "?"
	}
	return text
}

// shareOf is a value as a share of a limit.
func shareOf[T ~float64 | ~uint64](v, limit gpu.Reading[T]) gpu.Reading[float64] {
	top := number(limit).Or(0)
	if top <= 0 {
		return gpu.Reading[float64]{}
	}
	return gpu.Map(number(v), func(v float64) float64 { return v / top })
}

// withBar is a figure behind a bar, if there is room for one.
func withBar(c *cells, role role, text string, figure int, share gpu.Reading[float64]) []piece {
	room := c.width - figure - 1
	s, ok := share.Get()
	if room < 4 {
		return value(plain, text)
	}
	if !ok {
		return []piece{{strings.Repeat(" ", room+1), plain}, {fit(text, figure, true), dim}}
	}
	full, rest := bar(s, room)
	return []piece{{full, role}, {rest + " ", dim}, {fit(text, figure, true), plain}}
}

// hot reports whether a GPU is near a limit of its temperature, or slowed by heat.
func hot(g *client.UpdateGPU) bool {
	margin, known := g.Temperature.Margin.Get()
	return known && margin <= 5 || slices.ContainsFunc(g.EventReasons, func(r string) bool { return strings.Contains(r, "thermal") })
}

// pool is the memory that processes on a GPU use: its own or, where it has none, the machine's.
func pool(g *client.UpdateGPU) (used, total gpu.Reading[gpu.Bytes]) {
	if g.SharedMemory.Unified.Or(false) {
		return g.SharedMemory.Used, g.SharedMemory.Total
	}
	return g.Memory.Used, g.Memory.Total
}

// name is a product without what all of them begin with.
func name(product string) string {
	for _, maker := range []string{"NVIDIA ", "AMD ", "Intel "} {
		product = strings.TrimPrefix(product, maker)
	}
	return strings.TrimPrefix(product, "GeForce ")
}

// gpuColumns are the columns of the table of GPUs. The narrowest terminal has room for those of rank 0.
var gpuColumns = []column[*client.UpdateGPU]{
	{title: "GPU", least: 3, most: 3, right: true, cell: func(_ *cells, g *client.UpdateGPU) []piece { return single(strong, strconv.Itoa(g.ID)) }},
	{title: "NAME", least: 10, most: 22, rank: 3, cell: func(_ *cells, g *client.UpdateGPU) []piece { return single(plain, name(g.Name)) }},
	{title: "UTIL", least: 6, most: 20, right: true, cell: func(c *cells, g *client.UpdateGPU) []piece {
		share := gpu.Map(number(g.Utilization.GPU), func(v float64) float64 { return v / 100 })
		return withBar(c, good, doubtful(g, "utilization.gpu_percent", shown(g.Utilization.GPU, percent)), 5, share)
	}},
	{title: "MEMORY", least: 13, most: 28, right: true, rank: 2, cell: func(c *cells, g *client.UpdateGPU) []piece {
		used, total := pool(g)
		text := shown(used, gibi) + "/" + shown(total, gibi) + " GiB"
		if !used.Present() && !total.Present() {
			text = absent
		}
		return withBar(c, current, doubtful(g, "memory.used_mb", text), 13, shareOf(used, total))
	}},
	{title: "TEMP", least: 6, most: 6, right: true, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		text := doubtful(g, "temperature.current_celsius", shown(g.Temperature.GPU, celsius))
		if hot(g) {
			return single(bad, "!"+text)
		}
		return value(plain, text)
	}},
	{title: "POWER", least: 9, most: 9, right: true, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		draw, limit := shown(g.Power.Draw, bare), shown(g.Power.Limit, bare)
		switch {
		case draw == absent:
			return value(plain, absent)
		case limit == absent:
			return value(plain, doubtful(g, "power.power_draw_watts", draw+" W"))
		}
		return value(plain, doubtful(g, "power.power_draw_watts", draw+"/"+limit+" W"))
	}},
	{title: "FAN", least: 6, most: 6, right: true, rank: 1, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		if n, known := g.FanCount.Get(); known && n == 0 {
			return single(dim, "none")
		}
		return value(plain, doubtful(g, "fan_speed_percent", shown(g.FanSpeedPercent, percent)))
	}},
	{title: "CLOCK", least: 8, most: 8, right: true, rank: 6, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		return value(plain, shown(g.Clocks.SM, megahertz))
	}},
	{title: "LINK", least: 7, most: 7, rank: 9, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		if !g.PCIe.Generation.Present() || !g.PCIe.Width.Present() {
			return value(plain, absent)
		}
		return single(plain, fmt.Sprintf("%d.0 ×%d", g.PCIe.Generation.Or(0), g.PCIe.Width.Or(0)))
	}},
	{title: "UTIL 5 MIN", least: 10, most: 30, rank: 4, cell: spark(utilization, good)},
	{title: "TEMP 5 MIN", least: 20, most: 30, rank: 8, cell: spark(temperature, heat)},
	{title: "WHY", least: 30, want: 56, most: 70, rank: 7, cell: func(_ *cells, g *client.UpdateGPU) []piece {
		if g.Broken && g.State == string(gpu.StateOK) { // others say so in words
			return single(bad, "! "+g.Headline)
		}
		return single(dim, g.Headline)
	}},
}

// bare is a figure without its unit.
func bare[T ~float64](v T) string { return fmt.Sprintf("%.0f", float64(v)) }

// sparkSpan is how much of the past the small charts show.
const sparkSpan = 5 * time.Minute

// spark draws the last minutes of a metric in one row.
func spark(metric metric, role role) func(*cells, *client.UpdateGPU) []piece {
	return func(c *cells, g *client.UpdateGPU) []piece {
		k := c.m.shown()
		points := k.series[[2]string{g.Node, g.UUID}]
		values := columns(points, metric, c.m.end(), sparkSpan, c.width*dotColumns, k.usual)
		return single(role, area(values, 1, edge(metric, g))[0])
	}
}

// edge is the value at the upper edge of a chart; 0 if nothing says what it should be.
func edge(metric metric, g *client.UpdateGPU) float64 {
	if metric == power {
		return number(g.Power.Limit).Or(number(g.Power.MaxLimit).Or(0))
	}
	return 100 // also of temperatures, since no GPU works above it
}

// gpuNote is what stands in place of readings of a GPU that has none; nil if it has.
func gpuNote(g *client.UpdateGPU, silent bool, zone *time.Location) []piece {
	var what string
	role := bad
	switch {
	case silent:
		return nil // the machine says so
	case g.State == string(gpu.StateLost):
		what = "! lost"
	case g.State == string(gpu.StateNotAnswering):
		what = "! not answering"
	case g.State == string(gpu.StateAsleep):
		role, what = dim, "asleep"
	default:
		return nil
	}
	what += " since " + moment(g.StateSince).In(zone).Format(time.TimeOnly)
	if g.StateReason != "" {
		return []piece{{what, role}, {"  " + clean(g.StateReason), dim}}
	}
	return []piece{{what, role}}
}

// processColumns are the columns of the table of processes.
var processColumns = []column[*entry]{
	{title: "PID", least: 7, most: 7, right: true, sort: new(byPID), cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return single(dim, strconv.Itoa(e.count)+"×")
		}
		return single(plain, strconv.Itoa(e.process.PID))
	}},
	{title: "USER", least: 8, most: 14, sort: new(byUser), cell: func(_ *cells, e *entry) []piece {
		switch {
		case e.group != "" && e.depth == 0:
			return single(strong, e.group)
		case e.depth > 0:
			return nil
		}
		return value(plain, cmp.Or(e.user(), absent))
	}},
	{title: "WHERE", least: 12, most: 30, rank: 3, sort: new(byPlace), cell: func(c *cells, e *entry) []piece {
		switch {
		case e.group != "" && e.depth == 1:
			return single(strong, "└ "+e.group)
		case c.m.tree && e.group == "" && e.depth == 2, e.group != "":
			return nil
		}
		return value(plain, cmp.Or(place(e.process), absent))
	}},
	{title: "GPU", least: 5, most: 12, right: true, sort: new(byGPU), cell: func(_ *cells, e *entry) []piece { return single(plain, indexes(e.gpus)) }},
	{title: "MEMORY", least: 8, most: 9, right: true, sort: new(byMemory), cell: func(_ *cells, e *entry) []piece { return value(plain, shown(e.memory, size)) }},
	{title: "GPU %", least: 6, most: 6, right: true, rank: 2, sort: new(byUse), cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return nil
		}
		return value(plain, shown(e.use, percent))
	}},
	{title: "WATTS", least: 6, most: 7, right: true, rank: 1, sort: new(byWatts), cell: func(_ *cells, e *entry) []piece { return value(plain, shown(e.power, watts)) }},
	{title: "TIME", least: 6, most: 6, right: true, rank: 5, sort: new(byTime), cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return nil
		}
		return value(plain, shown(e.started(), running))
	}},
	{title: "CPU", least: 6, most: 6, right: true, rank: 6, cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return nil
		}
		return value(plain, shown(e.process.CPU, percent))
	}},
	{title: "RAM", least: 8, most: 8, right: true, rank: 7, cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return nil
		}
		return value(plain, shown(e.process.RSS, size))
	}},
	{title: "TYPE", least: 8, most: 16, rank: 8, cell: func(_ *cells, e *entry) []piece {
		if e.group != "" {
			return nil
		}
		return single(dim, e.process.Type)
	}},
	{title: "COMMAND", least: 8, want: 48, most: 400, rank: 4, sort: new(byCommand), cell: func(c *cells, e *entry) []piece {
		switch {
		case e.group != "":
			return nil
		case c.width < 30: // a path would say nothing
			return single(plain, e.program())
		}
		return single(plain, e.command())
	}},
}

// machineColumns are the columns of the table of machines.
var machineColumns = []column[*client.Machine]{
	{title: "MACHINE", least: 20, most: 32, cell: func(_ *cells, c *client.Machine) []piece { return single(strong, c.Node) }},
	{title: "CLUSTER", least: 10, most: 20, rank: 6, cell: func(_ *cells, c *client.Machine) []piece { return single(dim, c.Cluster) }},
	{title: "STATE", least: 9, most: 9, cell: func(_ *cells, c *client.Machine) []piece {
		switch c.State {
		case "broken", "unread":
			return single(bad, "! "+c.State)
		case "silent":
			return single(warn, "? silent")
		case "loud":
			return single(warn, "! loud")
		case "busy":
			return single(good, "  busy")
		}
		return single(dim, "  "+c.State)
	}},
	{title: "BUSY", least: 7, most: 7, right: true, rank: 1, cell: func(_ *cells, c *client.Machine) []piece {
		if c.SilentSince != "" {
			return value(dim, absent)
		}
		return single(plain, fmt.Sprintf("%d of %d", c.Busy, c.Devices))
	}},
	{title: "UTIL", least: 6, most: 16, right: true, rank: 4, cell: func(cs *cells, c *client.Machine) []piece {
		return withBar(cs, good, shown(c.Utilization, percent), 5, gpu.Map(number(c.Utilization), func(v float64) float64 { return v / 100 }))
	}},
	{title: "HOTTEST", least: 7, most: 7, right: true, rank: 2, cell: func(_ *cells, c *client.Machine) []piece {
		return value(plain, shown(c.MaxTemperature, celsius))
	}},
	{title: "POWER", least: 7, most: 7, right: true, rank: 3, cell: func(_ *cells, c *client.Machine) []piece {
		return value(plain, shown(c.PowerDraw, watts))
	}},
	{title: "WHY", least: 10, want: 60, most: 400, rank: 5, cell: func(_ *cells, c *client.Machine) []piece {
		return single(roleIf(c.Broken, plain, dim), c.Headline)
	}},
}

func roleIf(is bool, a, b role) role {
	if is {
		return a
	}
	return b
}
