package sim

import (
	"math"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A sample is a device's physical state at one second of a job.
type sample struct {
	gpu, memory, enc, dec float32 // percent
	power                 float32 // W
	temp, memTemp         float32 // °C
	fan, fanTarget        float32 // percent
	clock                 float32 // MHz of the graphics clock
	energy                float64 // J since the cycle began
	reasons               gpu.ClockEventReasons
	pstate                uint8
}

// A tape has the samples of one product at one site with one job: one for each second,
// and one for the end of the cycle.
type tape [cycleSeconds + 1]sample

// record calculates a tape. It plays the job once before, so that work without an end
// begins in the state in which it ends.
func record(p *product, s site, j *job) *tape {
	m := newMachine(p, s)
	for second := range cycleSeconds {
		m.step(j.at(second, s.grain))
	}
	t := new(tape)
	m.energy = 0
	t[0] = m.sample(j.at(0, s.grain))
	for second := range cycleSeconds {
		m.step(j.at(second, s.grain))
		t[second+1] = m.sample(j.at((second+1)%cycleSeconds, s.grain))
	}
	return t
}

// at returns the state between two samples. It interpolates power and temperatures;
// energy is the integral of exactly that power.
func (t *tape) at(second float64) sample {
	k := min(int(second), cycleSeconds-1)
	in := second - float64(k)
	s, next := t[k], &t[k+1]
	s.energy += (float64(s.power) + float64(next.power-s.power)*in/2) * in
	s.power += (next.power - s.power) * float32(in)
	s.temp += (next.temp - s.temp) * float32(in)
	s.memTemp += (next.memTemp - s.memTemp) * float32(in)
	return s
}

// energy is the energy of the whole cycle.
func (t *tape) energy() float64 { return t[cycleSeconds].energy }

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
	m := &machine{p: p, s: s, power: p.deepIdle, heat: 1, capped: 1, quiet: restAfter}
	m.turning = p.fans > 0 && p.fanOn == 0
	if m.turning {
		m.fan, m.target = p.fanMin, p.fanMin
	}
	m.temp = m.settlesAt()
	m.felt, m.memTemp = m.temp, m.temp
	return m
}

// settlesAt is the temperature that the present power and fan lead to.
func (m *machine) settlesAt() float64 {
	return m.s.inlet + m.power/(m.s.airflow*(m.p.still+m.p.blowing*m.fan/100))
}

// step simulates one second of load.
func (m *machine) step(l load) {
	if l.level == held {
		m.quiet = 0
	} else {
		m.quiet++
	}
	demand := m.idlePower(l.level) + (m.p.full-m.p.heldIdle)*m.s.appetite()*l.intensity*m.heat*work(l)
	m.capped = 1
	if demand > m.p.limit {
		m.capped = m.p.limit / demand
		demand = m.p.limit
	}
	before := m.power
	m.power = toward(m.power, demand, powerLag)
	m.energy += (before + m.power) / 2
	m.temp = toward(m.temp, m.settlesAt(), m.p.inertia)
	m.memTemp = toward(m.memTemp, m.temp-5+0.1*l.memory, memoryLag)
	m.felt = toward(m.felt, m.temp, feltLag)
	m.slowDownWhenHot()
	m.turnFan()
}

// work is the part of the full dynamic power that a load needs. Video engines need less
// than the SMs.
func work(l load) float64 { return math.Pow(l.gpu/100, 0.85) + 0.0011*(l.enc+l.dec) }

func (m *machine) idlePower(l level) float64 {
	switch {
	case l == held:
		return m.p.heldIdle
	case !m.p.powerStates || m.quiet >= restAfter:
		return m.p.deepIdle
	case m.quiet >= lowerAfter:
		return m.p.deepIdle + (m.p.heldIdle-m.p.deepIdle)*0.4
	default:
		return m.p.heldIdle
	}
}

// slowDownWhenHot reduces the speed above the operating limit, and raises it again below:
// the cooler, the faster.
func (m *machine) slowDownWhenHot() {
	switch {
	case m.temp >= m.p.operating:
		m.heat = max(0.4, m.heat-0.015)
	case m.temp <= m.p.operating-2:
		m.heat = min(1, m.heat+0.004*(m.p.operating-1-m.temp))
	}
}

// turnFan follows the felt temperature: fast up, slowly down. The fan starts and stops at
// different temperatures, so that it does not switch all the time.
func (m *machine) turnFan() {
	if m.p.fans == 0 {
		return
	}
	switch {
	case m.p.fanOn == 0 || m.felt >= m.p.fanOn:
		m.turning = true
	case m.felt <= m.p.fanOff:
		m.turning = false
	}
	m.target = 0
	if m.turning {
		const from, full = 50, 90 // °C: the curve leaves the minimum, and reaches 100 %
		m.target = min(100, m.p.fanMin+max(0, m.felt-from)/(full-from)*(100-m.p.fanMin))
	}
	switch {
	case m.turning && m.fan < m.p.fanMin:
		m.fan = m.p.fanMin // it does not turn more slowly
	case m.fan < m.target:
		m.fan = min(m.target, m.fan+fanUp)
	case !m.turning && m.fan <= m.p.fanMin:
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
	resting := l.level == atRest
	switch {
	case m.p.powerStates && resting && m.quiet >= restAfter:
		s.pstate, s.clock = 8, float32(m.p.idleClock)
	case m.p.powerStates && resting && m.quiet >= lowerAfter:
		s.pstate, s.clock = 5, float32((m.p.idleClock+m.p.boostClock)/3)
	case !m.p.powerStates && resting:
		s.clock = float32(m.p.idleClock)
	default:
		if m.p.powerStates && l.compute {
			s.pstate = 2 // GeForce and its kin compute there
		}
		speed := m.p.boostClock * math.Sqrt(m.capped*m.heat)
		s.clock = float32(math.Floor(speed/15) * 15) // clocks come in steps of 15 MHz
	}
	if resting && (!m.p.powerStates || m.quiet >= restAfter) {
		s.reasons |= gpu.ReasonIdle
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
