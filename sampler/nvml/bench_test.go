//go:build linux && cgo

package nvml

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// rack returns a server with eight cards, and four processes on each.
func rack(tb testing.TB) *fakenvml.Machine {
	var gpus []fakenvml.GPU
	for i := range 8 {
		gpus = append(gpus, fakenvml.H100().At(0x18+8*i))
	}
	m := machine(tb, gpus...)
	for _, d := range m.GPUs {
		var processes []fakenvml.Process
		for pid := range uint32(4) {
			processes = append(processes, fakenvml.Process{PID: 1000 + pid, Type: "compute", Memory: 1 << 30, SM: 20})
		}
		d.SetProcesses(processes...)
	}
	return m
}

// BenchmarkRead8 reads eight cards as the sampler does.
func BenchmarkRead8(b *testing.B) {
	m := rack(b)
	s := source(b, m)
	read(b, s)
	calls := m.Calls()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.Calls()-calls)/float64(b.N), "calls/op")
}

// BenchmarkBareCalls8 makes the same calls one after the other, and ignores the results: the minimum cost of a reading.
func BenchmarkBareCalls8(b *testing.B) {
	m := rack(b)
	s := source(b, m)
	read(b, s)
	devices := s.session.devices
	bare(devices)
	calls := m.Calls()
	b.ReportAllocs()
	for b.Loop() {
		bare(devices)
	}
	b.ReportMetric(float64(m.Calls()-calls)/float64(b.N), "calls/op")
}

// BenchmarkDriversPart compares the driver's side of reading eight cards with the same bare calls, made in turn: x-bare is how many times
// as long it takes.
func BenchmarkDriversPart(b *testing.B) {
	s := source(b, rack(b))
	read(b, s)
	devices := s.session.devices
	bare(devices)
	var calls, ours time.Duration
	for b.Loop() {
		began := time.Now()
		bare(devices)
		between := time.Now()
		part(b, devices)
		calls, ours = calls+between.Sub(began), ours+time.Since(between)
	}
	b.ReportMetric(float64(ours)/float64(calls), "x-bare")
	b.ReportMetric(0, "ns/op") // of both
}

// part runs the driver's part of a reading.
func part(tb testing.TB, devices []*device) {
	for _, d := range devices {
		if _, err := d.read(); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestTheDriversPartAllocatesNothing allows what the binding allocates for the calls, and the list of processes, which readings keep.
func TestTheDriversPartAllocatesNothing(t *testing.T) {
	s := source(t, rack(t))
	for range 4 { // as in TestCallsOfAReading
		read(t, s)
	}
	devices := s.session.devices
	calls := testing.AllocsPerRun(20, func() { bare(devices) })
	ours := testing.AllocsPerRun(20, func() { part(t, devices) }) - calls
	if lists := float64(len(devices)); ours > lists {
		t.Errorf("%v allocations beyond the %v of the calls, want %v: a list of processes for each card", ours, calls, lists)
	}
}

func bare(devices []*device) {
	for _, d := range devices {
		dev := d.dev
		dev.GetUtilizationRates()
		dev.GetEncoderUtilization()
		dev.GetDecoderUtilization()
		dev.GetJpgUtilization()
		dev.GetOfaUtilization()
		dev.GetEncoderStats()
		dev.GetMemoryInfo_v2()
		dev.GetTemperatureV().V1()
		dev.GetFieldValues([]nvml.FieldValue{{FieldId: nvml.FI_DEV_MEMORY_TEMP}})
		dev.GetMarginTemperature()
		dev.GetNumFans()
		dev.GetPowerUsage()
		dev.GetEnforcedPowerLimit()
		dev.GetTotalEnergyConsumption()
		for _, clock := range []nvml.ClockType{nvml.CLOCK_GRAPHICS, nvml.CLOCK_SM, nvml.CLOCK_MEM, nvml.CLOCK_VIDEO} {
			dev.GetClockInfo(clock)
		}
		dev.GetPerformanceState()
		dev.GetCurrentClocksEventReasons()
		dev.GetCurrPcieLinkGeneration()
		dev.GetCurrPcieLinkWidth()
		dev.GetPcieReplayCounter()
		d.events.Wait(0)
		device := pointerOf(dev)
		for _, list := range processLists {
			d.table.processes(d.lib.function(list.symbols[0]), device)
		}
		d.table.usage(d.lib.function("nvmlDeviceGetProcessUtilization"), device, 1)
	}
}

// BenchmarkActivity measures what the counters add to a reading of one device: a sample, and its comparison with an old enough one.
func BenchmarkActivity(b *testing.B) {
	m := machine(b, fakenvml.H100())
	s := source(b, m)
	read(b, s)
	pass(s, soonest)
	read(b, s)
	d := s.session.devices[0]
	spare, ret := d.lib.api.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		b.Fatal(code(ret))
	}
	defer d.lib.api.GpmSampleFree(spare)
	b.ReportAllocs()
	for b.Loop() {
		d.dev.GpmSampleGet(spare)
		if got := d.activity.compare(&d.handle, d.activity.whole.buffers[1], d.activity.whole.buffers[0]); !got.Tensor.Present() { // they have swapped places
			b.Fatalf("%+v", got)
		}
	}
}

// TestCallsOfAReading checks that a reading makes the calls that the benchmarks compare.
func TestCallsOfAReading(t *testing.T) {
	m := rack(t)
	s := source(t, m)
	for range 4 { // the accounting makes one call per reading: the mode, the room, the list, a process
		read(t, s)
	}
	pass(s, soonest)
	before := m.Calls()
	read(t, s)
	calls := m.Calls() - before
	before = m.Calls()
	for _, d := range s.session.devices {
		bare([]*device{d})
	}
	const counters = 8 * 2 // which a benchmark's readings leave out, since they are too close together
	if bare := m.Calls() - before; calls != bare+counters || calls != 8*30 {
		t.Errorf("%d calls of a reading and %d bare ones for eight cards, want %d and %d less", calls, bare, 8*30, counters)
	}
}

// BenchmarkThroughput measures what the PCIe traffic adds to a reading of one device in which it is due: two calls, which a real driver
// answers after 20 ms each and the fake one at once.
func BenchmarkThroughput(b *testing.B) {
	m := machine(b, fakenvml.RTX4090())
	s := source(b, m, measured)
	read(b, s)
	d := s.session.devices[0]
	calls := m.Calls()
	b.ReportAllocs()
	for b.Loop() {
		d.measureTraffic()
	}
	b.ReportMetric(float64(m.Calls()-calls)/float64(b.N), "calls/op")
}
