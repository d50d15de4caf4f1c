package explain

import (
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// coolingDown is about heat that work has left: who did the work, when it ended, and how much longer the cool-down takes.
func coolingDown(d *device, f *finding) {
	if !d.cooling() {
		return
	}
	w, c := &d.m.work, d.m.cooling
	f.heat(d)
	ends := ""
	if left, known := d.m.toQuiet(); known {
		ends = quietIn(Span(roundUp(left)))
	}
	f.readAt = c.begun
	f.figure("temperature when it began", c.startTemp, "°C").readAt = d.readAt
	f.figure("lowest temperature since", c.lowest, "°C")
	if seconds, seen := d.m.usualCooldown(c.startTemp); seen > 0 {
		f.readAt = time.Time{}
		f.figure("earlier cool-downs took", seconds, "s").figure("cool-downs seen", float64(seen), "")
	}
	f.minor = d.byHand() != "" || d.m.fixed(d)
	if c.unseen {
		f.say(Medium, coolingUnseenWords(ends))
		return
	}
	f.Since, f.readAt = c.begun, c.begun
	since := d.age(c.begun)
	ago := justNow
	if since >= 2*time.Second {
		ago = agoText(Span(since))
	}
	if c.released {
		who := unlistedHolder
		if c.holder.PID != 0 {
			who = ProcessName(&c.holder)
			f.fact("kept it awake", who)
		}
		f.happened("let go", c.begun)
		f.say(High, letGoWords(who, ago, ends))
		if !(d.temp < c.startTemp) {
			f.Confidence = Medium
		}
		return
	}
	who, p := "work", (*gpu.Process)(nil)
	earlier := false // somebody else worked a little afterwards
	if hottest := w.hottest(); hottest != nil {
		p, earlier = &hottest.process, w.last.Sub(hottest.last) > 2*restsAfter
		who = ProcessName(p)
		f.fact("last work", who)
	}
	f.happened("work ended", c.begun)
	if !d.byRPM {
		f.figure("fan when it ended", w.endFan, "%")
	}
	how := leftIt
	listed := d.livesOn(p)
	lives := listed != nil
	switch {
	case p == nil:
		how = thatStopped
	case lives && processShare(listed) >= 1 && processShare(listed) < strong:
		how = slowedDownTo(withUnit(processShare(listed), "%"))
		f.figure("work of "+who, processShare(listed), "%")
	case lives:
		how = stoppedWorking
	}
	if earlier {
		ago = earlierText
	}
	words := coolingWords
	if since < settling && d.load() > 0.35 {
		words = coolingBeginsWords // the power draw is an average and lags behind
	}
	f.say(High, words(who, how, ago, ends))
	falls, pauses := d.temp < w.endTemp || d.fan < w.endFan, lives && d.m.longestPause() > 0
	if !falls || pauses { // it may continue, as it did before
		f.Confidence = Medium
	}
}

// livesOn finds a process in the process list of any device of the machine; nil if it has ended, or if p is nil.
func (d *device) livesOn(p *gpu.Process) (found *gpu.Process) {
	if p == nil {
		return nil
	}
	for _, other := range d.all {
		if other == nil {
			continue
		}
		list := other.Processes.Or(nil)
		for i := range list {
			// A process may use several devices: its activity on this one counts.
			if same(&list[i], p) && !gone(&list[i]) && (found == nil || other == d) {
				found = &list[i]
			}
		}
	}
	return found
}

// roundUp rounds a time to come, since it can't be known exactly.
func roundUp(d time.Duration) time.Duration {
	step := 10 * time.Second
	if d > 2*time.Minute {
		step = time.Minute
	}
	return (d + step - 1).Truncate(step)
}

// fast reports whether the clocks are as during work. Some products stay in P0 at rest: the state alone counts only if a slower one was
// seen.
func (d *device) fast() bool {
	switch {
	case d.reasons&gpu.ReasonIdle != 0, d.state >= gpu.RestsFrom:
		return false
	case present(d.speed()):
		return d.speed() >= d.upFrom()
	default:
		return present(d.state) && value(d.m.Rest.State) >= gpu.RestsFrom
	}
}

// costs reports whether the power is clearly above that at rest.
func (d *device) costs() bool { return d.power > 1.25*d.idleWatts+15 && !d.unified() }

// isUp reports whether a device does not rest, whether or not it works: its clocks or its power are up.
func (d *device) isUp() bool { return d.fast() || d.m.costs(d) || d.holdsState() }

// costs reports whether the recent power is clearly above that at rest. For a device already known as kept awake a little less is enough,
// so that its answer does not flicker with a few watts.
func (m *memory) costs(d *device) bool {
	line := 1.25*d.idleWatts + 15
	if !m.awake.IsZero() || m.littleWork() {
		line = 1.2*d.idleWatts + 10
	}
	return !d.unified() && d.costsOrRests(line) && mean(m.within(settling), func(p point) float64 { return p.power }) > line
}

// costsOrRests is false if the newest reading alone is clearly as at rest: then earlier readings don't count.
func (d *device) costsOrRests(line float64) bool { return d.power > min(line, 1.1*d.idleWatts+5) }

// holdsState reports whether a program most likely keeps a device from rest whose idle draw is not known, since it never rested while
// gpuwhy watched: the driver has it in a fast state, it draws a good part of its limit, and a program has a context.
func (d *device) holdsState() bool {
	return !present(d.idleWatts) && d.state < gpu.RestsFrom && d.reasons&gpu.ReasonIdle == 0 && d.load() >= 0.13 && d.power >= 25 &&
		slices.ContainsFunc(d.Processes.Or(nil), func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics && !gone(&p) })
}

// sleeperHolds reports whether a compute program has a context and does nothing, and no compute program does anything.
func (d *device) sleeperHolds() (sleeps bool) {
	list := d.Processes.Or(nil)
	for i := range list {
		if p := &list[i]; p.Type != gpu.TypeGraphics && !gone(p) {
			if !(processShare(p) < 1) {
				return false // it does something, or may
			}
			sleeps = true
		}
	}
	return sleeps
}

// usesIt reports whether a process that holds a device uses it, even if only a little: by its recent share, since it works now and then, or
// by the PCIe traffic of a device that nobody else computes on.
func (d *device) usesIt(p *gpu.Process, holders int) bool {
	if a := d.m.work.account(p); a != nil && !a.spent.resumed.IsZero() && d.age(a.last) <= 2*longPause {
		return true
	}
	return highest(processShare(p), d.accountShare(p)) >= 1 || holders == 1 && d.traffic >= copies/10
}

// heldAwake is about what keeps a device without work from rest: a process with a context, a display, or a program, such as gpuwhy, that
// reads it while the driver may unload in between.
func heldAwake(d *device, f *finding) {
	if !d.isAwake() {
		return
	}
	f.Since = d.began(d.m.awake)
	f.heat(d).figure("utilization", d.util, "%").figure("performance state (0 is the fastest)", d.state, "").clocks(d)
	extra := ""
	if more := d.power - d.idleWatts; more > 3 {
		f.readAt = time.Time{}
		f.figure("power at rest", d.idleWatts, "W").readAt = d.readAt
		extra = aboveIdle(withUnit(more, "W"))
	} else if d.fast() {
		extra = clocksUp
	}
	locked := d.reasons&gpu.ReasonApplicationClocks != 0
	if locked {
		f.fact("clock event reason", "application clocks setting")
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
			who, words, more := ProcessName(first), holderWords, extra
			if d.usesIt(first, len(holders)) {
				words = lightUserWords
				f.figure("work of "+who, processShare(first), "%")
				if present(d.traffic) {
					f.figure("traffic over PCIe", d.traffic/1e6, "MB/s")
				}
			}
			if locked {
				more += andClocksSet
			}
			f.say(sure, words(who, others(len(holders)-1), more))
		case !d.m.sawAlive(first) && !first.Facts.Name.Present():
			f.say(min(sure, Medium), hiddenHolderWords(strconv.Itoa(first.PID), others(len(holders)-1), extra))
		default:
			words := leftForGoodWords(ProcessName(first), extra)
			if !d.free() {
				words = leftInUseWords(ProcessName(first), extra)
			} else if d.resets() {
				words = leftBehindWords(ProcessName(first), extra, d.UUID)
			}
			f.say(sure, words)
		}
		for _, p := range firsts(holders, 4) {
			who := ProcessName(p)
			if gone(p) && !d.m.sawAlive(p) && !p.Facts.Name.Present() {
				who = hiddenProcess(strconv.Itoa(p.PID))
			}
			f.figure("memory held by "+who, memoryOf(p), "MiB")
		}
	case locked:
		f.say(max(sure, Medium), clocksSetWords(extra))
	case d.drawer() != nil:
		who := ProcessName(d.drawer())
		f.say(Medium, lightUserWords(who, "", extra))
		f.figure("work of "+who, processShare(d.drawer()), "%")
	case display:
		f.say(sure, displayWords(extra))
		f.fact("display", "active")
	case unloads:
		f.say(sure, persistenceWords(extra))
		f.fact("persistence mode", "off")
	default:
		advice := lookForContext
		if d.Vendor != gpu.NVIDIA && d.Vendor != "" {
			advice = lookForProgram
		}
		f.say(Low, nothingHoldsWords(extra, advice))
	}
}

// drawer returns the process that draws most on a device without compute programs, if that has lasted for half a minute and so may well be
// why its clocks are up; nil if there is none.
func (d *device) drawer() (most *gpu.Process) {
	if mean(d.m.within(pause), func(p point) float64 { return p.busy }) < 3 {
		return nil
	}
	list := d.Processes.Or(nil)
	for i := range list {
		if p := &list[i]; !gone(p) && processShare(p) >= 1 && (most == nil || processShare(p) > processShare(most)) {
			most = p
		}
	}
	return most
}

// quiet reports whether a device has had time to rest.
func (d *device) quiet() bool {
	return d.doing == resting && !d.stuck && d.m.readAt.Sub(d.m.first) >= restsAfter && (d.m.work.ended.IsZero() || d.age(d.m.work.ended) >= settling)
}

// isAwake reports whether something keeps a device from rest. A device that cools down, or that a process has just let go, draws more by
// itself.
func (d *device) isAwake() bool {
	justLetGo := !d.began(d.m.unheld).IsZero() && d.age(d.m.unheld) < settling
	if d.cooling() || justLetGo || !d.isUp() {
		return false
	}
	return d.quiet() && d.age(d.m.awake) >= min(settling, d.m.readAt.Sub(d.m.first)) || d.keptOn()
}

// keptOn reports whether work has ended for now but its process keeps the device from rest, as a loaded model does between two questions.
func (d *device) keptOn() bool {
	w := &d.m.work
	if d.doing != resting || d.stuck || w.ended.IsZero() || d.age(w.ended) < restsAfter || !d.fast() {
		return false
	}
	h := w.hottest()
	if h == nil || h.process.Type == gpu.TypeGraphics {
		return false
	}
	p := d.livesOn(&h.process)
	return p != nil && d.age(h.last) <= 2*longPause
}

func (d *device) isUnexplained() bool {
	return d.quiet() && !d.cooling() && !d.isAwake() && d.load() > 0.35 && d.age(d.m.odd) >= min(settling, d.m.readAt.Sub(d.m.first))
}

// mayHold reports whether a process is one of the holders.
func (d *device) mayHold(p gpu.Process) bool {
	return p.Type != gpu.TypeGraphics || !gone(&p) && d.m.work.account(&p) != nil
}

// holders returns the processes that keep a compute context: by memory, and last those that are gone but whose context still exists.
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

// memoryOf returns the memory that a process holds, in MiB, or NaN.
func memoryOf(p *gpu.Process) float64 {
	return believed(gpu.Map(p.Memory, gpu.Bytes.MiB), 0, mostBytes)
}

func unexplained(d *device, f *finding) {
	if d.isUnexplained() {
		f.say(Low, unexplainedWords())
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
		f.say(Low, idleUnknownWords())
		if d.m.readAt.Equal(d.m.first) && d.Utilization.GPU.Quality() == gpu.NotReported {
			f.say(Low, idleFirstWords())
		} else if d.temp < 45 && !(d.load() > 0.2) {
			f.say(Low, idleCoolWords())
		}
		f.minor = d.byHand() == casePolicy
		return
	}
	busy, sure := "", High
	switch {
	case d.util >= strong && d.m.lightly(): // the clocks are slow, so that a little work keeps it busy
		busy = butForALittle(withUnit(d.util, "%"))
		if !present(d.idleWatts) {
			sure = Medium
		}
	case d.util >= strong: // one reading that nothing else confirms, or not yet
		busy, sure = butForAMoment(withUnit(d.util, "%")), Medium
	case present(d.util):
		busy = " at " + withUnit(d.util, "%")
		if d.costs() && mean(d.m.within(pause), func(p point) float64 { return p.busy }) >= 0.8*idleBelow {
			sure = Medium // somebody uses it a little
		}
	}
	f.figure("utilization", d.util, "%").figure("power at rest", d.idleWatts, "W")
	if d.m.readAt.Sub(d.m.first) < restsAfter && !d.warm() && (d.fast() || d.load() > 0.2) {
		f.say(Low, idleTooEarlyWords())
		return
	}
	switch flat, rest := d.m.flat(1, none), value(d.m.Rest.Celsius); {
	case !d.warm(), flat && d.temp < 60 && !(d.temp >= rest+8):
		f.say(sure, idleWords(busy))
	case d.age(d.m.first) < steady, d.m.within(settling)[0].temp < d.temp-3:
		f.say(Low, idleCantTellWords())
	case d.m.rises() && (d.m.work.ended.IsZero() || d.age(d.m.work.ended) > steady):
		f.say(Low, idleWarmsWords(busy))
	default:
		f.say(Low, idleStaysWarmWords(busy))
	}
}

// lightly reports whether several recent readings had a busy counter that neither power nor anything else confirms.
func (m *memory) lightly() bool {
	busy := 0
	for _, p := range m.within(pause) {
		if p.busy >= strong && !p.active {
			busy++
		}
	}
	return busy >= 3
}

// rises reports whether the temperature has risen in the last minute. It compares averages of a few seconds, since a single reading is off
// by a degree now and then.
func (m *memory) rises() bool {
	const few = 15 * time.Second
	celsius := func(p point) float64 { return p.temp }
	minute := m.within(steady)
	if m.readAt.Sub(minute[0].time) < steady/2 {
		return false
	}
	first := minute
	for len(first) > 1 && first[len(first)-1].time.Sub(minute[0].time) > few {
		first = first[:len(first)-1]
	}
	return mean(m.within(few), celsius)-mean(first, celsius) >= 1.8
}

// warm reports whether a resting device is warmer than rest explains. A device whose fan stays off until then may well rest at 55 °C.
func (d *device) warm() bool {
	if d.unified() {
		return false // the processor's own work warms it too
	}
	turns := d.fan > 5 || !present(d.fan) && d.rpm > 0 // a tachometer may count a little while a fan is told to stand still
	return d.temp >= 60 || d.temp >= 50 && turns
}
