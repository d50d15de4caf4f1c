package sim

import (
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var (
	rtx4090 = inStock().Products["rtx4090"]
	h100    = inStock().Products["h100"]
	desktop = inStock().Sites["desktop"]
	front   = inStock().Sites["front"]
)

// desktopJobs are those that take turns on the desktop.
var desktopJobs = func() (jobs []job) {
	for _, name := range inStock().Machines["rtx-4090"].Cards[0].Jobs {
		jobs = append(jobs, inStock().Jobs[name])
	}
	return jobs
}()

// devicesOf goes through the devices of all nodes of a profile.
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

// recordings are all tapes of the profiles, each once.
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

// Tapes of one roster follow each other in any order, so nothing may jump
// where they meet.
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
		for k := 20; k < cycleSeconds; k++ {
			idle, busy := true, true
			for _, s := range tp.samples[k-20 : k] {
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

// Temperature goes towards what the power leads to, and never the other way.
func TestTemperatureFollowsPower(t *testing.T) {
	m := newMachine(h100, front)
	cold := m.temp
	work := load{gpu: 90, memory: 50, intensity: 0.7, held: true}
	var after [200]float64
	for i := range after {
		m.step(work)
		after[i] = m.temp
	}
	hot := after[len(after)-1]
	reached := func(second float64) float64 { return (after[int(second)-1] - cold) / (hot - cold) }
	if hot < cold+15 {
		t.Fatalf("only %.1f °C from %.1f °C", hot, cold)
	}
	if r := reached(h100.Cooling.Inertia + powerLag); r < 0.58 || r > 0.68 {
		t.Errorf("after one time constant %.0f %% of the way; want about 63 %%", 100*r)
	}
	for i := 1; i < len(after); i++ {
		if after[i] < after[i-1] {
			t.Fatalf("second %d: cools under constant load", i)
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
				if s := tp.samples[stopped]; stopped > end+5 && s.gpu > 5 {
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

// Fans start and stop at different temperatures, with lag behind the die.
func TestFansHaveHysteresis(t *testing.T) {
	recordings(t, func(t *testing.T, p *product, _ *job, tp *tape) {
		if p.Fans.On == 0 {
			return
		}
		for k := 1; k <= cycleSeconds; k++ {
			before, s := tp.samples[k-1], tp.samples[k]
			if before.fan == 0 && s.fan > 0 && float64(s.temp) < p.Fans.On {
				t.Errorf("second %d: starts at %.1f °C", k, s.temp)
			}
			if before.fan > 0 && s.fan == 0 && float64(s.temp) > p.Fans.Off {
				t.Errorf("second %d: stops at %.1f °C", k, s.temp)
			}
			if s.fan > 0 && before.fan > 0 && math.Abs(float64(s.fan-before.fan)) > fanUp+1 {
				t.Errorf("second %d: jumps from %v to %v %%", k, before.fan, s.fan)
			}
		}
	})
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
			case s.gpu > 5 && !s.reasons.Throttled() && slowed:
				fail("slow without a reason")
			case s.pstate == 8 && (s.gpu > 5 || float64(s.clock) != p.Graphics.Idle):
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
		if s.power > 30 || s.temp > 42 || s.fan != 0 || s.pstate != 8 || s.gpu > 5 {
			t.Errorf("a minute before the end of %s: %+v", desktopJobs[i].name, s)
		}
	}
}
