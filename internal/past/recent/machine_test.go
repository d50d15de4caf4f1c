package recent

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Of a machine without a device its own readings are kept, also over a restart; as soon as it
// has one, they are not.
func TestAMachineWithoutADevice(t *testing.T) {
	s := New()
	when := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		host := &gpu.Host{CPU: gpu.Of(gpu.Percent(10 * i)), Fans: []gpu.HostFan{{Name: "CPU fan", RPM: gpu.Of(gpu.RPM(900 + i))}}}
		s.Add(&gpu.Snapshot{Node: "box", Time: when.Add(time.Duration(i) * 5 * time.Second), Host: host})
	}
	hosted := &gpu.Snapshot{Node: "box", Time: when.Add(15 * time.Second), Host: &gpu.Host{CPU: gpu.Of[gpu.Percent](99)}, Devices: make([]gpu.Device, 1)}
	hosted.Devices[0].Node, hosted.Devices[0].UUID = "box", "GPU-1"
	s.Add(hosted)
	again := New()
	if err := again.Restore(s.Kept(), when.Add(20*time.Second)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"first": s, "restored": again} {
		v := s.View(nil)
		if len(v.Machines) != 1 || v.Machines[0].Node != "box" || len(v.Times) != 4 {
			t.Fatalf("%s: %d machines, %d times", name, len(v.Machines), len(v.Times))
		}
		for metric, want := range map[string][]gpu.Reading[float64]{
			"cpu_percent":  {gpu.Of(0.0), gpu.Of(10.0), gpu.Of(20.0), {}},
			"host_fan_rpm": {gpu.Of(900.0), gpu.Of(901.0), gpu.Of(902.0), {}},
			"cpu_watts":    {{}, {}, {}, {}},
		} {
			got := v.Machines[0].Values[metric]
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s: %s at %d is %v, want %v", name, metric, i, got[i], want[i])
				}
			}
		}
		if !s.Reports("cpu_percent", nil) || s.Reports("cpu_watts", nil) || s.Reports("power_watts", nil) {
			t.Errorf("%s: it has %v, %v, %v", name, s.Reports("cpu_percent", nil), s.Reports("cpu_watts", nil), s.Reports("power_watts", nil))
		}
		if one := s.View(func(string, string, int) bool { return true }); len(one.Machines) != 0 {
			t.Errorf("%s: of some devices it has a machine", name)
		}
	}
}
