package views

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Card is one device.
type Card struct {
	Key       string // node and UUID
	Title     string // "GPU 0"
	Page      string // the address of the device's own page
	Name      string
	State     string // the device's state; "busy", "idle" or "on" while it answers
	StateText string
	Answers   bool // the meters have something to say
	Answer    bool // it is the one that the page's sentence is about

	Meters []Meter // utilization, memory, temperature, power, fan

	Who    Value  // the process that explains the work best
	Detail string // whose it is, its number and what it holds
	Speed  string // performance state and clock
	Bus    string // the memory's clock and the bus, where there is room for them
	Held   string // what holds the clocks down; empty where nothing does

	NoticeTitle string // "for 12 min", beside the state; empty while the device answers
	Notice      string // why, and what to do
}

// link is empty for a card that is still to be filled in.
func (c Card) link() templ.Attributes {
	if c.Page == "" {
		return nil
	}
	return templ.Attributes{"href": c.Page}
}

func newCard(d *gpu.Device, base string, now time.Time) Card {
	c := Card{
		Key:     d.Node + "/" + d.UUID,
		Title:   say("gpu", strconv.Itoa(d.Index)),
		Page:    base + devicePath(d.UUID),
		Name:    clean(d.Name, longestName),
		Answers: d.State == gpu.StateOK,
		Notice:  sentence(d.Reason.Text()),
		Meters:  newMeters(d),
	}
	c.State, c.StateText = cardState(d)
	if !c.Answers {
		c.NoticeTitle = say("for", between(d.Since, now))
		c.Notice = cmp.Or(c.Notice, say("do "+string(d.State)))
		return c
	}
	c.Who, c.Detail = newWho(d)
	c.Speed, c.Bus = newSpeed(d), newBus(d)
	c.Held = newHeld(d.Clocks.EventReasons.Or(0))
	return c
}

func cardState(d *gpu.Device) (state, text string) {
	if d.State != gpu.StateOK {
		return string(d.State), say("state " + string(d.State))
	}
	switch util := num(d.Utilization.GPU); {
	case !util.ok():
		return "on", say("state on")
	case util.value >= gpu.BusyFrom:
		return "busy", say("state busy")
	default:
		return "idle", say("state idle")
	}
}

func newMeters(d *gpu.Device) []Meter {
	return []Meter{
		utilizationMeter(d),
		memoryMeter(d.Memory),
		temperatureMeter(d.Thermal),
		powerMeter(d.Power),
		fanMeter(d.Fans),
	}
}

var full = number{100, gpu.Good}

func utilizationMeter(d *gpu.Device) Meter {
	util := num(d.Utilization.GPU)
	return Meter{Key: "utilization", Label: "Utilization", Value: show(util, percent)}.fill(util, full)
}

// memoryMeter is near its limit from 95 %: the next allocation may fail.
func memoryMeter(m gpu.Memory) Meter {
	used, total := mebi(m.Used), mebi(m.Total)
	out := Meter{Key: "memory", Label: "Memory", Value: show(used, memory)}.fill(used, total)
	if total.ok() {
		out.Limit = say("of", memory(total.value))
	}
	if out.Fill != "" && used.value >= 0.95*total.value {
		out.Level = Near
	}
	return out
}

// temperatureMeter is near its limit 10 degrees before the hardware slows
// itself down, and at the top 3 degrees before.
func temperatureMeter(t gpu.Thermal) Meter {
	now, limit := num(t.GPU), heatLimit(t)
	out := Meter{Key: "temperature", Label: "Temperature", Value: show(now, celsius)}
	if !limit.ok() {
		return out.fill(now, full)
	}
	out.Limit = say("slows at", celsius(limit.value))
	if now.ok() {
		out.Level = level(now.value-limit.value, -10, -3)
	}
	return out.fill(now, limit)
}

func heatLimit(t gpu.Thermal) number {
	now, limit := num(t.GPU), num(t.Slowdown)
	if margin := num(t.Margin); !limit.ok() && now.ok() && margin.ok() {
		return newNumber(now.value+margin.value, gpu.Good)
	}
	return limit
}

// heat is how many degrees a device is above the limit of its heat, which is
// below 0 but for trouble.
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

func powerMeter(p gpu.Power) Meter {
	draw, limit := num(p.Draw), num(p.EnforcedLimit)
	out := Meter{Key: "power", Label: "Power", Value: show(draw, watts)}.fill(draw, limit)
	if limit.ok() {
		out.Limit = say("of", watts(limit.value))
	}
	if out.Fill != "" && draw.value >= 0.95*limit.value {
		out.Level = Near
	}
	return out
}

// fanMeter shows the speed that the driver asks for, which may pass 100 %, and
// beside it what the tachometer of the fastest fan says.
func fanMeter(f gpu.Fans) Meter {
	speed := num(f.Commanded())
	out := Meter{Key: "fan", Label: "Fan", Value: show(speed, percent)}.fill(speed, full)
	if len(f.Fans) == 0 && speed.quality == gpu.NotSupported {
		out.Value = missing("no fan")
		return out
	}
	var notes []string
	if turns, ok := fastest(f.Fans); ok {
		notes = append(notes, rpm(turns))
	}
	if slices.ContainsFunc(f.Fans, func(fan gpu.Fan) bool { return fan.Policy.Or("") == "manual" }) {
		notes = append(notes, say("by hand"))
	}
	out.Limit = strings.Join(notes, ", ")
	if speed.ok() {
		out.Level = level(speed.value, 80, 100)
	}
	return out
}

func fastest(fans []gpu.Fan) (turns float64, ok bool) {
	for _, fan := range fans {
		if n := num(fan.RPM); n.ok() {
			turns, ok = max(turns, n.value), true
		}
	}
	return turns, ok
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
		return missing("no process"), ""
	}
	p := slices.MinFunc(list, busierProcess)
	var parts []string
	if user := clean(p.Facts.User.Or(""), longestName); user != "" {
		parts = append(parts, user)
	}
	parts = append(parts, say("pid", strconv.Itoa(p.PID)))
	if held := mebi(p.Memory); held.ok() {
		parts = append(parts, memory(held.value))
	}
	if n := len(list) - 1; n > 0 {
		parts = append(parts, count("more processes", n))
	}
	who := shown(p.Facts.Name, longestName)
	if who.Mark == Missing {
		who = missing("someone")
	}
	return who, strings.Join(parts, " · ")
}

// busierProcess puts those with the largest share of an engine's time first;
// among those without one, a compute context is the likelier cause, then the
// larger memory.
func busierProcess(a, b gpu.Process) int {
	return cmp.Or(
		cmp.Compare(share(&b), share(&a)),
		cmp.Compare(drawsOnly(&a), drawsOnly(&b)),
		cmp.Compare(mebi(b.Memory).value, mebi(a.Memory).value),
		cmp.Compare(a.PID, b.PID),
	)
}

func share(p *gpu.Process) float64 {
	return max(num(p.SM).value, num(p.Encoder).value, num(p.Decoder).value)
}

func drawsOnly(p *gpu.Process) int {
	if share(p) <= 0 && p.Type == gpu.TypeGraphics {
		return 1
	}
	return 0
}

func newSpeed(d *gpu.Device) string {
	var parts []string
	if p, ok := d.Clocks.PerformanceState.Get(); ok {
		parts = append(parts, "P"+strconv.Itoa(p))
	}
	clock := num(d.Clocks.SM)
	if !clock.ok() {
		clock = num(d.Clocks.Graphics)
	}
	if clock.ok() {
		parts = append(parts, megahertz(clock.value))
	}
	if n := len(d.Instances); n > 0 {
		parts = append(parts, count("MIG instances", n))
	}
	// Video heats a card whose utilization says 0 %.
	if v := num(d.Utilization.Encoder); v.value > 0 {
		parts = append(parts, say("encoder", percent(v.value)))
	}
	if v := num(d.Utilization.Decoder); v.value > 0 {
		parts = append(parts, say("decoder", percent(v.value)))
	}
	return strings.Join(parts, " · ")
}

func newBus(d *gpu.Device) string {
	var parts []string
	if clock := num(d.Clocks.Memory); clock.ok() {
		parts = append(parts, say("memory at", megahertz(clock.value)))
	}
	generation, width := num(d.PCIe.Generation), num(d.PCIe.Width)
	if generation.ok() && width.ok() {
		parts = append(parts, say("pcie", strconv.Itoa(int(generation.value)), strconv.Itoa(int(width.value))))
	}
	return strings.Join(parts, " · ")
}

// newHeld says what costs the work something.
func newHeld(reasons gpu.ClockEventReasons) string {
	var by []string
	for _, name := range reasons.Names() {
		if text := say("held " + name); text != "" && !slices.Contains(by, text) {
			by = append(by, text)
		}
	}
	return list(by)
}

// blankMeters are those of a card that is still to be filled in.
func blankMeters() []Meter {
	meters := newMeters(&gpu.Device{})
	for i := range meters {
		meters[i].Value = Value{}
	}
	return meters
}
