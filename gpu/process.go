package gpu

import "time"

// ProcessType is what kind of context a process has on a device.
type ProcessType string

// The types of process. One that has a compute and a graphics context is
// TypeComputeGraphics.
const (
	TypeCompute         ProcessType = "compute"
	TypeGraphics        ProcessType = "graphics"
	TypeComputeGraphics ProcessType = "compute+graphics"
	TypeMPS             ProcessType = "mps" // through the multi-process service
	TypeUnknown         ProcessType = "unknown"
)

// A Process is one process with a context on one device.
type Process struct {
	PID  int
	Type ProcessType
	// Memory that the process holds on the device; absent under Windows
	// display mode, WSL and where the driver does not say.
	Memory Reading[Bytes]
	// Shares of the engines' time over the last sample window, 0 to 100
	// (nvmlDeviceGetProcessUtilization). A process without a sample in the
	// window has a reported 0 where the driver takes samples, and is absent
	// where it takes none.
	SM, MemoryBandwidth, Encoder, Decoder Reading[Percent]
	// GPUInstance and ComputeInstance name the MIG instance; absent
	// outside MIG mode.
	GPUInstance, ComputeInstance Reading[int]
	// Facts are what the host knows of it.
	Facts ProcessFacts
}

// ProcessFacts are what the host knows of a process. All are absent for a
// process that the host can't see, such as one of another pid namespace; a
// stranger's facts are never given.
type ProcessFacts struct {
	Name    Reading[string]    // /proc/<pid>/comm, or the program's file name where it is longer
	User    Reading[string]    // the user's name, or the numeric id where it has none
	Command Reading[string]    // the command line; not permitted unless it is ours to show
	Started Reading[time.Time] // whole clock ticks (10 ms), UTC
	CPU     Reading[Percent]   // of one core, since the last reading; may pass 100
	RSS     Reading[Bytes]     // resident memory
}

// A Host is the machine around the devices.
type Host struct {
	Hostname string
	OS       string // "Debian GNU/Linux 12 (bookworm)"
	Kernel   string
	Uptime   Reading[time.Duration]

	CPUModel             Reading[string]
	Cores                Reading[int]     // logical
	CPU                  Reading[Percent] // of all cores, since the last reading
	Load1, Load5, Load15 Reading[float64]

	MemoryTotal, MemoryUsed, MemoryAvailable Reading[Bytes]
	SwapTotal, SwapUsed                      Reading[Bytes]

	Disks    []Disk      // mounted file systems on real block devices
	Networks []Interface // that are up, without the loopback
	// Self is what gpuwhy itself costs.
	Self Self
}

// A Disk is a mounted file system, with the traffic of its device.
type Disk struct {
	Device, Mount, FileSystem string
	Total, Used               Reading[Bytes]
	Read, Write               Reading[BytesPerSecond] // since the last reading
}

// An Interface is a network interface, with its traffic.
type Interface struct {
	Name           string
	Received, Sent Reading[BytesPerSecond] // since the last reading
	ReceivedTotal  Reading[Bytes]
	SentTotal      Reading[Bytes]
}

// Self is what gpuwhy itself costs the machine.
type Self struct {
	CPU Reading[Percent] // of one core, since the last reading
	RSS Reading[Bytes]
}
