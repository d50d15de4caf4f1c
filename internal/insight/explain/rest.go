package explain

import (
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
	f.Advice = "Nothing needs to be done: it gets quiet by itself."
	if !(d.temp < w.endTemp || d.fan < w.endFan) {
		f.Confidence = Medium // until something falls
	}
	who, p := "work", w.who()
	if p != nil {
		who = ProcessName(p)
		f.fact("last work", who)
	}
	f.happened("work ended", w.ended)
	f.figure("temperature when it ended", w.endTemp, "°C").figure("fan when it ended", w.endFan, "%")
	ends := "; how long that takes is not known yet"
	if seconds, seen := d.m.usualCooldown(w.endTemp); seen > 0 {
		f.at = time.Time{}
		f.figure("earlier cool-downs took", seconds, "s").figure("cool-downs seen", float64(seen), "")
		took := time.Duration(seconds * float64(time.Second))
		ends = "; that takes longer than the " + Span(took) + " of earlier times"
		if left := took - since; left > 0 {
			ends = "; about " + Span(roundUp(left)) + " more, going by earlier times"
		}
	}
	does := " is cooling down after "
	if since < settling && d.load() > 0.35 {
		does = " begins to cool down after " // the power draw is a mean and follows
	}
	f.clause = it + does + who
	isIt := func(listed gpu.Process) bool { return listed.PID == p.PID }
	switch {
	case p == nil:
		f.clause += " that ended "
	case since < pause && slices.ContainsFunc(d.Processes.Or(nil), isIt):
		f.clause += ", which stopped working "
	default:
		f.clause += ", whose work ended "
	}
	if since < 2*time.Second {
		f.clause += "just now"
	} else {
		f.clause += Span(since) + " ago"
	}
	f.clause += inBrackets + ends
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

// heldAwake is about a device without work that something keeps from rest: a
// process with a context, a display, or a program, such as gpuwhy, that asks for
// readings while the driver may unload in between.
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
	if !d.fast() || !d.costs() || len(holders) == 0 && (unloads || display) {
		f.Confidence = Medium
	}
	switch {
	case len(holders) > 0:
		who := ProcessName(holders[0])
		if gone(holders[0]) {
			f.clause = "what " + who + " left behind keeps " + it + " awake"
			f.Advice = "Nothing that runs holds it any more: reset the GPU (nvidia-smi --gpu-reset -i " + nameOf(d.UUID) +
				", as root), or restart the machine."
		} else {
			f.clause = who + others(len(holders)-1) + " keeps " + it + " awake without using it"
			f.Advice = "End " + who + ", or have it give the GPU back (a notebook: shut its kernel down; a model server: let it unload)."
		}
		for _, p := range firsts(holders, 4) {
			f.figure("memory held by "+ProcessName(p), memoryOf(p), "MiB")
		}
	case display:
		f.clause = "a display keeps " + it + " awake"
		f.fact("display", "active")
		f.Advice = "Lower the display's refresh rate, or use one display fewer: some cards rest only at 60 Hz or with one display."
	case unloads && d.Processes.Present():
		f.clause = "being asked for readings (by gpuwhy, or by another monitor) keeps " + it + " awake, since persistence mode is off"
		f.fact("persistence mode", "off")
		f.Advice = "Turn persistence mode on (nvidia-smi -pm 1, or the nvidia-persistenced service), " +
			"or let gpuwhy read less often with a longer --interval."
	default:
		f.clause = it + " is awake without work"
		extra += ", and nothing that is listed explains it"
		f.Confidence = Low
		f.Advice = "Look with nvidia-smi whether a process holds a context that gpuwhy can't see, such as one of another container."
	}
	f.clause += inBrackets + extra
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

// holders are the processes that keep a compute context, by memory. Those that
// are gone, whose context the driver still has, come last.
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
		f.clause = it + " draws power without work" + inBrackets + ", and nothing that it reports explains it"
		f.Confidence = Low
		f.Advice = "Look again in a few seconds: work that has just begun or ended shows in the power first."
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
		f.clause, f.Confidence = it+" does not report how busy it is"+inBrackets, Low
		f.minor = d.byHand() == "policy"
		return
	}
	f.clause = it + " is idle"
	if has(d.util) {
		f.clause += " at " + withUnit(d.util, "%")
	}
	f.clause += readings
	f.figure("utilization", d.util, "%").figure("power at rest", d.idleWatts, "W")
	switch {
	case !d.warm():
	case d.m.flat(1, none) || d.age(d.m.first) > longestCooling:
		f.Confidence = Low
		f.clause += "; it stays warm without work, and nothing that it reports explains it"
		f.Advice = "Look at the air that reaches it: cards beside it that work, a full case, something before the intake."
	default:
		f.Confidence = Medium
		f.clause += "; it is still warm, probably from work that ended before gpuwhy was watching"
		f.Advice = "Nothing needs to be done if it gets cooler: look again in some minutes."
	}
}

// warm reports whether a resting device is warmer than rest explains. A device
// whose fan stays off until then may well rest at 55 °C.
func (d *device) warm() bool {
	return d.temp >= 60 || d.temp >= 50 && (d.fan > 0 || d.rpm > 0)
}
