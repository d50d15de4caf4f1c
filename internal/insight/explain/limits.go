package explain

import (
	"fmt"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of limits: what holds the clocks down, in words.

const (
	reasonsOfHeat  = gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal
	reasonsOfPower = gpu.ReasonPowerCap | gpu.ReasonHardwarePowerBrake
)

func limitedByHeat(c *card) *finding {
	if c.v.reasons&reasonsOfHeat == 0 {
		return nil
	}
	f := c.limited()
	f.since = c.began(c.m.hot)
	f.evidence.figure("hardware slows itself down at", c.v.slowdown, "°C").
		figure("margin to the nearest limit", believed(c.d.Thermal.Margin, -hottest, hottest), "°C").
		figure("target temperature", believed(c.d.Thermal.Target, 1, hottest), "°C").
		figure("memory temperature", believed(c.d.Thermal.Memory, coldest, hottest), "°C")
	at, below := "", ""
	if has(c.v.temp) {
		at = withUnit(c.v.temp, "°C")
		if left := c.v.slowdown - c.v.temp; left >= 1 { // the driver acts first
			below = ", " + withUnit(left, "°C") + " below where its hardware slows itself down"
		}
		at, below = " ("+at+")", " ("+at+below+")"
	}
	by := " is held back by its heat" + below
	if c.v.reasons&gpu.ReasonHardwareThermal != 0 {
		by = " slows itself down hard, because it is too hot" + at
	}
	f.clause = func(it string) string { return it + by }
	f.advice = "Give it cooler air: clean filters and fans, leave space before the intakes, close empty slots. A lower power limit makes less heat."
	return f
}

func limitedByPower(c *card) *finding {
	// The hardware's own slowdown says neither heat nor power brake, where it
	// stands alone: it is told here, since most often it is the supply.
	alone := c.v.reasons&gpu.ReasonHardwareSlowdown != 0 && c.v.reasons&(reasonsOfHeat|reasonsOfPower) == 0
	if c.v.reasons&reasonsOfPower == 0 && !alone || c.doing == resting && c.v.reasons&gpu.ReasonHardwarePowerBrake == 0 {
		return nil
	}
	f := c.limited()
	f.since = c.began(c.m.capped)
	switch {
	case alone:
		f.confidence = Medium
		f.clause = func(it string) string { return it + " is slowed down by its own hardware: heat, or the power supply" }
		f.advice = "Check the power cables and the temperature of the card's surroundings."
	case c.v.reasons&gpu.ReasonHardwarePowerBrake != 0:
		f.clause = func(it string) string { return it + " is slowed down because the power supply asks it to draw less" }
		f.advice = "Check the power supply and its cables; in a server, its power budget."
	case has(c.v.limit):
		f.clause = func(it string) string {
			return fmt.Sprintf("%s is held back by its power limit (%s)", it, withUnit(c.v.limit, "W"))
		}
		f.advice = c.moreSpeed()
	default:
		f.clause = func(it string) string { return it + " is held back by its power limit" }
		f.advice = c.moreSpeed()
	}
	return f
}

func (c *card) limited() *finding {
	return &finding{
		confidence: High,
		evidence: c.heat().figure("SM clock", c.v.clock, "MHz").figure("fastest SM clock", c.v.top, "MHz").
			figure("utilization", c.v.util, "%"),
	}
}

// moreSpeed says whether the power limit can be raised. At full work a card at
// its limit is as it should be.
func (c *card) moreSpeed() string {
	const normal = "This is normal at full work: the limit keeps heat and noise down."
	most := believed(c.d.Power.MaxLimit, 1, mostWatts)
	if !(most > c.v.limit+1) {
		return normal
	}
	return fmt.Sprintf("%s It may be raised to %s, for more speed, heat and noise.", normal, withUnit(most, "W"))
}
