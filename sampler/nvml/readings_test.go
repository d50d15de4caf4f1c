//go:build linux && cgo

package nvml

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

var everything = cmp.Exporter(func(reflect.Type) bool { return true })

// unnamed makes readings that a test does not mention unsupported, as on a card without them.
func unnamed(r *gpu.Readings) {
	d := gpu.Device{Readings: *r}
	for row := range catalog.All() {
		row.Visit(&d, func(_ string, found catalog.Ref) {
			if found.Quality() == gpu.NotReported {
				gpu.Withdraw(found, gpu.NotSupported)
			}
		})
	}
	*r = d.Readings
}

func no[T any](q gpu.Quality) gpu.Reading[T] { return gpu.Absent[T](q) }

const mib = 1 << 20

// TestIdleCard checks that a card that does nothing, with fans that stand still, reports zeros, which are readings.
func TestIdleCard(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	d := readOne(t, source(t, m))
	still := gpu.Fan{Commanded: gpu.Of(gpu.Percent(0)), RPM: gpu.Of(gpu.RPM(0)), Target: gpu.Of(gpu.Percent(0)), Policy: gpu.Of("automatic")}
	zero := gpu.Of(gpu.Percent(0))
	want := gpu.Readings{
		Utilization: gpu.Utilization{GPU: zero, Memory: zero, Encoder: zero, Decoder: zero, JPEG: zero, OFA: zero},
		Encoding:    gpu.Encoding{Sessions: gpu.Of(0), FrameRate: gpu.Of(gpu.FramesPerSecond(0)), Latency: gpu.Of(gpu.Microseconds(0))},
		Activity:    gpu.AbsentActivity(gpu.NotSupported),
		Memory: gpu.Memory{
			Total: gpu.Of(gpu.Bytes(24564 * mib)), Used: gpu.Of(gpu.Bytes(421 * mib)),
			Free: gpu.Of(gpu.Bytes((24564 - 421 - 345) * mib)), Reserved: gpu.Of(gpu.Bytes(345 * mib)),
			BAR1Total: gpu.Of(gpu.Bytes(32768 * mib)), BAR1Used: gpu.Of(gpu.Bytes(6 * mib)),
		},
		Thermal: gpu.Thermal{
			GPU:      gpu.Of(gpu.Celsius(34)),
			Slowdown: gpu.Of(gpu.Celsius(95)), Shutdown: gpu.Of(gpu.Celsius(98)), Target: gpu.Of(gpu.Celsius(83)),
			Margin: gpu.Of(gpu.Celsius(49)),
		},
		Shared: gpu.SharedMemory{Unified: gpu.Of(false)},
		Fans:   gpu.Fans{Count: gpu.Of(2), Fans: []gpu.Fan{still, still}, Combined: gpu.Of(false)},
		NVLink: gpu.NVLink{Links: []gpu.Link{}},
		Power: gpu.Power{
			Draw: gpu.Of(gpu.Watts(17.34)), EnforcedLimit: gpu.Of(gpu.Watts(450)), DefaultLimit: gpu.Of(gpu.Watts(450)),
			MinLimit: gpu.Of(gpu.Watts(150)), MaxLimit: gpu.Of(gpu.Watts(600)), Energy: gpu.Of(gpu.Joules(912345.678)),
		},
		Clocks: gpu.Clocks{
			Graphics: gpu.Of(gpu.Megahertz(210)), SM: gpu.Of(gpu.Megahertz(210)), Memory: gpu.Of(gpu.Megahertz(405)), Video: gpu.Of(gpu.Megahertz(1185)),
			MaxGraphics: gpu.Of(gpu.Megahertz(3120)), MaxSM: gpu.Of(gpu.Megahertz(3120)), MaxMemory: gpu.Of(gpu.Megahertz(10501)), MaxVideo: gpu.Of(gpu.Megahertz(2415)),
			PerformanceState: gpu.Of(8), EventReasons: gpu.Of(gpu.ReasonIdle),
		},
		PCIe: gpu.PCIe{Generation: gpu.Of(1), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16), Replays: gpu.Of(uint64(0))},
		Health: gpu.Health{
			XIDs: gpu.Of([]gpu.XID{}),
		},
		Modes: gpu.Modes{
			Persistence: gpu.Of(false), Compute: gpu.Of("default"), DisplayActive: gpu.Of(true),
			Virtualization: gpu.Of("none"),
		},
		Processes: gpu.Of([]gpu.Process{{
			PID: fakenvml.NoProcess, Type: gpu.TypeGraphics, Memory: gpu.Of(gpu.Bytes(262 * mib)), SM: zero, MemoryBandwidth: zero, Encoder: zero, Decoder: zero,
			Video: no[gpu.Percent](gpu.NotSupported),
		}}),
		ProcessesPartial: gpu.Of(false),
	}
	unnamed(&want)
	if diff := cmp.Diff(want, d.Readings, everything); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
	identity := gpu.Identity{
		UUID: "GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001", Name: "NVIDIA GeForce RTX 4090", PCI: "0000:01:00.0",
		VendorIndex: gpu.Of(0), Vendor: gpu.NVIDIA, Source: gpu.SourceNVML, Architecture: gpu.Of("Ada Lovelace"),
		Serial: no[string](gpu.NotSupported), VBIOS: gpu.Of("95.02.18.80.87"), DriverVersion: gpu.Of("550.54.15"),
	}
	if diff := cmp.Diff(identity, d.Identity, everything); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestServerCard(t *testing.T) {
	m := machine(t, fakenvml.H100())
	snap := read(t, source(t, m))
	d := &snap.Devices[0]
	for what, check := range map[string]bool{
		"no fan is not a fan at 0": d.Fans.Count.Quality() == gpu.NotSupported && d.Fans.Commanded().Quality() == gpu.NotSupported,
		"memory temperature":       d.Thermal.Memory == gpu.Of(gpu.Celsius(66)),
		"ECC is on":                d.Health.ECCMode == gpu.Of(true),
		"errors of its life":       d.Health.CorrectedAggregate == gpu.Of(uint64(3)),
		"no remapped rows":         d.Health.RemappedCorrectable == gpu.Of(uint64(0)) && d.Health.RemapPending == gpu.Of(false),
		"MIG is off":               d.Modes.MIG == gpu.Of(false) && len(d.Instances) == 0,
		"the set of reasons is empty, and a reading": d.Clocks.EventReasons == gpu.Of(gpu.ClockEventReasons(0)),
		"serial": d.Serial == gpu.Of("1652123456789"),
	} {
		if !check {
			t.Errorf("not so: %s", what)
		}
	}
	want := []gpu.Driver{{Source: gpu.SourceNVML, Version: gpu.Of("550.54.15"), CUDA: gpu.Of("12.4"), Library: gpu.Of("12.550.54.15")}}
	if diff := cmp.Diff(want, snap.Drivers, everything); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}

// TestValues checks that the driver's marks for unknown values, and impossible values, never become good readings.
func TestValues(t *testing.T) {
	const blank32, blank64 = uint32(math.MaxUint32), uint64(math.MaxUint64)
	percent := func(get func(*gpu.Device) gpu.Reading[gpu.Percent]) func(*gpu.Device) string {
		return func(d *gpu.Device) string { return get(d).String() }
	}
	util := percent(func(d *gpu.Device) gpu.Reading[gpu.Percent] { return d.Utilization.GPU })
	encoder := percent(func(d *gpu.Device) gpu.Reading[gpu.Percent] { return d.Utilization.Encoder })
	fan := percent(func(d *gpu.Device) gpu.Reading[gpu.Percent] { return d.Fans.Commanded() })
	temperature := func(d *gpu.Device) string { return d.Thermal.GPU.String() }
	memoryTemperature := func(d *gpu.Device) string { return d.Thermal.Memory.String() }
	margin := func(d *gpu.Device) string { return d.Thermal.Margin.String() }
	slowdown := func(d *gpu.Device) string { return d.Thermal.Slowdown.String() }
	draw := func(d *gpu.Device) string { return d.Power.Draw.String() }
	limit := func(d *gpu.Device) string { return d.Power.EnforcedLimit.String() }
	energy := func(d *gpu.Device) string { return d.Power.Energy.String() }
	total := func(d *gpu.Device) string { return d.Memory.Total.String() }
	free := func(d *gpu.Device) string { return d.Memory.Free.String() }
	bar1 := func(d *gpu.Device) string { return d.Memory.BAR1Used.String() }
	maxClock := func(d *gpu.Device) string { return d.Clocks.MaxSM.String() }
	rpm := func(d *gpu.Device) string { return d.Fans.Fans[0].RPM.String() }
	used := func(d *gpu.Device) string { return d.Memory.Used.String() }
	pstate := func(d *gpu.Device) string { return d.Clocks.PerformanceState.String() }
	clock := func(d *gpu.Device) string { return d.Clocks.SM.String() }
	replays := func(d *gpu.Device) string { return d.PCIe.Replays.String() }
	serial := func(d *gpu.Device) string { return d.Serial.String() }
	fans := func(d *gpu.Device) string { return d.Fans.Count.String() }
	compute := func(d *gpu.Device) string { return d.Modes.Compute.String() }
	virtual := func(d *gpu.Device) string { return d.Modes.Virtualization.String() }

	tests := map[string]struct {
		key  fakenvml.Key
		set  any
		get  func(*gpu.Device) string
		want string
	}{
		"memory of 2^63":           {"memory_total", "9223372036854775808", total, "9223372036854775808 (doubtful)"},
		"memory used 2^63":         {"memory_used", "9223372036854775808", used, "9223372036854775808 (doubtful)"},
		"utilization 0":            {fakenvml.Utilization, 0, util, "0"},
		"utilization 100":          {fakenvml.Utilization, 100, util, "100"},
		"utilization 54321":        {fakenvml.Utilization, 54321, util, "100 (doubtful)"},
		"utilization unknown":      {fakenvml.Utilization, blank32, util, "not_reported"},
		"utilization unsupported":  {fakenvml.Utilization, fakenvml.Error(int(notSupported)), util, "not_supported"},
		"utilization forbidden":    {fakenvml.Utilization, fakenvml.Error(int(noPermission)), util, "not_permitted"},
		"utilization fails":        {fakenvml.Utilization, fakenvml.Error(int(unknown)), util, "not_reported"},
		"encoder 101":              {keyEncoder, 101, encoder, "100 (doubtful)"},
		"fan 0":                    {fakenvml.Fan(0, "speed"), 0, fan, "0"},
		"fan above 100":            {fakenvml.Fan(0, "speed"), 130, fan, "130"},
		"fans unknown":             {keyFans, blank32, fans, "not_reported"},
		"fans none":                {keyFans, 0, fan, "not_supported"},
		"temperature 0":            {fakenvml.Temperature, 0, temperature, "0"},
		"temperature below 0":      {fakenvml.Temperature, -12, temperature, "-12"},
		"temperature unknown":      {fakenvml.Temperature, blank32, temperature, "not_reported"},
		"temperature marked":       {fakenvml.Temperature, 0x7ffffff0, temperature, "not_reported"},
		"temperature 3000":         {fakenvml.Temperature, 3000, temperature, "3000 (doubtful)"},
		"memory temperature":       {keyMemoryTemperature, 71, memoryTemperature, "71"},
		"memory temperature blank": {keyMemoryTemperature, blank32, memoryTemperature, "not_reported"},
		"margin below 0":           {keyMargin, -1, margin, "-1"},
		"no slowdown limit":        {keySlowdownThreshold, 0, slowdown, "not_supported"},
		"slowdown not understood":  {keySlowdownThreshold, fakenvml.Error(int(invalidArgument)), slowdown, "not_supported"},
		"power 0":                  {fakenvml.Power, 0, draw, "0"},
		"power above the limit":    {fakenvml.Power, 640_000, draw, "640"},
		"power impossible":         {fakenvml.Power, 1_300_000, draw, "1300 (doubtful)"},
		"power unknown":            {fakenvml.Power, blank32, draw, "not_reported"},
		"limit unknown":            {keyPowerLimit, blank32, limit, "not_reported"},
		"energy unknown":           {keyEnergy, blank64, energy, "not_reported"},
		"energy of 32 bits":        {keyEnergy, uint64(blank32), energy, "4.294967295e+06"},
		"memory unknown":           {keyMemoryUsed, blank64, used, "not_reported"},
		"memory 0":                 {keyMemoryUsed, 0, used, "0"},
		"memory above the total":   {keyMemoryUsed, 24565 * mib, used, "25758269440 (doubtful)"},
		"more free than the total": {keyMemoryUsed, 24564*mib - 344*mib, free, "18446744073708503040 (doubtful)"},
		"BAR1 above its total":     {keyBAR1Used, 32769 * mib, bar1, "34360786944 (doubtful)"},
		"memory of an exabyte":     {keyMemoryTotal, uint64(1) << 60, total, "1152921504606846976 (doubtful)"},
		"clock of 5 THz":           {fakenvml.SMClock, 5_000_000, clock, "5e+06 (doubtful)"},
		"maximal clock of 5 THz":   {keyMaxSMClock, 5_000_000, maxClock, "5e+06 (doubtful)"},
		"fan at 5000 %":            {fakenvml.Fan(0, "speed"), 5000, fan, "5000 (doubtful)"},
		"fan of 3 million turns":   {fakenvml.Fan(0, "rpm"), 3_000_000, rpm, "3e+06 (doubtful)"},
		"limit of 4 MW":            {keyPowerLimit, 4_000_000_000, limit, "4e+06 (doubtful)"},
		"performance state 0":      {fakenvml.PerformanceState, 0, pstate, "0"},
		"performance state 32":     {fakenvml.PerformanceState, 32, pstate, "not_reported"},
		"clock unknown":            {fakenvml.SMClock, blank32, clock, "not_reported"},
		"replays unknown":          {keyPCIeReplays, blank32, replays, "not_reported"},
		"serial N/A":               {keySerial, "N/A", serial, "not_reported"},
		"given whole":              {keyVirtualization, 1, virtual, "passthrough"},
		"a part":                   {keyVirtualization, 2, virtual, "vgpu"},
		"the host of parts":        {keyVirtualization, 3, virtual, "host_vgpu"},
		"a way of the future":      {keyVirtualization, 9, virtual, "not_reported"},
		"may not ask":              {keyVirtualization, fakenvml.Error(int(noPermission)), virtual, "not_permitted"},
		"exclusive":                {keyComputeMode, 3, compute, "exclusive_process"},
		"a mode of the future":     {keyComputeMode, 9, compute, "not_reported"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090().With(tt.key, tt.set))
			if got := tt.get(readOne(t, source(t, m))); got != tt.want {
				t.Errorf("%s = %v reads as %s, want %s", tt.key, tt.set, got, tt.want)
			}
		})
	}
}

// TestNewerCallsFallBack checks that a newer function that exists but does not work counts as missing.
func TestNewerCallsFallBack(t *testing.T) {
	for _, c := range []int{int(notSupported), int(functionNotFound), int(argumentVersion)} {
		t.Run(code(c).String(), func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090())
			m.Answer(c, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons",
				"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2")
			d := readOne(t, source(t, m))
			if got, want := d.Memory.Used, gpu.Of(gpu.Bytes((421+345)*mib)); got != want {
				t.Errorf("used memory %v, want the older call's %v, which counts what is reserved", got, want)
			}
			if d.Memory.Reserved.Quality() != gpu.NotSupported {
				t.Errorf("reserved memory %v, want not_supported", d.Memory.Reserved)
			}
			if d.Thermal.GPU != gpu.Of(gpu.Celsius(34)) || d.Clocks.EventReasons != gpu.Of(gpu.ReasonIdle) || len(d.Processes.Or(nil)) != 1 {
				t.Errorf("temperature %v, reasons %v, processes %v", d.Thermal.GPU, d.Clocks.EventReasons, d.Processes)
			}
		})
	}
}

// TestForbiddenIsNotOlder checks that a refusal does not lead to the older function.
func TestForbiddenIsNotOlder(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	m.Answer(int(noPermission), "nvmlDeviceGetMemoryInfo_v2")
	d := readOne(t, source(t, m))
	if d.Memory.Used.Quality() != gpu.NotPermitted || m.Calls("nvmlDeviceGetMemoryInfo") != 0 {
		t.Errorf("used memory %v after %d calls of the older function", d.Memory.Used, m.Calls("nvmlDeviceGetMemoryInfo"))
	}
}

// TestOneCallFails checks that a failing reading affects no other, and is logged once.
func TestOneCallFails(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	log := &recorder{}
	s := source(t, m, log.use)
	m.Answer(int(unknown), "nvmlDeviceGetPowerUsage")
	for range 3 {
		d := readOne(t, s)
		if d.State != gpu.StateOK || d.Power.Draw.Quality() != gpu.NotReported || !d.Thermal.GPU.Present() {
			t.Fatalf("%s, power %v, temperature %v", d.State, d.Power.Draw, d.Thermal.GPU)
		}
	}
	m.Heal()
	if d := readOne(t, s); !d.Power.Draw.Present() {
		t.Errorf("power %v after it works again", d.Power.Draw)
	}
	if got := log.count("readings fail"); got != 1 {
		t.Errorf("the log says %d times that readings fail, want once", got)
	}
	if got := log.count("all readings work again"); got != 1 {
		t.Errorf("the log says %d times that they work again, want once", got)
	}
}

// TestSeldomReadings checks that what hardly changes is not read each time, and stays.
func TestSeldomReadings(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	readOne(t, s)
	count := func() (seldom, each int) {
		return m.Calls("nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetFanControlPolicy_v2", "nvmlDeviceGetUUID"), m.Calls("nvmlDeviceGetPowerUsage")
	}
	seldom, each := count()
	d := readOne(t, s)
	if a, b := count(); a != seldom || b != each+1 {
		t.Errorf("%d calls for what hardly changes, and %d for power; want none and 1", a-seldom, b-each)
	}
	if !d.Thermal.Slowdown.Present() || !d.Fans.Fans[0].Policy.Present() || d.Name == "" {
		t.Error("what was not asked again is gone")
	}
}

func TestInstances(t *testing.T) {
	m := machine(t, fakenvml.H100().With(fakenvml.Utilization, fakenvml.Error(int(notSupported))))
	setInstances(m.GPU(0),
		migInstance{UUID: "MIG-1", Name: "NVIDIA H100 MIG 1g.10gb", GPUInstance: 7, MemoryTotal: 9856 * mib, MemoryUsed: 12 * mib, Multiprocessors: 16, MemorySlices: 1, ComputeSlices: 1},
		migInstance{UUID: "MIG-2", Name: "NVIDIA H100 MIG 3g.40gb", GPUInstance: 2, MemoryTotal: 40192 * mib, MemoryUsed: 0, Multiprocessors: 60, MemorySlices: 4, ComputeSlices: 3},
	)
	m.GPU(0).SetProcesses(
		fakenvml.Process{PID: 900, Type: "compute", Memory: mib, MIG: true, GPUInstance: 7},
		fakenvml.Process{PID: 900, Type: "compute", Memory: 2 * mib, MIG: true, GPUInstance: 2},
	)
	s := source(t, m)
	d := readOne(t, s)
	if d.Modes.MIG != gpu.Of(true) || d.Utilization.GPU.Quality() != gpu.NotSupported {
		t.Errorf("MIG %v, utilization %v; want on, and not_supported", d.Modes.MIG, d.Utilization.GPU)
	}
	want := []gpu.Instance{
		{UUID: "MIG-1", Name: "NVIDIA H100 MIG 1g.10gb", Profile: gpu.Of("1g.10gb"), Processes: gpu.Of(1), GPUInstance: gpu.Of(7), ComputeInstance: gpu.Of(0), Memory: memory(9856, 12),
			Multiprocessors: gpu.Of(16), MemorySlices: gpu.Of(1), ComputeSliceCount: gpu.Of(1)},
		{UUID: "MIG-2", Name: "NVIDIA H100 MIG 3g.40gb", Profile: gpu.Of("3g.40gb"), Processes: gpu.Of(1), GPUInstance: gpu.Of(2), ComputeInstance: gpu.Of(0), Memory: memory(40192, 0),
			Multiprocessors: gpu.Of(60), MemorySlices: gpu.Of(4), ComputeSliceCount: gpu.Of(3)},
	}
	if diff := cmp.Diff(want, d.Instances, everything); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	processes := d.Processes.Or(nil)
	if len(processes) != 2 || processes[0].GPUInstance != gpu.Of(2) || processes[1].GPUInstance != gpu.Of(7) {
		t.Errorf("processes %+v, want one in each instance, the one with more memory first", processes)
	}
}

// TestNoInstance tells apart: not supported, not permitted and none.
func TestNoInstance(t *testing.T) {
	for name, tt := range map[string]struct {
		gpu    fakenvml.GPU
		change func(*fakenvml.Machine)
		want   gpu.Reading[int]
	}{
		"no MIG":          {fakenvml.RTX4090(), func(*fakenvml.Machine) {}, no[int](gpu.NotSupported)},
		"may not ask":     {fakenvml.H100().With(keyMIG, fakenvml.Error(int(noPermission))), func(*fakenvml.Machine) {}, no[int](gpu.NotPermitted)},
		"MIG is off":      {fakenvml.H100(), func(*fakenvml.Machine) {}, gpu.Of(0)},
		"nobody made any": {fakenvml.H100().With(keyMIG, 1), func(*fakenvml.Machine) {}, gpu.Of(0)},
		"may not see any": {fakenvml.H100().With(keyMIG, 1), func(m *fakenvml.Machine) {
			m.Answer(int(noPermission), "nvmlDeviceGetMigDeviceHandleByIndex")
		}, no[int](gpu.NotPermitted)},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.gpu)
			tt.change(m)
			if d := readOne(t, source(t, m)); d.Modes.Instances != tt.want || len(d.Instances) != 0 {
				t.Errorf("%v instances, want %v", d.Modes.Instances, tt.want)
			}
		})
	}
}

// TestUnifiedMemory checks that a device that refuses to report its memory is a system on a chip if another sign agrees. Such a device has
// no link, whatever the driver makes up.
func TestUnifiedMemory(t *testing.T) {
	const window fakenvml.Key = "bar1_total"
	card := func(without ...fakenvml.Key) fakenvml.GPU {
		return fakenvml.RTX4090().Without(append(without, window)...)
	}
	madeUp := func(g fakenvml.GPU) fakenvml.GPU {
		return g.With("pcie_generation", 1).With("pcie_max_generation", 1).With("pcie_width", 1).With("pcie_max_width", 1)
	}
	for name, tt := range map[string]struct {
		gpu  fakenvml.GPU
		want gpu.Reading[bool]
	}{
		"its own":            {fakenvml.RTX4090(), gpu.Of(false)},
		"DGX Spark":          {madeUp(card(keyMemoryTotal)).With(fakenvml.Name, "NVIDIA GB10"), gpu.Of(true)},
		"a chip to come":     {madeUp(card(keyMemoryTotal)).With(fakenvml.Name, "NVIDIA X"), gpu.Of(true)},
		"MIG":                {fakenvml.H100().With(keyMIG, 1).Without(keyMemoryTotal, window), gpu.Of(false)},
		"MIG without rights": {fakenvml.H100().With(keyMIG, 1).With(keyMemoryTotal, fakenvml.Error(int(noPermission))), gpu.Of(false)},
		"it has a window":    {fakenvml.RTX4090().Without(keyMemoryTotal), gpu.Of(false)},
		"nothing tells":      {card(keyMemoryTotal), no[bool](gpu.NotReported)},
		"may not ask":        {card().With(keyMemoryTotal, fakenvml.Error(int(noPermission))), no[bool](gpu.NotPermitted)},
		"it fails":           {card().With(keyMemoryTotal, fakenvml.Error(int(unknown))), no[bool](gpu.NotReported)},
		"nothing works": {
			madeUp(card(keyMemoryTotal, fakenvml.Utilization, fakenvml.Power, fakenvml.Temperature)), no[bool](gpu.NotReported),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := readOne(t, source(t, machine(t, tt.gpu)))
			if d.Shared.Unified != tt.want {
				t.Errorf("unified is %v, want %v; memory %+v", d.Shared.Unified, tt.want, d.Memory)
			}
			if none := d.PCIe == drm.NoSlot; none != tt.want.Or(false) {
				t.Errorf("the link is %+v", d.PCIe)
			}
		})
	}
}

func memory(total, used gpu.Bytes) gpu.Memory {
	return gpu.Memory{Total: gpu.Of(total * mib), Used: gpu.Of(used * mib), Free: gpu.Of((total - used) * mib), Reserved: gpu.Of(gpu.Bytes(0))}
}

func TestCodes(t *testing.T) {
	for c := range codes {
		if strings.Contains(c.String(), "NVML code") {
			t.Errorf("code %d has no name", int(c))
		}
		if a := c.advice(); a.What == "" || a.Try == "" || !errors.Is(a, c) {
			t.Errorf("the advice for %v is %+v", c, a)
		}
	}
	if got := code(4711).String(); got != "NVML code 4711" {
		t.Errorf("an unknown code is %q", got)
	}
}

// TestStale checks that everything with a value becomes absent, with the reason; the rest stays as it is.
func TestStale(t *testing.T) {
	m := machine(t, fakenvml.H100().With(keyFans, 1).With(fakenvml.Fan(0, "speed"), 30))
	setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG", MemoryTotal: mib})
	d := readOne(t, source(t, m))
	before := d.Fans.Fans[0].Commanded
	faded := d.Stale()
	for name, q := range map[string]gpu.Quality{
		"utilization": faded.Utilization.GPU.Quality(),
		"fan":         faded.Fans.Fans[0].Commanded.Quality(),
		"energy":      faded.Power.Energy.Quality(),
		"reasons":     faded.Clocks.EventReasons.Quality(),
		"processes":   faded.Processes.Quality(),
		"instance":    faded.Instances[0].Memory.Total.Quality(),
	} {
		if q != gpu.Stale {
			t.Errorf("%s is %v, want stale", name, q)
		}
	}
	if q := faded.Thermal.Target.Quality(); q != gpu.NotSupported {
		t.Errorf("what was not supported is %v", q)
	}
	if d.Fans.Fans[0].Commanded != before {
		t.Error("the readings that became stale have changed themselves")
	}
}

func TestFieldTypes(t *testing.T) {
	none := gpu.Reading[gpu.Celsius]{}
	for name, tt := range map[string]struct {
		kind  uint32
		value [8]byte
		want  gpu.Reading[gpu.Celsius]
	}{
		"unsigned":        {1, [8]byte{71}, gpu.Of(gpu.Celsius(71))},
		"unsigned, blank": {1, [8]byte{255, 255, 255, 255}, none},
		"signed":          {5, [8]byte{0xfe, 255, 255, 255}, gpu.Of(gpu.Celsius(-2))},
		"double":          {0, [8]byte{0, 0, 0, 0, 0, 0, 0x45, 0x40}, none},
		"of the future":   {77, [8]byte{1}, none},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fieldDegrees(fieldOfType(tt.kind, tt.value)); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestSampledAt checks that a reading is as old as its start.
func TestSampledAt(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	begun := clockOf(s).Now()
	m.Hang("nvmlDeviceGetPowerUsage")
	read := make(chan *gpu.Snapshot)
	go func() {
		snap, _ := s.Read(t.Context())
		read <- snap
	}()
	m.AwaitHeld(1)
	pass(s, testDeadline/2)
	m.Heal()
	if d := testkit.Receive(t, "the reading", read).Devices[0]; !d.SampledAt.Equal(begun) {
		t.Errorf("sampled at %v, %v after it began", d.SampledAt, d.SampledAt.Sub(begun))
	}
}

func TestCostsAreOfEachFunction(t *testing.T) {
	m := machine(t, fakenvml.H100(), fakenvml.RTX4090().At(9))
	s := source(t, m)
	if costs := s.Costs(); costs != nil {
		t.Errorf("before the library is loaded there are costs: %v", costs)
	}
	read(t, s)
	read(t, s)
	costs := s.Costs()
	for _, name := range []string{"nvmlDeviceGetPowerUsage", "nvmlDeviceGetFanSpeedRPM", "nvmlInit_v2"} {
		i := slices.IndexFunc(costs, func(c gpu.Cost) bool { return c.Call == name })
		if i < 0 {
			t.Errorf("nothing is known of %s", name)
			continue
		}
		c := costs[i]
		if want := uint64(m.Calls(name)); c.Source != gpu.SourceNVML || c.Count != want {
			t.Errorf("%s: %+v, want %d calls", name, c, want)
		}
		if c.Longest <= 0 || c.Total < c.Longest || c.Total > time.Duration(c.Count)*c.Longest {
			t.Errorf("%s took what can't be: %+v", name, c)
		}
	}
}
