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
	fan, fanTarget        float32 // percent
	clock                 float32 // MHz of the graphics clock
	pstate                uint8
}

// A tape is what one product at one site makes of one job.
type tape struct {
	job     *job
	samples [cycleSeconds + 1]sample // at each second, and at the end of the cycle
	cores   [cycleSeconds]float32    // of the host, that the job's processes keep busy
}

// appetite is the power of the chip under work relative to its product's, within 2 %.
func (s site) appetite() float64 { return 1 + 0.02*signed(mix(seedOf("chip"), uint64(s.grain))) }

// record plays a job twice, so that work without an end begins as it ends.
func record(p *product, s site, j *job) *tape {
	m, t := newMachine(p, s), &tape{job: j}
	loads := make([]load, cycleSeconds)
	for second := range loads {
		loads[second] = j.at(second, s.grain)
		m.step(loads[second])
	}
	m.energy = 0
	t.samples[0] = m.sample(loads[0])
	for second, l := range loads {
		t.cores[second] = j.cores(second, &t.samples[second])
		m.step(l)
		t.samples[second+1] = m.sample(loads[(second+1)%cycleSeconds])
	}
	return t
}

// at returns the state between two samples. Energy is the integral of the power.
func (t *tape) at(second float64) sample {
	k := min(int(second), cycleSeconds-1)
	in := second - float64(k)
	s, next := t.samples[k], &t.samples[k+1]
	s.energy += (float64(s.power) + float64(next.power-s.power)*in/2) * in
	s.power += (next.power - s.power) * float32(in)
	s.temp += (next.temp - s.temp) * float32(in)
	s.memTemp += (next.memTemp - s.memTemp) * float32(in)
	return s
}

// energy is the energy of the whole cycle.
func (t *tape) energy() float64 { return t.samples[cycleSeconds].energy }

// A machine integrates a device's physics in steps of a second.
type machine struct {
	p *product
	s site

	power, energy float64
	temp, memTemp float64
	felt          float64 // the filtered temperature that the fan's controller uses
	fan, target   float64
	turning       bool
	heat          float64 // the part of full speed that the heat limit allows, 0.4 … 1
	capped        float64 // the part that the power limit allows
	quiet         int     // seconds without work or a context that keeps the clocks high
}

// Constants of every product.
const (
	powerLag   = 2.0  // seconds: power is an average over about a second
	feltLag    = 6.0  // seconds: the delay of the fan's controller
	memoryLag  = 20.0 // seconds: memory warms after the die
	fanUp      = 3.0  // percent a second
	fanDown    = 0.4  // percent a second
	lowerAfter = 6    // seconds of quiet until P5
	restAfter  = 18   // seconds of quiet until P8
)

func newMachine(p *product, s site) *machine {
	m := &machine{p: p, s: s, power: p.Power.Rest, heat: 1, capped: 1, quiet: restAfter}
	m.turning = p.fans() > 0 && p.Fans.On == 0
	if m.turning {
		m.fan, m.target = p.Fans.Min, p.Fans.Min
	}
	m.temp = m.settlesAt()
	m.felt, m.memTemp = m.temp, m.temp
	return m
}

// settlesAt is where the present power and fan lead.
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
	m.capped = 1
	if limit := m.p.limit(); demand > limit {
		m.capped, demand = limit/demand, limit
	}
	before := m.power
	m.power = toward(m.power, demand, powerLag)
	m.energy += (before + m.power) / 2
	m.temp = toward(m.temp, m.settlesAt(), m.p.Cooling.Inertia)
	m.memTemp = toward(m.memTemp, m.temp-5+0.1*l.memory, memoryLag)
	m.felt = toward(m.felt, m.temp, feltLag)
	m.slowDownWhenHot()
	m.turnFan()
}

// work is the part of the full dynamic power that a load needs.
func work(l load) float64 { return math.Pow(l.gpu/100, 0.85) + 0.0011*(l.enc+l.dec) }

// A depth is how deep a device rests.
type depth int

const (
	awake depth = iota // P0, also for some seconds after work
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

// turnFan follows the felt temperature: fast up, slowly down.
func (m *machine) turnFan() {
	if m.p.fans() == 0 {
		return
	}
	switch {
	case m.p.Fans.On == 0 || m.felt >= m.p.Fans.On:
		m.turning = true
	case m.felt <= m.p.Fans.Off:
		m.turning = false
	}
	m.target = 0
	if m.turning {
		const from, full = 50, 90 // °C: the curve leaves the minimum, and reaches 100 %
		m.target = min(100, m.p.Fans.Min+max(0, m.felt-from)/(full-from)*(100-m.p.Fans.Min))
	}
	switch {
	case m.turning && m.fan < m.p.Fans.Min:
		m.fan = m.p.Fans.Min // it does not turn more slowly
	case m.fan < m.target:
		m.fan = min(m.target, m.fan+fanUp)
	case !m.turning && m.fan <= m.p.Fans.Min:
		m.fan = 0
	default:
		m.fan = max(m.target, m.fan-fanDown)
	}
}

// sample is the state now, with the load that begins.
func (m *machine) sample(l load) sample {
	s := sample{
		gpu: float32(l.gpu), memory: float32(l.memory), enc: float32(l.enc), dec: float32(l.dec),
		power: float32(m.power), energy: m.energy,
		temp: float32(m.temp), memTemp: float32(m.memTemp),
		fan: float32(math.Round(m.fan)), fanTarget: float32(math.Round(m.target)),
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
		if m.p.Has.PowerStates && l.compute {
			s.pstate = 2 // GeForce and its kin compute there
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

// toward moves a value toward its goal for a second, with that time constant.
func toward(v, to, constant float64) float64 {
	return to + (v-to)*math.Exp(-1/constant)
}
