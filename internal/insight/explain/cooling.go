package explain

import (
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A cooling is a cool-down in progress.
type cooling struct {
	begun  time.Time // when the work ended, or gpuwhy began to watch
	unseen bool      // gpuwhy began to watch after the work
	// released means that there was no work: something that kept the device awake has let it go. holder is that process, with PID 0 if not
	// known.
	released  bool
	holder    gpu.Process
	startTemp float64   // °C at the beginning
	lowest    float64   // °C so far
	slowest   float64   // lowest percent of the fan so far
	fell      time.Time // when one of the two last fell
	quiet     time.Time // since when the fan is as at rest; zero: it is not
	fall      []drop    // the temperatures, for the fit
}

// A drop is one reading of a cool-down.
type drop struct{ seconds, celsius float64 }

const (
	levelAfter = 45 * time.Second // without a fall: it no longer cools
	maxDrops   = 120
)

// cool follows a cool-down. It begins when work that has warmed the device ends, and is over when the device is as cool and quiet as at
// rest, or no longer cools.
func (m *memory) cool(d *device) {
	c := m.cooling
	// A single reading is off by a degree now and then, but not two or three together.
	recent := m.within(restsAfter)
	if c != nil { // readings from before say nothing about this one
		recent = slices.DeleteFunc(slices.Clone(recent), func(p point) bool { return p.time.Before(c.begun) })
	}
	temp := orElse(mean(recent, func(p point) float64 { return p.temp }), d.temp)
	switch {
	case c == nil && m.work.active && m.hasLeft(d, temp):
		c = &cooling{begun: m.work.hottest().last, startTemp: m.work.peakTemp}
	case c == nil && m.work.active, c != nil && m.work.active && !(temp <= c.lowest+1 && d.power < 0.5*m.work.peakPower):
		m.cooling = nil
		return
	case c == nil && m.letGo && d.temp >= orElse(value(m.Rest.Celsius), 38)+8:
		c = &cooling{begun: m.readAt, startTemp: d.temp, released: true, holder: m.holder}
	case c == nil && m.justEnded() && m.warmed(d):
		c = &cooling{begun: m.work.ended, startTemp: m.work.endTemp}
	case c == nil && m.fallsAlready(d, temp):
		c = &cooling{begun: m.first, unseen: true, startTemp: m.trail[0].temp}
		for _, p := range m.trail {
			c.add(p.time, p.temp)
		}
	case c == nil:
		return
	}
	if m.cooling == nil {
		m.cooling, m.looked = c, true
		c.lowest, c.slowest, c.fell = lowest(max(temp, d.temp), c.startTemp), d.fan, m.readAt
	}
	c.add(m.readAt, d.temp)
	if temp <= c.lowest-0.7 || d.fan <= c.slowest-2 || d.fan == 0 && c.slowest > 0 {
		c.fell, c.lowest, c.slowest = m.readAt, lowest(c.lowest, temp), lowest(c.slowest, d.fan)
	}
	took := m.readAt.Sub(c.begun)
	off := d.fan == 0 && !(d.rpm > 0) // nobody can hear it
	switch atRest := off || d.fan <= value(m.Rest.Fan); {
	case !atRest:
		c.quiet = time.Time{}
	case c.quiet.IsZero():
		c.quiet = m.readAt
	}
	rest := value(m.Rest.Celsius)
	switch {
	case took > longestCooling, temp >= c.lowest+3, took >= settling && temp >= c.lowest+1.5 && m.fallen(pause) <= -1.5:
		m.cooling = nil // it gets warmer
	case d.fan > value(m.Stops.Least)+5 && m.readAt.Sub(c.fell) < settling: // its fan is still slowing down
	case temp <= rest+2 && !(d.fan > value(m.Rest.Fan)), off && temp <= max(orElse(rest, 0)+6, 45), temp <= rest+5 && temp < 50, temp < 45 && took > time.Minute && m.fallen(time.Minute) < 2:
		m.cooled(took) // about as cool as at rest: what the fan does from now on has other reasons
	case d.isUp() && took > time.Minute && m.fallen(time.Minute) < 2:
		m.cooled(took) // something holds it: it gets no cooler
	case m.readAt.Sub(c.fell) > levelAfter:
		m.cooled(c.fell.Sub(c.begun))
	}
}

// justEnded reports whether work ended a short while ago.
func (m *memory) justEnded() bool {
	return !m.work.ended.IsZero() && m.readAt.Sub(m.work.ended) <= levelAfter && !m.looked
}

// hasLeft reports whether the process that caused the heat has gone, while somebody else works a little: the device still gets cooler.
func (m *memory) hasLeft(d *device, temp float64) bool {
	h := m.work.hottest()
	return h != nil && !m.work.bursts && m.work.last.After(h.last) && m.readAt.Sub(h.last) >= restsAfter && m.readAt.Sub(h.last) <= 3*restsAfter &&
		d.power < 0.5*m.work.peakPower && temp <= m.work.peakTemp-3
}

// fallsAlready reports whether a device without work has been getting cooler since gpuwhy began to watch.
func (m *memory) fallsAlready(d *device, temp float64) bool {
	if len(m.trail) < 3 {
		return false
	}
	if d.doing == unknown { // it is not known whether it works
		minute := m.within(steady)
		return minute[0].temp >= 50 && minute[0].temp-temp >= 4
	}
	if m.looked || !m.work.ended.IsZero() || m.work.active || m.readAt.Sub(m.first) > trailed/2 {
		return false
	}
	return m.trail[0].temp >= 45 && max(m.trail[0].temp, m.trail[1].temp)-temp >= 2.5
}

// peak returns the highest temperature over a while.
func (m *memory) peak(lasts time.Duration) float64 {
	most := none
	for _, p := range m.within(lasts) {
		most = highest(most, p.temp)
	}
	return most
}

// fallen returns how much the temperature has fallen over a while.
func (m *memory) fallen(lasts time.Duration) float64 {
	points := m.within(lasts)
	return points[0].temp - points[len(points)-1].temp
}

func (m *memory) cooled(took time.Duration) {
	c := m.cooling
	m.cooling = nil
	if c.unseen || took <= 0 {
		return
	}
	m.quieted = Cooldown{Begun: c.begun, Over: c.begun.Add(took)}
	if !c.quiet.IsZero() {
		m.quieted.Over = c.quiet
	}
	learned := m.Cooldowns[max(len(m.Cooldowns)-maxCooldowns+1, 0):]
	m.Cooldowns = append(learned, cooldown{optional(c.startTemp), took.Seconds()})
}

// warmed reports whether the work that has ended left heat behind.
func (m *memory) warmed(d *device) bool {
	w := &m.work
	if d.unified() && !slices.ContainsFunc(m.trail, func(p point) bool { return p.busy >= 2*strong }) {
		return false // the heat of little work is the processor's
	}
	long := w.ended.Sub(w.begun) >= 10*time.Second
	if !long && d.costs() {
		return false // the reason is rather what holds it awake
	}
	if !(long || w.endTemp >= w.startTemp+2) {
		return false
	}
	if w.begun.After(m.first) && !(max(w.endTemp, w.peakTemp) >= w.startTemp+1.5) && w.startTemp < orElse(value(m.Rest.Celsius), 40)+4 {
		return false // it was just as warm before
	}
	above := d.temp - orElse(value(m.Rest.Celsius), 40) // no device at rest needs to be hotter than that
	return above >= 4 || (d.fan > 0 && !(d.fan <= value(m.Rest.Fan)))
}

func (c *cooling) add(moment time.Time, celsius float64) {
	if present(celsius) && len(c.fall) < maxDrops && moment.After(c.begun) {
		c.fall = append(c.fall, drop{moment.Sub(c.begun).Seconds(), celsius})
	}
}

// A fit is how a device cools: towards a temperature, with a time constant.
type fit struct {
	floor, tau, above float64 // °C, s, °C above the floor at the beginning
	off               float64 // °C, deviation of the readings
}

// fitted finds the curve through the later readings. A card's first seconds of cooling differ from the rest, so only readings after
// settling count; ok is false if they are not conclusive.
func (c *cooling) fitted(rest float64) (best fit, ok bool) {
	var x []drop
	for _, p := range c.fall {
		if p.seconds >= settling.Seconds() {
			x = append(x, p)
		}
	}
	if len(x) < 4 || x[0].celsius-x[len(x)-1].celsius < 2 {
		return best, false
	}
	best.off = math.Inf(1)
	for tau := 15.0; tau <= 600; tau *= 1.1 {
		f := fitWith(x, tau, rest)
		if f.off < best.off {
			best = f
		}
	}
	return best, best.off <= 1 && best.above > 0
}

// fitWith returns the best curve with a time constant. The temperature at rest, if known, is its floor.
func fitWith(x []drop, tau, rest float64) fit {
	f := fit{floor: rest, tau: tau}
	var n, sy, se, see, sey float64
	for _, p := range x {
		e := math.Exp(-p.seconds / tau)
		n, sy, se, see, sey = n+1, sy+p.celsius, se+e, see+e*e, sey+e*p.celsius
	}
	if present(rest) {
		f.above = (sey - rest*se) / see
	} else {
		f.above = (n*sey - se*sy) / (n*see - se*se)
		f.floor = (sy - f.above*se) / n
	}
	for _, p := range x {
		off := p.celsius - f.floor - f.above*math.Exp(-p.seconds/tau)
		f.off += off * off / n
	}
	f.off = math.Sqrt(f.off)
	return f
}

// until returns how long after the beginning the curve reaches a temperature.
func (f fit) until(celsius float64) (time.Duration, bool) {
	left := (celsius - f.floor) / f.above
	if !(left > 0) || left >= 1 {
		return 0, false
	}
	return time.Duration(-f.tau * math.Log(left) * float64(time.Second)), true
}

// toQuiet returns how long a cool-down still takes: from its own curve if the temperature at which the fan gets quiet is known, otherwise
// from earlier cool-downs.
func (m *memory) toQuiet() (left time.Duration, known bool) {
	c := m.cooling
	took := m.readAt.Sub(c.begun)
	if stop := m.quietAt(); present(stop) {
		if f, ok := c.fitted(value(m.Rest.Celsius)); ok && f.floor < stop {
			// A fit without the newest third must give about the same result.
			whole, ok1 := f.until(stop)
			part := cooling{fall: c.fall[:len(c.fall)*2/3]}
			g, ok2 := part.fitted(value(m.Rest.Celsius))
			before, ok3 := g.until(stop)
			if ok1 && ok2 && ok3 && (whole-before).Abs() <= max(20*time.Second, (whole-took)/2) {
				return max(whole-took, 0), whole > took
			}
		}
	}
	if seconds, seen := m.usualCooldown(c.startTemp); seen >= 1 {
		left = time.Duration(seconds*float64(time.Second)) - took
		return left, left > 0
	}
	return 0, false
}

// cooldowns returns the current cool-down, and the last that ended by itself.
func (d *device) cooldowns() (now, last *Cooldown) {
	if d.State != gpu.StateOK {
		return nil, nil
	}
	if !d.m.quieted.Begun.IsZero() {
		last = new(d.m.quieted)
	}
	if d.m.cooling != nil {
		now = &Cooldown{Begun: d.m.cooling.begun}
		if left, known := d.m.toQuiet(); known && d.m.cooling.quiet.IsZero() {
			now.Left = gpu.Of(left)
		}
	}
	return now, last
}

// quietAt returns the temperature at which the device is as quiet as at rest; NaN until that is known.
func (m *memory) quietAt() float64 {
	if present(m.Stops.stop()) {
		return m.Stops.stop()
	}
	if rest := value(m.Rest.Celsius); present(rest) && !(value(m.Rest.Fan) == 0) {
		return rest + 2
	}
	return none
}
