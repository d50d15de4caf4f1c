package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// coolingDown is about heat that work has left: who did the work, when it
// ended, and how much longer the cool-down takes, judged by earlier ones.
func coolingDown(d *device, f *finding) {
	if !d.cooling() {
		return
	}
	w := &d.m.work
	since := d.age(w.ended)
	f.heat(d)
	f.Since, f.at = w.ended, w.ended
	who, p := "work", w.who()
	if p != nil {
		who = ProcessName(p)
		f.fact("last work", who)
	}
	f.happened("work ended", w.ended)
	f.figure("temperature when it ended", w.endTemp, "°C").figure("fan when it ended", w.endFan, "%")
	ends := "how long that takes is not known yet"
	if seconds, seen := d.m.usualCooldown(w.endTemp); seen > 0 {
		f.at = time.Time{}
		f.figure("earlier cool-downs took", seconds, "s").figure("cool-downs seen", float64(seen), "")
		took := time.Duration(seconds * float64(time.Second))
		ends = "that takes longer than the " + Span(took) + " of earlier times"
		if left := took - since; left > 0 {
			ends = "about " + Span(roundUp(left)) + " more, going by earlier times"
		}
	}
	isIt := func(listed gpu.Process) bool { return listed.PID == p.PID }
	how := ", whose work ended "
	switch {
	case p == nil:
		how = " that ended "
	case since < pause && slices.ContainsFunc(d.Processes.Or(nil), isIt):
		how = ", which stopped working "
	}
	ago := "just now"
	if since >= 2*time.Second {
		ago = Span(since) + " ago"
	}
	what := "after"
	if since < settling && d.load() > 0.35 {
		what = "begins" // the power draw is a mean and follows
	}
	f.say(High, what, who, how, ago, ends)
	if !(d.temp < w.endTemp || d.fan < w.endFan) {
		f.Confidence = Medium // until something falls
	}
}

// roundUp rounds a time to come: it can't be known exactly.
func roundUp(d time.Duration) time.Duration {
	step := 10 * time.Second
	if d > 2*time.Minute {
		step = time.Minute
	}
	return (d + step - 1).Truncate(step)
}

// fast reports whether the clocks are those of work. Some products stay in P0
// at rest: the state alone counts only where a slower one was seen.
func (d *device) fast() bool {
	switch {
	case d.reasons&gpu.ReasonIdle != 0, d.state >= gpu.RestsFrom:
		return false
	case has(d.speed()):
		return d.speed() >= 0.4
	default:
		return has(d.state) && value(d.m.Rest.State) >= gpu.RestsFrom
	}
}

// costs reports whether the power is clearly above that at rest.
func (d *device) costs() bool { return d.power > 1.25*d.idleWatts+15 }

// heldAwake is about what keeps a device without work from rest: a process with a context, a display,
// or a program, such as gpuwhy, that asks for readings while the driver may unload in between.
func heldAwake(d *device, f *finding) {
	if !d.isAwake() {
		return
	}
	f.Since = d.began(d.m.awake)
	f.heat(d).figure("utilization", d.util, "%").figure("performance state (0 is the fastest)", d.state, "").clocks(d)
	extra := ""
	if more := d.power - d.idleWatts; more > 3 {
		f.at = time.Time{}
		f.figure("power at rest", d.idleWatts, "W").at = d.at
		extra = ", " + withUnit(more, "W") + " more than at rest"
	} else if d.fast() && more <= 3 {
		extra = ": its clocks are up, though it draws no more than at rest"
	}
	holders := d.holders()
	persistence, known := d.Modes.Persistence.Get()
	unloads := known && !persistence
	display := d.Modes.DisplayActive.Or(false)
	sure := High
	if !d.fast() || !d.costs() || len(holders) == 0 {
		sure = Medium
	}
	switch {
	case len(holders) > 0:
		who := ProcessName(holders[0])
		if gone(holders[0]) {
			f.say(sure, "left behind", who, extra)
			f.Advice = fmt.Sprintf(f.Advice, nameOf(d.UUID))
		} else {
			f.say(sure, "holder", who, others(len(holders)-1), extra)
			f.Advice = fmt.Sprintf(f.Advice, who)
		}
		for _, p := range firsts(holders, 4) {
			f.figure("memory held by "+ProcessName(p), memoryOf(p), "MiB")
		}
	case display:
		f.say(sure, "display", extra)
		f.fact("display", "active")
	case unloads && d.Processes.Present():
		f.say(sure, "persistence", extra)
		f.fact("persistence mode", "off")
	default:
		f.say(Low, "nothing", extra)
	}
}

// quiet reports whether a device has had time to rest.
func (d *device) quiet() bool {
	return d.doing == resting && !d.stuck && (d.m.work.ended.IsZero() || d.age(d.m.work.ended) >= settling)
}

// isAwake reports whether something keeps a device from rest. A device that cools
// down, or that a process has just let go, draws more by itself.
func (d *device) isAwake() bool {
	justLetGo := !d.began(d.m.unheld).IsZero() && d.age(d.m.unheld) < settling
	return d.quiet() && !justLetGo && (d.fast() || !d.cooling() && d.costs())
}

func (d *device) isUnexplained() bool {
	return d.quiet() && !d.cooling() && !d.isAwake() && d.load() > 0.35
}

// holders keep a compute context: by memory, and last those that are gone, whose context is still there.
func (d *device) holders() []*gpu.Process {
	list := d.Processes.Or(nil)
	living := those(list, func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && !gone(p) })
	left := those(list, func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics && gone(p) })
	slices.SortStableFunc(living, byMemory)
	slices.SortStableFunc(left, byMemory)
	return append(living, left...)
}

// memoryOf is the memory that a process holds, in MiB, or none.
func memoryOf(p *gpu.Process) float64 {
	return believed(gpu.Map(p.Memory, gpu.Bytes.MiB), 0, mostBytes)
}

func unexplained(d *device, f *finding) {
	if d.isUnexplained() {
		f.say(Low, "power")
		f.heat(d).figure("utilization", d.util, "%")
	}
}

// idle says that there is nothing to explain.
func idle(d *device, f *finding) {
	if d.stuck || d.cooling() || d.doing == working || d.isAwake() || d.isUnexplained() || !d.reportsAnything() {
		return
	}
	f.heat(d)
	if d.doing == unknown {
		f.say(Low, "unknown")
		f.minor = d.byHand() == "policy"
		return
	}
	at := ""
	if has(d.util) {
		at = " at " + withUnit(d.util, "%")
	}
	f.figure("utilization", d.util, "%").figure("power at rest", d.idleWatts, "W")
	switch {
	case !d.warm():
		f.say(High, "idle", at)
	case d.m.flat(1, none) || d.age(d.m.first) > longestCooling:
		f.say(Low, "stays warm", at)
	default:
		f.say(Medium, "still warm", at)
	}
}

// warm reports whether a resting device is warmer than rest explains. A device
// whose fan stays off until then may well rest at 55 °C.
func (d *device) warm() bool {
	return d.temp >= 60 || d.temp >= 50 && (d.fan > 0 || d.rpm > 0)
}
