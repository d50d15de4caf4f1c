package record

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// readWorking reads a device that draws 150 W for a process, and whose idle floor is not known yet, or 50 W.
func (m *machine) readWorking(second int, floor gpu.Reading[gpu.Watts], list ...gpu.Process) {
	when := start.Add(time.Duration(second) * time.Second)
	d := card("GPU-1")
	d.Processes, d.IdleFloor, d.Power.Draw = gpu.Of(list), floor, gpu.Of[gpu.Watts](150)
	d.Utilization.GPU, d.Memory.Used = gpu.Of[gpu.Percent](80), gpu.Of[gpu.Bytes](10<<30)
	s := snapshot(when, d)
	s.Host = &gpu.Host{Boot: m.boot}
	m.observe(s)
}

// What a process draws is not known as long as the idle floor of its device is not: a part of that is rest. Once the floor is known, so is
// the energy, also of what has ended meanwhile.
func TestEnergyWhileTheFloorIsNotKnown(t *testing.T) {
	unknown, floor := gpu.Reading[gpu.Watts]{}, gpu.Of[gpu.Watts](50)
	energy := func(s *store.Session, joules float64, known time.Duration) {
		t.Helper()
		if off := s.Joules - joules; off > 1e-6 || off < -1e-6 || s.JoulesKnown != known || known > 0 && s.JoulesMethod != "sm_share" || known == 0 && s.JoulesMethod != "" {
			t.Errorf("pid %d has %.1f J of %v by %q, want %.1f J of %v", s.PID, s.Joules, s.JoulesKnown, s.JoulesMethod, joules, known)
		}
	}
	m := newMachine(t)
	p, q := process(7, 0), process(8, 0)
	m.readWorking(0, unknown, p, q)
	m.readWorking(5, unknown, p, q)
	for _, s := range m.all() {
		energy(&s, 0, 0)
	}
	m.readWorking(10, unknown, p)
	for _, s := range m.all() { // all that the device ever drew may be rest
		if s.Joules != 0 || s.JoulesKnown != s.Seen || s.JoulesMethod != store.Estimated {
			t.Errorf("pid %d has %.1f J of %v by %q", s.PID, s.Joules, s.JoulesKnown, s.JoulesMethod)
		}
	}
	m.readWorking(15, floor, p)
	all := m.all()
	// Both had half of the 100 W above rest for 5 s; then one had 40 of 80 % for 5 s, of which the floor is told later, and 5 s more.
	energy(&all[0], 100.*5/2+100*5./2*2, 15*time.Second)
	energy(&all[1], 100.*5/2, 5*time.Second)

	m.readWorking(20, floor, p)
	m.restart()
	m.readWorking(25, unknown, p)
	m.readWorking(30, unknown, p)
	if s := m.all()[0]; s.Seen != 25*time.Second || s.JoulesKnown != 20*time.Second || s.JoulesMethod != "sm_share" {
		t.Errorf("after a restart without the floor: %+v", s)
	}
	m.readWorking(35, floor, p)
	if s := m.all()[0]; s.Seen != 30*time.Second || s.JoulesKnown != 30*time.Second {
		t.Errorf("with the floor: %+v", s)
	}
}

// What a device draws at rest is estimated while programs hold it all the time: as what it draws without work; or as the least that it
// drew, but no more than is usual.
func TestRestIsEstimated(t *testing.T) {
	device := func(second int, util gpu.Percent, watts, limit gpu.Watts) *gpu.Device {
		d := &gpu.Device{State: gpu.StateOK, SampledAt: start.Add(time.Duration(second) * time.Second)}
		d.Utilization.GPU, d.Power.Draw = gpu.Of(util), gpu.Of(watts)
		if limit > 0 {
			d.Power.EnforcedLimit = gpu.Of(limit)
		}
		d.Processes = gpu.Of([]gpu.Process{process(7, 0)})
		return d
	}
	for name, tt := range map[string]struct {
		util         gpu.Percent
		watts, limit gpu.Watts
		want         float64 // 0: not known
	}{
		"held without work":       {0, 105, 450, 105},
		"always at work":          {90, 400, 700, 105},
		"at work, without limit":  {90, 400, 0, 400},
		"little work, much limit": {50, 60, 700, 60},
	} {
		var r rest
		for second := 0; second <= 20; second += 5 {
			if _, known := r.estimate(); known != (second > 10) {
				t.Errorf("%s: known after %d s: %v", name, second, known)
			}
			r.observe(device(second, tt.util, tt.watts, tt.limit))
		}
		if got, _ := r.estimate(); got != tt.want {
			t.Errorf("%s: %v W, want %v", name, got, tt.want)
		}
	}
}
