package sim

import (
	"math"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A sample is a device's physical state at one second of a job.
type sample struct {
	energy                float64 // J since the cycle began
	reasons               gpu.ClockEventReasons
	gpu, memory, enc, dec float32 // percent
	power                 float32 // W
	temp, memTemp         float32 // °C
	fan, fanTarget, rpm   float32 // percent; what the first tachometer counts
	clock                 float32 // MHz of the graphics clock
	pstate                uint8
}

// A tape is a product's response to a job at one site.
type tape struct {
	job     *job
	samples [cycleSeconds + 1]sample // at each second, and at the end of the cycle
	cores   [cycleSeconds]float32    // of the host, kept busy by the job's processes
}

// appetite is the chip's power under work relative to its product's, within 2 %.
func (s site) appetite() float64 { return 1 + 0.02*signed(mix(seedOf("chip"), uint64(s.grain))) }

// record plays a job twice, so that endless work begins as it ends.
func record(p *product, s site, j *job) *tape {
	m, t := newMachine(p, s), &tape{job: j}
	loads := make([]load, cycleSeconds)
	for second := range loads {
		loads[second] = j.loadAt(second, s.grain)
		m.step(loads[second])
	}
	m.energy = 0
	t.samples[0] = m.sample(loads[cycleSeconds-1])
	for second, l := range loads {
		t.cores[second] = j.cores(second, &t.samples[second])
		m.step(l)
		t.samples[second+1] = m.sample(l)
	}
	return t
}

// sampleAt returns the state between two samples. Energy is the integral of the power.
func (t *tape) sampleAt(second float64) sample {
	k := min(int(second), cycleSeconds-1)
	in := second - float64(k)
	s, next := t.samples[k], &t.samples[k+1]
	s.energy += (float64(s.power) + float64(next.power-s.power)*in/2) * in
	s.power += (next.power - s.power) * float32(in)
	s.temp += (next.temp - s.temp) * float32(in)
	s.memTemp += (next.memTemp - s.memTemp) * float32(in)
	return s
}

// energy returns the energy of the whole cycle.
func (t *tape) energy() float64 { return t.samples[cycleSeconds].energy }

// A machine integrates a device's physics in steps of a second.
type machine struct {
	p *product
	s site

	power, energy float64
	cooler, die   float64 // °C, and how many K the die is above it
	temp, memTemp float64
	felt          float64 // the filtered temperature that the fan's controller uses
	fan, target   float64
	turning       bool
	turns         int     // seconds since the fans started or stopped
	rpm           float64 // what the tachometer counts
	heat          float64 // part of full speed that the heat limit allows, 0.4 … 1
	capped        float64 // part that the power limit allows
	quiet         int     // seconds without work or a context that keeps the clocks high

	coolerStays, dieStays float64
}

// What remains of a difference after a second, for every product.
var (
	powerStays  = stays(0.7) // drivers average over about a second
	feltStays   = stays(6)   // the delay of the fan's controller
	memoryStays = stays(20)  // memory warms after the die
	rpmStays    = stays(1.5) // fans have inertia
)

// Constants of every product.
const (
	unrest     = 0.015 // of the power, as random variation
	fanUp      = 3.0   // percent a second
	fanDown    = 0.4   // percent a second
	kick       = 3     // seconds: a starting fan gets more for a moment
	uncounted  = 3     // seconds until the tachometer of a starting fan counts
	lowerAfter = 6     // seconds of quiet until P5
	restAfter  = 18    // seconds of quiet until P8
)

func newMachine(p *product, s site) *machine {
	m := &machine{p: p, s: s, power: p.Power.Rest, heat: 1, capped: 1, quiet: restAfter, turns: kick + 1}
	m.turning = p.fans() > 0 && p.Fans.On == 0
	if m.turning {
		m.fan, m.target, m.rpm = p.Fans.Min, p.Fans.Min, p.Fans.Min/100*p.Fans.RPM
	}
	m.coolerStays, m.dieStays = stays(p.Cooling.Inertia), stays(p.Die.Inertia)
	m.cooler, m.die = m.settlesAt(), p.Die.Above*m.power
	m.temp = m.cooler + m.die
	m.felt, m.memTemp = m.temp, m.temp-5
	return m
}

// settlesAt returns the temperature that the cooler approaches at the present power and fan speed.
func (m *machine) settlesAt() float64 {
	return m.s.Inlet + m.power/(m.s.Airflow*(m.p.Cooling.Still+m.p.Cooling.Blowing*m.fan/100))
}

// step simulates one second of load.
func (m *machine) step(l load) {
	m.quiet++
	if l.held {
		m.quiet = 0
	}
	demand := m.idlePower(l.held) + (m.p.Power.Full-m.p.Power.Held)*m.s.appetite()*l.intensity*m.heat*work(l)
	demand *= 1 + unrest*l.noise
	m.capped = 1
	if limit := m.p.limit(); demand > limit {
		m.capped, demand = limit/demand, limit
	}
	before := m.power
	m.power = toward(m.power, demand, powerStays)
	m.energy += (before + m.power) / 2
	m.cooler = toward(m.cooler, m.settlesAt(), m.coolerStays)
	m.die = toward(m.die, m.p.Die.Above*m.power, m.dieStays)
	m.temp = m.cooler + m.die
	m.memTemp = toward(m.memTemp, m.temp-5+0.1*l.memory, memoryStays)
	m.felt = toward(m.felt, m.temp, feltStays)
	m.slowDownWhenHot()
	m.turnFan()
}

// work returns the part of the full dynamic power that a load needs.
func work(l load) float64 { return math.Pow(l.gpu/100, 0.85) + 0.0011*(l.enc+l.dec) }

// A depth is how deeply a device rests.
type depth int

const (
	awake depth = iota // P0, including some seconds after work
	light              // P5
	deep               // P8, or P0 for products without P8
)

func (m *machine) depth(held bool) depth {
	switch {
	case held:
		return awake
	case !m.p.Has.PowerStates || m.quiet >= restAfter:
		return deep
	case m.quiet >= lowerAfter:
		return light
	}
	return awake
}

func (m *machine) idlePower(held bool) float64 {
	part := [...]float64{awake: 1, light: 0.4, deep: 0}[m.depth(held)]
	return m.p.Power.Rest + (m.p.Power.Held-m.p.Power.Rest)*part
}

// slowDownWhenHot reduces the speed above the operating limit, and raises it below.
func (m *machine) slowDownWhenHot() {
	switch {
	case m.temp >= m.p.Heat.Operating:
		m.heat = max(0.4, m.heat-0.015)
	case m.temp <= m.p.Heat.Operating-2:
		m.heat = min(1, m.heat+0.004*(m.p.Heat.Operating-1-m.temp))
	}
}

// turnFan follows the felt temperature: fast up, slowly down. A fan that may stand still starts with a kick, and keeps turning for a while
// after the card has cooled.
func (m *machine) turnFan() {
	f := &m.p.Fans
	if m.p.fans() == 0 {
		return
	}
	m.turns++
	switch {
	case !m.turning && m.felt >= f.On:
		m.turning, m.turns = true, 0
	case m.turning && max(m.felt, m.temp) <= f.Off && m.turns >= f.Least:
		m.turning, m.turns = false, 0
	}
	const begin, full = 50, 90 // °C: the curve leaves the minimum, and reaches 100 %
	m.target = min(100, f.Min+max(0, m.felt-begin)/(full-begin)*(100-f.Min))
	switch {
	case !m.turning:
		m.target, m.fan = 0, 0
	case m.turns < kick:
		m.target, m.fan = f.Kick, f.Kick
	case m.turns == kick:
		m.fan = f.Min
	default:
		m.fan = min(max(m.target, m.fan-fanDown), m.fan+fanUp)
	}
	m.rpm = toward(m.rpm, m.fan/100*f.RPM, rpmStays)
	if m.turns < uncounted && m.turning || m.rpm < f.RPM/20 {
		m.rpm = 0
	}
}

// sample returns the state after a second of a load.
func (m *machine) sample(l load) sample {
	s := sample{
		gpu: float32(l.gpu), memory: float32(l.memory), enc: float32(l.enc), dec: float32(l.dec),
		power: float32(m.power), energy: m.energy,
		temp: float32(m.temp), memTemp: float32(m.memTemp),
		fan: float32(math.Round(m.fan)), fanTarget: float32(math.Round(m.target)), rpm: float32(m.rpm),
	}
	if l.blink {
		s.gpu, s.memory = 0, 0
	}
	switch m.depth(l.held) {
	case deep:
		s.clock, s.reasons = float32(m.p.Graphics.Idle), gpu.ReasonIdle
		if m.p.Has.PowerStates {
			s.pstate = 8
		}
	case light:
		s.pstate, s.clock = 5, float32((m.p.Graphics.Idle+m.p.Graphics.Boost)/3)
	default:
		if l.compute && m.p.MemoryClock.Compute < float64(m.p.Always.Clocks.MaxMemory.Or(0)) {
			s.pstate = 2 // GeForce and similar products compute there
		}
		speed := m.p.Graphics.Boost * math.Sqrt(m.capped*m.heat)
		s.clock = float32(math.Floor(speed/15) * 15) // clocks come in steps of 15 MHz
	}
	if l.gpu > 0 && m.capped < 1 {
		s.reasons |= gpu.ReasonPowerCap
	}
	if l.gpu > 0 && m.heat < 1 {
		s.reasons |= gpu.ReasonThermalSlowdown
	}
	return s
}

// toward moves a value toward its goal for a second.
func toward(v, goal, stays float64) float64 { return goal + (v-goal)*stays }

// stays returns what remains of a difference after a second, for a time constant.
func stays(constant float64) float64 { return math.Exp(-1 / constant) }
