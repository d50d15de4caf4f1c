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

	Meters []Meter // utilization, memory, temperature, power, fan

	Who    Value  // the process that explains the work best
	Detail string // whose it is, its number and what it holds
	Speed  string // performance state and clock
	Held   string // what holds the clocks down; empty where nothing does

	NoticeTitle string // "Lost for 12 min"; empty while the device answers
	Notice      string // why, and what to do
}

// link is empty for a card that is still to be filled in.
func (c Card) link() templ.Attributes {
	if c.Page == "" {
		return nil
	}
	return templ.Attributes{"href": c.Page}
}

// busyFrom is the utilization from which a device is called busy.
const busyFrom = 5

func newCard(d *gpu.Device, base string, now time.Time) Card {
	c := Card{
		Key:     d.Node + "/" + d.UUID,
		Title:   "GPU " + strconv.Itoa(d.Index),
		Page:    base + devicePath(d.UUID),
		Name:    clean(d.Name, longestName),
		Answers: d.State == gpu.StateOK,
		Notice:  sentence(d.Reason.Text()),
		Meters:  newMeters(d),
	}
	c.State, c.StateText = cardState(d)
	if !c.Answers {
		c.NoticeTitle = noticeTitles[d.State] + " for " + between(d.Since, now)
		c.Notice = cmp.Or(c.Notice, notices[d.State])
		return c
	}
	c.Who, c.Detail = newWho(d)
	c.Speed = newSpeed(d)
	c.Held = newHeld(d.Clocks.EventReasons.Or(0))
	return c
}

var noticeTitles = map[gpu.State]string{
	gpu.StateNotAnswering: "Not answering",
	gpu.StateLost:         "Lost",
	gpu.StateAsleep:       "Asleep",
}

// notices say what to do where the source gave no reason.
var notices = map[gpu.State]string{
	gpu.StateNotAnswering: "A call to the driver has not come back. The other GPUs are read as before; look for driver messages in the kernel log (dmesg).",
	gpu.StateLost:         "The driver no longer finds it. Look for Xid messages in the kernel log (dmesg); restart the machine if it does not come back.",
	gpu.StateAsleep:       "The system has powered it down, and gpuwhy leaves it asleep. It shows up again when a program uses it.",
}

func cardState(d *gpu.Device) (state, text string) {
	if d.State != gpu.StateOK {
		return string(d.State), strings.ToLower(noticeTitles[d.State])
	}
	switch util := num(d.Utilization.GPU); {
	case !util.ok():
		return "on", "answering"
	case util.value >= busyFrom:
		return "busy", "busy"
	default:
		return "idle", "idle"
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
		out.Limit = "of " + memory(total.value)
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
	out.Limit = "slows at " + celsius(limit.value)
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
		out.Limit = "of " + watts(limit.value)
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
		out.Value = Value{"no fan of its own", Missing, "the chassis cools it, and gpuwhy can't see those fans"}
		return out
	}
	var notes []string
	if turns, ok := fastest(f.Fans); ok {
		notes = append(notes, rpm(turns))
	}
	if slices.ContainsFunc(f.Fans, func(fan gpu.Fan) bool { return fan.Policy.Or("") == "manual" }) {
		notes = append(notes, "set by hand")
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
		v.Text = "processes " + v.Text
		return v, ""
	}
	if len(list) == 0 {
		return Value{Text: "no process", Mark: Missing, Title: "no process has a context on it"}, ""
	}
	p := slices.MinFunc(list, busierProcess)
	var parts []string
	if user := clean(p.Facts.User.Or(""), longestName); user != "" {
		parts = append(parts, user)
	}
	parts = append(parts, "pid "+strconv.Itoa(p.PID))
	if held := mebi(p.Memory); held.ok() {
		parts = append(parts, memory(held.value))
	}
	if n := len(list) - 1; n > 0 {
		parts = append(parts, counted(n, "more process", "more processes"))
	}
	who := shown(p.Facts.Name, longestName)
	if who.Mark == Missing {
		who.Text = "a process"
		who.Title = "its name can't be seen from here"
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
		parts = append(parts, counted(n, "MIG instance", "MIG instances"))
	}
	return strings.Join(parts, " · ")
}

// heldBy has the reasons that cost the work something, in words.
var heldBy = []struct {
	reason gpu.ClockEventReasons
	words  string
}{
	{gpu.ReasonPowerCap, "the power limit"},
	{gpu.ReasonHardwareSlowdown, "the hardware's own protection"},
	{gpu.ReasonThermalSlowdown, "heat"},
	{gpu.ReasonHardwareThermal, "heat"},
	{gpu.ReasonHardwarePowerBrake, "the power supply"},
}

func newHeld(reasons gpu.ClockEventReasons) string {
	var words []string
	for _, h := range heldBy {
		if reasons&h.reason != 0 && !slices.Contains(words, h.words) {
			words = append(words, h.words)
		}
	}
	return list(words)
}

// blankMeters are those of a card that is still to be filled in.
func blankMeters() []Meter {
	meters := newMeters(&gpu.Device{})
	for i := range meters {
		meters[i].Value = Value{}
	}
	return meters
}
