package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

func fanFailing(d *device, f *finding) {
	if d.age(d.m.offHot) >= fanSettles {
		f.fanName, f.Since = "the fan", d.began(d.m.offHot)
		f.say(Medium, fanOffWords(withUnit(d.temp, "°C")))
		f.heat(d)
		return
	}
	for i := range min(len(d.Fans.Fans), len(d.m.Fans)) {
		m, percent, rpm := &d.m.Fans[i], commanded(&d.Fans.Fans[i]), d.m.Fans[i].revolutions(&d.Fans.Fans[i], d.temp)
		usual := m.usual() * percent
		switch {
		case stands(percent, rpm) && d.age(m.still) >= fanSettles:
			f.Since, usual = d.began(m.still), none
			f.say(High, fanStillWords(withUnit(percent, "%")))
		case slower(percent, rpm, m.usual()) && d.age(m.slow) >= fanSettles:
			f.Since = d.began(m.slow)
			f.say(Medium, fanSlowWords(withUnit(rpm, "RPM"), withUnit(usual, "RPM"), withUnit(percent, "%")))
		case turnsUnasked(percent, rpm, &d.Fans.Fans[i]) && d.age(m.loose) >= 3*fanSettles:
			f.Since, usual = d.began(m.loose), none
			f.say(Medium, fanUnaskedWords(withUnit(rpm, "RPM")))
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

// fanOf names a fan of a device: "fan 2 of GPU 0", "its fan 2".
func fanOf(fan, device string) string {
	if device == "it" {
		return "its " + strings.TrimPrefix(strings.TrimPrefix(fan, "the "), "a ")
	}
	return fan + " of " + device
}

// byHand says what shows that a fan does not follow the temperature: its policy or its target. It is empty if the fan does follow, or if a
// single reading can't show it.
func (d *device) byHand() string {
	for i := range d.Fans.Fans {
		fan := &d.Fans.Fans[i]
		if policy, ok := fan.Policy.Get(); ok {
			if policy == "manual" {
				return casePolicy
			}
			continue
		}
		// Without a policy: the driver's target differs from the fan's speed. A hot card may turn its fan faster by itself.
		if off := commanded(fan) - target(fan); off > 10 && d.temp < 60 || off < -10 {
			return caseTarget
		}
	}
	return ""
}

// handOnFan is byHand if it has lasted long enough: a fan needs time to reach the driver's target.
func (d *device) handOnFan() string {
	moves := func(m fanMemory) bool { return d.age(m.changed) < 2*fanSettles }
	how, fans := d.byHand(), min(len(d.Fans.Fans), len(d.m.Fans))
	if how == caseTarget && (d.age(d.m.byHand) < 2*fanSettles || slices.ContainsFunc(d.m.Fans[:fans], moves)) {
		return ""
	}
	return how
}

// fanFails reports whether a fan does not do what it is told.
func (d *device) fanFails() bool {
	for i := range min(len(d.Fans.Fans), len(d.m.Fans)) {
		if m := &d.m.Fans[i]; d.age(m.still) >= fanSettles || d.age(m.slow) >= fanSettles || d.age(m.loose) >= 3*fanSettles {
			return true
		}
	}
	return false
}

// follows reports whether the fan, since it has been driven by hand, was faster when the device was hotter.
func (m *memory) follows() bool {
	points := m.within(min(trailed, m.readAt.Sub(m.byHand)))
	temp := mean(points, func(p point) float64 { return p.temp })
	fan := mean(points, func(p point) float64 { return p.fan })
	var both, temps, fans float64
	for _, p := range points {
		if x, y := p.temp-temp, p.fan-fan; present(x) && present(y) {
			both, temps, fans = both+x*y, temps+x*x, fans+y*y
		}
	}
	n := float64(len(points))
	return temps > 9*n && fans > 16*n && both > 0.8*math.Sqrt(temps*fans) // both vary by some degrees and percent
}

func fanByHand(d *device, f *finding) {
	defer func() {
		if d.Vendor == gpu.NVIDIA && f.Advice != "" {
			f.Advice = giveFanBackNVIDIA
		}
	}()
	how := d.byHand()
	if how == "" && d.m.fixed(d) {
		least, most := d.m.fanLeast, d.m.fanMost
		f.fanName, f.Since = "the fan", d.began(d.m.fanSince)
		f.say(Medium, fanFixedWords(d.fanSpeed(), withUnit(least, "°C"), withUnit(most, "°C")))
		f.heat(d).figure("coolest at that speed", least, "°C").figure("hottest at that speed", most, "°C")
		return
	}
	// A fan needs time to reach the driver's target.
	if how = d.handOnFan(); how == "" {
		return
	}
	f.fanName, f.Since = "the fan", d.began(d.m.byHand)
	wanted := none // the driver's highest target
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
	if present(d.temp) {
		temperature = " (" + withUnit(d.temp, "°C") + ")"
	}
	switch {
	case how == caseTarget:
		f.say(Medium, fanTargetWords(withUnit(d.fan, "%"), withUnit(wanted, "%"), temperature))
	case d.fan == 0 && d.rpm > 0 && d.rpm <= slowest(&d.Fans.Fans[0]):
		f.say(High, fanLeastByHandWords(withUnit(d.fan, "%"), withUnit(d.rpm, "RPM"), temperature))
	case present(d.fan) && d.m.follows():
		f.say(High, fanCurveWords(withUnit(d.fan, "%"), temperature))
	case present(d.fan):
		f.say(High, fanByHandWords(withUnit(d.fan, "%"), temperature))
	default:
		f.say(High, fanByHandUnknownWords())
	}
}

// passive matches products that never have a fan of their own: server cards.
var passive = lazy.Pattern(`\b(Data Center GPU|Radeon Pro V\d+|Tesla|[ABHLPTV](2|4|10|16|30|40|40S|100|200|300|800)|L40S?|GH200|GB[23]00|H20|H200|MI\d{2,3}X?|Instinct)\b`)

// afterWork names the work of the last minutes: " after blender (pid 4242, ann)".
func (d *device) afterWork() string {
	others := d.age(d.m.work.ended) > longestCooling || d.temp >= d.m.coolest+3 // the remaining heat is somebody else's
	if hottest := d.m.work.hottest(); hottest != nil && !d.m.work.ended.IsZero() && !others {
		return " after " + ProcessName(&hottest.process)
	}
	return ""
}

// still reports whether the temperature has been exactly the same for this long.
func (m *memory) still(lasts time.Duration) bool {
	all := m.within(lasts)
	if len(all) < 6 || m.readAt.Sub(all[0].time) < lasts*9/10 {
		return false
	}
	return !slices.ContainsFunc(all, func(p point) bool { return p.temp != all[0].temp })
}

// fixed reports whether the fan has kept its speed for minutes although the temperature changed so much that a fan curve would have moved
// it. For a fan at its lowest speed that is not known.
func (m *memory) fixed(d *device) bool {
	policy := slices.ContainsFunc(d.Fans.Fans, func(f gpu.Fan) bool { return f.Policy.Present() })
	return !policy && d.fan >= 45 && m.readAt.Sub(m.fanSince) >= 2*time.Minute && m.fanMost-m.fanLeast >= 10
}

// keepFan records since when the fan has its speed, and the temperatures meanwhile.
func (m *memory) keepFan(d *device) {
	if !(d.fan >= m.fanSpeed-1 && d.fan <= m.fanSpeed+1) {
		m.fanSpeed, m.fanSince, m.fanLeast, m.fanMost = d.fan, m.readAt, d.temp, d.temp
	}
	m.fanLeast, m.fanMost = lowest(m.fanLeast, d.temp), highest(m.fanMost, d.temp)
}

// chassisFans is about a device without fans: people hear the chassis fans. If the driver only doesn't report the device's fans, as on
// laptops, it is not known which fan turns.
func chassisFans(d *device, f *finding) {
	count, counted := d.Fans.Count.Get()
	unsupported := d.Fans.Count.Quality() == gpu.NotSupported
	if len(d.Fans.Fans) > 0 || !unsupported && (!counted || count != 0) || !d.reportsAnything() || d.offersOnlyMemory() {
		return
	}
	f.heat(d)
	if d.unified() {
		f.say(High, processorFanWords())
		f.minor = true
		f.fact("fans of its own", "none: it is part of the processor")
		return
	}
	if unsupported && !passive().MatchString(d.Name) {
		f.say(Medium, fansNotShownWords())
		f.minor = true
		f.fact("fans", "not shown by the driver")
		return
	}
	f.say(High, noFanWords())
	f.minor = d.doing != working && !d.cooling()
	f.fact("fans of its own", "none reported")
}

// startsFor is how long a fan must turn to be worth mentioning at rest.
const startsFor = 4 * time.Second

// often is how many times a fan must start within the trail to count as going on and off.
const often = 3

// fanStarts returns how often the fan started within the trail.
func (m *memory) fanStarts() (n int) {
	for i := 1; i < len(m.trail); i++ {
		if m.trail[i-1].fan == 0 && m.trail[i].fan > 0 {
			n++
		}
	}
	return n
}

// fanAtRest is about a fan that turns although nothing works and no heat of work is left.
func fanAtRest(d *device, f *finding) {
	starts := d.m.fanStarts()
	turns := d.fan > 0 && !d.countsNoTurns() || starts >= often
	if d.doing == unknown || !turns || d.handOnFan() != "" || d.fanFails() || d.m.fixed(d) || d.m.readAt.Sub(d.m.first) < restsAfter {
		return
	}
	if (d.doing == working || d.cooling()) && !d.fastAndCold() {
		return // the heat of work explains it
	}
	least, start, stop := value(d.m.Stops.Least), d.m.Stops.start(), d.m.Stops.stop()
	memory := believed(d.Thermal.Memory, coldest, hottest)
	cool := !present(d.temp) || d.temp < 50
	mild := cool || d.temp < 62 && d.m.flat(2, none) && !d.costs() // no fan curve is that fast at this temperature
	slowest := d.fan <= least+4 || !present(least)
	if d.fan >= 45 && d.fan < 60 && !present(least) && d.m.readAt.Sub(d.m.first) <= pause {
		return // some fans never turn more slowly
	}
	if starts < often && d.age(d.m.Stops.since) < startsFor && d.m.Stops.since.After(d.m.first) {
		return // some fans start for a second or two, and stop again
	}
	// If its device gets warmer, or is kept from rest, the fan follows that heat, and its earlier behavior says nothing about it.
	follows := d.m.rises() || d.isUp() || d.temp >= d.m.coolest+6
	offBefore := value(d.m.Rest.Fan) == 0 || len(d.m.Stops.Starts) > 0
	f.fanName, f.Since = "the fan", d.began(d.m.Stops.since)
	scale, unit := 1.0, "%"
	if d.byRPM {
		scale, unit = fullRPM/100, "RPM"
	}
	f.heat(d).figure("memory temperature", memory, "°C").figure("the fan starts at", start, "°C").figure("the fan stops at", stop, "°C").
		figure("least speed of the fan", least*scale, unit)
	speed, temp := d.fanSpeed(), ""
	if present(d.temp) {
		temp = " at " + withUnit(d.temp, "°C")
	}
	switch {
	case starts >= often:
		f.Since = time.Time{}
		f.say(Medium, fanOnAndOffWords(temp, Plural(starts, "time", "times")))
		f.figure("starts of the fan in four minutes", float64(starts), "")
	case memory >= 80 && d.temp < 65:
		f.say(Medium, fanForMemoryWords(speed, withUnit(memory, "°C")))
	case d.hotSpot >= 75 && d.temp < 65:
		f.say(Medium, fanForHotSpotWords(speed, withUnit(d.hotSpot, "°C")))
	case d.fan >= 45 && mild && d.m.within(2 * time.Minute)[0].fan >= d.fan+2 && d.m.fallen(2*time.Minute) >= 1.5:
		f.say(Medium, fanLateWords(speed, temp+d.afterWork()))
	case d.fan >= 45 && mild && !(d.fan <= least+4 && d.fan < 60):
		though, advice := thoughNothingWorks, mayFollowUnshown
		if d.doing == working {
			though = thoughCool
		}
		if present(d.hotSpot) && present(memory) {
			advice = mayFollowCurve
		}
		f.say(Medium, fanUnexplainedWords(speed, though, temp, advice))
	case follows && (offBefore || d.m.rises() || d.age(d.m.awake) >= settling):
		f.fanName, f.Evidence = "", nil
	case offBefore && present(stop) && d.fan <= 60:
		f.say(High, fanHeldWords(speed, temp+d.afterWork(), stopsOnlyAt(withUnit(stop, "°C"))))
	case offBefore && d.fan <= 45:
		f.say(Medium, fanHeldWords(speed, temp+d.afterWork(), stopsLower))
	case slowest && d.fan < 60 && cool, (d.fan <= least+4 || d.fan <= 5) && d.fan < 45: // a warm device's fan may never have been slower while gpuwhy watched
		f.say(Medium, fanFloorWords(speed, temp))
	default:
		f.fanName, f.Evidence = "", nil // it follows the heat
	}
}

// flickers is how long the tachometer of a fan at its lowest speed may count nothing.
const flickers = 30 * time.Second

// countsNoTurns reports whether every fan has a tachometer and none counts: whatever the driver commands, it is not known that a fan turns.
func (d *device) countsNoTurns() bool {
	for i := range d.Fans.Fans {
		rpm, ok := d.Fans.Fans[i].RPM.Get()
		if !ok || rpm > 0 || i < len(d.m.Fans) && d.m.readAt.Sub(d.m.Fans[i].turned) < flickers {
			return false
		}
	}
	return len(d.Fans.Fans) > 0
}

// drewAsAtRest reports whether a device has drawn about as little as at rest for a while: before that it may have been kept warm.
func (d *device) drewAsAtRest(lasts time.Duration) bool {
	line := 1.4*d.idleWatts + 5
	return d.power <= line && !slices.ContainsFunc(d.m.within(lasts), func(p point) bool { return p.power > line })
}

// frozen is about a temperature that does not change while the power does.
func frozen(d *device, f *finding) {
	if rest := value(d.m.Rest.Celsius); d.quiet() && d.age(d.m.work.ended) >= 2*time.Minute && d.temp >= rest+15 && d.drewAsAtRest(2*time.Minute) && d.m.still(150*time.Second) {
		f.say(Medium, frozenAtRestWords(withUnit(d.temp, "°C"), withUnit(rest, "°C")))
		f.heat(d).figure("temperature at rest", rest, "°C").figure("power at rest", d.idleWatts, "W")
		return
	}
	const block, blocks = 45 * time.Second, 3
	var power [blocks]float64 // averages
	all := d.m.within(blocks * block)
	if len(all) < 3*blocks || d.m.readAt.Sub(all[0].time) < (blocks-1)*block {
		return
	}
	for _, p := range all {
		if p.temp != d.temp { // NaN compares unequal too
			return
		}
	}
	least, most := none, none
	var sums, count [blocks]float64
	for _, p := range all {
		if i := int(d.m.readAt.Sub(p.time) / block); i < blocks && present(p.power) {
			sums[i], count[i] = sums[i]+p.power, count[i]+1
		}
	}
	for i := range power {
		power[i] = sums[i] / count[i] // NaN without any
		least, most = lowest(least, power[i]), highest(most, power[i])
	}
	if swing := most - least; swing >= max(60, 0.3*orElse(d.limit, 0)) {
		f.say(Medium, frozenWords(withUnit(d.temp, "°C"), withUnit(swing, "W")))
		f.heat(d).figure("change of power", swing, "W")
	}
}
