package catalog

import (
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A HostRow is a reading of the machine around the devices that is kept for a while.
type HostRow struct {
	Kept  string // the name under which it is kept, with its unit
	Label string // for people
	Unit  string // such as "°C"
	// Number returns the reading; it is absent if its parts are.
	Number func(*gpu.Host) gpu.Reading[float64]
}

// OfHost are the readings of a machine, apart from its devices, that are kept.
var OfHost = []HostRow{
	{"cpu_percent", "CPU", "%", func(h *gpu.Host) gpu.Reading[float64] { return gpu.Map(h.CPU, toFloat) }},
	{"host_memory_percent", "Memory", "%", func(h *gpu.Host) gpu.Reading[float64] {
		total := float64(h.MemoryTotal.Or(0))
		if total == 0 {
			return gpu.Reading[float64]{}
		}
		return gpu.Map(h.MemoryUsed, func(b gpu.Bytes) float64 { return 100 * float64(b) / total })
	}},
	{"cpu_celsius", "CPU temperature", "°C", func(h *gpu.Host) gpu.Reading[float64] {
		return most(h.Temperatures, func(t *gpu.HostTemperature) (gpu.Reading[float64], bool) {
			return gpu.Map(t.Celsius, toFloat), t.Name == "CPU" || strings.HasPrefix(t.Name, "CPU ") && !strings.Contains(t.Name, "socket")
		})
	}},
	{"host_fan_rpm", "Fastest fan", "RPM", func(h *gpu.Host) gpu.Reading[float64] {
		return most(h.Fans, func(f *gpu.HostFan) (gpu.Reading[float64], bool) {
			return gpu.Map(f.RPM, toFloat), !strings.Contains(strings.ToLower(f.Name), "pump")
		})
	}},
	{"cpu_watts", "CPU power", "W", func(h *gpu.Host) gpu.Reading[float64] { return gpu.Map(h.CPUPower, toFloat) }},
	{"disk_mb_per_second", "Disks", "MB/s", func(h *gpu.Host) gpu.Reading[float64] {
		return sum(h.Disks, func(d *gpu.Disk) []gpu.Reading[gpu.BytesPerSecond] {
			return []gpu.Reading[gpu.BytesPerSecond]{d.Read, d.Write}
		})
	}},
	{"network_mb_per_second", "Network", "MB/s", func(h *gpu.Host) gpu.Reading[float64] {
		return sum(h.Networks, func(n *gpu.Interface) []gpu.Reading[gpu.BytesPerSecond] {
			return []gpu.Reading[gpu.BytesPerSecond]{n.Received, n.Sent}
		})
	}},
}

func toFloat[T ~float64](v T) float64 { return float64(v) }

// most returns the highest trusted value that counts.
func most[T any](list []T, value func(*T) (r gpu.Reading[float64], counts bool)) (out gpu.Reading[float64]) {
	for i := range list {
		r, counts := value(&list[i])
		if v, ok := r.Trusted(); ok && counts && !(v <= out.Or(v-1)) {
			out = r
		}
	}
	return out
}

// sum adds up rates in megabytes per second; absent if none is known.
func sum[T any](list []T, rates func(*T) []gpu.Reading[gpu.BytesPerSecond]) (out gpu.Reading[float64]) {
	for i := range list {
		for _, r := range rates(&list[i]) {
			if v, ok := r.Trusted(); ok {
				out = gpu.Of(out.Or(0) + float64(v)/1e6)
			}
		}
	}
	return out
}
