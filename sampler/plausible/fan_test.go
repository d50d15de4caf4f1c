package plausible_test

import (
	"math"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestTachometers(t *testing.T) {
	steady := func(int) float64 { return 70 }
	linear := func(s int) float64 { return min(45+0.4*float64(s), 93) }
	settles := func(s int) float64 { return 84 - 44*math.Exp(-float64(s)/60) }
	for name, tt := range map[string]struct {
		seconds int
		temp    func(second int) float64
		draw    float64
		fans    func(second int) []gpu.Fan
		want    gpu.Quality // of the last fan's RPM
	}{
		"never counts, and the card is cooled": {45, steady, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(44, 0)} }, gpu.Implausible},
		"another card of the kind":             {30, func(int) float64 { return 66 }, 210, func(int) []gpu.Fan { return []gpu.Fan{asked(58, 0)} }, gpu.Implausible},
		"never counts, too early to tell":      {5, steady, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(44, 0)} }, gpu.Doubtful},
		"never counts, warms up and settles":   {120, settles, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(60, 0)} }, gpu.Doubtful},
		"never counts, and the card cooks":     {110, linear, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(90, 0)} }, gpu.Good},
		"has turned, and the card cooks": {60, func(s int) float64 { return min(62+0.4*float64(s), 92) }, 180,
			func(s int) []gpu.Fan {
				if s < 10 {
					return []gpu.Fan{asked(50, 1700)}
				}
				return []gpu.Fan{asked(90, 0)}
			}, gpu.Good},
		"has turned, and the card is cooled": {60, func(int) float64 { return 69 }, 180,
			func(s int) []gpu.Fan {
				if s < 10 {
					return []gpu.Fan{asked(50, 1700)}
				}
				return []gpu.Fan{asked(50, 0)}
			}, gpu.Implausible},
		"has turned, is told 30 % at rest": {60, func(int) float64 { return 36 }, 12,
			func(s int) []gpu.Fan {
				if s < 10 {
					return []gpu.Fan{asked(30, 1100)}
				}
				return []gpu.Fan{asked(30, 0)}
			}, gpu.Doubtful},
		"has turned, and the card gets warmer beside a hot one": {90, func(s int) float64 { return min(40+0.3*float64(s), 57) }, 14,
			func(s int) []gpu.Fan {
				if s < 10 {
					return []gpu.Fan{asked(35, 1300)}
				}
				return []gpu.Fan{asked(45, 0)}
			}, gpu.Good},
		"one of two": {60, func(int) float64 { return 78 }, 190,
			func(int) []gpu.Fan { return []gpu.Fan{asked(64, 2080), asked(64, 0)} }, gpu.Good},
		"off at rest":        {60, func(int) float64 { return 40 }, 15, func(int) []gpu.Fan { return []gpu.Fan{asked(0, 0)} }, gpu.Good},
		"off at a light cap": {60, func(int) float64 { return 49 }, 148, func(int) []gpu.Fan { return []gpu.Fan{asked(0, 0)} }, gpu.Good},
		"off at 80 °C, cooled": {60, func(int) float64 { return 80 }, 110,
			func(int) []gpu.Fan { return []gpu.Fan{asked(0, 0)} }, gpu.Implausible},
		"no command, another turns": {60, steady, 150,
			func(int) []gpu.Fan { return []gpu.Fan{{RPM: rpm(1500)}, {RPM: rpm(0)}} }, gpu.NotReported},
		"no command, has turned, another turns": {60, steady, 150,
			func(s int) []gpu.Fan {
				return []gpu.Fan{{RPM: rpm(1500)}, {RPM: rpm(map[bool]float64{true: 1400}[s < 10])}}
			}, gpu.Good},
		"no command, hot at work": {60, steady, 150,
			func(int) []gpu.Fan { return []gpu.Fan{{RPM: rpm(0)}} }, gpu.Implausible},
		"all ones":  {0, steady, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(44, 65535)} }, gpu.Implausible},
		"very fast": {0, steady, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(100, 14_000)} }, gpu.Doubtful},
		"a blower":  {0, steady, 125, func(int) []gpu.Fan { return []gpu.Fan{asked(100, 7400)} }, gpu.Good},
	} {
		d := played(tt.seconds, func(s int, d *gpu.Device) {
			d.Thermal.GPU, d.Power.Draw, d.Power.EnforcedLimit = celsius(tt.temp(s)), watts(tt.draw), watts(220)
			d.Utilization.GPU, d.Fans.Fans = percent(97), tt.fans(s)
		})
		if got := d.Fans.Fans[len(d.Fans.Fans)-1].RPM; got.Quality() != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// A steady temperature does not prove a fan while the chip holds it by lowering its clocks.
func TestAChipThatHoldsItself(t *testing.T) {
	const heat, hard = gpu.ReasonThermalSlowdown, gpu.ReasonHardwareSlowdown
	for name, tt := range map[string]struct {
		turned  int // seconds
		command float64
		set     func(d *gpu.Device)
	}{
		"Radeon at its hot spot": {25, 100, func(d *gpu.Device) {
			card(gpu.AMD, 83, 95, 327, 99, 900, 2500)(d)
			d.Thermal.HotSpot, d.Thermal.Slowdown = celsius(109), celsius(100)
		}},
		"Radeon, from the first reading on": {0, 100, func(d *gpu.Device) {
			card(gpu.AMD, 83, 95, 327, 99, 900, 2500)(d)
			d.Thermal.HotSpot, d.Thermal.Slowdown = celsius(109), celsius(100)
		}},
		"GeForce at its target": {20, 100, func(d *gpu.Device) {
			card(gpu.NVIDIA, 83, 95, 220, 99, 900, 2100)(d)
			d.Thermal.Target, d.Thermal.Slowdown = celsius(83), celsius(101)
			d.Clocks.EventReasons = gpu.Of(heat)
		}},
		"slowed by heat that nobody sees": {20, 60, func(d *gpu.Device) {
			card(gpu.NVIDIA, 70, 95, 220, 99, 900, 2100)(d)
			d.Clocks.EventReasons = gpu.Of(heat | hard)
		}},
		"much hotter than its cooler is made for": {20, 90, func(d *gpu.Device) { card(gpu.AMD, 82, 62, 200, 60, 1200, 2500)(d) }},
	} {
		d := played(120, func(s int, d *gpu.Device) {
			tt.set(d)
			d.Fans.Fans = []gpu.Fan{asked(tt.command, 0)}
			if s < tt.turned {
				d.Fans.Fans = []gpu.Fan{asked(60, 1500)}
			}
		})
		if got := d.Fans.Fans[0].RPM; got != rpm(0) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A busy counter is judged by the other readings, if there is no power reading.
func TestBusyCounters(t *testing.T) {
	apu := func(util, clock, top, temp float64) func(d *gpu.Device) {
		return func(d *gpu.Device) {
			d.Utilization.GPU, d.Clocks.SM, d.Clocks.MaxSM, d.Thermal.GPU = percent(util), mhz(clock), mhz(top), celsius(temp)
		}
	}
	used := func(change func(*gpu.Device), list gpu.Reading[[]gpu.Process]) func(*gpu.Device) {
		return func(d *gpu.Device) { change(d); d.Processes, d.ProcessesPartial = list, gpu.Of(false) }
	}
	for name, tt := range map[string]struct {
		set     func(d *gpu.Device)
		seconds int
		want    gpu.Quality
	}{
		"Raven: always 100":             {used(apu(100, 200, 1200, 44), uses(1)), 12, gpu.Doubtful},
		"Picasso: always 99":            {used(apu(99, 300, 1400, 39), uses(0, 3)), 8, gpu.Doubtful},
		"stands at 64":                  {used(apu(64, 200, 1100, 41), uses(2)), 20, gpu.Doubtful},
		"nobody may see the clients":    {apu(100, 200, 1200, 44), 15, gpu.Doubtful},
		"from the first reading on":     {used(apu(100, 200, 1200, 44), uses(1)), 0, gpu.Doubtful},
		"a client works":                {used(apu(100, 1200, 1200, 71), uses(97)), 30, gpu.Good},
		"a film at low clocks":          {used(apu(95, 300, 1200, 52), uses(88)), 30, gpu.Good},
		"clocks are up, and it is warm": {used(apu(100, 1200, 1200, 74), uses(1)), 30, gpu.Good},
		"warm, though nobody uses it":   {used(apu(100, 200, 1200, 78), uses(1)), 30, gpu.Good},
		"with a draw": {used(func(d *gpu.Device) { apu(100, 200, 1200, 44)(d); d.Power.Draw = watts(9) }, uses(1)), 30,
			gpu.Good}, // the rules of the answer know its power at rest
		"stands at 0":                      {used(apu(0, 1150, 1200, 70), uses(91)), 15, gpu.Doubtful},
		"clocks that somebody has set low": {apu(100, 350, 1200, 48), 30, gpu.Good},
		"held at 300 MHz":                  {apu(100, 300, 2100, 55), 30, gpu.Good},
		"held, and the driver says so": {func(d *gpu.Device) {
			apu(100, 300, 2100, 45)(d)
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonHardwareSlowdown | gpu.ReasonHardwareThermal)
		}, 30, gpu.Good},
		"held, and nobody is listed": {used(func(d *gpu.Device) {
			apu(100, 300, 2100, 55)(d)
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonHardwareSlowdown | gpu.ReasonHardwareThermal)
		}, uses()), 30, gpu.Good},
		"cold, flagged, and nobody is listed": {used(func(d *gpu.Device) {
			apu(100, 200, 1200, 44)(d)
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
		}, uses()), 30, gpu.Doubtful},
		"0 for a moment":          {used(apu(0, 1150, 1200, 70), uses(91)), 4, gpu.Good},
		"0, and nobody uses it":   {used(apu(0, 200, 1200, 40), uses(1)), 30, gpu.Good},
		"idle, and says how idle": {used(apu(3, 200, 1200, 40), uses(2)), 30, gpu.Good},
	} {
		d := played(tt.seconds, func(_ int, d *gpu.Device) { tt.set(d) })
		if got := d.Utilization.GPU; got.Quality() != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	begins := func(s int, d *gpu.Device) { // the clocks follow
		used(apu([]float64{2, 100}[min(s/10, 1)], []float64{200, 1200}[min(s/12, 1)], 1200, 44), uses([]float64{1, 97}[min(s/12, 1)]))(d)
	}
	for _, seconds := range []int{9, 10, 11, 12, 30} {
		if d := played(seconds, begins); d.Utilization.GPU.Quality() != gpu.Good {
			t.Errorf("%d s: %v", seconds, d.Utilization.GPU)
		}
	}
}
