//go:build !race

package static_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// randomSnapshot is a machine of which anything may be absent, zero or odd.
func randomSnapshot(r *rand.Rand, now time.Time) *gpu.Snapshot {
	s := &gpu.Snapshot{Time: now, Node: pick(r, "a", "b<i>", "ö\u202e"), Source: pick(r, gpu.SourceNVML, gpu.SourceMixed, gpu.SourceSimulated)}
	for i := range r.IntN(20) {
		s.Devices = append(s.Devices, randomDevice(r, i, s.Node, now))
	}
	for i := range r.IntN(3) {
		f := gpu.Failure{Source: fmt.Sprint("source", i), Since: now.Add(-time.Duration(r.Int64N(1e15))), Advice: gpu.Advice{What: pick(r, "what", "<b>"), Try: pick(r, "", "try")}}
		if r.IntN(2) == 0 {
			f.Next = now.Add(time.Duration(r.Int64N(1e11)))
		}
		s.Failures = append(s.Failures, f)
	}
	for range r.IntN(3) {
		s.Notes = append(s.Notes, pick(r, gpu.Advice{What: "what"}, gpu.Advice{What: "<what>", Try: "try"}))
	}
	for range r.IntN(3) {
		s.Drivers = append(s.Drivers, gpu.Driver{Version: maybe(r, "550.1"), CUDA: maybe(r, "12.4")})
	}
	if r.IntN(4) > 0 {
		s.Host = randomHost(r)
	}
	return s
}

func randomDevice(r *rand.Rand, i int, node string, now time.Time) gpu.Device {
	d := gpu.Device{
		Identity: gpu.Identity{UUID: fmt.Sprint("GPU-", i), Index: i, Node: node, Source: gpu.SourceNVML, Name: pick(r, "", "NVIDIA H100", "<script>x</script>", strings.Repeat("n", 200))},
		State:    gpu.StateOK, Since: now.Add(-time.Duration(r.Int64N(1e15))),
	}
	if r.IntN(4) == 0 {
		d.State = pick(r, gpu.StateAsleep, gpu.StateLost, gpu.StateNotAnswering)
		d.Reason = pick(r, gpu.Advice{}, gpu.Advice{What: "what"}, gpu.Advice{What: "what", Try: "try"})
		return d
	}
	d.Utilization.GPU = readingOf[gpu.Percent](r, 100)
	d.Memory = gpu.Memory{Used: bytesOf(r), Total: bytesOf(r)}
	d.Thermal = gpu.Thermal{GPU: readingOf[gpu.Celsius](r, 110), Slowdown: readingOf[gpu.Celsius](r, 100), Margin: readingOf[gpu.Celsius](r, 60)}
	d.Power = gpu.Power{Draw: readingOf[gpu.Watts](r, 900), EnforcedLimit: readingOf[gpu.Watts](r, 700)}
	d.Fans.Count = pick(r, gpu.Of(0), gpu.Absent[int](gpu.NotSupported), gpu.Reading[int]{})
	for range r.IntN(3) {
		d.Fans.Fans = append(d.Fans.Fans, gpu.Fan{Commanded: readingOf[gpu.Percent](r, 120), RPM: readingOf[gpu.RPM](r, 4000), Policy: maybe(r, pick(r, "automatic", "manual"))})
	}
	d.Clocks = gpu.Clocks{SM: readingOf[gpu.Megahertz](r, 3000), Graphics: readingOf[gpu.Megahertz](r, 3000), PerformanceState: maybe(r, r.IntN(16)), EventReasons: maybe(r, gpu.ClockEventReasons(r.Uint64N(1<<10)))}
	for n := range r.IntN(2) * r.IntN(7) {
		d.Instances = append(d.Instances, gpu.Instance{
			UUID: fmt.Sprint("MIG-", n), Name: pick(r, "", "1g.5gb", "<b>"), Memory: gpu.Memory{Used: bytesOf(r), Total: bytesOf(r)},
			Multiprocessors: maybe(r, r.IntN(100)), MemorySlices: maybe(r, r.IntN(8)), ComputeSliceCount: maybe(r, r.IntN(8)),
		})
	}
	randomRest(r, &d, now)
	var list []gpu.Process
	for range r.IntN(4) {
		list = append(list, randomProcess(r, now))
	}
	// A list that is not reported, and not known why, looks on the wire as
	// one that is empty.
	if d.Processes = maybe(r, list); d.Processes.Quality() == gpu.NotReported {
		d.Processes = gpu.Absent[[]gpu.Process](gpu.NotSupported)
	}
	return d
}

// randomRest fills in what only a device's own page shows.
func randomRest(r *rand.Rand, d *gpu.Device, now time.Time) {
	d.SampledAt = now.Add(-time.Duration(r.Int64N(1e12)))
	d.IdleFloor = maybe(r, gpu.Watts(100*r.Float64()))
	d.PCI = pick(r, "", "0000:01:00.0")
	d.VendorIndex, d.Architecture, d.Serial = maybe(r, r.IntN(9)), maybe(r, "Hopper"), maybe(r, pick(r, "", "16<b>"))
	d.VBIOS, d.DriverVersion = maybe(r, "96.00"), maybe(r, "550.54.15")
	u, m, t, p, c := &d.Utilization, &d.Memory, &d.Thermal, &d.Power, &d.Clocks
	for _, field := range []*gpu.Reading[gpu.Percent]{&u.Memory, &u.Encoder, &u.Decoder, &u.JPEG, &u.OFA} {
		*field = readingOf[gpu.Percent](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.Percent]{&d.Activity.Engine, &d.Activity.Tensor, &d.Activity.MemoryBandwidth} {
		*field = readingOf[gpu.Percent](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.BytesPerSecond]{&d.Activity.PCIeSent, &d.Activity.NVLinkReceived} {
		*field = readingOf[gpu.BytesPerSecond](r, 1e10)
	}
	d.Activity.PCIeMeasuredAt = maybe(r, now.Add(-time.Duration(r.Int64N(1e11))))
	d.Encoding = gpu.Encoding{Sessions: maybe(r, r.IntN(9)), FrameRate: readingOf[gpu.FramesPerSecond](r, 500), Latency: readingOf[gpu.Microseconds](r, 1e5)}
	for _, field := range []*gpu.Reading[gpu.Bytes]{&m.Free, &m.Reserved, &m.BAR1Total, &m.BAR1Used} {
		*field = bytesOf(r)
	}
	for _, field := range []*gpu.Reading[gpu.Celsius]{&t.Memory, &t.Shutdown, &t.Target, &t.MemoryMax} {
		*field = readingOf[gpu.Celsius](r, 100)
	}
	for _, field := range []*gpu.Reading[gpu.Watts]{&p.DefaultLimit, &p.MinLimit, &p.MaxLimit} {
		*field = readingOf[gpu.Watts](r, 900)
	}
	p.Energy = readingOf[gpu.Joules](r, 1e10)
	for _, field := range []*gpu.Reading[gpu.Megahertz]{&c.Memory, &c.Video, &c.MaxGraphics, &c.MaxSM, &c.MaxMemory, &c.MaxVideo} {
		*field = readingOf[gpu.Megahertz](r, 3000)
	}
	for i := range d.Fans.Fans {
		d.Fans.Fans[i].Target = readingOf[gpu.Percent](r, 100)
	}
	d.PCIe = gpu.PCIe{Generation: maybe(r, r.IntN(6)), MaxGeneration: maybe(r, 5), Width: maybe(r, 8), MaxWidth: maybe(r, 16), Replays: maybe(r, r.Uint64N(1e9))}
	h := &d.Health
	for _, field := range []*gpu.Reading[uint64]{
		&h.CorrectedVolatile, &h.UncorrectedVolatile, &h.CorrectedAggregate, &h.UncorrectedAggregate,
		&h.RemappedCorrectable, &h.RemappedUncorrectable, &h.RetiredSingleBit, &h.RetiredDoubleBit,
	} {
		*field = maybe(r, r.Uint64N(100))
	}
	o := &d.Modes
	for _, field := range []*gpu.Reading[bool]{
		&h.ECCMode, &h.ECCModePending, &h.RemapPending, &h.RemapFailed, &h.RetirementPending, &o.Persistence, &o.MIG, &o.MIGPending, &o.DisplayActive,
	} {
		*field = maybe(r, r.IntN(2) == 0)
	}
	o.Compute = maybe(r, "exclusive_process")
	h.XIDs = maybe(r, []gpu.XID{{Code: 79, Count: 1 + r.Uint64N(5), Last: now}, {Code: 31, Count: 2, Last: now}}[:r.IntN(3)])
	h.Faults = maybe(r, []gpu.Fault{
		{Kind: gpu.FaultEngineHang, Count: 1 + r.Uint64N(5), Last: now, Engine: "gfx_0.0.0", Culprit: gpu.Culprit{PID: 7, Name: "Game.exe"}},
		{Kind: gpu.FaultWedged, Count: 1, Last: now},
	}[:r.IntN(3)])
}

func randomProcess(r *rand.Rand, now time.Time) gpu.Process {
	return gpu.Process{
		PID: r.IntN(6), Type: pick(r, gpu.TypeCompute, gpu.TypeGraphics, gpu.TypeMPS), Memory: bytesOf(r),
		SM: readingOf[gpu.Percent](r, 100), Encoder: readingOf[gpu.Percent](r, 100), GPUInstance: maybe(r, r.IntN(2)),
		Facts: gpu.ProcessFacts{
			Name: maybe(r, pick(r, "", "python", "\x1b[31m\xff🚀", strings.Repeat("🚀", 90))), User: maybe(r, "alice"),
			Command: maybe(r, pick(r, "python x.py", strings.Repeat("a ", 400))), Started: maybe(r, now.Add(-time.Duration(r.Int64N(1e15)))),
			Exists:    maybe(r, r.IntN(3) > 0),
			Pod:       maybe(r, pick(r, gpu.Pod{}, gpu.Pod{UID: "1-2"}, gpu.Pod{UID: "1-2", Name: maybe(r, pick(r, "", "pod<b>"))})),
			Container: maybe(r, pick(r, gpu.Container{}, gpu.Container{ID: strings.Repeat("ab", 32), Name: maybe(r, "trainer\u202e")})),
			Job:       maybe(r, gpu.Job{ID: r.IntN(2) * 77}),
			Unit:      maybe(r, pick(r, gpu.Unit{}, gpu.Unit{Name: "a.service"}, gpu.Unit{Slice: "system.slice"})),
		},
	}
}

func randomHost(r *rand.Rand) *gpu.Host {
	h := &gpu.Host{
		Hostname: pick(r, "", "host"), OS: "Debian", Kernel: "6.1", Uptime: maybe(r, time.Duration(r.Int64N(1e16))),
		CPUModel: maybe(r, "EPYC"), Cores: maybe(r, 1+r.IntN(3)), CPU: readingOf[gpu.Percent](r, 100),
		Load1: readingOf[float64](r, 50), Load5: readingOf[float64](r, 50), Load15: readingOf[float64](r, 50),
		MemoryTotal: bytesOf(r), MemoryUsed: bytesOf(r), SwapTotal: bytesOf(r), SwapUsed: bytesOf(r),
		CPUPower: readingOf[gpu.Watts](r, 300), CPUThrottled: maybe(r, r.IntN(2) > 0),
		Self: gpu.Self{CPU: readingOf[gpu.Percent](r, 3), RSS: bytesOf(r)},
	}
	busiest := []gpu.HostProcess{}
	for i := range r.IntN(4) {
		h.Fans = append(h.Fans, gpu.HostFan{Name: fmt.Sprint(pick(r, "CPU fan", "fan\u202e <b>"), i), RPM: readingOf[gpu.RPM](r, 3000)})
		h.Temperatures = append(h.Temperatures, gpu.HostTemperature{Name: fmt.Sprint(pick(r, "CPU", "sensor <x>"), i), Celsius: readingOf[gpu.Celsius](r, 100)})
		busiest = append(busiest, gpu.HostProcess{PID: 100 + i, Count: 1 + r.IntN(3), CPU: gpu.Percent(r.IntN(4000)), Facts: randomProcess(r, time.Now()).Facts})
	}
	h.Busiest = maybe(r, busiest)
	for i := range r.IntN(3) {
		h.Disks = append(h.Disks, gpu.Disk{Device: fmt.Sprint("sd", i), Mount: pick(r, "/", "/\u200f<x>"), Total: bytesOf(r), Used: bytesOf(r), Read: readingOf[gpu.BytesPerSecond](r, 1e7), Write: readingOf[gpu.BytesPerSecond](r, 5e9)})
		h.Networks = append(h.Networks, gpu.Interface{Name: fmt.Sprint("eth", i), Received: readingOf[gpu.BytesPerSecond](r, 1e4), Sent: readingOf[gpu.BytesPerSecond](r, 1e10)})
	}
	return h
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// maybe is v, or absent for one of the reasons.
func maybe[T any](r *rand.Rand, v T) gpu.Reading[T] {
	if r.IntN(3) > 0 {
		return gpu.Of(v)
	}
	return gpu.Absent[T](pick(r, gpu.NotReported, gpu.NotSupported, gpu.NotPermitted, gpu.Stale))
}

// readingOf is zero, halfway between two integers, or anything up to top.
func readingOf[T ~float64](r *rand.Rand, top float64) gpu.Reading[T] {
	v := pick(r, 0, top*r.Float64(), float64(r.IntN(int(top)))+0.5)
	if r.IntN(10) == 0 {
		return gpu.DoubtfulOf(T(v))
	}
	return maybe(r, T(v))
}

func bytesOf(r *rand.Rand) gpu.Reading[gpu.Bytes] {
	return maybe(r, gpu.Bytes(pick(r, 0, r.Uint64N(2<<30), r.Uint64N(96<<30), r.Uint64N(40<<40))))
}
