package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func fanFailing(d *device, f *finding) {
	for i := range min(len(d.Fans.Fans), len(d.m.Fans)) {
		m, percent, rpm := &d.m.Fans[i], commanded(&d.Fans.Fans[i]), revolutions(&d.Fans.Fans[i])
		usual := m.usual() * percent
		switch {
		case stands(percent, rpm) && d.age(m.still) >= fanSettles:
			f.Since, usual = d.began(m.still), none
			f.say(High, "still", withUnit(percent, "%"))
		case slower(percent, rpm, m.usual()) && d.age(m.slow) >= fanSettles:
			f.Since = d.began(m.slow)
			f.say(Medium, "slow", withUnit(rpm, "RPM"), withUnit(usual, "RPM"), withUnit(percent, "%"))
		case turnsUnasked(percent, rpm) && d.age(m.loose) >= 3*fanSettles:
			f.Since, usual = d.began(m.loose), none
			f.say(Medium, "unasked", withUnit(rpm, "RPM"))
		default:
			continue
		}
		f.fanName = "a fan"
		if len(d.Fans.Fans) > 1 {
			f.fanName = fmt.Sprintf("fan %d", i+1)
		}
		f.figure(f.fanName+", as commanded", percent, "%").figure(f.fanName+", measured", rpm, "RPM").
			figure("temperature", d.temp, "°C").figure("usual speed", usual, "RPM")
		return
	}
}

// fanOf is a fan of a device: "fan 2 of GPU 0", "its fan 2".
func fanOf(fan, device string) string {
	if device == "it" {
		return "its " + strings.TrimPrefix(strings.TrimPrefix(fan, "the "), "a ")
	}
	return fan + " of " + device
}

// byHand says what shows that a fan does not follow the temperature, its "policy" or its "target". It is
// empty where the fan does follow, or where one reading can't show it.
func (d *device) byHand() string {
	for i := range d.Fans.Fans {
		fan := &d.Fans.Fans[i]
		if policy, ok := fan.Policy.Get(); ok {
			if policy == "manual" {
				return "policy"
			}
			continue
		}
		// Without a policy: the driver wants another speed than the fan has.
		if off := commanded(fan) - target(fan); off > 10 || off < -10 {
			return "target"
		}
	}
	return ""
}

func fanByHand(d *device, f *finding) {
	how := d.byHand()
	// A fan needs time to follow the driver's wish.
	moves := func(m fanMemory) bool { return d.age(m.changed) < 3*fanSettles }
	fans := min(len(d.Fans.Fans), len(d.m.Fans))
	if how == "" || how == "target" && (d.age(d.m.byHand) < 3*fanSettles || slices.ContainsFunc(d.m.Fans[:fans], moves)) {
		return
	}
	f.fanName, f.Since = "the fan", d.began(d.m.byHand)
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
		f.say(Medium, "target", withUnit(d.fan, "%"), withUnit(wanted, "%"), temperature)
	case has(d.fan):
		f.say(High, "policy", withUnit(d.fan, "%"), temperature)
	default:
		f.say(High, "unknown speed")
	}
}

// chassisFans is about a device without fans: people hear those of the chassis.
func chassisFans(d *device, f *finding) {
	count, counted := d.Fans.Count.Get()
	unsupported := d.Fans.Count.Quality() == gpu.NotSupported
	if len(d.Fans.Fans) > 0 || !unsupported && (!counted || count != 0) || !d.reportsAnything() {
		return
	}
	f.say(High, "no fan")
	if unsupported {
		f.Confidence = Medium // a laptop's driver doesn't offer them either
	}
	f.minor = d.doing != working && !d.cooling()
	f.heat(d).fact("fans of its own", "none reported")
}
