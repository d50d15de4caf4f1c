package gpu

import (
	"testing"
)

func ok(uuid string, change func(*Device)) Device {
	d := Device{Identity: Identity{UUID: uuid}, State: StateOK}
	if change != nil {
		change(&d)
	}
	return d
}

func TestStatus(t *testing.T) {
	lost := Device{State: StateLost}
	asleep := Device{State: StateAsleep}
	for _, tt := range []struct {
		name string
		s    *Snapshot
		want Status
	}{
		{"before the first", nil, StatusStarting},
		{"none", &Snapshot{Failures: []Failure{{}}}, StatusNoGPU},
		{"one", &Snapshot{Devices: []Device{ok("a", nil)}}, StatusOK},
		{"one asleep", &Snapshot{Devices: []Device{ok("a", nil), asleep}}, StatusOK},
		{"one lost", &Snapshot{Devices: []Device{ok("a", nil), lost}}, StatusDegraded},
		{"one source failed", &Snapshot{Devices: []Device{ok("a", nil)}, Failures: []Failure{{}}}, StatusDegraded},
	} {
		if got := tt.s.Status(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTotals(t *testing.T) {
	s := &Snapshot{Devices: []Device{
		ok("a", func(d *Device) {
			d.Utilization.GPU = Of[Percent](0)
			d.Memory.Used, d.Memory.Total = Of[Bytes](10), Of[Bytes](100)
			d.Power.Draw = Of[Watts](50)
			d.Thermal.GPU = Of[Celsius](40)
			d.Processes = Of([]Process{{PID: 1}})
		}),
		ok("b", func(d *Device) {
			d.Utilization.GPU = Of[Percent](90)
			d.Thermal.GPU = Of[Celsius](60)
		}),
		ok("c", nil), // reports nothing
		ok("d", func(d *Device) { // and this one nothing that can be right
			d.Utilization.GPU = DoubtfulOf[Percent](100)
			d.Memory.Used = DoubtfulOf[Bytes](1 << 60)
			d.Memory.Total = DoubtfulOf[Bytes](100)
			d.Power.Draw = DoubtfulOf[Watts](4e6)
			d.Thermal.GPU = DoubtfulOf[Celsius](5000)
		}),
		ok("e", func(d *Device) { d.Shared.Unified, d.Shared.Used = Of(true), Of[Bytes](1<<30) }),
		ok("f", func(d *Device) { d.Shared.Unified, d.Memory.Total = Of(true), Of[Bytes](100) }), // set apart for it
		{State: StateLost, Readings: Readings{Power: Power{Draw: Of[Watts](1000)}}},
	}}
	got := Nodes{s}.Totals()
	want := Totals{
		Devices: 7, Answering: 6, Busy: 1, Processes: 1, Unified: 1,
		MemoryUsed: Of[Bytes](10), MemoryTotal: Of[Bytes](200), MemoryShare: Of[Percent](10), PowerDraw: Of[Watts](50),
		Utilization: Of[Percent](45), MemoryUtilization: Of[Percent](10),
		Temperature: Of[Celsius](50), MaxTemperature: Of[Celsius](60),
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if empty := (Nodes{{Devices: []Device{ok("c", nil)}}}).Totals(); empty.PowerDraw.Present() || empty.Utilization.Present() || empty.MaxTemperature.Present() {
		t.Errorf("a sum over nothing is a number: %+v", empty)
	}
}

// Each process counts in the instance that it names, once.
func TestInstancesOfProcesses(t *testing.T) {
	in := func(pid, gi, ci int) Process {
		return Process{PID: pid, GPUInstance: Of(gi), ComputeInstance: Of(ci)}
	}
	a, b := Instance{GPUInstance: Of(1), ComputeInstance: Of(0)}, Instance{GPUInstance: Of(2), ComputeInstance: Of(1)}
	for name, tt := range map[string]struct {
		list    Reading[[]Process]
		partial bool
		want    [2]Reading[int]
	}{
		"one each":              {Of([]Process{in(1, 1, 0), in(1, 1, 0), in(2, 2, 1), in(3, 2, 0)}), false, [2]Reading[int]{Of(1), Of(1)}},
		"nobody":                {Of([]Process{}), false, [2]Reading[int]{Of(0), Of(0)}},
		"they name no instance": {Of([]Process{{PID: 1}}), false, [2]Reading[int]{}},
		"some are hidden":       {Of([]Process{in(1, 1, 0)}), true, [2]Reading[int]{}},
		"not listed":            {Absent[[]Process](NotPermitted), false, [2]Reading[int]{Absent[int](NotPermitted), Absent[int](NotPermitted)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Readings{Processes: tt.list, ProcessesPartial: Of(tt.partial), Instances: []Instance{a, b}}
			r.CountProcesses()
			if got := [2]Reading[int]{r.Instances[0].Processes, r.Instances[1].Processes}; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReading(t *testing.T) {
	var none Reading[int]
	if v, ok := none.Get(); ok || v != 0 || none.Quality() != NotReported || none.Or(7) != 7 {
		t.Errorf("the zero reading is %v", none)
	}
	if v, ok := Of(0).Get(); !ok || v != 0 {
		t.Error("a reported 0 is not there")
	}
	if r := DoubtfulOf(600); !r.Present() || r.String() != "600 (doubtful)" {
		t.Errorf("doubtful: %v", r)
	}
	if r := Map(Absent[int](NotPermitted), func(int) string { return "x" }); r.Present() || r.Quality() != NotPermitted {
		t.Errorf("mapped: %v", r)
	}
	defer func() {
		if recover() == nil {
			t.Error("an absent reading can be good")
		}
	}()
	Absent[int](Good)
}

func TestCommandedFan(t *testing.T) {
	fan := func(r Reading[Percent]) Fan { return Fan{Commanded: r} }
	for _, tt := range []struct {
		name string
		fans Fans
		want Reading[Percent]
	}{
		{"nothing known", Fans{}, Reading[Percent]{}},
		{"no fan", Fans{Count: Of(0)}, Absent[Percent](NotSupported)},
		{"fans not offered", Fans{Count: Absent[int](NotSupported)}, Absent[Percent](NotSupported)},
		{"the fastest", Fans{Fans: []Fan{fan(Of[Percent](0)), fan(Of[Percent](30)), fan(Absent[Percent](NotPermitted))}}, Of[Percent](30)},
		{"standing still", Fans{Fans: []Fan{fan(Absent[Percent](NotPermitted)), fan(Of[Percent](0))}}, Of[Percent](0)},
		{"not permitted", Fans{Fans: []Fan{fan(Absent[Percent](NotPermitted))}}, Absent[Percent](NotPermitted)},
	} {
		if got := tt.fans.Commanded(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
