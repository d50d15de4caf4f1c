package views

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// A Tile is one device, shown as a card or in less space.
type Tile struct {
	Key       string // node and UUID
	Title     string // "GPU 0"
	Page      string // address of the device's own page
	Name      string
	State     string // the device's state; "busy", "idle" or "on" while it answers
	StateText string
	Answers   bool // the meters have values
	Answer    bool // the page's headline is about it
	Busy      bool
	Unknown   bool   // it does not report whether it is busy
	Level     Level  // Near: slowed, or close to its temperature limit; Bad: broken
	Says      string // its state in a word or two: "slowed by heat", "fan 40 %"

	Meters []Figure // busiest engine, memory, temperature, power, fan

	Hue    string // color class of Who
	Who    Value  // the process that explains the work best
	User   string
	Detail string // its user, pid and memory
	Speed  string // performance state and clock
	Bus    string // the memory's clock and the bus
	Held   string // what holds the clocks down; empty if nothing does

	NoticeTitle string // how long the state has lasted, such as "for 12 min"; empty while the device answers
	Notice      string // why, and what to do; for a device that answers, what comes next

	Pinned bool
	Pin    templ.SafeURL // address of the page with this device pinned or unpinned; empty if pinning is not possible

	Spark  picture.Field // the small picture of a card
	device *gpu.Device
}

// A glance has what counting and filtering needs of a device; of thousands, few get a [Tile].
type glance struct {
	device                         *gpu.Device
	answers, busy, unknown, silent bool
	level                          Level
	asks                           bool // its driver asks for action, such as a reset
	pinned                         bool
}

// problem reports whether somebody should look at the device.
func (g *glance) problem() bool { return g.level != Normal }

func newGlance(in *Input, d *gpu.Device) glance {
	g := glance{device: d, answers: d.State == gpu.StateOK}
	if !g.answers {
		g.unknown, g.silent = d.State != gpu.StateAsleep, in.silent(d.Node)
		if g.unknown && !g.silent {
			g.level = Bad
		}
		return g
	}
	said := in.said(d)
	works, known := worksBy(d, said)
	g.busy, g.unknown = works, !known
	reasons := reasonsOf(d)
	switch {
	case fails(said):
		g.level = Bad
	case asks(said):
		g.level, g.asks = Bad, true
	case reasons&(slowedByHeat|slowedByHardware) != 0, nearHeat(d.Thermal) == AtTop:
		g.level = Near
	}
	return g
}

const (
	slowedByHeat     = gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal
	slowedByHardware = gpu.ReasonHardwareSlowdown | gpu.ReasonHardwarePowerBrake
)

func newTile(in *Input, d *gpu.Device, now time.Time) Tile {
	g := newGlance(in, d)
	return g.tile(in, now)
}

// tile puts the device into words.
func (g *glance) tile(in *Input, now time.Time) Tile {
	d := g.device
	t := Tile{
		Key:     g.key(),
		Title:   in.name(d),
		Page:    in.BasePath + devicePath(d.UUID),
		Name:    clean(d.Name, longestName),
		Answers: g.answers,
		Busy:    g.busy,
		Unknown: g.unknown,
		Level:   g.level,
		Pinned:  g.pinned,
		State:   g.state(),
		Says:    g.says(),
		Notice:  sentence(d.Reason.Text()),
		Meters:  newMeters(d),
		device:  d,
	}
	t.StateText = stateText(t.State)
	if in.pageOf != nil {
		t.Page = in.pageOf(d)
	}
	if !t.Answers {
		t.NoticeTitle = forText(lastsFor(d.Since, now))
		t.Notice = cmp.Or(t.Notice, whatToDo(t.State))
		return t
	}
	t.Who, t.User, t.Detail = newWho(d)
	t.Hue = serviceHue
	if p := mainProcess(d); p != nil {
		t.Hue = in.hue(p)
	}
	t.Speed, t.Bus = newSpeed(d), newBus(d)
	t.Held = g.held()
	if in.Next != nil {
		t.Notice = cmp.Or(t.Notice, soon(in.Next(d)))
	}
	return t
}

func (g *glance) key() string { return g.device.Node + "/" + g.device.UUID }

func (g *glance) state() string {
	switch {
	case g.silent:
		return stateSilent
	case !g.answers:
		return string(g.device.State)
	case g.busy:
		return stateBusy
	case !g.unknown:
		return stateIdle
	}
	return stateOn
}

// held says what holds the clocks down.
func (g *glance) held() string {
	slowed, limited := newHeld(reasonsOf(g.device))
	return dots(either(slowed == "", "", slowedBy(slowed)), either(limited, powerLimited, ""))
}

// says returns the state of a device in words, the worst first.
func (g *glance) says() (says string) {
	if !g.answers {
		return stateText(g.state())
	}
	d, reasons := g.device, reasonsOf(g.device)
	fan := num(d.Fans.Commanded())
	switch {
	case g.asks:
		says = needsActionText
	case g.level == Bad:
		says = fanFailsText
	case reasons&slowedByHeat != 0:
		says = slowedByHeatIs
	case reasons&slowedByHardware != 0:
		says = g.held()
	case g.level == Near:
		says = nearHeatLimit
	case reasons&gpu.ReasonPowerCap != 0 && g.busy:
		says = powerLimited
	default:
		switch figure := fanMeter(d.Fans); {
		case figure.Value.Mark != Plain:
		case fan.value == 0:
			says = fanOffText
		default:
			says = fanAt(figure.Value.Text)
		}
	}
	if g.state() == stateIdle {
		says = dots(either(g.level == Normal, restingText, ""), says)
	}
	return says
}

// fails reports whether an answer says that a fan of the device is failing.
func fails(said *explain.DeviceAnswer) bool {
	return said != nil && slices.ContainsFunc(said.Causes, func(c explain.Cause) bool { return c.Kind == explain.FanFailing && c.Case != explain.Unasked })
}

// asks reports whether an answer says that the driver of the device asks for action.
func asks(said *explain.DeviceAnswer) bool {
	return said != nil && slices.ContainsFunc(said.Causes, func(c explain.Cause) bool { return c.Kind == explain.NeedsAction })
}

// reasonsOf returns the reasons why a device's clocks are held down; empty without a trusted reading.
func reasonsOf(d *gpu.Device) gpu.ClockEventReasons {
	if reasons, ok := d.Clocks.EventReasons.Trusted(); ok {
		return reasons
	}
	return 0
}

// meter returns the meter with a key.
func (t *Tile) meter(key string) Figure {
	i := slices.IndexFunc(t.Meters, func(m Figure) bool { return m.Key == key })
	if i < 0 {
		return Figure{}
	}
	return t.Meters[i]
}

// problem reports whether somebody should look at the device.
func (t *Tile) problem() bool { return t.Level != Normal }

// An engine is a part of a device that does work.
type engine struct {
	key, label string
	value      number
}

// engines returns the engines of a device that report, the busiest first. The cores win ties.
func engines(d *gpu.Device) []engine {
	u := &d.Utilization
	all := []engine{
		{"utilization", "Utilization", num(u.GPU)}, {"encoder", "Encoder", num(u.Encoder)}, {"decoder", "Decoder", num(u.Decoder)}, {"video", "Video", num(u.Video)},
	}
	out := all[:1]
	for _, e := range all[1:] {
		if e.value.ok() {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b engine) int { return cmp.Compare(b.value.value, a.value.value) })
	return out
}

// topEngine returns the busiest engine: video work heats a device whose cores are idle.
func topEngine(d *gpu.Device) engine { return engines(d)[0] }

func newMeters(d *gpu.Device) []Figure {
	return []Figure{useMeter(d), memoryMeter(d), temperatureMeter(d.Thermal), powerMeter(d), fanMeter(d.Fans)}
}

// fillOf returns how full a meter is, by its index.
func fillOf(d *gpu.Device, meter int) string {
	switch meter {
	case 0:
		return part(topEngine(d).value, full)
	case 1:
		return memoryMeter(d).Fill
	case 2:
		return temperatureMeter(d.Thermal).Fill
	default:
		return powerMeter(d).Fill
	}
}

func useMeter(d *gpu.Device) Figure {
	e := topEngine(d)
	return Figure{Key: e.key, Label: e.label, Value: show(e.value, percent), Fill: part(e.value, full)}
}

// powerMeter never warns: working at the limit is normal.
func powerMeter(d *gpu.Device) Figure {
	m := usage("power", "Power", watts, num(d.Power.Draw), num(d.Power.EnforcedLimit))
	m.Level = Normal
	return m
}

// soon returns the forecast that comes first; empty if none has a time.
func soon(list []explain.Prospect) string {
	for _, p := range list {
		if p.Left.Present() {
			return p.Short
		}
	}
	return ""
}

// full is the limit of values in percent.
var full = number{100, gpu.Good}

// usage is Near its limit from 95 %: the next memory allocation may fail.
func usage(key, label string, format func(float64) string, used, limit number) Figure {
	out := Figure{Key: key, Label: label, Value: show(used, format), Remark: limit.say(ofText, format), Fill: part(used, limit)}
	if out.Fill != "" && used.value >= 0.95*limit.value {
		out.Level = Near
	}
	return out
}

// memoryMeter shows the memory of a device. For a device without its own memory it shows what the device
// has of the machine's, including the firmware's reservation; that is never near its limit.
func memoryMeter(d *gpu.Device) Figure {
	own, shared := mebi(d.Memory.Used), mebi(d.Shared.Used)
	if !d.Shared.Unified.Or(false) {
		return usage("memory", "Memory", memory, own, mebi(d.Memory.Total))
	}
	out := Figure{Key: "memory", Label: "Memory", Value: missing(machinesMemory)}
	if shared.ok() {
		out.Value, out.Remark = show(newNumber(own.value+shared.value, shared.quality), memory), ofMachinesMemory
	}
	return out
}

// temperatureMeter warns 10 degrees before the hardware slows itself down, and again at 3.
func temperatureMeter(t gpu.Thermal) Figure {
	now, limit := num(t.GPU), heatLimit(t)
	out := Figure{Key: "temperature", Label: "Temperature", Value: show(now, celsius), Fill: part(now, full)}
	if limit.ok() {
		out.Remark, out.Fill, out.Level = slowsAt(celsius(limit.value)), part(now, limit), nearHeat(t)
	}
	return out
}

// nearHeat returns how close a device is to its temperature limit; Normal if it has none.
func nearHeat(t gpu.Thermal) Level { return level(heat(t), -10, -3) }

func heatLimit(t gpu.Thermal) number {
	now, limit := num(t.GPU), num(t.Slowdown)
	if margin := num(t.Margin); !limit.ok() && now.ok() && margin.ok() {
		return newNumber(now.value+margin.value, gpu.Good)
	}
	return limit
}

// heat returns how far a device is above its temperature limit in degrees, usually negative.
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

// fanMeter shows the speed that the driver requests, which may exceed 100 %, and
// beside it the tachometer reading of the fastest fan.
func fanMeter(f gpu.Fans) Figure {
	speed := num(f.Commanded())
	out := Figure{Key: "fan", Label: "Fan", Value: show(speed, percent), Fill: part(speed, full)}
	if len(f.Fans) == 0 && speed.quality == gpu.NotSupported {
		out.Value = missing(noOwnFan)
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
		out.Remark = strings.TrimPrefix(out.Remark+", "+byHandText, ", ")
	}
	if speed.ok() {
		out.Level = level(speed.value, 80, 100)
	}
	return out
}

// mainProcess returns the process that best explains a device's work; nil if none is listed.
func mainProcess(d *gpu.Device) *gpu.Process {
	list := d.Processes.Or(nil)
	if len(list) == 0 {
		return nil
	}
	p := slices.MinFunc(list, busierProcess)
	return &p
}

// newWho names that process and its user.
func newWho(d *gpu.Device) (who Value, user, detail string) {
	list, listed := d.Processes.Get()
	if !listed {
		v := absent(d.Processes.Quality())
		v.Text = processesAre(v.Text)
		return v, "", ""
	}
	p := mainProcess(d)
	if p == nil {
		if d.ProcessesPartial.Or(false) {
			return missing(noProcessSeen), "", ""
		}
		return missing(noProcess), "", ""
	}
	more := ""
	if n := len(list) - 1; n > 0 {
		more = moreProcesses(n)
	}
	who = shown(programOf(p), longestName)
	if who.Mark == Missing {
		who = missing(someProcess)
	}
	user = clean(p.Facts.User.Or(""), longestName)
	return who, user, dots(user, pidText(p.PID), mebi(p.Memory).text(memory), more)
}

// programOf returns the program that a process runs, or else the kernel's name for the process.
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
		instances = either(d.Vendor == gpu.NVIDIA, migInstances(n), partitionCount(n))
	}
	// Video heats a device whose utilization is 0 %.
	video := func(words func(string) string, r gpu.Reading[gpu.Percent]) string {
		v := num(r)
		return either(v.value > 0, v.say(words, percent), "")
	}
	return dots(gpu.Map(d.Clocks.PerformanceState, pstate).Or(""), clock.text(megahertz), instances,
		video(encoderAt, d.Utilization.Encoder), video(decoderAt, d.Utilization.Decoder),
		video(videoAt, d.Utilization.Video))
}

func newBus(d *gpu.Device) string {
	link := ""
	if generation, width := num(d.PCIe.Generation), num(d.PCIe.Width); generation.ok() && width.ok() {
		link = pcieLink(int(generation.value), int(width.value))
	}
	return dots(num(d.Clocks.Memory).say(memoryAt, megahertz), link)
}

// newHeld returns what slows the work down, and whether the device is at its power limit, which is normal.
func newHeld(reasons gpu.ClockEventReasons) (slowed string, limited bool) {
	var names []string
	for _, h := range held {
		if reasons&h.reason != 0 && !slices.Contains(names, h.text) {
			names = append(names, h.text)
		}
	}
	return list(names), reasons&gpu.ReasonPowerCap != 0
}
