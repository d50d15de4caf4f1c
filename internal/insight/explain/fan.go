package explain

import (
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of fans that do not do what heat asks of them.

// fanFailing is about a fan that stands still or turns too slowly while it is
// told to turn, or turns while it is told to stand still.
func fanFailing(c *card) *finding {
	for i := range min(len(c.d.Fans.Fans), maxFans) {
		if f := c.failing(i); f != nil {
			return f
		}
	}
	return nil
}

func (c *card) failing(i int) *finding {
	fan, m := &c.d.Fans.Fans[i], &c.m.fans[i]
	told, rpm := commanded(fan), revolutions(fan)
	if m.still.IsZero() && m.slow.IsZero() && m.loose.IsZero() {
		return nil
	}
	name := "a fan"
	if len(c.d.Fans.Fans) > 1 {
		name = fmt.Sprintf("fan %d", i+1)
	}
	f := &finding{evidence: &proofs{at: c.at}, confidence: High}
	f.evidence.figure(name+", as commanded", told, "%").figure(name+", measured", rpm, "RPM").
		figure("temperature", c.v.temp, "°C")
	usual := m.usual()
	switch {
	case stands(told, rpm) && c.age(m.still) >= fanSettles:
		f.since = c.began(m.still)
		f.clause = func(it string) string {
			return fmt.Sprintf("%s stands still, though it is told to turn at %s", theFan(name, it), withUnit(told, "%"))
		}
		f.advice = "Look whether something blocks it or its cable is loose, and watch the temperature: without this fan the GPU may have to slow down. If it does not turn again, have the fan replaced."
	case slower(told, rpm, usual) && c.age(m.slow) >= fanSettles:
		f.since = c.began(m.slow)
		f.clause = func(it string) string {
			return fmt.Sprintf("%s turns at %s, where %s are usual at %s", theFan(name, it), withUnit(rpm, "RPM"), withUnit(usual*told, "RPM"), withUnit(told, "%"))
		}
		f.evidence.figure("usual speed", usual*told, "RPM")
		f.confidence = Medium
		f.advice = "Clean it and look whether something rubs or blocks it: a worn bearing slows a fan down before it stops."
	case turnsUnasked(told, rpm) && c.age(m.loose) >= 3*fanSettles:
		f.since = c.began(m.loose)
		f.clause = func(it string) string {
			return fmt.Sprintf("%s turns at %s, though the driver asks for 0 %%", theFan(name, it), withUnit(rpm, "RPM"))
		}
		f.confidence = Medium
		f.advice = "Another program or the card's own firmware drives it: look for a fan tool, or for the card's quiet switch."
	default:
		return nil
	}
	return f
}

// theFan is a fan of a device that is called so: "fan 2 of GPU 0", "its fan 2".
func theFan(name, it string) string {
	if it == "it" {
		return "its " + strings.TrimPrefix(strings.TrimPrefix(name, "the "), "a ")
	}
	return name + " of " + it
}

// manual is the fan control policy of a fan that a person or a program sets.
const manual = "manual"

// byHand says how it can be told that a fan does not follow the temperature;
// empty where it does, or where that can't be told from one reading.
func byHand(d *gpu.Device) string {
	for i := range d.Fans.Fans {
		fan := &d.Fans.Fans[i]
		if policy, ok := fan.Policy.Get(); ok {
			if policy == manual {
				return "policy"
			}
			continue
		}
		// Without a policy: the driver steers elsewhere than where the fan is.
		if d := commanded(fan) - target(fan); d > 10 || d < -10 {
			return "target"
		}
	}
	return ""
}

func fanByHand(c *card) *finding {
	how := byHand(c.d)
	if how == "" {
		return nil
	}
	f := &finding{
		since:    c.began(c.m.byHand),
		evidence: &proofs{at: c.at},
		advice:   "Give the fan back to the driver: end the fan tool that has set it, or choose automatic control in it (nvidia-settings, or the tool's own switch).",
	}
	for i := range min(len(c.d.Fans.Fans), maxFans) {
		fan := &c.d.Fans.Fans[i]
		name := fmt.Sprintf("fan %d", i+1)
		if policy, ok := fan.Policy.Get(); ok {
			f.evidence.fact(name+", policy", nameOf(policy))
		}
		f.evidence.figure(name+", as commanded", commanded(fan), "%").figure(name+", target", target(fan), "%")
	}
	f.evidence.figure("temperature", c.v.temp, "°C")
	switch {
	case how == "policy":
		f.confidence = High
		f.clause = func(it string) string {
			if !has(c.v.fan) {
				return theFan("the fan", it) + " is set by hand, and does not follow the temperature"
			}
			return fmt.Sprintf("%s is set by hand, to %s, and does not follow the temperature%s", theFan("the fan", it), withUnit(c.v.fan, "%"), c.atTemperature())
		}
	case how == "target" && c.age(c.m.byHand) >= 3*fanSettles && c.fansHold():
		f.confidence = Medium
		f.clause = func(it string) string {
			return fmt.Sprintf("%s stays at %s, though the driver wants %s%s", theFan("the fan", it), withUnit(c.v.fan, "%"), withUnit(c.wanted(), "%"), c.atTemperature())
		}
	default:
		return nil
	}
	return f
}

// wanted is the speed that the driver steers to; the highest of all fans.
func (c *card) wanted() float64 {
	most := none
	for i := range c.d.Fans.Fans {
		most = highest(most, target(&c.d.Fans.Fans[i]))
	}
	return most
}

func (c *card) atTemperature() string {
	if !has(c.v.temp) {
		return ""
	}
	return " (" + withUnit(c.v.temp, "°C") + ")"
}

// fansHold reports whether no fan is on its way to another speed.
func (c *card) fansHold() bool {
	for i := range min(len(c.d.Fans.Fans), maxFans) {
		if c.age(c.m.fans[i].changed) < 3*fanSettles {
			return false
		}
	}
	return true
}
