//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func fieldOfType(kind uint32, value [8]byte) nvml.FieldValue {
	return nvml.FieldValue{ValueType: kind, Value: value}
}

func TestProcessLists(t *testing.T) {
	const gib = 1 << 30
	type row struct {
		PID    int
		Type   gpu.ProcessType
		Memory string
		SM     string
	}
	tests := map[string]struct {
		processes []fakenvml.Process
		want      []row
	}{
		"none": {nil, []row{}},
		"busiest first": {
			[]fakenvml.Process{
				{PID: 10, Type: "compute", Memory: gib},
				{PID: 11, Type: "compute", Memory: 2 * gib},
				{PID: 9, Type: "compute", Memory: gib},
				{PID: 12, Type: "compute", Memory: 1, SM: 80},
			},
			[]row{{12, gpu.TypeCompute, "1", "80"}, {11, gpu.TypeCompute, "2147483648", "0"}, {9, gpu.TypeCompute, "1073741824", "0"}, {10, gpu.TypeCompute, "1073741824", "0"}},
		},
		"unknown memory hides nobody": {
			[]fakenvml.Process{{PID: 10, Type: "compute", Memory: fakenvml.NotAvailable, SM: 5}, {PID: 11, Type: "graphics", Memory: 7}},
			[]row{{10, gpu.TypeCompute, "not_reported", "5"}, {11, gpu.TypeGraphics, "7", "0"}},
		},
		"absurd rows hide nobody": {
			[]fakenvml.Process{{PID: 0, Type: "compute", Memory: 1}, {PID: 4_000_000_000, Type: "compute", Memory: 1}, {PID: 11, Type: "compute", Memory: 7}},
			[]row{{11, gpu.TypeCompute, "7", "0"}},
		},
		"more than the card has": {
			[]fakenvml.Process{{PID: 10, Type: "compute", Memory: 100 * gib}, {PID: 11, Type: "compute", Memory: gib}},
			[]row{{11, gpu.TypeCompute, "1073741824", "0"}, {10, gpu.TypeCompute, "107374182400 (doubtful)", "0"}},
		},
		"in several lists": {
			[]fakenvml.Process{
				{PID: 10, Type: "compute", Memory: 5}, {PID: 10, Type: "graphics", Memory: 5},
				{PID: 11, Type: "compute", Memory: 4}, {PID: 11, Type: "mps", Memory: fakenvml.NotAvailable},
			},
			[]row{{10, gpu.TypeComputeGraphics, "5", "0"}, {11, gpu.TypeMPS, "4", "0"}},
		},
		"five digits": {
			[]fakenvml.Process{{PID: 10, Type: "compute", Memory: 5, SM: 54321}, {PID: 11, Type: "compute", Memory: 4, SM: 30}},
			[]row{{11, gpu.TypeCompute, "4", "30"}, {10, gpu.TypeCompute, "5", "100 (doubtful)"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090())
			m.GPU(0).SetProcesses(tt.processes...)
			processes, ok := readOne(t, source(t, m)).Processes.Get()
			if !ok {
				t.Fatal("no process list")
			}
			got := []row{}
			for _, p := range processes {
				got = append(got, row{p.PID, p.Type, p.Memory.String(), p.SM.String()})
				if p.GPUInstance.Present() || p.ComputeInstance.Present() {
					t.Errorf("process %d is in instance %v.%v, and there is no MIG", p.PID, p.GPUInstance, p.ComputeInstance)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyProcesses(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	var many []fakenvml.Process
	for i := range uint32(300) {
		many = append(many, fakenvml.Process{PID: 1000 + i, Type: "compute", Memory: 1, SM: 1})
	}
	m.GPU(0).SetProcesses(many...)
	d := readOne(t, source(t, m))
	if got := len(d.Processes.Or(nil)); got != len(many) {
		t.Errorf("%d processes, want %d", got, len(many))
	}
	for _, p := range d.Processes.Or(nil) {
		if p.SM != gpu.Of(gpu.Percent(1)) {
			t.Fatalf("process %d uses %v, want 1", p.PID, p.SM)
		}
	}
}

// TestRowWidths checks rows of undocumented widths that drivers have written.
func TestRowWidths(t *testing.T) {
	for _, width := range []int{16, 24, 32} {
		for _, n := range []uint32{1, 2, 3, 70} {
			t.Run(fmt.Sprintf("%d rows of %d bytes", n, width), func(t *testing.T) { rowsOfWidth(t, n, width) })
		}
	}
}

func rowsOfWidth(t *testing.T, n uint32, width int) {
	m := machine(t, fakenvml.H100())
	m.SetProcessRow(width)
	var rows []fakenvml.Process
	var want []int
	for i := range n {
		rows = append(rows, fakenvml.Process{PID: 100 + i, Type: "compute", Memory: mib, MIG: true, GPUInstance: 3, ComputeInstance: 1})
		want = append(want, int(100+i))
	}
	m.GPU(0).SetProcesses(rows...)
	d := readOne(t, source(t, m))
	got := pids(*d)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("pids %v, want %v", got, want)
	}
	p := d.Processes.Or(nil)[0]
	if p.Memory != gpu.Of(gpu.Bytes(mib)) || p.GPUInstance.Present() != (width >= 24) || p.GPUInstance.Or(3) != 3 {
		t.Errorf("the first row is %+v", p)
	}
}

func TestSplitRows(t *testing.T) {
	for _, width := range []int{16, 24, 32} {
		for count := range 5 {
			buf := make([]byte, firstRows*widest)
			for i := range buf {
				buf[i] = unwritten
			}
			for i := range count {
				row := buf[i*width : (i+1)*width]
				clear(row)
				binary.NativeEndian.PutUint32(row, uint32(i+1))
				binary.NativeEndian.PutUint64(row[8:], math.MaxUint64)
			}
			rows := splitRows(buf, count, nil)
			if len(rows) != count {
				t.Fatalf("%d rows of %d bytes read as %d", count, width, len(rows))
			}
			for i, r := range rows {
				if r.pid != uint32(i+1) || r.memory != math.MaxUint64 || (r.gpuInstance == 0) != (width > 16) {
					t.Errorf("row %d of %d bytes: %+v", i, width, r)
				}
			}
		}
	}
}

func TestProcessListQuality(t *testing.T) {
	lists := []string{
		"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
	}
	t.Run("forbidden", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		m.Answer(int(noPermission), lists...)
		if d := readOne(t, source(t, m)); d.Processes.Quality() != gpu.NotPermitted {
			t.Errorf("processes %v, want not_permitted", d.Processes)
		}
	})
	t.Run("not offered", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090().Without(keyProcessLists))
		if d := readOne(t, source(t, m)); d.Processes.Quality() != gpu.NotSupported {
			t.Errorf("processes %v, want not_supported", d.Processes)
		}
	})
	t.Run("one list of three", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		m.Answer(int(noPermission), lists[1:]...)
		m.GPU(0).SetProcesses(fakenvml.Process{PID: 5, Type: "compute"})
		if d := readOne(t, source(t, m)); len(d.Processes.Or(nil)) != 1 {
			t.Errorf("processes %v, want the one of the list that answers", d.Processes)
		}
	})
	t.Run("no samples", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090().Without(keyProcessSamples))
		d := readOne(t, source(t, m))
		if p := d.Processes.Or(nil); len(p) != 1 || p[0].SM.Quality() != gpu.NotSupported {
			t.Errorf("processes %+v, want one whose share is not_supported", p)
		}
	})
}

func TestSamples(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) uint64 { return uint64(now.Add(-d).UnixMicro()) }
	const window = 5 * time.Second
	use := func(s *samples, pid int) string {
		p := gpu.Process{PID: pid}
		s.fill(&p, gpu.Good)
		return p.SM.String()
	}
	t.Run("older than the window", func(t *testing.T) {
		s := newSamples(window)
		s.add(now, []rawSample{{Pid: 1, TimeStamp: ago(6 * time.Second), SmUtil: 90}})
		if got := use(&s, 1); got != "0" {
			t.Errorf("an old sample reads as %s, want 0", got)
		}
	})
	t.Run("the newest of a process counts", func(t *testing.T) {
		s := newSamples(window)
		s.add(now, []rawSample{{Pid: 1, TimeStamp: ago(time.Second), SmUtil: 30}, {Pid: 1, TimeStamp: ago(2 * time.Second), SmUtil: 90}})
		if got := use(&s, 1); got != "30" {
			t.Errorf("reads as %s, want 30", got)
		}
	})
	t.Run("kept until it falls out", func(t *testing.T) {
		s := newSamples(window)
		s.add(now, []rawSample{{Pid: 1, TimeStamp: ago(0), SmUtil: 30}})
		s.add(now.Add(window), nil)
		if got := use(&s, 1); got != "30" {
			t.Errorf("within the window it reads as %s, want 30", got)
		}
		s.add(now.Add(window+time.Microsecond), nil)
		if got := use(&s, 1); got != "0" {
			t.Errorf("after the window it reads as %s, want 0", got)
		}
	})
	t.Run("what is asked for", func(t *testing.T) {
		s := newSamples(window)
		if got := s.since(now); got != ago(window) {
			t.Errorf("first %d, want the window's beginning %d", got, ago(window))
		}
		s.add(now, []rawSample{{Pid: 1, TimeStamp: ago(time.Second)}})
		if got := s.since(now); got != ago(time.Second) {
			t.Errorf("then %d, want the newest stamp %d", got, ago(time.Second))
		}
		if got := s.since(now.Add(time.Hour)); got != uint64(now.Add(time.Hour-window).UnixMicro()) {
			t.Errorf("after a pause %d, want the window's beginning", got)
		}
	})
	t.Run("a stamp of the future", func(t *testing.T) {
		s := newSamples(window)
		s.add(now, []rawSample{{Pid: 1, TimeStamp: math.MaxUint64, SmUtil: 30}})
		if got := s.since(now); got != ago(window) || use(&s, 1) != "0" {
			t.Errorf("it counts: asks since %d, reads as %s", got, use(&s, 1))
		}
	})
	for _, step := range []time.Duration{2 * time.Second, time.Hour} {
		t.Run(fmt.Sprint("the clock is set back by ", step), func(t *testing.T) { samplesOfAClockSetBack(t, now, step) })
	}
	t.Run("no process", func(t *testing.T) {
		s := newSamples(window)
		s.add(now, []rawSample{{Pid: 0, TimeStamp: ago(0), SmUtil: 30}})
		if len(s.newest) != 0 {
			t.Error("a sample of pid 0 is kept")
		}
	})
}

// samplesOfAClockSetBack checks samples after the clock is set back: kept samples, and stamps that the driver remembers, then lie in the
// future. Neither is current, and until a window has passed, a missing sample does not mean 0 either.
func samplesOfAClockSetBack(t *testing.T, before time.Time, step time.Duration) {
	const window = 5 * time.Second
	sample := func(pid uint32, sampled time.Time, sm uint32) rawSample {
		return rawSample{Pid: pid, TimeStamp: uint64(sampled.UnixMicro()), SmUtil: sm}
	}
	s := newSamples(window)
	check := func(when, known, fresh string) {
		t.Helper()
		for pid, want := range map[int]string{1: known, 2: fresh} {
			p := gpu.Process{PID: pid}
			s.fill(&p, gpu.Good)
			if got := p.SM.String(); got != want {
				t.Errorf("%s process %d reads as %s, want %s", when, pid, got, want)
			}
		}
	}
	old := []rawSample{sample(1, before.Add(-step-time.Second), 70), sample(1, before.Add(-step+time.Second), 80), sample(1, before, 90)}
	s.add(before, old)
	check("before,", "90", "0")

	now := before.Add(-step)
	if got, want := s.since(now), uint64(now.Add(-window).UnixMicro()); got != want {
		t.Errorf("asks since %d, want the window's beginning %d", got, want)
	}
	s.add(now, old)
	check("at once,", "not_reported", "not_reported")
	s.add(now.Add(time.Second), append(old, sample(1, now.Add(500*time.Millisecond), 30)))
	check("with a new sample,", "30", "not_reported")
	s.add(now.Add(2*time.Second), append(old, sample(1, now.Add(1500*time.Millisecond), 31)))
	check("beside old stamps that are not ahead any more,", "31", "not_reported")
	s.add(now.Add(window), old)
	check("after a window,", "31", "0")
	s.add(now.Add(2*window), old)
	check("after two,", "0", "0")
}

// TestSamplesAcrossReadings checks close readings: the driver returns each sample only once.
func TestSamplesAcrossReadings(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	m.GPU(0).SetProcesses(fakenvml.Process{PID: 7, Type: "compute", Memory: 1, SM: 42, Sampled: clockOf(s).Now().Add(-time.Second)})
	m.GPU(0).Set("sample001", fmt.Sprint(8, clockOf(s).Now().Add(-time.Hour).UnixMicro(), 99, 0, 0, 0)) // of an ended process
	for range 2 {
		p := readOne(t, s).Processes.Or(nil)
		if len(p) != 1 || p[0].SM != gpu.Of(gpu.Percent(42)) {
			t.Errorf("processes %+v, want one that uses 42 %%", p)
		}
	}
}

func TestInstanceProcesses(t *testing.T) {
	m := machine(t, fakenvml.H100())
	setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG 1", GPUInstance: 7})
	m.GPU(0).Set("processes", fakenvml.Error(int(noPermission)))
	m.GPU(0).Set("mig0.processes", 1)
	m.GPU(0).Set("mig0.process000", "compute 4242 1048576 7 0")
	d := readOne(t, source(t, m))
	p := d.Processes.Or(nil)
	if len(p) != 1 || p[0].PID != 4242 || p[0].GPUInstance != gpu.Of(7) || d.ProcessesPartial != gpu.Of(true) {
		t.Errorf("processes %+v (partial: %v), want the instance's 4242, and that others may be hidden", p, d.ProcessesPartial)
	}
}
