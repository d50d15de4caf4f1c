package views

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Tile shows one device.
type Tile struct {
	Key       string // node and UUID
	Title     string // "GPU 0"
	Page      string // the address of the device's own page
	Name      string
	State     string // the device's state; "busy", "idle" or "on" while it answers
	StateText string
	Answers   bool // the meters have values
	Answer    bool // the page's sentence is about it

	Meters []Figure // utilization, memory, temperature, power, fan

	Who    Value  // the process that explains the work best
	Detail string // its user, its pid and what it holds
	Speed  string // performance state and clock
	Bus    string // the memory's clock and the bus, where there is room
	Held   string // what holds the clocks down; empty where nothing does

	NoticeTitle string // "for 12 min", beside the state; empty while the device answers
	Notice      string // why, and what to do; of a device that answers, what comes soon
}

func newTile(title string, d *gpu.Device, base string, now time.Time) Tile {
	t := Tile{
		Key:     d.Node + "/" + d.UUID,
		Title:   title,
		Page:    base + devicePath(d.UUID),
		Name:    clean(d.Name, longestName),
		Answers: d.State == gpu.StateOK,
		Notice:  sentence(d.Reason.Text()),
		Meters:  newMeters(d),
	}
	if !t.Answers {
		t.State = string(d.State)
		t.StateText = say("state " + t.State)
		t.NoticeTitle = say("for", between(d.Since, now))
		t.Notice = cmp.Or(t.Notice, say("do "+t.State))
		return t
	}
	switch util := num(d.Utilization.GPU); {
	case !util.ok():
		t.State = "on"
	case util.value >= gpu.BusyFrom:
		t.State = "busy"
	default:
		t.State = "idle"
	}
	t.StateText = say("state " + t.State)
	t.Who, t.Detail = newWho(d)
	t.Speed, t.Bus = newSpeed(d), newBus(d)
	t.Held = newHeld(d.Clocks.EventReasons.Or(0))
	return t
}

func newMeters(d *gpu.Device) []Figure {
	util, draw, limit := num(d.Utilization.GPU), num(d.Power.Draw), num(d.Power.EnforcedLimit)
	return []Figure{
		{Key: "utilization", Label: "Utilization", Value: show(util, percent), Fill: part(util, full)},
		memoryMeter(d),
		temperatureMeter(d.Thermal),
		usage("power", "Power", watts, draw, limit),
		fanMeter(d.Fans),
	}
}

// soon is what comes first of what has a time; empty where nothing has.
func soon(list []explain.Prospect) string {
	for _, p := range list {
		if p.Left.Present() {
			return p.Short
		}
	}
	return ""
}

// full is the limit of what is measured in percent.
var full = number{100, gpu.Good}

// usage is near its limit from 95 %: the next allocation of memory may fail.
func usage(key, label string, format func(float64) string, used, limit number) Figure {
	out := Figure{Key: key, Label: label, Value: show(used, format), Remark: limit.say("of", format), Fill: part(used, limit)}
	if out.Fill != "" && used.value >= 0.95*limit.value {
		out.Level = Near
	}
	return out
}

// memoryMeter says of a device without memory of its own what it has of the machine's, with
// what the firmware set apart for it. That is never near its limit: the machine is.
func memoryMeter(d *gpu.Device) Figure {
	own, shared := mebi(d.Memory.Used), mebi(d.Shared.Used)
	if !d.Shared.Unified.Or(false) {
		return usage("memory", "Memory", memory, own, mebi(d.Memory.Total))
	}
	out := Figure{Key: "memory", Label: "Memory", Value: missing("unified")}
	if shared.ok() {
		out.Value, out.Remark = show(newNumber(own.value+shared.value, shared.quality), memory), say("of the machine")
	}
	return out
}

// temperatureMeter warns 10 degrees before the hardware slows itself down, again at 3.
func temperatureMeter(t gpu.Thermal) Figure {
	now, limit := num(t.GPU), heatLimit(t)
	out := Figure{Key: "temperature", Label: "Temperature", Value: show(now, celsius), Fill: part(now, full)}
	if limit.ok() {
		out.Remark, out.Fill, out.Level = say("slows at", celsius(limit.value)), part(now, limit), level(heat(t), -10, -3)
	}
	return out
}

func heatLimit(t gpu.Thermal) number {
	now, limit := num(t.GPU), num(t.Slowdown)
	if margin := num(t.Margin); !limit.ok() && now.ok() && margin.ok() {
		return newNumber(now.value+margin.value, gpu.Good)
	}
	return limit
}

// heat is how far a device is above the limit of its heat in degrees, mostly below 0.
func heat(t gpu.Thermal) float64 {
	now, limit := num(t.GPU), heatLimit(t)
	if !now.ok() || !limit.ok() {
		return math.Inf(-1)
	}
	return now.value - limit.value
}

func level(v, near, top float64) Level {
	switch {
	case v >= top:
		return AtTop
	case v >= near:
		return Near
	default:
		return Normal
	}
}

// fanMeter shows the speed that the driver asks for, which may pass 100 %, and
// beside it what the tachometer of the fastest fan says.
func fanMeter(f gpu.Fans) Figure {
	speed := num(f.Commanded())
	out := Figure{Key: "fan", Label: "Fan", Value: show(speed, percent), Fill: part(speed, full)}
	if len(f.Fans) == 0 && speed.quality == gpu.NotSupported {
		out.Value = missing("no fan")
		return out
	}
	var fastest number
	for _, fan := range f.Fans {
		if n := num(fan.RPM); n.over(fastest) {
			fastest = n
		}
	}
	out.Remark = fastest.text(func(v float64) string { return rpm(max(v, 0)) })
	if slices.ContainsFunc(f.Fans, func(fan gpu.Fan) bool { return fan.Policy.Or("") == "manual" }) {
		out.Remark = strings.TrimPrefix(out.Remark+", "+say("by hand"), ", ")
	}
	if speed.ok() {
		out.Level = level(speed.value, 80, 100)
	}
	return out
}

// newWho names the process that explains the device's work best.
func newWho(d *gpu.Device) (Value, string) {
	list, listed := d.Processes.Get()
	if !listed {
		v := absent(d.Processes.Quality())
		v.Text = say("unlisted", v.Text)
		return v, ""
	}
	if len(list) == 0 {
		return missing(either(d.ProcessesPartial.Or(false), "no process seen", "no process")), ""
	}
	p := slices.MinFunc(list, busierProcess)
	more := ""
	if n := len(list) - 1; n > 0 {
		more = count("more processes", n)
	}
	who := shown(programOf(&p), longestName)
	if who.Mark == Missing {
		who = missing("someone")
	}
	user := clean(p.Facts.User.Or(""), longestName)
	return who, dots(user, say("pid", strconv.Itoa(p.PID)), mebi(p.Memory).text(memory), more)
}

// programOf is what a process runs, as people call it, or else the kernel's name for it.
func programOf(p *gpu.Process) gpu.Reading[string] {
	if p.Facts.Program.Present() {
		return p.Facts.Program
	}
	return p.Facts.Name
}

// busierProcess puts the largest share of an engine's time first. Without shares, a compute
// context is the likelier cause, then the larger memory.
func busierProcess(a, b gpu.Process) int {
	return cmp.Or(
		cmp.Compare(share(&b), share(&a)),
		cmp.Compare(drawsOnly(&a), drawsOnly(&b)),
		cmp.Compare(mebi(b.Memory).value, mebi(a.Memory).value),
		cmp.Compare(a.PID, b.PID),
	)
}

func share(p *gpu.Process) float64 {
	return max(num(p.SM).value, num(p.Encoder).value, num(p.Decoder).value, num(p.Video).value)
}

func drawsOnly(p *gpu.Process) int {
	if share(p) <= 0 && p.Type == gpu.TypeGraphics {
		return 1
	}
	return 0
}

func newSpeed(d *gpu.Device) string {
	clock, instances := num(d.Clocks.SM), ""
	if !clock.ok() {
		clock = num(d.Clocks.Graphics)
	}
	if n := len(d.Instances); n > 0 {
		instances = count(either(d.Vendor == gpu.NVIDIA, "MIG instances", "partitions"), n)
	}
	// Video heats a device whose utilization is 0 %.
	video := func(name string, r gpu.Reading[gpu.Percent]) string {
		v := num(r)
		return either(v.value > 0, v.say(name, percent), "")
	}
	return dots(gpu.Map(d.Clocks.PerformanceState, pstate).Or(""), clock.text(megahertz), instances,
		video("encoder", d.Utilization.Encoder), video("decoder", d.Utilization.Decoder),
		video("video", d.Utilization.Video))
}

func newBus(d *gpu.Device) string {
	link := ""
	if generation, width := num(d.PCIe.Generation), num(d.PCIe.Width); generation.ok() && width.ok() {
		link = say("pcie", strconv.Itoa(int(generation.value)), strconv.Itoa(int(width.value)))
	}
	return dots(num(d.Clocks.Memory).say("memory at", megahertz), link)
}

// newHeld says what slows the work down.
func newHeld(reasons gpu.ClockEventReasons) string {
	var by []string
	for _, name := range reasons.Names() {
		if text := say("held " + name); text != "" && !slices.Contains(by, text) {
			by = append(by, text)
		}
	}
	return list(by)
}

// blankMeters are those of a tile that a script fills in.
func blankMeters() []Figure {
	meters := newMeters(&gpu.Device{})
	for i := range meters {
		meters[i].Value = Value{}
	}
	return meters
}
