package metrics

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// nodeRows are about a snapshot as a whole.
var nodeRows = []row[*gpu.Snapshot]{
	{
		name: "gpuwhy_gpus", unit: number,
		help:  "Devices on the list, whatever their state; 0 where none could be found.",
		value: func(s *gpu.Snapshot) gpu.Reading[float64] { return gpu.Of(float64(len(s.Devices))) },
	},
}

const noHost = "the machine's facts could not be read"

// hostRows are about the machine around the devices.
var hostRows = []row[*gpu.Host]{
	{
		name: "gpuwhy_host_info", unit: number, labels: []string{"hostname", "os", "kernel", "cpu"}, absent: noHost,
		help: "The machine. Always 1.", from: "/etc/os-release, /proc/cpuinfo",
		each: func(h *gpu.Host, emit emit) { emit(one, h.Hostname, h.OS, h.Kernel, h.CPUModel.Or("")) },
	},
	{
		name: "gpuwhy_host_uptime_seconds", unit: seconds, absent: noHost, help: "Time since the machine started.", from: "/proc/uptime",
		value: func(h *gpu.Host) gpu.Reading[float64] { return gpu.Map(h.Uptime, time.Duration.Seconds) },
	},
	{
		name: "gpuwhy_host_cpus", unit: number, absent: noHost, help: "Logical processors.", from: "/proc/stat",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.Cores) },
	},
	{
		name: "gpuwhy_host_cpu_ratio", unit: percent, absent: noHost, help: "Share of all processors' time in use since the reading before.", from: "/proc/stat",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.CPU) },
	},
	{
		name: "gpuwhy_host_load1", unit: number, absent: noHost, help: "Load average of 1 minute.", from: "/proc/loadavg",
		value: func(h *gpu.Host) gpu.Reading[float64] { return h.Load1 },
	},
	{
		name: "gpuwhy_host_load5", unit: number, absent: noHost, help: "Load average of 5 minutes.", from: "/proc/loadavg",
		value: func(h *gpu.Host) gpu.Reading[float64] { return h.Load5 },
	},
	{
		name: "gpuwhy_host_load15", unit: number, absent: noHost, help: "Load average of 15 minutes.", from: "/proc/loadavg",
		value: func(h *gpu.Host) gpu.Reading[float64] { return h.Load15 },
	},
	{
		name: "gpuwhy_host_memory_total_bytes", unit: bytesUnit, absent: noHost, help: "The machine's memory.", from: "/proc/meminfo",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.MemoryTotal) },
	},
	{
		name: "gpuwhy_host_memory_used_bytes", unit: bytesUnit, absent: noHost, help: "Memory in use.", from: "/proc/meminfo",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.MemoryUsed) },
	},
	{
		name: "gpuwhy_host_memory_available_bytes", unit: bytesUnit, absent: noHost, help: "Memory that can be had without swapping.", from: "/proc/meminfo",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.MemoryAvailable) },
	},
	{
		name: "gpuwhy_host_swap_total_bytes", unit: bytesUnit, absent: noHost, help: "Swap space.", from: "/proc/meminfo",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.SwapTotal) },
	},
	{
		name: "gpuwhy_host_swap_used_bytes", unit: bytesUnit, absent: noHost, help: "Swap space in use.", from: "/proc/meminfo",
		value: func(h *gpu.Host) gpu.Reading[float64] { return num(h.SwapUsed) },
	},
	{
		name: "gpuwhy_host_disk_total_bytes", unit: bytesUnit, labels: []string{"device", "mount"}, absent: noHost,
		help: "Size of a mounted file system.", from: "statfs",
		each: eachDisk(func(d *gpu.Disk) gpu.Reading[float64] { return num(d.Total) }),
	},
	{
		name: "gpuwhy_host_disk_used_bytes", unit: bytesUnit, labels: []string{"device", "mount"}, absent: noHost,
		help: "What of a mounted file system is in use.", from: "statfs",
		each: eachDisk(func(d *gpu.Disk) gpu.Reading[float64] { return num(d.Used) }),
	},
	{
		name: "gpuwhy_host_network_received_bytes_total", kind: counter, unit: bytesUnit, labels: []string{"interface"}, absent: noHost,
		help: "Bytes that a network interface has received.", from: "/proc/net/dev",
		each: func(h *gpu.Host, emit emit) {
			for _, n := range h.Networks {
				emit(num(n.ReceivedTotal), n.Name)
			}
		},
	},
	{
		name: "gpuwhy_host_network_sent_bytes_total", kind: counter, unit: bytesUnit, labels: []string{"interface"}, absent: noHost,
		help: "Bytes that a network interface has sent.", from: "/proc/net/dev",
		each: func(h *gpu.Host, emit emit) {
			for _, n := range h.Networks {
				emit(num(n.SentTotal), n.Name)
			}
		},
	},
}

// eachDisk gives what is mounted over itself once.
func eachDisk(value func(*gpu.Disk) gpu.Reading[float64]) func(*gpu.Host, emit) {
	return func(h *gpu.Host, emit emit) {
		type place struct{ device, mount string }
		seen := make(map[place]bool, len(h.Disks))
		for i := range h.Disks {
			d := &h.Disks[i]
			if at := (place{d.Device, d.Mount}); !seen[at] {
				seen[at] = true
				emit(value(d), d.Device, d.Mount)
			}
		}
	}
}
