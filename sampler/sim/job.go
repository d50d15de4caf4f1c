package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A tape covers one cycle, and a roster has at most maxRoster jobs.
const (
	cycleSeconds = 1800
	cycle        = cycleSeconds * time.Second
	maxRoster    = 8
	blinks       = 97 // average seconds of steady work between two seconds that the utilization counter misses
)

func (p *process) service() bool { return p.To == 0 }

// runsAt reports whether the process exists in a second of the cycle.
func (p *process) runsAt(second float64) bool {
	return p.service() || second >= float64(p.From) && second < float64(p.To)
}

// holds returns the device memory that the process has in a second.
func (p *process) holds(second float64) gpu.Bytes {
	if p.service() || p.Ramp == 0 {
		return p.Memory.Or(0)
	}
	grown := min(1, (second-float64(p.From)+1)/float64(p.Ramp+1))
	return gpu.Bytes(float64(p.Memory.Or(0))*grown) &^ (pageSize - 1)
}

// load is what a job asks of a device in one second.
type load struct {
	gpu, memory, enc, dec, intensity float64
	noise                            float64 // of the power, −1 … 1
	held, compute                    bool
	blink                            bool // the utilization counter misses the work
}

// loadAt returns the load in a second, for one of several devices that share the job.
func (j *job) loadAt(second, grain int) load {
	seed := mix(seedOf(j.name), uint64(grain))
	noise := signed(mix(seed+4, uint64(second)))
	i := slices.IndexFunc(j.Phases, func(p phase) bool { return second >= p.From && second < p.To })
	if i < 0 {
		return load{intensity: 1, noise: noise}
	}
	p := &j.Phases[i]
	l := load{held: p.Held, intensity: cmp.Or(p.Intensity, 1), noise: noise, compute: j.computes(second)}
	if p.Every > 0 && (second-p.From+p.Every/2)%p.Every >= p.Every-p.Dip {
		return l
	}
	l.blink = l.compute && p.GPU >= 90 && mix(seed+5, uint64(second))%blinks == 0
	around := func(mean, swing float64, seed uint64) float64 {
		if mean == 0 {
			return 0
		}
		return math.Round(min(100, max(0, mean+swing*wobble(seed, second))))
	}
	l.gpu = around(p.GPU, p.Swing, seed)
	l.memory = math.Round(l.gpu / 100 * p.Memory)
	l.enc, l.dec = around(p.Enc, 5, seed+2), around(p.Dec, 4, seed+3)
	return l
}

// computes reports whether a compute context is open in a second.
func (j *job) computes(second int) bool {
	return slices.ContainsFunc(j.Processes, func(p process) bool {
		return p.Type == gpu.TypeCompute && p.runsAt(float64(second))
	})
}

// cores returns how many host cores the processes keep busy, as far as the device can be read.
func (j *job) cores(second int, s *sample) (busy float32) {
	if slices.ContainsFunc(j.Faults, func(f fault) bool { return second >= f.From && second < f.To }) {
		return 0
	}
	for i := range j.Processes {
		if p := &j.Processes[i]; p.runsAt(float64(second)) {
			busy += float32(cpuOf(p, s) / 100)
		}
	}
	return busy
}
