package plausible_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// card returns a fake card with these readings.
func card(vendor gpu.Vendor, temp, draw, limit, util, clock, top float64) func(d *gpu.Device) {
	return func(d *gpu.Device) {
		d.Vendor = vendor
		d.Thermal.GPU, d.Power.Draw, d.Power.EnforcedLimit = celsius(temp), watts(draw), watts(limit)
		d.Utilization.GPU = percent(util)
		d.Clocks.SM, d.Clocks.MaxSM = mhz(clock), mhz(top)
	}
}

// A reason counts if the readings confirm it, and not if they contradict it.
func TestReasons(t *testing.T) {
	const (
		heat, hardHeat, powerCap   = gpu.ReasonThermalSlowdown, gpu.ReasonHardwareThermal, gpu.ReasonPowerCap
		hard, brake, board, chip   = gpu.ReasonHardwareSlowdown, gpu.ReasonHardwarePowerBrake, gpu.ReasonBoardLimit, gpu.ReasonReliability
		idle                       = gpu.ReasonIdle
		nothing, whole, unknowable = 0, 1, 2
	)
	changed := func(change func(*gpu.Device), more ...func(*gpu.Device)) func(*gpu.Device) {
		return func(d *gpu.Device) {
			change(d)
			for _, m := range more {
				m(d)
			}
		}
	}
	without := func(which ...string) func(*gpu.Device) {
		return func(d *gpu.Device) {
			for _, w := range which {
				switch w {
				case "temp":
					d.Thermal = gpu.Thermal{}
				case "power":
					d.Power = gpu.Power{}
				case "clock":
					d.Clocks.SM, d.Clocks.MaxSM = gpu.Reading[gpu.Megahertz]{}, gpu.Reading[gpu.Megahertz]{}
				case "util":
					d.Utilization = gpu.Utilization{}
				}
			}
		}
	}
	named := func(name string) func(*gpu.Device) { return func(d *gpu.Device) { d.Name = name } }
	hotSpot := func(v float64) func(*gpu.Device) { return func(d *gpu.Device) { d.Thermal.HotSpot = celsius(v) } }
	slowsAt := func(v float64) func(*gpu.Device) { return func(d *gpu.Device) { d.Thermal.Slowdown = celsius(v) } }
	state := func(v int) func(*gpu.Device) { return func(d *gpu.Device) { d.Clocks.PerformanceState = gpu.Of(v) } }
	memory := func(v float64) func(*gpu.Device) { return func(d *gpu.Device) { d.Thermal.Memory = celsius(v) } }
	for name, tt := range map[string]struct {
		set     func(d *gpu.Device)
		reasons gpu.ClockEventReasons
		want    int
	}{
		"Radeon at rest, heat":                          {card(gpu.AMD, 38, 10, 327, 0, 5, 2500), heat, nothing},
		"GeForce at rest, heat":                         {card(gpu.NVIDIA, 34, 17, 450, 2, 210, 3105), heat | hardHeat | hard, nothing},
		"Radeon lightly loaded, heat":                   {card(gpu.AMD, 52, 60, 186, 20, 900, 2600), heat, nothing},
		"Radeon in a cool game, heat":                   {card(gpu.AMD, 58, 160, 230, 99, 1900, 2700), heat, nothing},
		"Radeon at its edge":                            {changed(card(gpu.AMD, 72, 290, 339, 98, 2010, 2525), hotSpot(110)), heat, whole},
		"Radeon at rest with hot memory":                {changed(card(gpu.AMD, 60, 35, 300, 0, 60, 2500), memory(97)), heat, whole},
		"GeForce at its target":                         {card(gpu.NVIDIA, 83, 231, 320, 99, 1440, 1900), heat, whole},
		"GeForce whose hot spot nobody sees":            {card(gpu.NVIDIA, 72, 168, 215, 98, 1390, 1900), heat, whole},
		"GeForce with cold sensors, far down":           {card(gpu.NVIDIA, 54, 215, 350, 100, 1005, 2100), heat, whole},
		"GeForce with cold sensors, at its power limit": {card(gpu.NVIDIA, 54, 348, 350, 100, 1005, 2100), heat, nothing},
		"laptop without a power sensor, held":           {changed(card(gpu.NVIDIA, 55, 0, 0, 100, 300, 2100), without("power")), hard | hardHeat, whole},
		"Radeon at full clocks, warm hot spot":          {changed(card(gpu.AMD, 75, 250, 327, 98, 2450, 2500), hotSpot(97)), heat, nothing},
		"Radeon at full clocks, warm edge":              {changed(card(gpu.AMD, 86, 300, 355, 99, 2500, 2500), slowsAt(100)), heat, nothing},
		"Radeon at its limit and full clocks":           {changed(card(gpu.AMD, 97, 300, 355, 99, 2500, 2500), slowsAt(100)), heat, whole},
		"passive card at rest, really hot":              {card(gpu.NVIDIA, 91, 30, 70, 0, 300, 1500), heat, whole},
		"Arc that cooks":                                {card(gpu.Intel, 98, 96, 190, 92, 1300, 2400), hardHeat, whole},
		"heat, without a temperature":                   {changed(card(gpu.AMD, 0, 100, 200, 98, 1300, 2500), without("temp")), heat, whole},
		"heat at rest, no temperature":                  {changed(card(gpu.AMD, 0, 8, 200, 0, 100, 2500), without("temp")), heat, nothing},
		"heat, only the draw":                           {changed(card(gpu.AMD, 0, 100, 200, 0, 0, 0), without("temp", "clock", "util")), heat, unknowable},
		"nothing can be read":                           {changed(card(gpu.NVIDIA, 0, 0, 0, 98, 0, 0), without("temp", "clock", "power")), heat | hard, whole},

		"60 of 186 W":                       {card(gpu.AMD, 52, 60, 186, 20, 900, 2600), powerCap, nothing},
		"60 of 186 W, busy at low clocks":   {card(gpu.AMD, 52, 60, 186, 97, 900, 2600), powerCap, nothing},
		"182 of 186 W":                      {card(gpu.AMD, 71, 182, 186, 99, 2300, 2600), powerCap, whole},
		"Arc at rest at 100 MHz":            {card(gpu.Intel, 41, 9, 190, 0, 100, 2400), powerCap, nothing},
		"Iris at rest, no sensors":          {changed(card(gpu.Intel, 0, 0, 0, 0, 100, 1400), without("temp", "power")), powerCap, nothing},
		"Iris at rest, nobody knows of use": {changed(card(gpu.Intel, 0, 0, 0, 0, 100, 1400), without("temp", "power", "util")), powerCap, nothing},
		"Iris at work, slowed":              {changed(card(gpu.Intel, 0, 0, 0, 98, 900, 1400), without("temp", "power")), powerCap, whole},
		"Arc at its limit":                  {card(gpu.Intel, 68, 165, 190, 97, 2700, 2850), powerCap, whole},
		"laptop on its battery":             {changed(card(gpu.NVIDIA, 55, 35, 115, 99, 900, 2400), named("NVIDIA GeForce RTX 4060 Laptop GPU")), powerCap, whole},
		"laptop, just above":                {changed(card(gpu.NVIDIA, 60, 35, 80, 99, 1300, 2100), named("NVIDIA GeForce RTX 3060 Laptop GPU")), powerCap, whole},
		"laptop by its number":              {changed(card(gpu.AMD, 60, 60, 145, 100, 1200, 2600), named("AMD Radeon RX 6800M")), powerCap, whole},
		"old laptop by its number":          {changed(card(gpu.NVIDIA, 60, 30, 80, 100, 700, 1900), named("NVIDIA GeForce GTX 960M")), powerCap, whole},
		"no laptop":                         {changed(card(gpu.NVIDIA, 60, 30, 80, 100, 1300, 1900), named("NVIDIA L40S")), powerCap, nothing},
		"70 % of the limit at high clocks":  {card(gpu.NVIDIA, 60, 220, 320, 98, 1980, 2100), powerCap, unknowable},
		"78 % of the limit at some work":    {card(gpu.NVIDIA, 60, 250, 320, 60, 1700, 2100), powerCap, unknowable},
		"70 % of the limit at little work":  {card(gpu.NVIDIA, 60, 220, 320, 30, 1980, 2100), powerCap, nothing},
		"capped to a third":                 {card(gpu.NVIDIA, 49, 148, 150, 98, 1290, 3105), powerCap, whole},
		"a limit that nobody says":          {changed(card(gpu.AMD, 60, 640, 0, 98, 2090, 2100), func(d *gpu.Device) { d.Power.EnforcedLimit = gpu.Reading[gpu.Watts]{} }), powerCap, whole},
		"neither limit nor clocks":          {changed(card(gpu.NVIDIA, 60, 30, 0, 98, 0, 0), without("clock"), func(d *gpu.Device) { d.Power.EnforcedLimit = gpu.Reading[gpu.Watts]{} }), powerCap, unknowable},

		"brake": {card(gpu.NVIDIA, 43, 61, 350, 99, 210, 1900), hard | brake, whole},
		"brake of a divided card, nobody knows of work": {changed(card(gpu.NVIDIA, 40, 75, 400, 0, 210, 1410), without("util"), state(0)), hard | brake, unknowable},
		"the same, and nobody is listed": {changed(card(gpu.NVIDIA, 40, 75, 400, 0, 210, 1410), without("util"), state(0), func(d *gpu.Device) {
			d.Modes.MIG, d.Processes, d.ProcessesPartial = gpu.Of(true), uses(), gpu.Of(false)
		}), hard | brake, unknowable},
		"laptop without a power sensor, held, and nobody is listed": {changed(card(gpu.NVIDIA, 55, 0, 0, 100, 300, 2100), without("power"), func(d *gpu.Device) {
			d.Processes, d.ProcessesPartial = uses(), gpu.Of(false)
		}), hard | hardHeat, whole},
		"hardware with little work, slow": {changed(card(gpu.NVIDIA, 40, 30, 320, 10, 300, 2100), state(0)), hard, whole},
		"hardware at rest, slow":          {changed(card(gpu.NVIDIA, 40, 30, 320, 1, 300, 2100), state(0)), hard, nothing},
		"brake at full clocks":            {card(gpu.NVIDIA, 66, 320, 350, 99, 1890, 1900), hard | brake, nothing},
		"brake at rest":                   {card(gpu.NVIDIA, 33, 20, 350, 0, 210, 1900), hard | brake, nothing},
		"hardware alone, slow":            {card(gpu.NVIDIA, 60, 90, 350, 99, 600, 1900), hard, whole},
		"current at rest":                 {card(gpu.AMD, 40, 12, 300, 1, 50, 2500), board | chip, nothing},
		"current at light load":           {card(gpu.AMD, 50, 60, 300, 30, 900, 2500), board, nothing},
		"current at full load":            {card(gpu.AMD, 70, 285, 300, 99, 2300, 2500), board, whole},
		"idle stays":                      {card(gpu.NVIDIA, 34, 17, 450, 0, 210, 3105), idle, whole},
		"a stuck counter beside a draw":   {changed(card(gpu.NVIDIA, 32, 11, 145, 100, 300, 2600), func(d *gpu.Device) { d.Processes, d.ProcessesPartial = uses(2), gpu.Of(false) }), hard | heat | powerCap, nothing},
		"a stuck counter is no work":      {changed(card(gpu.AMD, 44, 7, 300, 100, 200, 2500), without("power"), func(d *gpu.Device) { d.Processes, d.ProcessesPartial = uses(1), gpu.Of(false) }), hard, nothing},
	} {
		d := played(5, func(_ int, d *gpu.Device) { tt.set(d); d.Clocks.EventReasons = gpu.Of(tt.reasons) })
		want := map[int]gpu.Reading[gpu.ClockEventReasons]{
			nothing: gpu.Of(gpu.ClockEventReasons(0)), whole: gpu.Of(tt.reasons), unknowable: {},
		}[tt.want]
		if got := d.Clocks.EventReasons; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A flag that is always set is not believed again at the first work, but still if a sensor is at its limit.
func TestAFlagThatIsStuck(t *testing.T) {
	busy := func(temp float64) gpu.Device {
		return played(90, func(s int, d *gpu.Device) {
			card(gpu.AMD, 40, 12, 300, 0, 50, 2900)(d)
			if s >= 60 {
				card(gpu.AMD, temp, 250, 300, 97, 2300, 2900)(d)
				d.Thermal.HotSpot = celsius(temp + 12)
			}
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
		})
	}
	if d := busy(72); d.Clocks.EventReasons.Or(1) != 0 {
		t.Errorf("at 72 °C: %v", d.Clocks.EventReasons)
	}
	if d := busy(96); d.Clocks.EventReasons != gpu.Of(gpu.ReasonThermalSlowdown) {
		t.Errorf("at 96 °C: %v", d.Clocks.EventReasons)
	}
}

// Cold sensors alone don't make a flag stuck while the device is held down.
func TestAFlagOfACardThatWarms(t *testing.T) {
	d := played(60, func(s int, d *gpu.Device) {
		card(gpu.NVIDIA, min(72, 50+float64(s)/2), 200, 320, 100, 1600, 2100)(d)
		d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
	})
	if d.Clocks.EventReasons != gpu.Of(gpu.ReasonThermalSlowdown) {
		t.Errorf("%v", d.Clocks.EventReasons)
	}
}

// A limit that is not reported, on a card whose flag comes and goes.
func TestAFlagThatLives(t *testing.T) {
	d := played(60, func(s int, d *gpu.Device) {
		card(gpu.NVIDIA, 66, 280, 350, 99, 1850, 1900)(d)
		d.Clocks.EventReasons = gpu.Of(gpu.ClockEventReasons(0))
		if s >= 30 {
			card(gpu.NVIDIA, 60, 120, 350, 99, 900, 1900)(d)
			d.Clocks.EventReasons = gpu.Of(gpu.ReasonPowerCap)
		}
	})
	if d.Clocks.EventReasons != gpu.Of(gpu.ReasonPowerCap) {
		t.Errorf("%v", d.Clocks.EventReasons)
	}
}
