package catalog

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestOfHost(t *testing.T) {
	h := &gpu.Host{
		CPU: gpu.Of[gpu.Percent](12.5), MemoryTotal: gpu.Of(gpu.Bytes(4 << 30)), MemoryUsed: gpu.Of(gpu.Bytes(1 << 30)), CPUPower: gpu.Of[gpu.Watts](65),
		Temperatures: []gpu.HostTemperature{
			{Name: "CPU socket", Celsius: gpu.Of[gpu.Celsius](99)}, {Name: "CPU", Celsius: gpu.Of[gpu.Celsius](61)},
			{Name: "CPU 2", Celsius: gpu.Of[gpu.Celsius](64)}, {Name: "chipset", Celsius: gpu.Of[gpu.Celsius](80)},
		},
		Fans: []gpu.HostFan{
			{Name: "water pump", RPM: gpu.Of[gpu.RPM](4800)}, {Name: "CPU fan", RPM: gpu.Of[gpu.RPM](900)},
			{Name: "case fan", RPM: gpu.Absent[gpu.RPM](gpu.Stale)},
		},
		Disks:    []gpu.Disk{{Read: gpu.Of[gpu.BytesPerSecond](1e6)}, {Write: gpu.Of[gpu.BytesPerSecond](5e5)}},
		Networks: []gpu.Interface{{}},
	}
	want := map[string]gpu.Reading[float64]{
		"cpu_percent": gpu.Of(12.5), "host_memory_percent": gpu.Of(25.0), "cpu_celsius": gpu.Of(64.0), "host_fan_rpm": gpu.Of(900.0),
		"cpu_watts": gpu.Of(65.0), "disk_mb_per_second": gpu.Of(1.5), "network_mb_per_second": {},
	}
	for _, r := range OfHost {
		if got := r.Number(h); got != want[r.Kept] {
			t.Errorf("%s is %v, want %v", r.Kept, got, want[r.Kept])
		}
		if got := r.Number(&gpu.Host{}); got.Present() {
			t.Errorf("%s of nothing is %v", r.Kept, got)
		}
		for row := range All() {
			if row.Kept == r.Kept {
				t.Errorf("%s is also that of a device", r.Kept)
			}
		}
		delete(want, r.Kept)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}
