package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// coolingDown is about heat that work has left: who did the work, when it
// ended, and how much longer the cool-down takes.
func coolingDown(d *device, f *finding) {
	if !d.cooling() {
		return
	}
	w, c := &d.m.work, d.m.cooling
	f.heat(d)
	ends := ""
	if left, known := d.m.toQuiet(); known {
		ends = ", and should be quiet in about " + Span(roundUp(left))
	}
	f.at = c.begun
	f.figure("temperature when it began", c.from, "°C").at = d.at
	f.figure("lowest temperature since", c.lowest, "°C")
	if seconds, seen := d.m.usualCooldown(c.from); seen > 0 {
		f.at = time.Time{}
		f.figure("earlier cool-downs took", seconds, "s").figure("cool-downs seen", float64(seen), "")
	}
	f.minor = d.byHand() != "" || d.m.fixed(d)
	if c.unseen {
		f.say(Medium, "before", ends)
		return
	}
	f.Since, f.at = c.begun, c.begun
	since := d.age(c.begun)
	who, p := "work", (*gpu.Process)(nil)
	earlier := false // somebody else worked a little after it
	if hottest := w.hottest(); hottest != nil {
		p, earlier = &hottest.process, w.last.Sub(hottest.last) > 2*restsAfter
		who = ProcessName(p)
		f.fact("last work", who)
	}
	f.happened("work ended", c.begun)
	if !d.byRPM {
		f.figure("fan when it ended", w.endFan, "%")
	}
	how := ", which left it "
	isIt := func(listed gpu.Process) bool { return same(&listed, p) && !gone(&listed) }
	lives := p != nil && slices.ContainsFunc(d.all, func(of *device) bool { return of != nil && slices.ContainsFunc(of.Processes.Or(nil), isIt) })
	switch {
	case p == nil:
		how = " that stopped "
	case lives:
		how = ", which stopped working "
	}
	ago := "just now"
	if since >= 2*time.Second {
		ago = Span(since) + " ago"
	}
	if earlier {
		ago = "earlier"
	}
	what := "after"
	if since < settling && d.load() > 0.35 {
		what = "begins" // the power draw is a mean and follows
	}
	f.say(High, what, who, how, ago, ends)
	falls, pauses := d.temp < w.endTemp || d.fan < w.endFan, lives && d.m.longestPause() > 0
	if !falls || pauses { // it may go on, as it did before
		f.Confidence = Medium
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
		return d.speed() >= d.upFrom()
	default:
		return has(d.state) && value(d.m.Rest.State) >= gpu.RestsFrom
	}
}

// costs reports whether the power is clearly above that at rest.
func (d *device) costs() bool { return d.power > 1.25*d.idleWatts+15 && !d.unified() }

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
		extra = ", " + withUnit(more, "W") + " above its idle draw"
	} else if d.fast() {
		extra = ": its clocks are up"
	}
	holders := d.holders()
	persistence, known := d.Modes.Persistence.Get()
	_, whole := d.AllProcesses()
	unloads := known && !persistence && whole
	display := d.Modes.DisplayActive.Or(false)
	sure := High
	if !d.fast() || !d.costs() || len(holders) == 0 {
		sure = Medium
	}
	switch {
	case len(holders) > 0:
		switch first := holders[0]; {
		case !gone(first):
			who := ProcessName(first)
			f.say(sure, "holder", who, others(len(holders)-1), extra)
			f.Advice = fmt.Sprintf(f.Advice, who)
		case !d.m.sawAlive(first):
			f.say(min(sure, Medium), "hidden holder", first.PID, others(len(holders)-1), extra)
		default:
			what := "left for good"
			if !d.free() {
				what = "left in use"
			} else if d.resets() {
				what = "left behind"
			}
			f.say(sure, what, ProcessName(first), extra)
			if what == "left behind" {
				f.Advice = fmt.Sprintf(f.Advice, d.UUID)
			}
		}
		for _, p := range firsts(holders, 4) {
			who := ProcessName(p)
			if gone(p) && !d.m.sawAlive(p) {
				who = fmt.Sprintf("a process that gpuwhy can't see (pid %d)", p.PID)
			}
			f.figure("memory held by "+who, memoryOf(p), "MiB")
		}
	case display:
		f.say(sure, "display", extra)
		f.fact("display", "active")
	case unloads:
		f.say(sure, "persistence", extra)
		f.fact("persistence mode", "off")
	default:
		f.say(Low, "nothing", extra)
		if d.Vendor != gpu.NVIDIA && d.Vendor != "" {
			f.Advice = "Look whether a program that gpuwhy can't see has the GPU open, such as one of another user or container."
		}
	}
}

// quiet reports whether a device has had time to rest.
func (d *device) quiet() bool {
	return d.doing == resting && !d.stuck && d.m.at.Sub(d.m.first) >= restsAfter && (d.m.work.ended.IsZero() || d.age(d.m.work.ended) >= settling)
}

// isAwake reports whether something keeps a device from rest. A device that cools
// down, or that a process has just let go, draws more by itself.
func (d *device) isAwake() bool {
	justLetGo := !d.began(d.m.unheld).IsZero() && d.age(d.m.unheld) < settling
	return d.quiet() && !justLetGo && !d.cooling() && d.age(d.m.awake) >= min(settling, d.m.at.Sub(d.m.first)) && (d.fast() || d.costs())
}

func (d *device) isUnexplained() bool {
	return d.quiet() && !d.cooling() && !d.isAwake() && d.load() > 0.35 && d.age(d.m.odd) >= min(settling, d.m.at.Sub(d.m.first))
}

// mayHold reports whether a process is one of the holders.
func (d *device) mayHold(p gpu.Process) bool {
	return p.Type != gpu.TypeGraphics || !gone(&p) && d.m.work.account(&p) != nil
}

// holders keep a compute context: by memory, and last those that are gone, whose context is still there.
func (d *device) holders() []*gpu.Process {
	list := d.Processes.Or(nil)
	living := those(list, func(p *gpu.Process) bool {
		return !gone(p) && (p.Type != gpu.TypeGraphics || d.m.work.account(p) != nil)
	})
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
	if d.stuck || d.cooling() || d.doing == working || d.isAwake() || d.isUnexplained() || !d.reportsAnything() || d.offersOnlyMemory() {
		return
	}
	f.heat(d)
	if d.doing == unknown {
		f.say(Low, "unknown")
		if d.m.at.Equal(d.m.first) && d.Utilization.GPU.Quality() == gpu.NotReported {
			f.say(Low, "first")
		} else if d.temp < 45 && !(d.load() > 0.2) {
			f.say(Low, "cool")
		}
		f.minor = d.byHand() == "policy"
		return
	}
	at, sure := "", High
	switch {
	case d.util >= strong: // one reading, that nothing else shows, or not yet
		at, sure = " but for a moment at "+withUnit(d.util, "%"), Medium
	case has(d.util):
		at = " at " + withUnit(d.util, "%")
		if d.costs() && d.m.used() {
			sure = Medium // somebody uses it a little
		}
	}
	f.figure("utilization", d.util, "%").figure("power at rest", d.idleWatts, "W")
	if d.m.at.Sub(d.m.first) < restsAfter && !d.warm() && (d.fast() || d.load() > 0.2) {
		f.say(Low, "too early")
		return
	}
	switch flat, rest := d.m.flat(1, none), value(d.m.Rest.Celsius); {
	case !d.warm(), flat && d.temp < 60 && !(d.temp >= rest+8):
		f.say(sure, "idle", at)
	case d.age(d.m.first) < steady, d.m.within(settling)[0].temp < d.temp-3:
		f.say(Low, "can't tell yet")
	default:
		f.say(Low, "stays warm", at)
	}
}

// warm reports whether a resting device is warmer than rest explains. A device
// whose fan stays off until then may well rest at 55 °C.
func (d *device) warm() bool {
	if d.unified() {
		return false // the processor's own work warms it too
	}
	return d.temp >= 60 || d.temp >= 50 && (d.fan > 0 || d.rpm > 0)
}
