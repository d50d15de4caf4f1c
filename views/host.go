package views

import (
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A HostRow is one fact about the machine around the devices.
type HostRow struct {
	Key   string
	Label string
	Value Value
	Note  string
	Fill  string // of the bar, "0" to "100"; empty where there is none
}

func newHostRows(h *gpu.Host) []HostRow {
	if h == nil {
		return nil
	}
	rows := []HostRow{cpuRow(h), loadRow(h), memoryRow(h), swapRow(h)}
	for _, d := range h.Disks {
		rows = append(rows, diskRow(d))
	}
	for _, n := range h.Networks {
		rows = append(rows, networkRow(n))
	}
	return append(rows, selfRow(h.Self))
}

func cpuRow(h *gpu.Host) HostRow {
	var notes []string
	if cores := fact(h.Cores); cores.ok() {
		notes = append(notes, count("cores", int(cores.value)))
	}
	if model := clean(h.CPUModel.Or(""), longestName); model != "" {
		notes = append(notes, model)
	}
	cpu := fact(h.CPU)
	return HostRow{Key: "cpu", Label: say("CPU"), Value: show(cpu, percent), Note: dots(notes), Fill: part(cpu, full)}
}

func loadRow(h *gpu.Host) HostRow {
	row := HostRow{Key: "load", Label: say("load"), Value: show(fact(h.Load1), hundredth)}
	five, fifteen := fact(h.Load5), fact(h.Load15)
	if five.ok() && fifteen.ok() {
		row.Note = say("loads", hundredth(five.value), hundredth(fifteen.value))
	}
	return row
}

func memoryRow(h *gpu.Host) HostRow {
	return usage("memory", say("memory"), factMiB(h.MemoryUsed), factMiB(h.MemoryTotal))
}

func swapRow(h *gpu.Host) HostRow {
	total := factMiB(h.SwapTotal)
	if total.ok() && total.value == 0 {
		return HostRow{Key: "swap", Label: say("swap"), Value: Value{Text: say("none")}}
	}
	return usage("swap", say("swap"), factMiB(h.SwapUsed), total)
}

func usage(key, label string, used, total number) HostRow {
	row := HostRow{Key: key, Label: label, Value: show(used, memory), Fill: part(used, total)}
	if total.ok() {
		row.Note = say("of", memory(total.value))
	}
	return row
}

func diskRow(d gpu.Disk) HostRow {
	row := usage("disk:"+d.Device+":"+d.Mount, clean(d.Mount, longestName), factMiB(d.Used), factMiB(d.Total))
	var notes []string
	if row.Note != "" {
		notes = append(notes, row.Note)
	}
	if r := fact(d.Read); r.ok() {
		notes = append(notes, say("reads", rate(r.value)))
	}
	if w := fact(d.Write); w.ok() {
		notes = append(notes, say("writes", rate(w.value)))
	}
	row.Note = dots(notes)
	return row
}

func networkRow(n gpu.Interface) HostRow {
	row := HostRow{Key: "net:" + n.Name, Label: clean(n.Name, longestName), Value: show(fact(n.Received), rate), Note: say("in")}
	if sent := fact(n.Sent); sent.ok() {
		row.Note = dots([]string{say("in"), say("out", rate(sent.value))})
	}
	return row
}

func selfRow(s gpu.Self) HostRow {
	row := HostRow{Key: "self", Label: say("self"), Value: show(fact(s.CPU), func(v float64) string { return tenth(v) + nbsp + "%" }), Note: say("of one core")}
	if held := factMiB(s.RSS); held.ok() {
		row.Note += " · " + say("of memory", memory(held.value))
	}
	return row
}

// part is the width of a bar for value of total; empty where one is absent.
func part(value, total number) string {
	return Meter{}.fill(value, total).Fill
}

func dots(parts []string) string { return strings.Join(parts, " · ") }

// newMachine is the machine in one line: name, system, time since its start.
func newMachine(h *gpu.Host) string {
	if h == nil {
		return ""
	}
	var parts []string
	for _, text := range []string{h.Hostname, h.OS, h.Kernel} {
		if text = clean(text, longestName); text != "" {
			parts = append(parts, text)
		}
	}
	if up := fact(gpu.Map(h.Uptime, time.Duration.Seconds)); up.ok() {
		parts = append(parts, say("up", span(up.value)))
	}
	return dots(parts)
}

func (r HostRow) fill() string {
	if r.Fill == "" {
		return "0"
	}
	return r.Fill
}

// fact is a reading of the host. The messages that keep the page live do not
// say why one is absent, so neither does the first paint.
func fact[T measured](r gpu.Reading[T]) number { return unexplained(num(r)) }

// factMiB is the same of memory, in MiB.
func factMiB(r gpu.Reading[gpu.Bytes]) number { return unexplained(mebi(r)) }

func unexplained(n number) number {
	if n.ok() {
		return number{n.value, gpu.Good}
	}
	return number{}
}
