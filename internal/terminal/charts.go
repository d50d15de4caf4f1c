package terminal

import (
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
)

// leastChart is the fewest lines that a chart is drawn in, with its title and its axis; leastChartWidth is the same in cells. A chart gets no
// higher than mostChart, since nobody reads more out of it.
const (
	leastChart      = 5
	easyChart       = 7 // the fewest lines of several metrics
	leastChartWidth = 34
	mostChart       = 32
	axis            = 5 // cells of the figures at the left
)

// chartWords are the metrics of charts, with their units and looks. The most important come first.
var chartWords = []struct {
	metric     metric
	name, unit string
	role       role
}{
	{utilization, "utilization", "%", good}, {power, "power", "W", current}, {temperature, "temperature", "°C", heat}, {fan, "fan", "%", wind},
}

// charts fill what is left of the frame: as many metrics of as many GPUs as there is room for, or those of the GPU that is selected.
func (m *model) charts(u *client.Update, room int) (rows []row) {
	var list []*client.UpdateGPU
	for i := range u.GPUs {
		list = append(list, &u.GPUs[i])
	}
	g := grid{1, 0, 0, 0}
	if len(list) > 0 {
		g = newGrid(len(list), m.width, room)
	}
	if g.metrics == 0 {
		one := m.chosen(u)
		if one == nil {
			return nil
		}
		list, g = []*client.UpdateGPU{one}, newGrid(1, m.width, room)
	}
	n := len(list) * g.metrics
	across, lines, height := g.across, g.lines, min(room/g.lines, mostChart)
	cell := (m.width - 1 - (across-1)*gap) / across
	for line := range lines {
		block := make([]row, height)
		for i := range block {
			block[i].add(plain, " ")
		}
		for c := range across {
			i := line*across + c
			if i >= n {
				break
			}
			for y, part := range m.chart(list[i/g.metrics], i%g.metrics, cell, height, len(u.GPUs) > 1) {
				if c > 0 {
					block[y].add(plain, "  ")
				}
				block[y].pieces = append(block[y].pieces, part.pieces...)
			}
		}
		rows = append(rows, block...)
	}
	return rows
}

// A grid is how charts are laid out: so many metrics of each GPU, so many charts in a line.
type grid struct{ across, lines, metrics, height int }

// newGrid has as many metrics as fit, with the charts of a GPU side by side. Without room for one metric of each GPU, it has none.
func newGrid(gpus, width, room int) grid {
	most := max(1, width/(leastChartWidth+gap))
	for metrics := len(chartWords); metrics > 0; metrics-- {
		across := min(most/metrics, gpus) * metrics
		if across == 0 && gpus == 1 && metrics%most == 0 { // one GPU's charts, in several lines
			across = most
		}
		least := leastChart
		if metrics > 1 {
			least = easyChart
		}
		if across == 0 {
			continue
		}
		// Lines of equal length.
		lines := (gpus*metrics + across - 1) / across
		if gpus > 1 {
			across = (gpus + lines - 1) / lines * metrics
		}
		if room/lines >= least {
			return grid{across, lines, metrics, room / lines}
		}
	}
	return grid{}
}

// chosen is the GPU that is selected, or else the first.
func (m *model) chosen(u *client.Update) *client.UpdateGPU {
	for i := range u.GPUs {
		if gpuKey(&u.GPUs[i]) == m.selected[gpuPane] {
			return &u.GPUs[i]
		}
	}
	if len(u.GPUs) > 0 {
		return &u.GPUs[0]
	}
	return nil
}

// end is the right edge of charts: the time of the newest reading, or for what is old the time that it would have by now, so that one sees the gap.
func (m *model) end() time.Time {
	u := m.shown().newest(m.node())
	if u == nil {
		return time.Time{}
	}
	t := moment(u.Timestamp)
	if m.past != nil {
		return m.past.at
	}
	return t
}

// chart is one metric of one GPU over the last minutes.
func (m *model) chart(g *client.UpdateGPU, which, cells, height int, several bool) (rows []row) {
	w := chartWords[which]
	k := m.shown()
	points := k.series[[2]string{g.Node, g.UUID}]
	length := k.series.length(m.end())
	inner := cells - axis - 1
	values := columns(points, w.metric, m.end(), length, inner*dotColumns, k.usual)
	top := edge(w.metric, g)
	for _, v := range values {
		if v, ok := v.Get(); ok && v > top { // a fan may be told more than 100 %
			top = v
		}
	}
	newest := absent
	if len(points) > 0 {
		newest = shown(points[len(points)-1].values[w.metric], func(v float64) string { return fmt.Sprintf("%.0f %s", v, w.unit) })
	}
	var title row
	title.add(plain, fit("", axis+1, false))
	if several {
		title.add(strong, fmt.Sprintf("GPU %d ", g.ID))
	}
	title.add(w.role, w.name).add(plain, "  ").add(roleIf(newest == absent, dim, plain), newest)
	rows = append(rows, *title.fill(cells))
	drawn := area(values, height-2, top)
	for y, line := range drawn {
		figure := ""
		switch y {
		case len(drawn) - 1:
			figure = "0"
		case 0:
			if top > 0 {
				figure = fmt.Sprintf("%.0f", top)
			}
		}
		var r row
		r.add(dim, fit(figure, axis, true)+" ").add(w.role, line)
		rows = append(rows, *r.fill(cells))
	}
	var foot row
	ago := fmt.Sprintf("%.0f min", length.Minutes())
	left := ago + " ago"
	right := either(m.past != nil, m.end().In(m.options.Zone).Format("15:04"), "now")
	if m.past != nil {
		left = m.end().Add(-length).In(m.options.Zone).Format("15:04")
	} else if m.stale != "" {
		left, right = ago+" before", "last data"
	}
	foot.add(dim, fit("", axis+1, false)+left)
	foot.fill(cells-width(right)).add(dim, right)
	return append(rows, foot)
}
