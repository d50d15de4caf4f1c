// Package plausible finds readings that are impossible or doubtful. It judges what sources report by what is possible for
// any device, by the device's own limits, by its other readings, and by its earlier readings. It is one stage for all
// sources, after they have read and before anybody sees a reading; docs/readings.md has the rules for people.
//
// An impossible reading becomes absent, as [gpu.Implausible]. A reading that is probably wrong keeps its value as
// [gpu.Doubtful]: it is shown, but decides nothing. Throttling reasons that the readings contradict are removed. An
// absent reading contradicts nothing.
package plausible

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Judge remembers what it needs of each device's earlier readings. One goroutine uses it.
type Judge struct {
	devices map[int]*memory // by the device's index, which never changes
}

// New returns a judge that has seen nothing.
func New() *Judge { return &Judge{map[int]*memory{}} }

// Judge judges the readings of devices in place. breaks counts the interruptions between readings so far, see [gpu.Snapshot]: after one,
// comparisons over time start again. Judge copies a list before it changes it.
func (j *Judge) Judge(devices []gpu.Device, breaks int) {
	listed := map[int]bool{}
	for i := range devices {
		d := &devices[i]
		listed[d.Index] = true
		if d.State != gpu.StateOK {
			continue
		}
		m := j.devices[d.Index]
		if m == nil {
			m = &memory{}
			j.devices[d.Index] = m
		}
		m.judge(d, breaks)
	}
	maps.DeleteFunc(j.devices, func(index int, _ *memory) bool { return !listed[index] })
}

// judge runs the rules in order of what they depend on: each rule trusts only readings that the rules before left as good.
func (m *memory) judge(d *gpu.Device, breaks int) {
	d.Fans.Fans = slices.Clone(d.Fans.Fans)
	bounds(d)
	temperatures(d)
	noPower(d)
	newer := m.meet(d, breaks)
	m.jumps(d, newer)
	aboveLimit(d)
	m.deadSensors(d)
	m.energy(d, newer)
	m.busy(d)
	m.standing(d)
	m.fans(d)
	d.Clocks.EventReasons = m.reasons(see(d))
}

// A memory is what is known about a device from before its newest reading.
type memory struct {
	sampled time.Time // of the newest reading; zero: none
	breaks  int
	first   time.Time // the first reading since the last interruption
	trail   []point

	temp     float64 // as last read, believed or not
	jumped   bool    // the newest temperature is too far from the previous one
	joules   float64
	leapt    bool      // the newest energy is too far from the previous one
	busySame time.Time // since when the busy counter has its value
	counter  float64   // that value
	wrong    time.Time // since when everything else contradicts the busy counter; zero: nothing does
	watts    float64   // as last read
	wattsAs  time.Time // since when
	turned   []bool    // by fan: its tachometer has counted since the program began
	stopped  []bool    // by fan: it was told to turn and did not while the device was warm or warming up
	still    []time.Time
	flags    [classes]flag
}

// A point is one reading of the trail. NaN means absent or not believed.
type point struct {
	sampled                  time.Time
	temp, power, busy, clock float64
}

const (
	trailed = 3 * time.Minute
	apart   = time.Second      // least time between two points of the trail
	longest = 30 * time.Second // between two readings that are compared
)

// meet takes the reading in, and reports whether it is new.
func (m *memory) meet(d *gpu.Device, breaks int) (newer bool) {
	sampled := d.SampledAt
	if sampled.Equal(m.sampled) && !m.sampled.IsZero() && breaks == m.breaks {
		return false
	}
	if since := sampled.Sub(m.sampled); breaks != m.breaks || since <= 0 || since > longest {
		*m = memory{breaks: breaks, first: sampled, temp: none, joules: none, counter: none, watts: none, turned: m.turned, flags: m.flags}
		for i := range m.flags {
			m.flags[i].since, m.flags[i].borne = time.Time{}, time.Time{}
		}
	}
	m.sampled = sampled
	return true
}

// leave adds a judged reading to the trail.
func (m *memory) leave(v *view) {
	p := point{m.sampled, v.temp, v.power, v.busy, v.clock}
	switch n := len(m.trail); {
	case n > 0 && m.trail[n-1].sampled.Equal(m.sampled):
		m.trail[n-1] = p
	case n == 0 || m.sampled.Sub(m.trail[n-1].sampled) >= apart*3/4:
		m.trail = append(m.trail, p)
	}
	for m.sampled.Sub(m.trail[0].sampled) > trailed {
		m.trail = m.trail[1:]
	}
}

// within returns the points of the last while, and whether they cover all of it.
func (m *memory) within(last time.Duration) (points []point, covered bool) {
	begin := m.sampled.Add(-last)
	i := slices.IndexFunc(m.trail, func(p point) bool { return !p.sampled.Before(begin) })
	if i < 0 {
		return nil, false
	}
	points = m.trail[i:]
	return points, len(points) >= 4 && points[0].sampled.Sub(begin) <= last/5
}

// span returns the lowest and highest value of a reading over points; NaN if one of them lacks it.
func span(points []point, value func(*point) float64) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range points {
		v := value(&points[i])
		if !reported(v) {
			return none, none
		}
		least, most = min(least, v), max(most, v)
	}
	return least, most
}

func temp(p *point) float64  { return p.temp }
func power(p *point) float64 { return p.power }
func busy(p *point) float64  { return p.busy }
func clock(p *point) float64 { return p.clock }

var none = math.NaN()

func reported(v float64) bool { return !math.IsNaN(v) }

// or returns the first number that is not NaN.
func or(numbers ...float64) float64 {
	for _, v := range numbers {
		if reported(v) {
			return v
		}
	}
	return none
}

// highest returns the highest number that is not NaN.
func highest(numbers ...float64) float64 {
	most := none
	for _, v := range numbers {
		if reported(v) && !(v <= most) {
			most = v
		}
	}
	return most
}

// trusted returns the number in a good reading, otherwise NaN.
func trusted[T ~float64 | ~int](r gpu.Reading[T]) float64 {
	if v, ok := r.Trusted(); ok {
		return float64(v)
	}
	return none
}

func impossible[T any](r *gpu.Reading[T]) { *r = gpu.Absent[T](gpu.Implausible) }

func doubt[T any](r *gpu.Reading[T]) {
	if v, ok := r.Get(); ok {
		*r = gpu.DoubtfulOf(v)
	}
}

// since returns how long something has lasted; 0 if it is not so.
func (m *memory) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return m.sampled.Sub(t)
}

// note records since when something is so.
func (m *memory) note(t *time.Time, so bool) {
	switch {
	case !so:
		*t = time.Time{}
	case t.IsZero():
		*t = m.sampled
	}
}

// A view is a device as the rules see it: readings that are good so far, and NaN for all others.
type view struct {
	*gpu.Device
	temp, hotSpot, memTemp     float64 // °C
	power, limit               float64 // W
	clock, top                 float64 // MHz, of the SMs or of the whole graphics part
	busy, clients              float64 // percent: of the device, and of all its clients together, if known
	slowdown, target, memLimit float64 // °C
	margin                     float64 // °C
	state                      float64 // the performance state
	reasons                    gpu.ClockEventReasons
}

func see(d *gpu.Device) *view {
	v := &view{
		Device: d,
		temp:   trusted(d.Thermal.GPU), hotSpot: trusted(d.Thermal.HotSpot), memTemp: trusted(d.Thermal.Memory),
		power: trusted(d.Power.Draw), limit: limit(d),
		clock: trusted(d.Clocks.SM), top: trusted(d.Clocks.MaxSM),
		slowdown: trusted(d.Thermal.Slowdown), target: trusted(d.Thermal.Target), memLimit: trusted(d.Thermal.MemoryMax),
		margin: trusted(d.Thermal.Margin), state: trusted(d.Clocks.PerformanceState),
		reasons: d.Clocks.EventReasons.Or(0), clients: clients(d),
	}
	if !reported(v.clock) || !reported(v.top) {
		v.clock, v.top = or(trusted(d.Clocks.Graphics), v.clock), or(trusted(d.Clocks.MaxGraphics), v.top)
	}
	u := &d.Utilization
	v.busy = highest(trusted(u.GPU), trusted(u.Encoder), trusted(u.Decoder), trusted(u.Video))
	if !reported(trusted(u.GPU)) {
		v.busy = highest(v.busy, v.clients)
	}
	warm := cool
	if v.maybeHeld() {
		warm = cooler
	}
	if v.busy >= nearlyAlways && v.clients <= littleUsed && !(v.load() >= 0.35) && !(v.hottest() >= float64(warm)) {
		v.busy = v.clients // a stuck counter explains nothing
	}
	return v
}

// limit returns the power limit in force, or the product's own. The highest settable limit says nothing.
func limit(d *gpu.Device) float64 {
	for _, r := range []gpu.Reading[gpu.Watts]{d.Power.EnforcedLimit, d.Power.DefaultLimit} {
		if v := trusted(r); v > 0 {
			return v
		}
	}
	return none
}

// load is the power draw as a part of the limit.
func (v *view) load() float64 { return v.power / v.limit }

// speed is the clock as a part of the highest clock.
func (v *view) speed() float64 {
	if !(v.top > 0) {
		return none
	}
	return v.clock / v.top
}

// hottest is the highest of the device's temperatures.
func (v *view) hottest() float64 { return highest(v.temp, v.hotSpot, v.memTemp) }

// clients returns what all processes together use of the busiest engine; NaN if the usage of one of them is not known.
func clients(d *gpu.Device) float64 {
	list, ok := d.AllProcesses()
	if !ok || d.Processes.Quality() != gpu.Good || d.Modes.MIG.Or(false) { // nobody reports the work of its instances
		return none
	}
	sum := 0.0
	for i := range list {
		p := &list[i]
		share := highest(trusted(p.SM), trusted(p.Encoder), trusted(p.Decoder), trusted(p.Video))
		if !reported(trusted(p.SM)) {
			return none
		}
		sum += share
	}
	return min(sum, 100)
}
