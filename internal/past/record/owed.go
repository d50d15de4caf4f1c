package record

import (
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Owed is what a process drew of a device whose idle floor is not known: a part of it is rest, which belongs to nobody. Until
// that part is known, what the session has of it is an estimate.
type owed struct {
	joules  float64 // with the rest
	seconds float64 // that the draw at rest is to be taken off of: the process's parts of the draw, 0 to 1, times their time
	known   time.Duration
	method  string
}

func (o *owed) add(other owed) {
	o.joules, o.seconds, o.known, o.method = o.joules+other.joules, o.seconds+other.seconds, o.known+other.known, mixed(o.method, other.method)
}

// settle counts what a session owed, once the floor of its device is known.
func (s *session) settle(floor float64) {
	o := s.owed
	if o.known == 0 {
		return
	}
	s.owed = owed{}
	s.Joules += max(0, o.joules-floor*o.seconds)
	s.JoulesKnown += o.known
	s.JoulesMethod = mixed(s.JoulesMethod, o.method)
}

// estimated is the session as it is kept: with an estimate of what it owes, where there is one.
func (s *session) estimated(device *rest) store.Session {
	rest, known := device.estimate()
	if s.owed.known == 0 || !known {
		return s.Session
	}
	settled := *s
	settled.settle(rest)
	settled.JoulesMethod = store.Estimated
	return settled.Session
}

// settleOwed counts what sessions owe, those that have ended too, once the floor of the device is known.
func (x *sessions) settleOwed(r *Recorder, floor float64) {
	if math.IsNaN(floor) {
		return
	}
	for _, s := range x.live { // which are written anyway
		s.settle(floor)
	}
	for _, s := range x.owing {
		s.settle(floor)
		r.out.session(s.Session)
	}
	x.owing = nil
}

// mostRest is the part of its power limit that a device draws at rest at most, as is usual: of most it is a tenth.
const mostRest = 0.15

// A rest has the observed draw of a device whose idle floor is unknown because programs hold it all the time.
type rest struct {
	quiet attribute.Floor // steady without work, though a program held it
	least attribute.Floor // steady, also at work
	limit float64         // of its power, in watts; 0: not known
}

func (r *rest) observe(d *gpu.Device) {
	idle := gpu.Device{State: d.State, SampledAt: d.SampledAt}
	idle.Power, idle.Utilization = d.Power, d.Utilization
	idle.Processes = gpu.Of([]gpu.Process{})
	r.quiet.Observe(&idle)
	idle.Utilization = gpu.Utilization{}
	r.least.Observe(&idle)
	if limit := trusted(d.Power.EnforcedLimit, math.MaxFloat64); limit > 0 {
		r.limit = limit
	}
}

// estimate is what the device may draw at rest: what it draws without work; or the least that it was seen to draw, but no more than is
// usual of such a device.
func (r *rest) estimate() (watts float64, known bool) {
	if quiet, seen := r.quiet.Watts.Get(); seen {
		return float64(quiet), true
	}
	least, seen := r.least.Watts.Get()
	if !seen {
		return 0, false
	}
	if watts = float64(least); r.limit > 0 {
		watts = min(watts, mostRest*r.limit)
	}
	return watts, true
}
