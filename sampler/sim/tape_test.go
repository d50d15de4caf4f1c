package sim

import (
	"fmt"
	"iter"
	"math"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var (
	rtx4090 = inStock().Products["rtx4090"]
	h100    = inStock().Products["h100"]
	desktop = inStock().Sites["desktop"]
	front   = inStock().Sites["front"]
)

// drawn is how busy a desktop at rest may be, in percent, since it draws windows.
const drawn = 8

// desktopJobs are the jobs that take turns on the desktop.
var desktopJobs = func() (jobs []job) {
	for _, name := range inStock().Machines["rtx-4090"].Cards[0].Jobs {
		jobs = append(jobs, inStock().Jobs[name])
	}
	return jobs
}()

// devicesOf iterates over the devices of all nodes of a profile.
func devicesOf(t *testing.T, profile string) iter.Seq[*device] {
	nodes, _ := newNodes(t, profile)
	return func(yield func(*device) bool) {
		for _, s := range nodes {
			for _, d := range s.devices {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// recordings calls f for each tape of the profiles once.
func recordings(t *testing.T, f func(t *testing.T, p *product, j *job, tp *tape)) {
	seen := map[*tape]bool{}
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:100"} {
		for d := range devicesOf(t, profile) {
			for _, tp := range d.roster {
				if seen[tp] {
					continue
				}
				seen[tp] = true
				name := fmt.Sprintf("%s/%s/%d", d.product.Name, tp.job.name, len(seen))
				t.Run(name, func(t *testing.T) { f(t, d.product, tp.job, tp) })
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d tapes", len(seen))
	}
}

// Tapes of one roster follow each other in any order, so nothing may jump where they meet.
func TestTapesJoin(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:100"} {
		for d := range devicesOf(t, profile) {
			for _, before := range d.roster {
				for _, after := range d.roster {
					a, b := before.samples[cycleSeconds], after.samples[0]
					if math.Abs(float64(a.power-b.power)) > 4 || math.Abs(float64(a.temp-b.temp)) > 1 || a.fan != b.fan {
						t.Errorf("%s: from %s (%.1f W, %.1f °C, %v %%) to %s (%.1f W, %.1f °C, %v %%)", d.product.Name,
							before.job.name, a.power, a.temp, a.fan, after.job.name, b.power, b.temp, b.fan)
					}
				}
			}
		}
	}
}

func TestPowerFollowsWork(t *testing.T) {
	recordings(t, func(t *testing.T, p *product, _ *job, tp *tape) {
		for k := 20; k <= cycleSeconds; k++ {
			idle, busy := true, true
			for _, s := range tp.samples[k-19 : k+1] {
				idle = idle && s.gpu == 0 && s.pstate == tp.samples[k].pstate && s.enc == 0
				busy = busy && s.gpu >= 85
			}
			s := tp.samples[k]
			if idle && float64(s.power) > 1.1*p.Power.Held {
				t.Fatalf("second %d: %.0f W after 20 s without work", k, s.power)
			}
			if busy && float64(s.power) < 0.4*p.limit() {
				t.Fatalf("second %d: %.0f W after 20 s of work", k, s.power)
			}
		}
	})
}

// Under constant work the die is warm within seconds, and the cooler within minutes; neither cools down.
func TestTemperatureFollowsPower(t *testing.T) {
	for name, p := range inStock().Products {
		m := newMachine(p, front)
		m.turning = m.turning || p.fans() > 0
		work, before := load{gpu: 70, memory: 50, intensity: 0.5, held: true}, m.temp
		var after [900]float64
		for i := range after {
			m.step(work)
			after[i] = m.temp
			if p.fans() == 0 && (m.temp < before || m.temp > before+12) {
				t.Fatalf("%s: from %.1f to %.1f °C in second %d", name, before, m.temp, i)
			}
			before = m.temp
		}
		cold := newMachine(p, front).temp
		quick, slow := p.Die.Above*m.power, m.cooler-newMachine(p, front).cooler
		if quick < 3 || slow < 5 && p.fans() == 0 || p.Die.Inertia < 5 || p.Die.Inertia > 10 || p.Cooling.Inertia < 60 || p.Cooling.Inertia > 150 {
			t.Errorf("%s: %.1f K quickly, %.1f K slowly: %+v, %+v", name, quick, slow, p.Die, p.Cooling)
		}
		soon := after[int(3*p.Die.Inertia)] - cold // by then the die has risen by 95 %
		if want := 0.9 * p.Die.Above * (m.power - p.Power.Rest); soon < want || p.fans() == 0 && after[int(p.Cooling.Inertia)]-cold > 0.85*(m.temp-cold) {
			t.Errorf("%s: %.1f K in the first seconds, want %.1f", name, soon, want)
		}
	}
}

// Work ends; the fans go on until the card is cool, then stand still.
func TestFansOutlastTheWork(t *testing.T) {
	for i := range desktopJobs {
		j := &desktopJobs[i]
		t.Run(j.name, func(t *testing.T) {
			tp := record(rtx4090, desktop, j)
			end := 0
			for _, p := range j.Phases {
				if p.Held {
					end = p.To
				}
			}
			stopped := end
			for ; stopped < cycleSeconds && tp.samples[stopped].fan > 0; stopped++ {
				if s := tp.samples[stopped]; stopped > end+5 && s.gpu > drawn {
					t.Fatalf("%v %% busy after the end of work", s.gpu)
				}
			}
			if stopped == cycleSeconds {
				t.Fatal("the fans never stop")
			}
			if j.name == "game" && stopped-end < 60 {
				t.Errorf("the fans stop %d s after the game", stopped-end)
			}
			for k := stopped; k < cycleSeconds; k++ {
				if tp.samples[k].fan > 0 {
					t.Fatalf("the fans start again at second %d, at %.1f °C", k, tp.samples[k].temp)
				}
			}
		})
	}
}

// Fans start and stop at different temperatures, with a kick, a delay after the die, and a minimum time on. They are never below their
// minimum, the tachometer follows them with a delay, and only some products' fans may stand still.
func TestFansHaveHysteresis(t *testing.T) {
	recordings(t, func(t *testing.T, p *product, _ *job, tp *tape) {
		f, started, stopped := p.Fans, -cycleSeconds, -cycleSeconds
		for k := 1; k <= cycleSeconds; k++ {
			before, s := tp.samples[k-1], tp.samples[k]
			fail := func(what string) {
				t.Helper()
				t.Errorf("second %d: %s: from %v %%, %v RPM to %v %%, %v RPM at %.1f °C", k, what, before.fan, before.rpm, s.fan, s.rpm, s.temp)
			}
			full := s.fan / 100 * float32(f.RPM)
			switch {
			case p.fans() == 0:
				if s.fan != 0 || s.rpm != 0 {
					fail("no fan, and it turns")
				}
				continue
			case before.fan == 0 && s.fan > 0:
				if started = k; float64(s.temp) < f.On || float64(s.fan) != f.Kick {
					fail("starts")
				}
			case before.fan > 0 && s.fan == 0:
				if stopped = k; float64(s.temp) > f.Off || k-started < f.Least {
					fail("stops")
				}
			case before.fan == float32(f.Kick) && k == started+kick:
			case math.Abs(float64(s.fan-before.fan)) > fanUp+1:
				fail("jumps")
			}
			switch {
			case s.fan == 0 && f.On == 0 || s.fan > 0 && float64(s.fan) < f.Min || s.rpm > float32(f.RPM):
				fail("not within bounds")
			case k < started+uncounted && s.rpm != 0:
				fail("counts at once")
			case k > started+9 && s.fan > 0 && math.Abs(float64(s.rpm-full)) > 0.08*f.RPM, k > stopped+6 && s.fan == 0 && s.rpm > 0:
				fail("does not follow")
			}
		}
	})
}

// Nothing jumps, the energy counter grows with the power, and performance states fit the product.
func TestAnHourIsPhysical(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:32"} {
		for d := range devicesOf(t, profile) {
			before, joules, begun := d.now(start), 0.0, d.spentUntil(start)
			for second := 1; second <= 3600; second++ {
				now := start.Add(time.Duration(second) * time.Second)
				s := d.now(now)
				joules += float64(before.power+s.power) / 2
				if got := d.spentUntil(now) - begun; math.Abs(got-joules) > 0.001*joules+20 {
					t.Fatalf("%s: %.0f J after %d s, the watts add up to %.0f J", d.product.Name, got, second, joules)
				}
				if math.Abs(float64(s.temp-before.temp)) > 12 {
					t.Errorf("%s: from %.1f to %.1f °C in a second", d.product.Name, before.temp, s.temp)
				}
				if s.pstate == 2 && d.product.fans() == 0 || s.pstate == 0 && s.gpu > drawn && d.product.Name == "NVIDIA RTX A6000" {
					t.Errorf("%s: P%d", d.product.Name, s.pstate)
				}
				before = s
			}
		}
	}
}

func (d *device) spentUntil(t time.Time) float64 {
	m := d.moment(t)
	return d.energyBefore(&m) + m.tape.sampleAt(m.second).energy
}

// At time 0 a device has a past: one that has worked for hours is warm, one that rests is cool.
func TestTheFirstSecondHasAPast(t *testing.T) {
	s, c := newSource(t, "dgx-h100")
	for k := range 12 {
		c.t = start.Add(time.Duration(k) * 11 * time.Minute)
		d := &read(t, s).Devices[6] // works all the time
		if d.Utilization.GPU.Or(0) > 50 && (d.Power.Draw.Or(0) < 400 || d.Thermal.GPU.Or(0) < 70) {
			t.Errorf("at %v: %v, %v at %v", c.t, d.Thermal.GPU, d.Power.Draw, d.Utilization.GPU)
		}
	}
	for k, d := range s.devices {
		for _, tp := range d.roster {
			if f, l := tp.samples[0], tp.samples[cycleSeconds]; math.Abs(float64(f.temp-l.temp)) > 0.5 || math.Abs(float64(f.power-l.power)) > 1 {
				t.Errorf("GPU %d, %s: begins at %.1f °C, %.1f W, ends at %.1f °C, %.1f W", k, tp.job.name, f.temp, f.power, l.temp, l.power)
			}
		}
	}
}

func TestClocksAndTheirReasons(t *testing.T) {
	capped, hot := 0, 0
	recordings(t, func(t *testing.T, p *product, _ *job, tp *tape) {
		for k := range tp.samples {
			s := &tp.samples[k]
			fail := func(what string) { t.Fatalf("second %d: %s: %+v", k, what, *s) }
			slowed := float64(s.clock) < p.Graphics.Boost
			switch {
			case s.reasons&gpu.ReasonIdle != 0 && (float64(s.clock) != p.Graphics.Idle || s.reasons != gpu.ReasonIdle):
				fail("idle, but not at the idle clock")
			case s.reasons.Throttled() && !slowed:
				fail("a reason to be slow, and full speed")
			case s.gpu > drawn && !s.reasons.Throttled() && slowed:
				fail("slow without a reason")
			case s.pstate == 8 && (s.gpu > drawn || float64(s.clock) != p.Graphics.Idle):
				fail("P8 under work")
			case s.pstate > 2 && !p.Has.PowerStates:
				fail("a state that the product does not have")
			}
			if s.reasons&gpu.ReasonPowerCap != 0 {
				capped++
			}
			if s.reasons&gpu.ReasonThermalSlowdown != 0 {
				hot++
				if float64(s.temp) < p.Heat.Operating-12 && k > 0 && tp.samples[k-1].gpu > 0 {
					fail("slowed for heat while cool")
				}
			}
		}
	})
	if capped == 0 || hot == 0 {
		t.Errorf("%d seconds at the power cap, %d slowed for heat", capped, hot)
	}
}

// A card at its power cap draws its limit once the average has caught up.
func TestPowerCapIsReached(t *testing.T) {
	tp := record(h100, front, new(inStock().Jobs["pretraining"]))
	for k := 20; k < cycleSeconds; k++ {
		all := true
		for _, s := range tp.samples[k-15 : k+1] {
			all = all && s.reasons&gpu.ReasonPowerCap != 0
		}
		if all && math.Abs(float64(tp.samples[k].power)-h100.limit()) > 1 {
			t.Fatalf("second %d: capped for 15 s, and draws %.1f W of %.0f W", k, tp.samples[k].power, h100.limit())
		}
	}
}

// In the idle part of a cycle nothing is left of the work.
func TestRestIsRest(t *testing.T) {
	for i := range desktopJobs {
		s := record(rtx4090, desktop, &desktopJobs[i]).samples[cycleSeconds-60]
		if s.power > 30 || s.temp > 42 || s.fan != 0 || s.pstate != 8 || s.gpu > drawn {
			t.Errorf("a minute before the end of %s: %+v", desktopJobs[i].name, s)
		}
	}
}
