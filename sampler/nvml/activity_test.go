//go:build linux && cgo

package nvml

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// later returns a reading that is compared with the previous one.
func later(t *testing.T, s *Source) *gpu.Device {
	t.Helper()
	pass(s, soonest)
	return readOne(t, s)
}

func TestActivity(t *testing.T) {
	m := machine(t, fakenvml.H100())
	s := source(t, m)
	if d := readOne(t, s); d.Activity != (gpu.Activity{}) {
		t.Errorf("a first reading has nothing to compare with, and says %+v", d.Activity)
	}
	if d := readOne(t, s); d.Activity != (gpu.Activity{}) || m.Calls("nvmlGpmSampleGet") != 1 {
		t.Errorf("a reading at once says %+v with %d samples", d.Activity, m.Calls("nvmlGpmSampleGet"))
	}
	const mib = 1 << 20
	want := gpu.Activity{
		Engine: gpu.Of(gpu.Percent(96.8)), SM: gpu.Of(gpu.Percent(88.4)), Occupancy: gpu.Of(gpu.Percent(41.7)), Tensor: gpu.Of(gpu.Percent(52.3)),
		FP64: gpu.Of(gpu.Percent(0)), FP32: gpu.Of(gpu.Percent(3.1)), FP16: gpu.Of(gpu.Percent(1.2)), Integer: gpu.Of(gpu.Percent(12.6)),
		MemoryBandwidth: gpu.Of(gpu.Percent(54.9)),
		PCIeSent:        gpu.Of(gpu.BytesPerSecond(212.5 * mib)), PCIeReceived: gpu.Of(gpu.BytesPerSecond(1184 * mib)),
		NVLinkSent: gpu.Of(gpu.BytesPerSecond(41250 * mib)), NVLinkReceived: gpu.Of(gpu.BytesPerSecond(41262.25 * mib)),
	}
	if diff := cmp.Diff(want, later(t, s).Activity, everything); diff != "" {
		t.Errorf("activity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, readOne(t, s).Activity, everything); diff != "" {
		t.Errorf("a reading too soon to be compared has the last comparison (-want +got):\n%s", diff)
	}
	m.GPU(0).Set(keyTensorActive, 7.5)
	for range 3 {
		if got := later(t, s).Activity.Tensor; got != gpu.Of(gpu.Percent(7.5)) {
			t.Errorf("tensor cores at %v, want 7.5", got)
		}
	}
	if n := m.Counters().Samples; n != 2 {
		t.Errorf("%d samples are kept, want 2", n)
	}
	if n := m.Calls("nvmlGpmQueryDeviceSupport"); n != 1 {
		t.Errorf("asked %d times whether the device has the counters, want once a minute", n)
	}
}

// TestActivityValues checks that wrong counter values never become good readings.
func TestActivityValues(t *testing.T) {
	tensor := func(a *gpu.Activity) string { return a.Tensor.String() }
	nvlink := func(a *gpu.Activity) string { return a.NVLinkSent.String() }
	for name, tt := range map[string]struct {
		key  fakenvml.Key
		set  any
		get  func(*gpu.Activity) string
		want string
	}{
		"0":                     {keyTensorActive, 0, tensor, "0"},
		"100":                   {keyTensorActive, 100, tensor, "100"},
		"a grain more than all": {keyTensorActive, 100.4, tensor, "100"},
		"more than all":         {keyTensorActive, 140, tensor, "100 (doubtful)"},
		"less than nothing":     {keyTensorActive, -3, tensor, "not_reported"},
		"no number":             {keyTensorActive, "nan", tensor, "not_reported"},
		"endless":               {keyTensorActive, "inf", tensor, "not_reported"},
		"not supported":         {keyTensorActive, fakenvml.Error(int(notSupported)), tensor, "not_supported"},
		"forbidden":             {keyTensorActive, fakenvml.Error(int(noPermission)), tensor, "not_permitted"},
		"no NVLink":             {keyNVLinkSent, fakenvml.Error(int(notSupported)), nvlink, "not_supported"},
		"idle NVLink":           {keyNVLinkSent, 0, nvlink, "0"},
		"faster than light":     {keyNVLinkSent, 1e12, nvlink, "1.048576e+18 (doubtful)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, machine(t, fakenvml.H100().With(tt.key, tt.set)))
			readOne(t, s)
			if got := tt.get(&later(t, s).Activity); got != tt.want {
				t.Errorf("%v reads as %s, want %s", tt.set, got, tt.want)
			}
		})
	}
}

// TestActivityAbsent checks that a device without counters gets no calls for them, and gives the reason.
func TestActivityAbsent(t *testing.T) {
	for name, tt := range map[string]struct {
		gpu    fakenvml.GPU
		change func(*fakenvml.Machine)
		want   gpu.Quality
		calls  int // calls of nvmlGpmSampleGet in two readings
	}{
		"older product": {fakenvml.RTX4090(), func(*fakenvml.Machine) {}, gpu.NotSupported, 0},
		"MIG mode": {fakenvml.H100(), func(m *fakenvml.Machine) {
			setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG", MemoryTotal: mib})
		}, gpu.NotSupported, 0},
		"may not ask": {fakenvml.H100(), func(m *fakenvml.Machine) {
			m.Answer(int(noPermission), "nvmlGpmQueryDeviceSupport")
		}, gpu.NotPermitted, 0},
		"may not sample": {fakenvml.H100(), func(m *fakenvml.Machine) {
			m.Answer(int(noPermission), "nvmlGpmSampleGet")
		}, gpu.NotPermitted, 2},
		"no buffers": {fakenvml.H100(), func(m *fakenvml.Machine) {
			m.Answer(int(unknown), "nvmlGpmSampleAlloc")
		}, gpu.NotReported, 0},
		"can't compare": {fakenvml.H100(), func(m *fakenvml.Machine) {
			m.Answer(int(notSupported), "nvmlGpmMetricsGet")
		}, gpu.NotSupported, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, tt.gpu)
			tt.change(m)
			s := source(t, m)
			readOne(t, s)
			d := later(t, s)
			if diff := cmp.Diff(gpu.AbsentActivity(tt.want), d.Activity, everything); diff != "" || d.State != gpu.StateOK || !d.Power.Draw.Present() {
				t.Errorf("%s, power %v, activity (-want +got):\n%s", d.State, d.Power.Draw, diff)
			}
			if n := m.Calls("nvmlGpmSampleGet"); n != tt.calls {
				t.Errorf("%d samples were taken, want %d", n, tt.calls)
			}
		})
	}
}

// TestActivityIsOfThePresent checks that a sample from before a long pause is not used for comparison, and that a device that stopped
// answering starts over.
func TestActivityIsOfThePresent(t *testing.T) {
	m := machine(t, fakenvml.H100())
	s := source(t, m, func(c *Config) { c.Window = soonest / 3 })
	readOne(t, s)
	if d := later(t, s); d.Activity != (gpu.Activity{}) {
		t.Errorf("compared with what is older than two windows: %+v", d.Activity)
	}
	if m.Calls("nvmlGpmMetricsGet") != 0 {
		t.Error("the driver was asked to compare")
	}
	s = source(t, m, func(c *Config) { c.Window, c.Apart = soonest/3, time.Hour })
	readOne(t, s)
	if d := later(t, s); !d.Activity.SM.Present() {
		t.Errorf("readings that may be an hour apart are not compared: %+v", d.Activity)
	}
}

// TestActivityOfInstances checks that each GPU instance has its own counters, which its compute instances share.
func TestActivityOfInstances(t *testing.T) {
	in := func(uuid string, gi, ci uint32) migInstance {
		return migInstance{UUID: uuid, Name: "MIG", GPUInstance: gi, ComputeInstance: ci, MemoryTotal: mib}
	}
	busy := func(g fakenvml.GPU) fakenvml.GPU { // instance 5 has reported nothing
		return g.With("gi3.gpm1", 41.5).With("gi3.gpm2", 30).With("gi3.gpm5", "0").With("gi3.gpm10", fakenvml.Error(int(noPermission)))
	}
	m := machine(t, busy(fakenvml.H100()))
	setInstances(m.GPU(0), in("MIG-1", 3, 0), in("MIG-2", 3, 1), in("MIG-3", 5, 0))
	s := source(t, m)
	if got := readOne(t, s).Instances; len(got) != 3 || got[0].Engine != (gpu.Reading[gpu.Percent]{}) {
		t.Errorf("the first reading: %+v", got)
	}
	got := later(t, s).Instances
	for i, want := range [][4]gpu.Reading[gpu.Percent]{
		{gpu.Of[gpu.Percent](41.5), gpu.Of[gpu.Percent](30), gpu.Of[gpu.Percent](0), no[gpu.Percent](gpu.NotPermitted)},
		{gpu.Of[gpu.Percent](41.5), gpu.Of[gpu.Percent](30), gpu.Of[gpu.Percent](0), no[gpu.Percent](gpu.NotPermitted)},
		{no[gpu.Percent](gpu.NotSupported), no[gpu.Percent](gpu.NotSupported), no[gpu.Percent](gpu.NotSupported), no[gpu.Percent](gpu.NotSupported)},
	} {
		if in := got[i]; [4]gpu.Reading[gpu.Percent]{in.Engine, in.SM, in.Tensor, in.MemoryBandwidth} != want {
			t.Errorf("instance %d: %v, %v, %v, %v; want %v", i, in.Engine, in.SM, in.Tensor, in.MemoryBandwidth, want)
		}
	}
	if n := m.Counters().Samples; n != 4 {
		t.Errorf("%d buffers for two GPU instances", n)
	}
	if n := m.Calls("nvmlGpmMigSampleGet"); n != 4 {
		t.Errorf("%d samples in two readings of two GPU instances", n)
	}
}

func TestInstancesWithoutCounters(t *testing.T) {
	m := machine(t, fakenvml.H100().With("gpm", 0))
	setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG", GPUInstance: 3, MemoryTotal: mib})
	s := source(t, m)
	readOne(t, s)
	if got := later(t, s).Instances[0].Engine; got != no[gpu.Percent](gpu.NotSupported) || m.Calls("nvmlGpmMigSampleGet") != 0 {
		t.Errorf("%v after %d samples", got, m.Calls("nvmlGpmMigSampleGet"))
	}
}

// TestActivityInMIGMode checks that the buffers belong to the instances while MIG mode is on, and are allocated again when it ends.
func TestActivityInMIGMode(t *testing.T) {
	m := machine(t, fakenvml.H100())
	s := source(t, m)
	readOne(t, s)
	d := s.session.devices[0]
	forget := func() { clear(d.due) } // what is asked seldom is asked at the next reading
	setInstances(m.GPU(0), migInstance{UUID: "MIG-1", Name: "MIG", MemoryTotal: mib})
	forget()
	if got := later(t, s).Activity; got != gpu.AbsentActivity(gpu.NotSupported) || m.Counters().Samples != 2 {
		t.Errorf("in MIG mode: %+v, %d buffers", got, m.Counters().Samples)
	}
	setInstances(m.GPU(0))
	forget()
	if got := later(t, s).Activity; got != (gpu.Activity{}) || m.Counters().Samples != 2 {
		t.Errorf("the first reading after it: %+v, %d buffers", got, m.Counters().Samples)
	}
	if got := later(t, s).Activity.Tensor; got != gpu.Of(gpu.Percent(52.3)) {
		t.Errorf("the second reading after it: tensor cores at %v", got)
	}
}

// TestActivityHangs checks that a hanging call for the counters only holds up its own device, and that its late result is not compared with
// new samples.
func TestActivityHangs(t *testing.T) {
	m := machine(t, fakenvml.H100(), fakenvml.H100().At(0x2a))
	s := source(t, m)
	until(t, s, "both compared", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Activity.Tensor.Present() && snap.Devices[1].Activity.Tensor.Present()
	})
	m.GPU(0).Hang("nvmlGpmSampleGet")
	snap := until(t, s, "not answering", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap.Devices[0].State == gpu.StateNotAnswering
	})
	if d := snap.Devices[1]; d.State != gpu.StateOK || !d.Activity.Tensor.Present() {
		t.Errorf("the other device is %s, its tensor cores at %v", d.State, d.Activity.Tensor)
	}
	m.GPU(0).Back()
	until(t, s, "both well, and compared", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Activity.Tensor.Present()
	})
}

// TestActivityAfterReload checks that buffers from the old session's driver are not passed to the new one.
func TestActivityAfterReload(t *testing.T) {
	m := machine(t, fakenvml.H100())
	s := source(t, m)
	readOne(t, s)
	m.Reload()
	until(t, s, "well again, and compared", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Activity.Tensor.Present()
	})
	if n := m.Counters().Samples; n != 2 {
		t.Errorf("%d samples are kept after a reload, want 2", n)
	}
}
