package explain

import "github.com/gpuwhy/gpuwhy/gpu"

// These rules say what limits the clocks.

const (
	reasonsOfHeat  = gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal
	reasonsOfPower = gpu.ReasonPowerCap | gpu.ReasonHardwarePowerBrake
)

func limitedByHeat(d *device) *finding {
	if d.reasons&reasonsOfHeat == 0 {
		return nil
	}
	f := d.limited()
	f.since = d.began(d.m.hot)
	f.figure("hardware slows itself down at", d.slowdown, "°C").
		figure("margin to the nearest limit", believed(d.Thermal.Margin, -hottest, hottest), "°C").
		figure("target temperature", believed(d.Thermal.Target, 1, hottest), "°C").
		figure("memory temperature", believed(d.Thermal.Memory, coldest, hottest), "°C")
	at, below := "", ""
	if has(d.temp) {
		at = withUnit(d.temp, "°C")
		below = at
		if left := d.slowdown - d.temp; left >= 1 { // the driver acts first
			below += ", " + withUnit(left, "°C") + " below where its hardware slows itself down"
		}
		at, below = " ("+at+")", " ("+below+")"
	}
	f.clause = it + " is held back by its heat" + below
	if d.reasons&gpu.ReasonHardwareThermal != 0 {
		f.clause = it + " slows itself down hard, because it is too hot" + at
	}
	f.advice = "Give it cooler air: clean filters and fans, leave space before the intakes, close empty slots. " +
		"A lower power limit makes less heat."
	return f
}

func limitedByPower(d *device) *finding {
	// A hardware slowdown without another reason is heat or the power supply.
	// It is explained here, since most often it is the supply.
	alone := d.reasons&gpu.ReasonHardwareSlowdown != 0 && d.reasons&(reasonsOfHeat|reasonsOfPower) == 0
	brake := d.reasons&gpu.ReasonHardwarePowerBrake != 0
	if d.reasons&reasonsOfPower == 0 && !alone || d.doing == resting && !brake {
		return nil
	}
	f := d.limited()
	f.since = d.began(d.m.capped)
	switch {
	case alone:
		f.confidence = Medium
		f.clause = it + " is slowed down by its own hardware: heat, or the power supply"
		f.advice = "Check the power cables and the temperature of the card's surroundings."
	case brake:
		f.clause = it + " is slowed down because the power supply asks it to draw less"
		f.advice = "Check the power supply and its cables; in a server, its power budget."
	default:
		f.clause = it + " is held back by its power limit"
		if has(d.limit) {
			f.clause += " (" + withUnit(d.limit, "W") + ")"
		}
		f.advice = "This is normal at full work: the limit keeps heat and noise down."
		if most := believed(d.Power.MaxLimit, 1, mostWatts); most > d.limit+1 {
			f.advice += " It may be raised to " + withUnit(most, "W") + ", for more speed, heat and noise."
		}
	}
	return f
}

func (d *device) limited() *finding {
	f := &finding{confidence: High, evidence: d.heat()}
	f.clocks(d).figure("utilization", d.util, "%")
	return f
}
