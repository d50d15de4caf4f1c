package explain

import (
	"fmt"
	"strings"
)

// These rules are about fans that do not follow the heat.

// fanFailing is about a fan that stands still or turns too slowly although it
// has the command to turn, or turns although its command is 0 %.
func fanFailing(d *device) *finding {
	for i := range min(len(d.Fans.Fans), maxFans) {
		if f := d.failing(i); f != nil {
			return f
		}
	}
	return nil
}

func (d *device) failing(i int) *finding {
	fan, m := &d.Fans.Fans[i], &d.m.fans[i]
	percent, rpm := commanded(fan), revolutions(fan)
	if m.still.IsZero() && m.slow.IsZero() && m.loose.IsZero() {
		return nil
	}
	f := &finding{fanName: "a fan", confidence: Medium, evidence: evidence{at: d.at}}
	if len(d.Fans.Fans) > 1 {
		f.fanName = fmt.Sprintf("fan %d", i+1)
	}
	f.figure(f.fanName+", as commanded", percent, "%").figure(f.fanName+", measured", rpm, "RPM").
		figure("temperature", d.temp, "°C")
	usual := m.usual()
	turns := itsFan + " turns at " + withUnit(rpm, "RPM")
	switch {
	case stands(percent, rpm) && d.age(m.still) >= fanSettles:
		f.since, f.confidence = d.began(m.still), High
		f.clause = itsFan + " stands still, though it is told to turn at " + withUnit(percent, "%")
		f.advice = "Look whether something blocks it or its cable is loose, and watch the temperature: " +
			"without this fan the GPU may have to slow down. If it does not turn again, have the fan replaced."
	case slower(percent, rpm, usual) && d.age(m.slow) >= fanSettles:
		f.since = d.began(m.slow)
		f.clause = turns + ", where " + withUnit(usual*percent, "RPM") + " are usual at " + withUnit(percent, "%")
		f.figure("usual speed", usual*percent, "RPM")
		f.advice = "Clean it and look whether something rubs or blocks it: a worn bearing slows a fan down before it stops."
	case turnsUnasked(percent, rpm) && d.age(m.loose) >= 3*fanSettles:
		f.since = d.began(m.loose)
		f.clause = turns + ", though the driver asks for 0 %"
		f.advice = "Another program or the card's own firmware drives it: look for a fan tool, or for the card's quiet switch."
	default:
		return nil
	}
	return f
}

// fanOf is a fan of a device: "fan 2 of GPU 0", "its fan 2".
func fanOf(fan, device string) string {
	if device == "it" {
		return "its " + strings.TrimPrefix(strings.TrimPrefix(fan, "the "), "a ")
	}
	return fan + " of " + device
}

// manual is the fan control policy of a fan that a person or a program sets.
const manual = "manual"

// byHand says what shows that a fan does not follow the temperature: its
// "policy" or its "target". It is empty where the fan does follow, or where one
// reading can't show it.
func (v *vitals) byHand() string {
	for i := range v.Fans.Fans {
		fan := &v.Fans.Fans[i]
		if policy, ok := fan.Policy.Get(); ok {
			if policy == manual {
				return "policy"
			}
			continue
		}
		// Without a policy: the driver wants another speed than the fan has.
		if d := commanded(fan) - target(fan); d > 10 || d < -10 {
			return "target"
		}
	}
	return ""
}

func fanByHand(d *device) *finding {
	how := d.byHand()
	if how == "" || how == "target" && (d.age(d.m.byHand) < 3*fanSettles || !d.fansHold()) {
		return nil
	}
	f := &finding{
		fanName: "the fan", confidence: High, since: d.began(d.m.byHand), evidence: evidence{at: d.at},
		advice: "Give the fan back to the driver: end the fan tool that has set it, " +
			"or choose automatic control in it (nvidia-settings, or the tool's own switch).",
	}
	wanted := none // the highest speed that the driver wants
	for i := range d.Fans.Fans {
		fan := &d.Fans.Fans[i]
		wanted = highest(wanted, target(fan))
		if i >= maxFans {
			continue
		}
		name := fmt.Sprintf("fan %d", i+1)
		if policy, ok := fan.Policy.Get(); ok {
			f.fact(name+", policy", nameOf(policy))
		}
		f.figure(name+", as commanded", commanded(fan), "%").figure(name+", target", target(fan), "%")
	}
	f.figure("temperature", d.temp, "°C")
	temperature := ""
	if has(d.temp) {
		temperature = " (" + withUnit(d.temp, "°C") + ")"
	}
	switch {
	case how == "target":
		f.confidence = Medium
		f.clause = itsFan + " stays at " + withUnit(d.fan, "%") + ", though the driver wants " + withUnit(wanted, "%") + temperature
	case has(d.fan):
		f.clause = itsFan + " is set by hand, to " + withUnit(d.fan, "%") + ", and does not follow the temperature" + temperature
	default:
		f.clause = itsFan + " is set by hand, and does not follow the temperature"
	}
	return f
}

// fansHold reports whether no fan is on its way to another speed.
func (d *device) fansHold() bool {
	for i := range min(len(d.Fans.Fans), maxFans) {
		if d.age(d.m.fans[i].changed) < 3*fanSettles {
			return false
		}
	}
	return true
}
