package attribute_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// reading returns one reading of a device, in seconds after noon.
func reading(second float64, util gpu.Percent, watts gpu.Watts) *gpu.Device {
	d := &gpu.Device{State: gpu.StateOK, SampledAt: noon.Add(time.Duration(second * float64(time.Second)))}
	d.Utilization.GPU, d.Power.Draw = gpu.Of(util), gpu.Of(watts)
	return d
}

func TestFloor(t *testing.T) {
	type step struct {
		util  gpu.Percent
		watts gpu.Watts
		times int // every two seconds
	}
	tests := map[string]struct {
		steps []step
		want  float64 // 0: not known
	}{
		"at rest":                      {[]step{{0, 20, 6}}, 20},
		"too short":                    {[]step{{0, 20, 5}}, 0},
		"work":                         {[]step{{90, 300, 60}}, 0},
		"a desktop's drawing":          {[]step{{2, 24, 8}}, 24},
		"rest after work":              {[]step{{90, 300, 9}, {0, 120, 2}, {0, 80, 2}, {0, 60, 2}, {0, 40, 2}, {0, 21, 8}}, 21},
		"held awake, then let go":      {[]step{{0, 63, 20}, {0, 21, 20}}, 21},
		"let go, then held awake":      {[]step{{0, 21, 20}, {0, 63, 20}}, 21},
		"never steady":                 {[]step{{0, 20, 1}, {0, 40, 1}, {0, 20, 1}, {0, 40, 1}, {0, 20, 1}, {0, 40, 1}, {0, 20, 1}}, 0},
		"one low reading":              {[]step{{0, 20, 10}, {0, 3, 1}, {0, 20, 10}}, 20},
		"a sensor that says zero":      {[]step{{0, 0, 20}}, 0},
		"work between":                 {[]step{{0, 20, 3}, {50, 20, 1}, {0, 20, 3}}, 0},
		"a slow fall is followed":      {[]step{{0, 30, 40}, {0, 29, 40}, {0, 28, 40}, {0, 27, 40}}, 27},
		"a number that is none":        {[]step{{0, gpu.Watts(math.NaN()), 9}}, 0},
		"a number that is none at all": {[]step{{0, gpu.Watts(math.Inf(1)), 9}}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f attribute.Floor
			second := 0.0
			for _, s := range tt.steps {
				for range s.times {
					f.Observe(reading(second, s.util, s.watts))
					second += 2
				}
			}
			if got := float64(f.Watts.Or(0)); math.Abs(got-tt.want) > 0.01 {
				t.Errorf("floor = %v, want %v", f.Watts, tt.want)
			}
		})
	}
}

// Only idle readings teach a floor.
func TestFloorLearnsOfIdleReadingsAlone(t *testing.T) {
	for name, change := range map[string]func(d *gpu.Device){
		"doubtful":     func(d *gpu.Device) { d.Power.Draw = gpu.DoubtfulOf[gpu.Watts](20) },
		"not reported": func(d *gpu.Device) { d.Power.Draw = gpu.Reading[gpu.Watts]{} },
		"encodes":      func(d *gpu.Device) { d.Utilization.Encoder = gpu.Of[gpu.Percent](30) },
		"decodes":      func(d *gpu.Device) { d.Utilization.Decoder = gpu.Of[gpu.Percent](30) },
		"a process works": func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, SM: gpu.Of[gpu.Percent](40)}})
		},
		"nothing says that no work runs": func(d *gpu.Device) { d.Utilization.GPU = gpu.Reading[gpu.Percent]{} },
		"MIG with a process": func(d *gpu.Device) {
			d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
			d.Processes = gpu.Of([]gpu.Process{{PID: 1}})
		},
		"held awake": func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](0)}})
			d.Clocks.PerformanceState, d.Clocks.EventReasons = gpu.Of(0), gpu.Of(gpu.ReasonPowerCap)
		},
		"the same reading again": func(d *gpu.Device) { d.SampledAt = noon },
	} {
		var f attribute.Floor
		for i := range 20 {
			d := reading(float64(i), 0, 20)
			change(d)
			f.Observe(d)
		}
		if f.Watts.Present() {
			t.Errorf("%s: floor = %v", name, f.Watts)
		}
	}
	var f attribute.Floor
	for i := range 20 { // MIG mode, with nobody in an instance
		d := reading(float64(i), 0, 20)
		d.Utilization.GPU = gpu.Absent[gpu.Percent](gpu.NotSupported)
		d.Processes = gpu.Of([]gpu.Process{})
		f.Observe(d)
	}
	if f.Watts != gpu.Of[gpu.Watts](20) {
		t.Errorf("MIG without processes: floor = %v", f.Watts)
	}
	for name, change := range map[string]func(d *gpu.Device){
		"in a slow state":   func(d *gpu.Device) { d.Clocks.PerformanceState = gpu.Of(8) },
		"as it says itself": func(d *gpu.Device) { d.Clocks.EventReasons = gpu.Of(gpu.ReasonIdle) },
		"with a desktop": func(d *gpu.Device) {
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeGraphics, SM: gpu.Of[gpu.Percent](1)}})
		},
	} {
		var f attribute.Floor
		for i := range 20 {
			d := reading(float64(i), 0, 20)
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeCompute, SM: gpu.Of[gpu.Percent](0)}})
			change(d)
			f.Observe(d)
		}
		if f.Watts != gpu.Of[gpu.Watts](20) {
			t.Errorf("at rest %s, with a context: floor = %v", name, f.Watts)
		}
	}
}

func TestFloorsAreEachDevicesOwn(t *testing.T) {
	var floors attribute.Floors
	var noted *gpu.Snapshot
	for i := range 10 {
		a, b, lost := reading(float64(2*i), 0, 20), reading(float64(2*i), 0, 70), reading(float64(2*i), 0, 5)
		a.UUID, b.UUID, lost.UUID = "GPU-1", "GPU-1", "GPU-2"
		a.Node, b.Node = "n1", "n2" // two machines made from one image
		if i > 2 {
			lost.State = gpu.StateLost
		}
		s := &gpu.Snapshot{Seq: uint64(i), Devices: []gpu.Device{*a, *b, *lost}}
		noted = floors.Note(s)
		if s.Devices[0].IdleFloor.Present() || noted == s || noted.Seq != s.Seq {
			t.Fatal("the snapshot itself was changed")
		}
	}
	got := [3]gpu.Reading[gpu.Watts]{noted.Devices[0].IdleFloor, noted.Devices[1].IdleFloor, noted.Devices[2].IdleFloor}
	if want := [3]gpu.Reading[gpu.Watts]{gpu.Of[gpu.Watts](20), gpu.Of[gpu.Watts](70)}; got != want {
		t.Errorf("floors = %v, want %v", got, want)
	}
	// A lost device keeps its floor.
	gone := &gpu.Snapshot{Devices: []gpu.Device{{Identity: gpu.Identity{UUID: "GPU-1", Node: "n1"}, State: gpu.StateLost}}}
	if floor := floors.Note(gone).Devices[0].IdleFloor; floor != gpu.Of[gpu.Watts](20) {
		t.Errorf("floor of a lost device = %v", floor)
	}
}

func TestFloorsFromSeveralGoroutines(t *testing.T) {
	var floors attribute.Floors
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				d := reading(float64(i), 0, 20)
				floors.Note(&gpu.Snapshot{Devices: []gpu.Device{*d}})
			}
		})
	}
	wg.Wait()
	s := floors.Note(&gpu.Snapshot{Devices: []gpu.Device{*reading(60, 0, 20)}})
	if s.Devices[0].IdleFloor != gpu.Of[gpu.Watts](20) {
		t.Errorf("floor = %v", s.Devices[0].IdleFloor)
	}
}

// AMD and Intel have no performance states: their clocks show whether a process with a context lets the device rest.
func TestFloorByClocks(t *testing.T) {
	for clock, known := range map[gpu.Megahertz]bool{100: true, 2100: false} {
		var f attribute.Floor
		for second := range 20 {
			d := reading(float64(second), 0, 20)
			d.Vendor, d.Clocks.Graphics, d.Clocks.MaxGraphics = gpu.AMD, gpu.Of(clock), gpu.Of[gpu.Megahertz](2500)
			d.Processes = gpu.Of([]gpu.Process{{PID: 1, Type: gpu.TypeCompute, SM: gpu.Absent[gpu.Percent](gpu.NotSupported)}})
			f.Observe(d)
		}
		if f.Watts.Present() != known {
			t.Errorf("at %v MHz the floor is %v", clock, f.Watts)
		}
	}
}

// A new floor is reported at once, so that it can be kept, and again when it has become much lower.
func TestAFloorIsToldOfWhenItIsLearned(t *testing.T) {
	told, second := 0, 0.0
	f := attribute.Floors{Learned: func() { told++ }}
	for _, step := range []struct {
		watts gpu.Watts
		want  int
	}{{40, 1}, {39.5, 1}, {60, 1}, {21, 2}} {
		for range 15 {
			d := reading(second, 0, step.watts)
			d.UUID, d.Node, d.Source = "GPU-1", "desk", gpu.SourceNVML
			f.Note(&gpu.Snapshot{Devices: []gpu.Device{*d}})
			second++
		}
		if told != step.want {
			t.Errorf("at %v: told of %d times, want %d", step.watts, told, step.want)
		}
	}
	var again attribute.Floors
	if err := restore(&again, kept(t, &f), noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	again.Learned = func() { t.Error("what was kept is told of") }
	floorOf(&again, gpu.SourceNVML)
}
