package term

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Table prints the newest readings, with the node of each device where there are several. It fits the screen: long names are shortened,
// and columns left out, unless it is wide.
func Table(s Screen, f *insight.Fleet, wide bool) error {
	nodes := f.Nodes()
	several, devices := len(nodes) > 1, nodes.Totals().Devices
	var out []string
	if banner := Banner(nodes.Kind()); banner != "" {
		out = append(out, s.Styled(Warn, banner))
	}
	switch {
	case devices > 0:
		out = append(out, styledLines(s, Strong, f.Answer().Sentence)...)
		out = append(append(out, ""), deviceGrid(nodes, several).lines(s, wide)...)
		if g := processGrid(nodes, several); len(g.rows) > 0 {
			out = append(append(out, ""), g.lines(s, wide)...)
		}
	case len(nodes) == 1 && nodes[0].Host != nil:
		out = append(out, styledLines(s, Strong, f.Answer().Sentence)...)
		out = append(append(out, ""), machineGrid(nodes[0].Host).lines(s, wide)...)
		if g := busiestGrid(nodes[0].Host); len(g.rows) > 0 {
			out = append(append(out, ""), g.lines(s, wide)...)
		}
	}
	for i := range out {
		out[i] += "\n"
	}
	_, err := io.WriteString(s, strings.Join(out, ""))
	return err
}

// styledLines is a text in as many lines as it takes.
func styledLines(s Screen, style Style, text string) []string {
	lines := wrap(Printable(text), s.Width, "  ")
	for i := range lines {
		lines[i] = s.Styled(style, lines[i])
	}
	return lines
}

// ofNode adds the column of the node where there are several.
func ofNode(several bool, columns ...Column) []Column {
	if several {
		return append([]Column{{Title: "NODE", Least: 8}}, columns...)
	}
	return columns
}

// row adds cells about something of a node.
func (g *grid) row(several bool, node string, cells ...cell) {
	if several {
		cells = append([]cell{plainCell(node)}, cells...)
	}
	g.add(cells...)
}

// Beyond these figures a cell stands out.
const (
	warmest = 5  // °C below the limit
	busiest = 95 // % of the memory
)

func deviceGrid(nodes gpu.Nodes, several bool) *grid {
	g := &grid{columns: ofNode(several,
		Column{Title: "GPU"}, Column{Title: "NAME", Rank: 4, Least: 10}, Column{Title: "UTIL", Right: true}, Column{Title: "MEMORY", Rank: 2, Right: true},
		Column{Title: "TEMP", Right: true}, Column{Title: "POWER", Rank: 1, Right: true}, Column{Title: "FAN", Rank: 3, Right: true}, Column{Title: "STATE"},
		Column{Title: "CLOCK", Seldom: true, Right: true}, Column{Title: "UUID", Seldom: true}, Column{Title: "PCI", Seldom: true})}
	for d := range nodes.Devices() {
		memory := text(d.Memory.Used, func(b gpu.Bytes) string { return fmt.Sprintf("%.0f", b.MiB()) }) + " / " + text(d.Memory.Total, mebibytes)
		power := text(d.Power.Draw, watts)
		if d.Power.EnforcedLimit.Present() {
			power += " / " + text(d.Power.EnforcedLimit, watts)
		}
		temperature, full, state := Plain, Plain, Plain
		if now, known := d.Thermal.GPU.Get(); known {
			if limit, has := d.Thermal.Slowdown.Get(); has && now > limit-warmest {
				temperature = Bad
			}
		}
		if used, known := d.Memory.Used.Get(); known {
			if total, has := d.Memory.Total.Get(); has && total > 0 && float64(used) > busiest/100.*float64(total) {
				full = Warn
			}
		}
		switch d.State {
		case gpu.StateOK:
		case gpu.StateAsleep:
			state = Faint
		default:
			state = Bad
		}
		g.row(several, d.Node, plainCell(fmt.Sprint(d.Index)), plainCell(d.Name), plainCell(text(d.Utilization.GPU, percent)), cell{memory, full},
			cell{text(d.Thermal.GPU, celsius), temperature}, plainCell(power), plainCell(text(d.Fans.Commanded(), percent)), cell{string(d.State), state},
			plainCell(text(d.Clocks.SM, megahertz)), plainCell(d.UUID), plainCell(d.PCI))
	}
	return g
}

func processGrid(nodes gpu.Nodes, several bool) *grid {
	g := &grid{columns: ofNode(several,
		Column{Title: "GPU"}, Column{Title: "PID", Right: true}, Column{Title: "USER", Least: 8}, Column{Title: "RUNS IN", Rank: 1, Least: 12}, Column{Title: "TYPE", Rank: 4},
		Column{Title: "VRAM", Right: true}, Column{Title: "SM", Rank: 2, Right: true}, Column{Title: "SINCE", Rank: 3}, Column{Title: "COMMAND", Least: 16})}
	for d := range nodes.Devices() {
		for _, p := range d.Processes.Or(nil) {
			what := commandOf(&p.Facts)
			if !p.Facts.Exists.Or(true) {
				what = "(process has ended)"
			}
			g.row(several, d.Node, plainCell(fmt.Sprint(d.Index)), plainCell(fmt.Sprint(p.PID)), plainCell(p.Facts.User.Or("-")), plainCell(runsIn(&p.Facts)),
				plainCell(string(p.Type)), plainCell(text(p.Memory, mebibytes)), plainCell(text(p.SM, percent)),
				plainCell(text(p.Facts.Started, func(started time.Time) string { return started.Local().Format("01-02 15:04") })), plainCell(what))
		}
	}
	return g
}

// commandOf is what a process runs, or else its name.
func commandOf(f *gpu.ProcessFacts) string {
	if f.Command.Present() {
		return f.Command.Or("")
	}
	return f.Name.Or("-")
}

// machineGrid is about a machine that has no device.
func machineGrid(h *gpu.Host) *grid {
	g := &grid{columns: []Column{{Title: "MACHINE"}, {Title: "READING", Least: 8}}}
	say := func(name, reading string) { g.add(plainCell(name), plainCell(reading)) }
	say("CPU", text(h.CPU, percent))
	say("CPU power", text(h.CPUPower, watts))
	say("memory", text(h.MemoryUsed, mebibytes)+" / "+text(h.MemoryTotal, mebibytes))
	for i := range h.Fans {
		say(h.Fans[i].Name, text(h.Fans[i].RPM, func(v gpu.RPM) string { return fmt.Sprintf("%.0f RPM", float64(v)) }))
	}
	if what := h.NoFans.Text(); what != "" {
		say("fans", what)
	}
	for i := range h.Temperatures {
		say(h.Temperatures[i].Name+" temperature", text(h.Temperatures[i].Celsius, celsius))
	}
	return g
}

func busiestGrid(h *gpu.Host) *grid {
	g := &grid{columns: []Column{
		{Title: "PID", Right: true}, {Title: "USER", Least: 8}, {Title: "RUNS IN", Rank: 1, Least: 12}, {Title: "PROCESSES", Rank: 2, Right: true},
		{Title: "CPU", Right: true}, {Title: "COMMAND", Least: 16},
	}}
	for _, p := range h.Busiest.Or(nil) {
		g.add(plainCell(fmt.Sprint(p.PID)), plainCell(p.Facts.User.Or("-")), plainCell(runsIn(&p.Facts)), plainCell(fmt.Sprint(p.Count)),
			plainCell(percent(p.CPU)), plainCell(commandOf(&p.Facts)))
	}
	return g
}

// CSV prints one line for each device, below the names of the columns if it is titled. A reading that is absent is empty.
func CSV(s Screen, f *insight.Fleet, titled bool) error {
	var rows [][]string
	if titled {
		rows = append(rows, []string{
			"timestamp", "node", "gpu_id", "gpu_uuid", "gpu_name", "source", "state", "utilization_percent", "memory_used_mib", "memory_total_mib",
			"temperature_celsius", "power_watts", "power_limit_watts", "fan_percent", "sm_clock_mhz",
		})
	}
	for _, node := range f.Nodes() {
		when := node.Time.UTC().Format(time.RFC3339Nano)
		for d := range (gpu.Nodes{node}).Devices() {
			rows = append(rows, []string{
				when, d.Node, fmt.Sprint(d.Index), d.UUID, d.Name, d.Source, string(d.State), text(d.Utilization.GPU, figure), text(d.Memory.Used, binary), text(d.Memory.Total, binary),
				text(d.Thermal.GPU, figure), text(d.Power.Draw, figure), text(d.Power.EnforcedLimit, figure), text(d.Fans.Commanded(), figure), text(d.Clocks.SM, figure),
			})
		}
	}
	for _, row := range rows {
		for i := range row {
			if row[i] == "-" {
				row[i] = ""
			}
		}
	}
	return printCSV(s, rows)
}

// figure is a number for programs.
func figure[T ~float64](v T) string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }

func binary(b gpu.Bytes) string { return figure(b.MiB()) }
