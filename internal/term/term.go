// Package term prints for people at a terminal: tables, answers and JSON. It replaces control
// characters, so that no device or process name can control the terminal.
package term

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Banner is the line above simulated or recorded readings; empty for current readings of a machine.
func Banner(kind gpu.Kind) string {
	switch kind {
	case gpu.Simulated:
		return "SIMULATED: none of these readings is real."
	case gpu.Recorded:
		return "RECORDED: these readings are not of this machine as it is now."
	}
	return ""
}

// JSON prints an answer for people and programs.
func JSON(w io.Writer, answer any) error {
	encoder := json.NewEncoder(escaping{w})
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}

// JSONLine prints an answer on a line of its own.
func JSONLine(w io.Writer, answer any) error { return json.NewEncoder(escaping{w}).Encode(answer) }

// escaping writes JSON, and escapes what could control a terminal; it is within strings alone.
type escaping struct{ io.Writer }

// Write writes whole JSON texts.
func (e escaping) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(e.Writer, b.String())
	return len(p), err
}

// Table prints the newest readings, with the node of each device where there are several.
func Table(w io.Writer, f *insight.Fleet) error {
	nodes := f.Nodes()
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), len(nodes) > 1}
	if banner := Banner(nodes.Kind()); banner != "" {
		t.row(banner)
	}
	if nodes.Totals().Devices > 0 {
		t.row(f.Answer().Sentence)
		t.row("")
		t.nodeRow("NODE", "GPU", "NAME", "UTIL", "MEMORY", "TEMP", "POWER", "FAN", "STATE")
	}
	for d := range nodes.Devices() {
		t.device(d)
	}
	if len(nodes) == 1 && nodes.Totals().Devices == 0 && nodes[0].Host != nil {
		t.machine(nodes[0].Host, f.Answer().Sentence)
	}
	header := sync.OnceFunc(func() {
		t.row("")
		t.nodeRow("NODE", "GPU", "PID", "USER", "RUNS IN", "TYPE", "VRAM", "SM", "SINCE", "COMMAND")
	})
	for d := range nodes.Devices() {
		for _, p := range d.Processes.Or(nil) {
			header()
			t.process(d, &p)
		}
	}
	return t.Flush()
}

type table struct {
	*tabwriter.Writer
	nodes bool // there are several
}

// nodeRow writes cells about something of a node.
func (t *table) nodeRow(node string, cells ...string) {
	if t.nodes {
		cells = append([]string{node}, cells...)
	}
	t.row(cells...)
}

// row writes cells. Names can't move the terminal's cursor or its columns.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")) // an error comes back from Flush
}

func (t *table) device(d *gpu.Device) {
	memory := text(d.Memory.Used, func(b gpu.Bytes) string { return fmt.Sprintf("%.0f", b.MiB()) }) +
		" / " + text(d.Memory.Total, mebibytes)
	power := text(d.Power.Draw, watts)
	if d.Power.EnforcedLimit.Present() {
		power += " / " + text(d.Power.EnforcedLimit, watts)
	}
	t.nodeRow(d.Node, fmt.Sprint(d.Index), d.Name, text(d.Utilization.GPU, percent), memory,
		text(d.Thermal.GPU, celsius),
		power, text(d.Fans.Commanded(), percent), string(d.State))
}

// machine writes a machine that has no device.
func (t *table) machine(h *gpu.Host, why string) {
	t.row(why)
	t.row("")
	t.row("MACHINE", "READING")
	t.row("CPU", text(h.CPU, percent))
	t.row("CPU power", text(h.CPUPower, watts))
	t.row("memory", text(h.MemoryUsed, mebibytes)+" / "+text(h.MemoryTotal, mebibytes))
	for i := range h.Fans {
		t.row(h.Fans[i].Name, text(h.Fans[i].RPM, func(v gpu.RPM) string { return fmt.Sprintf("%.0f RPM", float64(v)) }))
	}
	if what := h.NoFans.Text(); what != "" {
		t.row("fans", what)
	}
	for i := range h.Temperatures {
		t.row(h.Temperatures[i].Name+" temperature", text(h.Temperatures[i].Celsius, celsius))
	}
	for i, p := range h.Busiest.Or(nil) {
		if i == 0 {
			t.row("")
			t.row("PID", "USER", "RUNS IN", "PROCESSES", "CPU", "COMMAND")
		}
		what := p.Facts.Command
		if !what.Present() {
			what = p.Facts.Name
		}
		t.row(fmt.Sprint(p.PID), p.Facts.User.Or("-"), runsIn(&p.Facts), fmt.Sprint(p.Count), percent(p.CPU), what.Or("-"))
	}
}

func (t *table) process(d *gpu.Device, p *gpu.Process) {
	what := p.Facts.Command
	if !what.Present() {
		what = p.Facts.Name
	}
	if !p.Facts.Exists.Or(true) {
		what = gpu.Of("(process has ended)")
	}
	t.nodeRow(d.Node, fmt.Sprint(d.Index), fmt.Sprint(p.PID), p.Facts.User.Or("-"), runsIn(&p.Facts), string(p.Type),
		text(p.Memory, mebibytes), text(p.SM, percent),
		text(p.Facts.Started, func(started time.Time) string { return started.Local().Format("01-02 15:04") }),
		what.Or("-"))
}

// runsIn is a process's pod or container and its job, or else its unit; "-" if none is known.
func runsIn(f *gpu.ProcessFacts) string {
	var in []string
	switch c, p := f.Container.Or(gpu.Container{}), f.Pod.Or(gpu.Pod{}); {
	case p.Name.Present():
		in = append(in, "pod "+p.Namespace.Or("?")+"/"+p.Name.Or(""))
	case !p.None():
		in = append(in, "pod "+short(p.UID))
	case !c.None():
		in = append(in, cmp.Or(c.Runtime, "container")+" "+c.Name.Or(short(c.ID)))
	}
	if j := f.Job.Or(gpu.Job{}); !j.None() {
		in = append(in, fmt.Sprintf("job %d", j.ID))
	}
	if u := f.Unit.Or(gpu.Unit{}); len(in) == 0 && u.Name != "" {
		in = append(in, u.Name)
	}
	return cmp.Or(strings.Join(in, ", "), "-")
}

// short is an id as far as people read it.
func short(id string) string { return id[:min(len(id), 12)] }

// text is a reading for a table: "-" where there is none.
func text[T any](r gpu.Reading[T], format func(T) string) string {
	if v, ok := r.Get(); ok {
		return format(v)
	}
	return "-"
}

func percent(p gpu.Percent) string { return fmt.Sprintf("%.0f %%", float64(p)) }
func celsius(c gpu.Celsius) string { return fmt.Sprintf("%.0f °C", float64(c)) }
func watts(w gpu.Watts) string     { return fmt.Sprintf("%.0f W", float64(w)) }
func mebibytes(b gpu.Bytes) string { return fmt.Sprintf("%.0f MiB", b.MiB()) }

// Printable replaces characters that could control a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Why prints an answer: its layers, then each cause with its evidence and advice.
func Why(w io.Writer, kind gpu.Kind, answer *contract.Layers, causes []contract.Cause) error {
	var b strings.Builder
	say := func(line ...string) { b.WriteString(Printable(strings.Join(line, "")) + "\n") }
	if banner := Banner(kind); banner != "" {
		say(banner)
	}
	say(answer.Headline)
	var facts []string
	for _, f := range answer.Facts {
		facts = append(facts, f.Text)
	}
	for _, line := range []string{strings.Join(facts, " · "), answer.Rest} {
		if line != "" {
			say("  ", line)
		}
	}
	if answer.Action.Command != "" {
		say("  to stop it: ", answer.Action.Command)
	}
	for i, p := range answer.Next {
		if i == 0 {
			say()
			say("What comes next:")
		}
		say("  ", p.Sentence)
	}
	for i := range causes {
		c := &causes[i]
		say()
		say(c.Sentence)
		say("  certainty: ", c.Certainty)
		if c.Since != nil {
			say("  since: ", Clock(*c.Since))
		}
		for _, e := range c.Evidence {
			if e.Moment && e.At != nil {
				e.Text = Clock(*e.At)
			}
			say("  ", e.Name, ": ", e.Text)
		}
		if c.Advice != "" {
			say("  what helps: ", c.Advice)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Clock is the time of day of a timestamp, in the local time zone.
func Clock(timestamp string) string {
	parsed, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return timestamp
	}
	return parsed.Local().Format(time.TimeOnly)
}
