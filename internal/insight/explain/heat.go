package explain

import (
	"slices"
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	reasonsOfHeat  = gpu.ReasonThermalSlowdown | gpu.ReasonHardwareThermal
	reasonsOfPower = gpu.ReasonPowerCap | gpu.ReasonHardwarePowerBrake
)

// tooHot reports whether heat is the first thing to report: the hardware itself slows down hard, or the memory is too hot, which no fan
// curve takes into account.
func (d *device) tooHot() bool {
	return d.reasons&gpu.ReasonHardwareThermal != 0 || d.reasons&reasonsOfHeat != 0 && d.temp >= d.slowdown-6 || d.spotTooHot() ||
		d.reasons&reasonsOfHeat != 0 && believed(d.Thermal.Memory, coldest, hottest) >= 90 && d.temp < d.slowdown-10
}

// spotTooHot reports whether heat holds the clocks down, and it is the hot spot's and not the whole chip's.
func (d *device) spotTooHot() bool {
	return d.reasons&reasonsOfHeat != 0 && d.hotSpot >= 95 && d.hotSpot >= d.temp+10
}

func limitedByHeat(d *device, f *finding) {
	if d.reasons&reasonsOfHeat == 0 {
		return
	}
	f.Since = d.began(d.m.hot)
	f.heat(d).clocks(d).figure("utilization", d.util, "%").
		figure("hardware slows itself down at", d.slowdown, "°C").
		figure("margin to the nearest limit", believed(d.Thermal.Margin, -hottest, hottest), "°C").
		figure("target temperature", believed(d.Thermal.Target, 1, hottest), "°C").
		figure("memory temperature", believed(d.Thermal.Memory, coldest, hottest), "°C")
	defer d.driversWord(f)
	temp, below := "", ""
	if present(d.temp) {
		temp = " (" + withUnit(d.temp, "°C")
		if left := d.slowdown - d.temp; left >= 1 { // the driver acts first
			below = ", " + belowSlowdown(withUnit(left, "°C"))
		}
		temp, below = temp+")", temp+below+")"
	}
	memory := believed(d.Thermal.Memory, coldest, hottest)
	if d.spotTooHot() {
		f.say(High, heatHotSpotWords(withUnit(d.hotSpot, "°C"), temp))
	} else if memory >= 90 && d.temp < d.slowdown-10 {
		f.say(High, heatMemoryWords(withUnit(memory, "°C"), temp))
	} else if d.reasons&gpu.ReasonHardwareThermal != 0 {
		f.say(High, heatHardwareWords(temp))
	} else {
		f.say(High, heatDriverWords(below))
	}
}

// driversWord makes a finding a guess that rests only on the driver's report: no reading could confirm it.
func (d *device) driversWord(f *finding) {
	if !present(d.temp) && !present(d.hotSpot) && !present(d.power) && !present(d.clock) && !present(believed(d.Thermal.Memory, coldest, hottest)) {
		f.Confidence = Low
	}
}

func limitedByPower(d *device, f *finding) {
	// Without another reason, a hardware slowdown mostly comes from the power supply.
	alone := d.reasons&gpu.ReasonHardwareSlowdown != 0 && d.reasons&(reasonsOfHeat|reasonsOfPower) == 0
	brake := d.reasons&gpu.ReasonHardwarePowerBrake != 0
	if d.reasons&reasonsOfPower == 0 && !alone || d.doing == resting && !brake {
		return
	}
	f.Since = d.began(d.m.capped)
	f.heat(d).clocks(d).figure("utilization", d.util, "%")
	defer d.driversWord(f)
	switch {
	case alone:
		f.say(Medium, powerHardwareWords())
	case brake:
		f.say(High, powerBrakeWords())
	default:
		limit, raised := "", ""
		if present(d.limit) {
			limit = " (" + withUnit(d.limit, "W") + ")"
		}
		if most := believed(d.Power.MaxLimit, 1, mostWatts); most > d.limit+1 {
			raised = withUnit(most, "W")
		}
		f.say(High, powerLimitWords(limit, raised))
	}
}

// How many degrees hotter a device must be than before, and than its neighbors, which have their own air.
const (
	hotBy      = 8.0
	hotterThan = 10.0
)

func (d *device) settled() bool {
	return present(d.temp) && present(d.power) && d.m.flat(2, 0.1*d.power+5)
}

// muchHotter reports whether a working device is so much hotter than before that this comes before the work.
func (d *device) muchHotter() bool {
	return d.doing == working && d.steady && !d.unified() && d.temp-d.m.Curve.usual(d.power) >= 1.25*hotBy
}

// hotForPower compares a device with its own past and with its neighbors. A device that is part of a processor has the processor's heat,
// whatever its own power draw.
func hotForPower(d *device, f *finding) {
	if d.unified() || d.cooling() || d.doing == unknown || !d.steady {
		return
	}
	usual := d.m.Curve.usual(d.power)
	neighbors, count := d.neighbors()
	self, among := d.temp-usual, d.temp-neighbors
	if !(self >= hotBy) && !(among >= hotterThan) || d.doing == resting && !(d.temp >= 45) {
		return
	}
	f.heat(d).figure("usual temperature at this power", usual, "°C")
	if count > 0 {
		f.figure("neighbors at this power", neighbors, "°C").figure("neighbors compared with", float64(count), "")
	}
	thanNeighbors, power := withUnit(among, "°C"), withUnit(d.power, "W")
	neighbor := d.working()
	switch {
	case self >= hotBy && d.doing == resting && neighbor != nil:
		f.say(Medium, warmedBesideWords(neighbor.name, withUnit(self, "°C"), power))
	case self >= hotBy && among >= hotterThan:
		f.say(High, hotterThanBeforeWords(withUnit(self, "°C"), power, thanNeighbors))
	case self >= hotBy:
		f.say(Medium, hotterThanBeforeWords(withUnit(self, "°C"), power, ""))
	case count >= 3:
		f.say(Medium, hotterThanNeighborsWords(thanNeighbors, power))
	default:
		f.say(Low, hotterThanNeighborsWords(thanNeighbors, power))
	}
}

// working returns the hottest device of the machine that works and is hotter than this one; nil if there is none.
func (d *device) working() (found *device) {
	for _, p := range d.all {
		if p != nil && p != d && p.doing == working && p.temp > d.temp && (found == nil || p.temp > found.temp) {
			found = p
		}
	}
	return found
}

// neighbors looks at other devices of the same model with about the same power draw: it returns their median temperature and their number.
func (d *device) neighbors() (temp float64, count int) {
	var temps []float64
	near := 0.15*d.power + 5
	for _, p := range d.all {
		if p != d && p.steady && p.Name == d.Name && p.power >= d.power-near && p.power <= d.power+near {
			temps = append(temps, p.temp)
		}
	}
	if len(temps) == 0 {
		return none, 0
	}
	slices.Sort(temps)
	return temps[len(temps)/2], len(temps)
}

// warmAir finds that several devices run hotter than before: then the devices themselves are not the reason.
func warmAir(devices []*device) []machineFinding {
	var f finding
	known, more := 0, 0.0
	for _, d := range devices {
		above := d.temp - d.m.Curve.usual(d.power)
		if !d.steady || !present(above) {
			continue
		}
		known++
		if above >= hotBy/2 {
			more += above
			f.readAt = d.readAt
			f.figure("above usual: "+d.name, above, "°C")
		}
	}
	n := len(f.Evidence)
	if n < 2 || n*4 < known*3 {
		return nil
	}
	c := warmAirWords(strconv.Itoa(n), strconv.Itoa(known), withUnit(more/float64(n), "°C")).cause(WarmAir, "")
	c.Confidence, c.Evidence = Medium, f.Evidence
	return []machineFinding{c}
}
