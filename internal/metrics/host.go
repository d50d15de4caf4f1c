package metrics

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// value is what most metrics of the machine are made of.
type value = gpu.Reading[float64]

// memberRows are about a node of a fleet. They are there even while it is silent.
var memberRows = []Row[*insight.Moment]{
	{
		name: "gpuwhy_node_silent", unit: YesNo, help: "Whether the node has stopped sending data. While it is 1, all other series of the node are left out.", absent: noFleet,
		each: func(m *insight.Moment, emit Emit) { emit(gpu.Of(zeroOne(m.Silent()))) },
	},
	{
		name: "gpuwhy_node_last_seen_timestamp_seconds", unit: Timestamp, help: "When the node's newest reading began, by its own clock.", absent: noFleet,
		each: func(m *insight.Moment, emit Emit) { emit(Unix(m.Snapshot.Time)) },
	},
}

const noFleet = "gpuwhy shows only this machine"

// nodeRows are about a snapshot as a whole, and the machine around the devices.
var nodeRows = []Row[*gpu.Snapshot]{
	Plain("gpuwhy_gpus", Number, "Number of devices in any state; 0 if none was found.",
		func(s *gpu.Snapshot) float64 { return float64(len(s.Devices)) }),
	ofParts("gpuwhy_host_info", Number, "Facts about the machine. Always 1.", "/etc/os-release, /proc/cpuinfo",
		func(h *gpu.Host, emit Emit) { emit(one, h.Hostname, h.OS, h.Kernel, h.CPUModel.Or("")) },
		"hostname", "os", "kernel", "cpu"),
	ofHost("gpuwhy_host_uptime_seconds", Seconds, "Time since the machine started.", "/proc/uptime",
		func(h *gpu.Host) value { return gpu.Map(h.Uptime, time.Duration.Seconds) }),
	ofHost("gpuwhy_host_cpus", Number, "Logical processors.", "/proc/stat", func(h *gpu.Host) value { return num(h.Cores) }),
	ofHost("gpuwhy_host_cpu_ratio", percent, "CPU utilization over all processors since the previous reading.", "/proc/stat",
		func(h *gpu.Host) value { return num(h.CPU) }),
	ofHost("gpuwhy_host_load1", Number, "Load average of 1 minute.", "/proc/loadavg", func(h *gpu.Host) value { return h.Load1 }),
	ofHost("gpuwhy_host_load5", Number, "Load average of 5 minutes.", "/proc/loadavg", func(h *gpu.Host) value { return h.Load5 }),
	ofHost("gpuwhy_host_load15", Number, "Load average of 15 minutes.", "/proc/loadavg", func(h *gpu.Host) value { return h.Load15 }),
	ofHost("gpuwhy_host_memory_total_bytes", Bytes, "The machine's memory.", "/proc/meminfo",
		func(h *gpu.Host) value { return num(h.MemoryTotal) }),
	ofHost("gpuwhy_host_memory_used_bytes", Bytes, "Memory in use.", "/proc/meminfo",
		func(h *gpu.Host) value { return num(h.MemoryUsed) }),
	ofHost("gpuwhy_host_memory_available_bytes", Bytes, "Memory available without swapping.", "/proc/meminfo",
		func(h *gpu.Host) value { return num(h.MemoryAvailable) }),
	ofHost("gpuwhy_host_swap_total_bytes", Bytes, "Swap space.", "/proc/meminfo",
		func(h *gpu.Host) value { return num(h.SwapTotal) }),
	ofHost("gpuwhy_host_swap_used_bytes", Bytes, "Swap space in use.", "/proc/meminfo",
		func(h *gpu.Host) value { return num(h.SwapUsed) }),
	ofHost("gpuwhy_host_cpu_power_watts", units[catalog.Watts], "Power draw of all processors since the previous reading.", "/sys/class/powercap",
		func(h *gpu.Host) value { return num(h.CPUPower) }),
	ofParts("gpuwhy_host_fan_rpm", units[catalog.RPM], "Speed of one of the machine's fans, in revolutions per minute; also 0 if none is connected.", "/sys/class/hwmon",
		Each(func(h *gpu.Host) []gpu.HostFan { return h.Fans },
			func(f *gpu.HostFan, emit Emit) { emit(num(f.RPM), f.Name, f.Chip) }), "fan", "chip"),
	ofParts("gpuwhy_host_temperature_celsius", units[catalog.Celsius], "Temperature of a part of the machine.", "/sys/class/hwmon",
		Each(func(h *gpu.Host) []gpu.HostTemperature { return h.Temperatures },
			func(t *gpu.HostTemperature, emit Emit) { emit(num(t.Celsius), t.Name, t.Chip) }), "sensor", "chip"),
	ofParts("gpuwhy_host_disk_total_bytes", Bytes, "Size of a mounted file system.", "statfs",
		eachDisk(func(d *gpu.Disk) value { return num(d.Total) }), "device", "mount"),
	ofParts("gpuwhy_host_disk_used_bytes", Bytes, "Used space of a mounted file system.", "statfs",
		eachDisk(func(d *gpu.Disk) value { return num(d.Used) }), "device", "mount"),
	ofParts("gpuwhy_host_network_received_bytes_total", Bytes, "Bytes received by a network interface.", "/proc/net/dev",
		eachNetwork(func(n *gpu.Interface) value { return num(n.ReceivedTotal) }), "interface"),
	ofParts("gpuwhy_host_network_sent_bytes_total", Bytes, "Bytes sent by a network interface.", "/proc/net/dev",
		eachNetwork(func(n *gpu.Interface) value { return num(n.SentTotal) }), "interface"),
}

const noHost = "the machine's facts could not be read"

func ofHost(name string, u Unit, help, source string, get func(*gpu.Host) value) Row[*gpu.Snapshot] {
	return ofParts(name, u, help, source, func(h *gpu.Host, emit Emit) { emit(get(h)) })
}

func ofParts(name string, u Unit, help, source string, each func(*gpu.Host, Emit), labels ...string) Row[*gpu.Snapshot] {
	emitHost := func(s *gpu.Snapshot, emit Emit) {
		if s.Host != nil {
			each(s.Host, emit)
		}
	}
	return Row[*gpu.Snapshot]{name: name, unit: u, help: help, absent: noHost, source: source, each: emitHost, labels: labels}
}

// eachDisk emits a disk once, even if it is mounted over itself.
func eachDisk(get func(*gpu.Disk) value) func(*gpu.Host, Emit) {
	return func(h *gpu.Host, emit Emit) {
		type place struct{ device, mount string }
		seen := make(map[place]bool, len(h.Disks))
		for i := range h.Disks {
			d := &h.Disks[i]
			if mount := (place{d.Device, d.Mount}); !seen[mount] {
				seen[mount] = true
				emit(get(d), d.Device, d.Mount)
			}
		}
	}
}

func eachNetwork(get func(*gpu.Interface) value) func(*gpu.Host, Emit) {
	return Each(func(h *gpu.Host) []gpu.Interface { return h.Networks },
		func(n *gpu.Interface, emit Emit) { emit(get(n), n.Name) })
}
