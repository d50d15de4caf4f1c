package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func newHostRows(h *gpu.Host) []Figure {
	if h == nil {
		return nil
	}
	cpu, five, fifteen := fact(h.CPU), fact(h.Load5), fact(h.Load15)
	load := Figure{Key: "load", Label: loadText, Value: show(fact(h.Load1), hundredth)}
	if five.ok() && fifteen.ok() {
		load.Remark = loads(hundredth(five.value), hundredth(fifteen.value))
	}
	cores := fact(h.Cores).text(func(v float64) string { return coreCount(int(v)) })
	rows := []Figure{
		{
			Key: "cpu", Label: cpuText, Value: show(cpu, percent), Fill: part(cpu, full),
			Remark: dots(cores, clean(h.CPUModel.Or(""), longestName), fact(h.CPUPower).text(watts), either(h.CPUThrottled.Or(false), slowedByHeatIs, "")),
		},
		load,
		usage("memory", memoryText, memory, factMiB(h.MemoryUsed), factMiB(h.MemoryTotal)),
		usage("swap", swapText, memory, factMiB(h.SwapUsed), factMiB(h.SwapTotal)),
	}
	if total := factMiB(h.SwapTotal); total.ok() && total.value == 0 {
		rows[3] = Figure{Key: "swap", Label: swapText, Value: Value{Text: noneText}}
	}
	for _, f := range h.Fans {
		rows = append(rows, Figure{Key: "fan:" + f.Name, Label: clean(f.Name, longestName), Value: show(fact(f.RPM), rpm)})
	}
	for _, t := range h.Temperatures {
		rows = append(rows, Figure{Key: "temp:" + t.Name, Label: temperatureOf(clean(t.Name, longestName)), Value: show(fact(t.Celsius), celsius)})
	}
	for _, d := range h.Disks {
		row := usage("disk:"+d.Device+":"+d.Mount, clean(d.Mount, longestName), memory, factMiB(d.Used), factMiB(d.Total))
		row.Remark = dots(row.Remark, fact(d.Read).say(readsText, rate), fact(d.Write).say(writesText, rate))
		rows = append(rows, row)
	}
	for _, n := range h.Networks {
		rows = append(rows, Figure{
			Key: "net:" + n.Name, Label: clean(n.Name, longestName), Value: show(fact(n.Received), rate),
			Remark: dots(incoming, fact(n.Sent).say(outgoing, rate)),
		})
	}
	if kernel := clean(h.Kernel, longestName); kernel != "" {
		rows = append(rows, Figure{Key: "kernel", Label: kernelText, Value: Value{Text: kernel}})
	}
	return append(rows, Figure{
		Key: "self", Label: selfText, Value: show(fact(h.Self.CPU), func(v float64) string { return tenth(v) + nbsp + "%" }),
		Remark: dots(ofOneCore, factMiB(h.Self.RSS).say(ofMemory, memory)),
	})
}

// newSums returns the totals of all devices and of the machine, for one line.
func newSums(in *Input, devices []*gpu.Device) []Figure {
	var out []Figure
	if len(devices) > 0 {
		t := gpu.TotalsOf(slices.Values(devices))
		ofMemory := limits(devices, func(d *gpu.Device) (number, number) { return mebi(d.Memory.Used), mebi(d.Memory.Total) })
		ofPower := limits(devices, func(d *gpu.Device) (number, number) { return num(d.Power.Draw), num(d.Power.EnforcedLimit) })
		power := Figure{Key: "power", Label: either(len(devices) == 1, theGPU, allGPUs), Value: show(num(t.PowerDraw), watts), Remark: ofPower.say(ofText, watts)}
		if away := t.Devices - t.Answering; away > 0 && len(devices) > 1 {
			power.Remark = strings.TrimPrefix(power.Remark+", "+notRead(away), ", ")
		}
		out = append(out, power, memoryTotal(t, ofMemory.say(ofText, memory)))
	}
	if len(in.Nodes) != 1 || in.Nodes[0].Host == nil {
		return out
	}
	h := in.Nodes[0].Host
	cores := fact(h.Cores).text(func(v float64) string { return ofText(coreCount(int(v))) })
	out = append(out, Figure{Key: "cpu", Label: processorText, Value: show(fact(h.CPU), percent), Remark: cores})
	machine := usage("ram", memoryText, memory, factMiB(h.MemoryUsed), factMiB(h.MemoryTotal))
	out = append(out, Figure{Key: machine.Key, Label: machine.Label, Value: machine.Value, Remark: machine.Remark, Level: machine.Level})
	var received number
	for _, n := range h.Networks {
		if r := fact(n.Received); r.ok() {
			received = newNumber(received.value+r.value, gpu.Good)
		}
	}
	if received.ok() {
		out = append(out, Figure{Key: "net", Label: networkText, Value: show(received, rate), Remark: incoming})
	}
	return out
}

// newBusiest returns the processes that use most of the CPU.
func newBusiest(h *gpu.Host) []Figure {
	if h == nil {
		return nil
	}
	list := h.Busiest.Or(nil)
	return each(list, func(p *gpu.HostProcess) Figure {
		several := ""
		if p.Count > 1 {
			several = processCount(p.Count)
		}
		f := &p.Facts
		return Figure{
			Key: strconv.Itoa(p.PID), Label: clean(cmp.Or(f.Program.Or(""), f.Name.Or(""), someProcess.text), longestName),
			Value:  show(newNumber(float64(p.CPU), gpu.Good), percent),
			Remark: dots(ofOneCore, clean(f.User.Or(""), longestName), several, placeOf(f)),
		}
	})
}

// newMachine describes the machine in a few words: name, system, uptime.
func newMachine(h *gpu.Host) string {
	if h == nil {
		return ""
	}
	up := fact(gpu.Map(h.Uptime, time.Duration.Seconds)).say(upFor, span)
	return dots(clean(h.Hostname, longestName), clean(h.OS, longestName), up)
}

// fact returns a reading of the host, without the reason why it may be absent.
func fact[T measured](r gpu.Reading[T]) number { return unexplained(num(r)) }

// factMiB is the same for memory, in MiB.
func factMiB(r gpu.Reading[gpu.Bytes]) number { return unexplained(mebi(r)) }

func unexplained(n number) number {
	if n.ok() {
		return number{n.value, gpu.Good}
	}
	return number{}
}
