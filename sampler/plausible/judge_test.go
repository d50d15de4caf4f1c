package plausible_test

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/plausible"
)

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// played judges one reading per second of a device made by of, and returns the last.
func played(seconds int, set func(second int, d *gpu.Device)) gpu.Device {
	j := plausible.New()
	var out gpu.Device
	for s := range seconds + 1 {
		d := gpu.Device{State: gpu.StateOK, SampledAt: start.Add(time.Duration(s) * time.Second)}
		set(s, &d)
		all := []gpu.Device{d}
		j.Judge(all, 0)
		out = all[0]
	}
	return out
}

func once(set func(d *gpu.Device)) gpu.Device {
	return played(0, func(_ int, d *gpu.Device) { set(d) })
}

func celsius(v float64) gpu.Reading[gpu.Celsius] { return gpu.Of(gpu.Celsius(v)) }
func watts(v float64) gpu.Reading[gpu.Watts]     { return gpu.Of(gpu.Watts(v)) }
func percent(v float64) gpu.Reading[gpu.Percent] { return gpu.Of(gpu.Percent(v)) }
func mhz(v float64) gpu.Reading[gpu.Megahertz]   { return gpu.Of(gpu.Megahertz(v)) }
func rpm(v float64) gpu.Reading[gpu.RPM]         { return gpu.Of(gpu.RPM(v)) }

// asked returns a fan with a command and a tachometer value.
func asked(p, turns float64) gpu.Fan {
	return gpu.Fan{Commanded: percent(p), RPM: rpm(turns), Policy: gpu.Of("automatic")}
}

func uses(shares ...float64) gpu.Reading[[]gpu.Process] {
	list := []gpu.Process{}
	for i, s := range shares {
		list = append(list, gpu.Process{PID: 100 + i, SM: percent(s)})
	}
	return gpu.Of(list)
}

// Impossible values become absent; values that may be wrong are marked.
func TestBounds(t *testing.T) {
	const good, doubtful, implausible = gpu.Good, gpu.Doubtful, gpu.Implausible
	type quality interface{ Quality() gpu.Quality }
	for name, tt := range map[string]struct {
		set  func(d *gpu.Device) quality
		want gpu.Quality
	}{
		"15,260 °C":      {func(d *gpu.Device) quality { d.Thermal.GPU = celsius(15260); return &d.Thermal.GPU }, implausible},
		"already marked": {func(d *gpu.Device) quality { d.Thermal.GPU = gpu.DoubtfulOf[gpu.Celsius](15260); return &d.Thermal.GPU }, implausible},
		"255 °C of the hot spot": {func(d *gpu.Device) quality {
			d.Thermal.HotSpot = celsius(255)
			return &d.Thermal.HotSpot
		}, implausible},
		"-273 °C":         {func(d *gpu.Device) quality { d.Thermal.Memory = celsius(-273); return &d.Thermal.Memory }, implausible},
		"-40 °C":          {func(d *gpu.Device) quality { d.Thermal.GPU = celsius(-40); return &d.Thermal.GPU }, doubtful},
		"-5 °C in a shed": {func(d *gpu.Device) quality { d.Thermal.GPU = celsius(-5); return &d.Thermal.GPU }, good},
		"104 °C":          {func(d *gpu.Device) quality { d.Thermal.GPU = celsius(104); return &d.Thermal.GPU }, good},
		"past its end": {func(d *gpu.Device) quality {
			d.Thermal.GPU, d.Thermal.Shutdown = celsius(140), celsius(105)
			return &d.Thermal.GPU
		}, doubtful},
		"a limit of 2147 °C": {func(d *gpu.Device) quality {
			d.Thermal.Slowdown = celsius(2147)
			return &d.Thermal.Slowdown
		}, implausible},
		"700 W of 328": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit = watts(700), watts(328)
			return &d.Power.Draw
		}, doubtful},
		"4000 W of 328": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit = watts(4000), watts(328)
			return &d.Power.Draw
		}, implausible},
		"370 W of 328": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit = watts(370), watts(328)
			return &d.Power.Draw
		}, good},
		"just lowered": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit, d.Power.DefaultLimit = watts(298), watts(100), watts(300)
			return &d.Power.Draw
		}, good},
		"a laptop lent power": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit, d.Power.DefaultLimit, d.Power.MaxLimit = watts(118), watts(80), watts(80), watts(140)
			return &d.Power.Draw
		}, good},
		"150 W of 80, at most 140": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Power.EnforcedLimit, d.Power.DefaultLimit, d.Power.MaxLimit = watts(150), watts(80), watts(80), watts(140)
			return &d.Power.Draw
		}, doubtful},
		"1390 W, no limit": {func(d *gpu.Device) quality { d.Power.Draw = watts(1390); return &d.Power.Draw }, good},
		"a chip of 310 W": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Shared.Unified = watts(310), gpu.Of(true)
			return &d.Power.Draw
		}, good},
		"a chip for data centers": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Shared.Unified, d.Memory.Total = watts(500), gpu.Of(true), gpu.Of[gpu.Bytes](128<<30)
			return &d.Power.Draw
		}, good},
		"4294967 W":       {func(d *gpu.Device) quality { d.Power.Draw = watts(4294967); return &d.Power.Draw }, implausible},
		"2 kW, no limit":  {func(d *gpu.Device) quality { d.Power.Draw = watts(2000); return &d.Power.Draw }, doubtful},
		"700 W, no limit": {func(d *gpu.Device) quality { d.Power.Draw = watts(700); return &d.Power.Draw }, good},
		"a chip of 434 W": {func(d *gpu.Device) quality {
			d.Power.Draw, d.Shared.Unified = watts(434), gpu.Of(true)
			return &d.Power.Draw
		}, doubtful},
		"energy of ones": {func(d *gpu.Device) quality { d.Power.Energy = gpu.Of(gpu.Joules(1<<64) / 1e6); return &d.Power.Energy }, implausible},
		"energy of 32 ones": {func(d *gpu.Device) quality {
			d.Power.Energy = gpu.Of(gpu.Joules(1<<32-1) / 1000)
			return &d.Power.Energy
		}, implausible},
		"replays of ones": {func(d *gpu.Device) quality { d.PCIe.Replays = gpu.Of(^uint64(0)); return &d.PCIe.Replays }, implausible},
		"errors of 32 ones": {func(d *gpu.Device) quality {
			d.Health.UncorrectedVolatile = gpu.Of[uint64](1<<32 - 1)
			return &d.Health.UncorrectedVolatile
		}, implausible},
		"12 replays":          {func(d *gpu.Device) quality { d.PCIe.Replays = gpu.Of[uint64](12); return &d.PCIe.Replays }, good},
		"65535 MHz":           {func(d *gpu.Device) quality { d.Clocks.SM = mhz(65535); return &d.Clocks.SM }, implausible},
		"14001 MHz of memory": {func(d *gpu.Device) quality { d.Clocks.Memory = mhz(14001); return &d.Clocks.Memory }, good},
		"twice its clock":     {func(d *gpu.Device) quality { d.Clocks.SM, d.Clocks.MaxSM = mhz(6000), mhz(2500); return &d.Clocks.SM }, doubtful},
		"more than there is": {func(d *gpu.Device) quality {
			d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](8<<30), gpu.Of[gpu.Bytes](9<<30)
			return &d.Memory.Used
		}, doubtful},
		"an exabyte": {func(d *gpu.Device) quality { d.Memory.Total = gpu.Of[gpu.Bytes](1 << 60); return &d.Memory.Total }, implausible},
		"PCIe 200":   {func(d *gpu.Device) quality { d.PCIe.Generation = gpu.Of(200); return &d.PCIe.Generation }, implausible},
	} {
		var r quality
		j, all := plausible.New(), []gpu.Device{{State: gpu.StateOK, SampledAt: start}}
		r = tt.set(&all[0])
		j.Judge(all, 0)
		if r.Quality() != tt.want {
			t.Errorf("%s is %v, want %v", name, r.Quality(), tt.want)
		}
	}
}

// A sensor that reads 0 °C counts as missing if anything else shows that the chip is warm.
func TestZero(t *testing.T) {
	for name, tt := range map[string]struct {
		set         func(d *gpu.Device)
		temp, power gpu.Quality
	}{
		"nothing else":       {func(*gpu.Device) {}, gpu.Doubtful, gpu.NotReported},
		"another is warm":    {func(d *gpu.Device) { d.Thermal.Memory = celsius(41) }, gpu.Implausible, gpu.NotReported},
		"it draws":           {func(d *gpu.Device) { d.Power.Draw, d.Power.EnforcedLimit = watts(164.2), watts(170) }, gpu.Implausible, gpu.Good},
		"it draws too much":  {func(d *gpu.Device) { d.Power.Draw = watts(434) }, gpu.Implausible, gpu.Doubtful},
		"it works":           {func(d *gpu.Device) { d.Utilization.GPU = percent(60) }, gpu.Implausible, gpu.NotReported},
		"0 W of a busy chip": {func(d *gpu.Device) { d.Utilization.GPU, d.Power.Draw = percent(60), watts(0) }, gpu.Implausible, gpu.Implausible},
	} {
		d := once(func(d *gpu.Device) { d.Thermal.GPU = celsius(0); tt.set(d) })
		if d.Thermal.GPU.Quality() != tt.temp || d.Power.Draw.Quality() != tt.power {
			t.Errorf("%s: %v, %v", name, d.Thermal.GPU, d.Power.Draw)
		}
	}
	for name, tt := range map[string]struct {
		draw func(second int) float64
		want gpu.Quality
	}{
		"stands still": {func(int) float64 { return 434.397552 }, gpu.Implausible},
		"moves":        {func(s int) float64 { return 434 + float64(s%3) }, gpu.Doubtful},
	} {
		d := played(5, func(s int, d *gpu.Device) { d.Thermal.GPU, d.Power.Draw = celsius(0), watts(tt.draw(s)) })
		if d.Thermal.GPU.Quality() != gpu.Implausible || d.Power.Draw.Quality() != tt.want {
			t.Errorf("a draw that %s at 0 °C: %v, %v", name, d.Thermal.GPU, d.Power.Draw)
		}
	}
	if d := once(func(d *gpu.Device) { d.Utilization.GPU, d.Power.Draw = percent(0), watts(0) }); d.Power.Draw != watts(0) {
		t.Errorf("0 W at rest is %v", d.Power.Draw)
	}
}

// One reading far from the others is doubted; a device that has changed is believed.
func TestJumps(t *testing.T) {
	temps := []float64{52, 53, 120, 54, 55}
	for i, want := range []gpu.Quality{gpu.Good, gpu.Good, gpu.Doubtful, gpu.Good, gpu.Good} {
		d := played(i, func(s int, d *gpu.Device) { d.Thermal.GPU = celsius(temps[s]) })
		if d.Thermal.GPU.Quality() != want {
			t.Errorf("second %d: %v", i, d.Thermal.GPU)
		}
	}
	d := played(3, func(s int, d *gpu.Device) { d.Thermal.GPU = celsius([]float64{45, 45, 95, 96}[s]) })
	if d.Thermal.GPU != celsius(96) {
		t.Errorf("a second reading like the jump: %v", d.Thermal.GPU)
	}
	d = played(4, func(s int, d *gpu.Device) {
		d.Power.Energy = gpu.Of(gpu.Joules([]float64{1e6, 1e6 + 200, 1e6 + 400, 9e6, 9e6 + 100}[s]))
	})
	if d.Power.Energy.Quality() != gpu.Good {
		t.Errorf("energy after a leap: %v", d.Power.Energy)
	}
	d = played(3, func(s int, d *gpu.Device) {
		d.Power.Energy = gpu.Of(gpu.Joules([]float64{1e6, 1e6 + 200, 1e6 + 400, 9e6}[s]))
	})
	if d.Power.Energy.Quality() != gpu.Doubtful {
		t.Errorf("8 MJ in a second: %v", d.Power.Energy)
	}
}

// A power draw that stays the same while the work changes is not a measurement.
func TestAPowerThatStands(t *testing.T) {
	work := func(s int) float64 { return float64(s / 20 % 2 * 95) }
	same := played(90, func(s int, d *gpu.Device) { d.Power.Draw, d.Utilization.GPU = watts(121.5), percent(work(s)) })
	moves := played(90, func(s int, d *gpu.Device) { d.Power.Draw, d.Utilization.GPU = watts(50+work(s)), percent(work(s)) })
	rests := played(90, func(_ int, d *gpu.Device) { d.Power.Draw, d.Utilization.GPU = watts(9), percent(0) })
	if same.Power.Draw.Quality() != gpu.Doubtful || moves.Power.Draw.Quality() != gpu.Good || rests.Power.Draw.Quality() != gpu.Good {
		t.Errorf("%v, %v, %v", same.Power.Draw, moves.Power.Draw, rests.Power.Draw)
	}
}

// At rest, and at its limit, a device may draw the same whole watts for a long time.
func TestAPowerThatMayStand(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(s int, d *gpu.Device)
		want gpu.Quality
	}{
		"cools down after work": {func(s int, d *gpu.Device) { card(gpu.AMD, max(40, 85-float64(s)/2), 8, 327, 0, 30, 2500)(d) }, gpu.Good},
		"wakes now and then": {func(s int, d *gpu.Device) {
			card(gpu.AMD, 40, 5, 150, 0, 30, 2500)(d)
			if s%10 == 0 {
				card(gpu.AMD, 40, 5, 150, 45, 1150, 2500)(d)
			}
		}, gpu.Good},
		"its clocks move at rest": {func(s int, d *gpu.Device) { card(gpu.AMD, 40, 5, 150, 3, []float64{30, 1150}[s%2], 2500)(d) }, gpu.Good},
		"warms up at its limit":   {func(s int, d *gpu.Device) { card(gpu.AMD, min(75, 45+float64(s)/2), 203, 203, 99, 2100, 2500)(d) }, gpu.Good},
		"warms up below its limit": {func(s int, d *gpu.Device) { card(gpu.AMD, min(90, 45+float64(s)/2), 121.5, 203, 99, 2100, 2500)(d) },
			gpu.Doubtful},
		"says its limit also at rest": {func(s int, d *gpu.Device) { card(gpu.AMD, 50, 203, 203, float64(s/20%2*95), 2100, 2500)(d) }, gpu.Doubtful},
	} {
		if d := played(90, tt.set); d.Power.Draw.Quality() != tt.want {
			t.Errorf("%s: %v", name, d.Power.Draw)
		}
	}
}

// A device that is no longer listed is forgotten: another one may get its index.
func TestADeviceThatLeaves(t *testing.T) {
	j, fan := plausible.New(), gpu.Quality(0)
	for s := range 40 {
		all := []gpu.Device{{State: gpu.StateOK, SampledAt: start.Add(time.Duration(s) * time.Second)}}
		card(gpu.AMD, 78, 100, 300, 90, 2000, 2500)(&all[0])
		switch {
		case s < 10:
			all[0].Fans.Fans = []gpu.Fan{asked(50, 1700)}
		case s < 12:
			all = nil
		default:
			all[0].Fans.Fans = []gpu.Fan{asked(50, 0)}
		}
		j.Judge(all, 0)
		if s == 15 {
			fan = all[0].Fans.Fans[0].RPM.Quality()
		}
	}
	if fan != gpu.Doubtful {
		t.Errorf("the fan of another card: %v", fan)
	}
}

// Judging the same reading twice gives the same result, and counts it once.
func TestTheSameReadingTwice(t *testing.T) {
	j := plausible.New()
	for _, second := range []int{0, 1, 2, 2, 2} {
		all := []gpu.Device{{State: gpu.StateOK, SampledAt: start.Add(time.Duration(second) * time.Second)}}
		all[0].Thermal.GPU = celsius([]float64{40, 41, 110}[second])
		j.Judge(all, 0)
		if got := all[0].Thermal.GPU.Quality(); (second == 2) != (got == gpu.Doubtful) {
			t.Errorf("second %d: %v", second, got)
		}
	}
}

// The source's own result does not change: others may use it.
func TestListsAreCopied(t *testing.T) {
	fans := []gpu.Fan{{RPM: rpm(65535)}}
	processes := []gpu.Process{{Memory: gpu.Of[gpu.Bytes](1 << 61)}}
	d := once(func(d *gpu.Device) { d.Fans.Fans, d.Processes = fans, gpu.Of(processes) })
	if fans[0].RPM != rpm(65535) || d.Fans.Fans[0].RPM.Quality() != gpu.Implausible {
		t.Errorf("fans: %v, judged %v", fans[0].RPM, d.Fans.Fans[0].RPM)
	}
	if !processes[0].Memory.Present() || d.Processes.Or(nil)[0].Memory.Quality() != gpu.Implausible {
		t.Errorf("memory: %v, judged %v", processes[0].Memory, d.Processes.Or(nil)[0].Memory)
	}
}
