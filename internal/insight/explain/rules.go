package explain

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A rule looks for one kind of cause on one device. It is a pure function of the device, and fills in the finding. If it sets no clause,
// there is no such cause.
type rule struct {
	kind Kind
	find func(*device, *finding)
}

// The rules about a device that answers, in the order of a sentence. They don't depend on one another.
var rules = []rule{
	{NoReadings, noReadings},
	{NeedsAction, needsAction},
	{StuckCounter, stuckCounter},
	{Frozen, frozen},
	{FanFailing, fanFailing},
	{FanUnreadable, fanUnreadable},
	{FanByHand, fanByHand},
	{LimitedByHeat, when((*device).tooHot, limitedByHeat)},
	{HotForPower, when((*device).muchHotter, hotForPower)},
	{FanAtRest, when((*device).fastAndCold, fanAtRest)},
	{CoolingDown, when((*device).coolsAtWork, coolingDown)},
	{Work, work},
	{CoolingDown, unless((*device).coolsAtWork, coolingDown)},
	{HeldAwake, heldAwake},
	{LimitedByHeat, unless((*device).tooHot, limitedByHeat)},
	{LimitedPower, limitedByPower},
	{HotForPower, unless((*device).muchHotter, hotForPower)},
	{FanAtRest, unless((*device).fastAndCold, fanAtRest)},
	{Unexplained, unexplained},
	{Idle, idle},
	{Reserved, reserved},
	{ChassisFans, chassisFans},
	{DriverError, driverError},
	{Doubtful, doubtful},
	{NotKnowable, notKnowable},
}

// when and unless are for rules with two places in a sentence.
func when(so func(*device) bool, find func(*device, *finding)) func(*device, *finding) {
	return func(d *device, f *finding) {
		if so(d) {
			find(d, f)
		}
	}
}

func unless(so func(*device) bool, find func(*device, *finding)) func(*device, *finding) {
	return when(func(d *device) bool { return !so(d) }, find)
}

// A finding is a cause before it has its sentence.
type finding struct {
	Cause    // its Confidence is High unless the rule says otherwise
	clause   func(naming) string
	headline func(heading) (now, past string)
	fanName  string // the fan that it is about: "fan 2"
	minor    bool   // the device's own sentence leaves it out
	readAt   time.Time
}

// say gives the finding its words.
func (f *finding) say(sure Confidence, w wording) {
	f.Case, f.clause, f.headline, f.Advice, f.Short, f.Confidence = w.name, w.clause, w.headline, w.advice, w.short, sure
}

// tell returns the clause about a device; name is how the clause names it.
func (f *finding) tell(d *device, name string) string {
	n := naming{it: name, fan: fanOf(f.fanName, name)}
	if name == d.name && d.figures != "" {
		n.readings, n.brackets = ", "+d.figures, " ("+d.figures+")"
	}
	return f.clause(n)
}

func (d *device) cooling() bool { return d.m.cooling != nil }

// coolsAtWork reports whether the heat of bigger work that has ended leaves while somebody works a little.
func (d *device) coolsAtWork() bool { return d.cooling() && d.doing == working }

// fastAndCold reports whether neither work nor its heat explains such a fan.
func (d *device) fastAndCold() bool {
	if d.doing != working && !d.cooling() || d.hotSpot >= 65 {
		return false
	}
	peak := d.m.peak(2 * time.Minute)
	return d.fan >= 70 && peak < 48 || d.fan >= 90 && peak < 55 && d.load() < 0.5
}

// age returns how long something has been so at the time of the reading.
func (d *device) age(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(d.readAt.Sub(since), 0)
}

// began returns since, or zero if something was so from the first reading on: then it is not known since when, unless the device slept
// until then.
func (d *device) began(since time.Time) time.Time {
	if !since.After(d.m.first) && !d.m.woke {
		return time.Time{}
	}
	return since
}

const longestSentence = 3 // causes

// explain runs the rules that apply to a device.
func (d *device) explain() DeviceAnswer {
	apply := rules
	if d.State != gpu.StateOK {
		apply = []rule{{Kind(d.State), absent}}
	}
	out := DeviceAnswer{Device: d.Device, working: d.doing == working && !d.unproven(), unknown: d.doing == unknown || d.State != gpu.StateOK || d.unproven()}
	pronoun, badFan := "it", false
	var clauses []string
	var f, first finding
	for _, r := range apply {
		f = finding{Cause: Cause{Kind: r.kind, Device: d.Device, Confidence: High}, readAt: d.readAt}
		r.find(d, &f)
		if f.clause == nil {
			continue
		}
		clause := f.tell(d, d.name)
		f.ID, f.Sentence, f.Who = string(r.kind)+":"+d.UUID, sentence(clause), d.whoIs(r.kind)
		if len(out.Causes) == 0 {
			first = f
		}
		out.Causes = append(out.Causes, f.Cause)
		badFan = badFan || f.fanName != ""
		switch {
		case f.minor || len(clauses) == longestSentence:
			continue
		case len(clauses) > 0:
			clause = f.tell(d, pronoun)
		case f.fanName != "":
			pronoun = "the GPU" // not the fan
		}
		clauses = append(clauses, clause)
	}
	out.Sentence = sentence(clauses...)
	if len(out.Causes) > 0 {
		out.Layers = d.layers(&first, out.Causes[1:])
		out.quiet = first.Kind == Idle && first.Case == caseIdle && !(d.util >= strong) && !(d.fan >= 45)
		out.hasFan = present(d.fan)
		out.off = d.fan == 0 && !(d.rpm > 0)
		out.loud = d.State == gpu.StateOK && (d.fan >= fast || d.temp >= d.slowdown-10 || d.reasons&reasonsOfHeat != 0)
	}
	out.Cooling, out.Cooled = d.cooldowns()
	out.loudness = d.loudness()
	if badFan && (slices.ContainsFunc(out.Causes, func(c Cause) bool { return c.Kind == FanFailing || c.Kind == FanByHand })) {
		out.loudness++
	}
	if out.needs() { // broken things come first
		out.loudness += 20
	}
	if d.State == gpu.StateOK && out.Standing() == Broken {
		out.loudness += 2 // whatever else works
	}
	return out
}

// loudness estimates a device's part of the noise and heat. What people can't hear counts for less. Devices that report nothing come last,
// and after them those that do not answer.
func (d *device) loudness() float64 {
	const coolest, usualLimit = 30.0, 95.0
	heat := 0.0
	if present(d.temp) && !d.unified() {
		limit := max(orElse(d.slowdown, usualLimit), coolest+1)
		heat = min(max((d.temp-coolest)/(limit-coolest), 0), 1.2)
	}
	// Without its own fans, the chassis fans count, which follow the heat.
	score := 0.45*orElse(min(d.fan/100, 1.2), heat) + 0.35*heat + 0.2*orElse(min(d.load(), 1.2), 0)
	switch {
	case d.State == gpu.StateAsleep:
		score -= 20
	case d.State != gpu.StateOK: // broken things come first
		score += 20
	case !d.reportsAnything() && !d.cooling():
		score -= 10
	case d.doing == working && !d.unproven() && d.fan == 0:
		score += 0.2 // nobody can hear it
	case d.doing == working && !d.unproven():
		score += 0.5
	case d.cooling():
		score += 0.2
	}
	return score
}
