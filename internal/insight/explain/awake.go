package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of devices without work: kept from rest, or at rest.

// awake reports whether a device without work is not at rest: its clocks are
// fast, or it draws clearly more than this very card does at rest.
func awake(v *vitals, m *memory, floor float64) bool { return fast(v, m) || costs(v, floor) }

// fast reports whether the clocks are those of work. Some products stay in P0
// at rest, so the state alone says it only of those that were seen in a slower
// one.
func fast(v *vitals, m *memory) bool {
	if v.reasoned && v.reasons&gpu.ReasonIdle != 0 {
		return false
	}
	quick := v.speed() >= 0.4
	switch {
	case has(v.state) && v.state >= gpu.RestsFrom:
		return false
	case has(v.speed()):
		return quick
	default:
		return has(v.state) && m.rest.known && m.rest.state >= gpu.RestsFrom
	}
}

// costs reports whether the power is clearly above that at rest.
func costs(v *vitals, floor float64) bool { return v.power > 1.25*floor+15 }

// heldAwake is about a device without work that is kept from rest: by a process
// that keeps a context, by a display, or by being asked again and again while
// the driver may unload between two questions, which gpuwhy does too.
func heldAwake(c *card) *finding {
	if !c.isAwake() {
		return nil
	}
	f := &finding{
		since: c.began(c.m.awake),
		evidence: c.heat().figure("utilization", c.v.util, "%").
			figure("performance state (0 is the fastest)", c.v.state, "").
			figure("SM clock", c.v.clock, "MHz").figure("fastest SM clock", c.v.top, "MHz"),
		confidence: Medium,
	}
	extra := ""
	if has(c.floor) && c.v.power > c.floor+3 {
		f.evidence.add(figure("power at rest", c.floor, "W", time.Time{}))
		extra = ", " + withUnit(c.v.power-c.floor, "W") + " more than at rest"
	}
	switch quick := fast(&c.v, c.m); {
	case quick && costs(&c.v, c.floor):
		f.confidence = High
	case quick && c.v.power <= c.floor+3:
		extra = ": its clocks are up, though it draws no more than at rest"
	}
	blame := func(who, how string) {
		f.clause = func(it string) string { return c.aside(it, who+" keeps "+it+" awake"+how) + extra }
	}
	holders := holders(c.d)
	persistence, known := c.d.Modes.Persistence.Get()
	switch {
	case len(holders) > 0:
		who := ProcessName(holders[0])
		if gone(holders[0]) {
			blame("what "+who+" left behind", "")
		} else {
			blame(who+others(len(holders)-1), " without using it")
		}
		f.advice = "End " + who + ", or have it give the GPU back (a notebook: shut its kernel down; a model server: let it unload)."
		if gone(holders[0]) {
			f.advice = "Nothing that runs holds it any more: reset the GPU (nvidia-smi --gpu-reset -i " + nameOf(c.d.UUID) + ", as root), or restart the machine."
		}
		for _, p := range firsts(holders, 4) {
			f.evidence.figure("memory held by "+ProcessName(p), believed(gpu.Map(p.Memory, gpu.Bytes.MiB), 0, mostBytes), "MiB")
		}
	case c.d.Modes.DisplayActive.Or(false):
		blame("a display", "")
		f.confidence = min(f.confidence, Medium)
		f.evidence.fact("display", "active")
		f.advice = "Lower the display's refresh rate, or use one display fewer: some cards rest only at 60 Hz or with one display."
	case known && !persistence && c.listed:
		blame("being asked for readings (by gpuwhy, or by another monitor)", ", since persistence mode is off")
		f.confidence = min(f.confidence, Medium)
		f.evidence.fact("persistence mode", "off")
		f.advice = "Turn persistence mode on (nvidia-smi -pm 1, or the nvidia-persistenced service), or let gpuwhy read less often with a longer --interval."
	default:
		f.clause = func(it string) string {
			return c.aside(it, it+" is awake without work") + extra + ", and nothing that is listed explains it"
		}
		f.confidence = Low
		f.advice = "Look with nvidia-smi whether a process holds a context that gpuwhy can't see, such as one of another container."
	}
	if known && !persistence && len(holders) == 0 {
		f.confidence = min(f.confidence, Medium)
	}
	return f
}

// quiet reports whether a device rests, and not only for a moment: a driver
// takes some time to let a card go to rest, and its power is a mean.
func (c *card) quiet() bool {
	return c.doing == resting && !c.stuck && (c.m.work.ended.IsZero() || c.age(c.m.work.ended) >= settling)
}

// isAwake reports whether something keeps a device from rest. A hot one draws
// more, so that while it cools down its power says nothing.
func (c *card) isAwake() bool {
	return c.quiet() && !c.justLetGo() && (fast(&c.v, c.m) || !c.cooling() && costs(&c.v, c.floor))
}

// justLetGo reports whether the last who held the device has gone a moment ago.
func (c *card) justLetGo() bool {
	return !c.began(c.m.unheld).IsZero() && c.age(c.m.unheld) < settling
}

func (c *card) isUnexplained() bool {
	return c.quiet() && !c.cooling() && !c.isAwake() && c.v.load() > 0.35
}

// holders are the processes that keep a compute context, by memory; those that
// are gone, whose context the driver still has, come last.
func holders(d *gpu.Device) []*gpu.Process {
	found := those(d.Processes.Or(nil), func(p *gpu.Process) bool { return p.Type != gpu.TypeGraphics })
	slices.SortStableFunc(found, func(a, b *gpu.Process) int {
		return cmp.Or(compareBool(gone(a), gone(b)), cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
	})
	return found
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// unexplained is about power without any work that is reported.
func unexplained(c *card) *finding {
	if !c.isUnexplained() {
		return nil
	}
	return &finding{
		clause: func(it string) string {
			return c.aside(it, it+" draws power without work") + ", and nothing that it reports explains it"
		},
		confidence: Low,
		evidence:   c.heat().figure("utilization", c.v.util, "%"),
		advice:     "Look again in a few seconds: work that has just begun or ended shows in the power first.",
	}
}

// idle says that there is nothing to explain: the device rests, and its fan
// with it.
func idle(c *card) *finding {
	if c.stuck || c.cooling() || c.isAwake() || c.isUnexplained() || !c.reportsAnything() {
		return nil
	}
	switch c.doing {
	case unknown:
		return &finding{
			clause: func(it string) string {
				return c.aside(it, it+" does not report how busy it is")
			},
			confidence: Low,
			evidence:   c.heat(),
			aside:      byHand(c.d) == "policy",
		}
	case resting:
		f := &finding{
			clause:     func(it string) string { return c.figured(it, it+" is idle"+c.atShare()) },
			confidence: High,
			evidence:   c.heat().figure("utilization", c.v.util, "%").figure("power at rest", c.floor, "W"),
		}
		if c.warm() {
			c.tellWarmth(f)
		}
		return f
	default:
		return nil
	}
}

// warm reports whether a resting device is warmer than rest explains. Cards
// whose fan stays off until then may well rest at 55 °C.
func (c *card) warm() bool {
	if c.v.fan > 0 || c.v.turning() {
		return c.v.temp >= 50
	}
	return c.v.temp >= 60
}

// tellWarmth says what can be said of heat whose work was not seen: that it
// falls, or may, or that it stays.
func (c *card) tellWarmth(f *finding) {
	f.confidence = Medium
	rest := "; it is still warm, probably from work that ended before gpuwhy was watching"
	f.advice = "Nothing needs to be done if it gets cooler: look again in some minutes."
	if c.m.trail.flat(c.m.at, 1, none) || c.age(c.m.first) > longestCooling {
		f.confidence = Low
		rest = "; it stays warm without work, and nothing that it reports explains it"
		f.advice = "Look at the air that reaches it: cards beside it that work, a full case, something before the intake."
	}
	f.clause = func(it string) string { return c.figured(it, it+" is idle"+c.atShare()) + rest }
}

func (c *card) atShare() string {
	if !has(c.v.util) {
		return ""
	}
	return " at " + withUnit(c.v.util, "%")
}
