package gpu

import "time"

// ProcessType is the kind of context that a process has on a device.
type ProcessType string

// The types of process.
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
	// Memory that it holds on the device and, with [SharedMemory.Unified], also in the
	// machine's memory; absent in Windows display mode, in WSL and if the driver does
	// not say.
	Memory Reading[Bytes]
	// Shares of the engines' time over the last sample window: a reported 0 if it has no
	// sample of the process, absent if the driver takes no samples.
	SM, MemoryBandwidth, Encoder, Decoder Reading[Percent]
	Video                                 Reading[Percent] // for the engines of [Utilization.Video]
	GPUInstance, ComputeInstance          Reading[int]     // of MIG; absent outside MIG mode
	Facts                                 ProcessFacts
}

// ProcessFacts are what the host knows about a process. All are absent for a process that
// it can't see, such as one in another pid namespace.
type ProcessFacts struct {
	Name Reading[string] // /proc/<pid>/comm, or the program's file name if that is longer
	User Reading[string] // the user's name, or the numeric ID if it has none
	// Program is what a person would call the running program: a script ("train.py"), a
	// module, a class, a Windows program, a title that it gave itself, or its file name; at
	// most 255 bytes, without folders and arguments. From /proc/<pid>/cmdline and, for our
	// own user's notebooks, /proc/<pid>/environ. NotPermitted if gpuwhy may not show it,
	// NotReported without a command line, as for kernel threads.
	Program Reading[string]
	Command Reading[string] // the command line; NotPermitted if gpuwhy may not show it
	// Private is the whole command line without secrets, for the process's own user and for administrators who ask for it, where
	// Command is not permitted; empty if it can't be read or is to be shown to nobody. It stays in the program that read it: nothing
	// writes it to a file or sends it to another program.
	Private string             `record:"-"`
	Started Reading[time.Time] // whole clock ticks (10 ms), UTC
	CPU     Reading[Percent]   // of one core, since the last reading; may exceed 100
	RSS     Reading[Bytes]     // resident memory
	// Exists is a reported false if the process has ended, or is a zombie whose name is known;
	// absent if gpuwhy can't tell.
	Exists Reading[bool]

	// What the process belongs to, from /proc/<pid>/cgroup. A reported zero means none.
	Container Reading[Container]
	Pod       Reading[Pod]
	Unit      Reading[Unit]
	Job       Reading[Job]
}

// A Container is the container that a process runs in. Of nested containers it is the
// outermost, which this machine's runtime knows.
type Container struct {
	ID      string // 64 hexadecimal digits, or the name for runtimes that use names (LXC, nspawn); empty: none
	Runtime string // see the constants; empty: the control group does not tell
	// What the runtime reports: NotPermitted if its socket or files may not be read,
	// NotSupported if it can't be asked, NotReported until it has answered.
	Name, Image Reading[string]
}

// None reports whether c means "in no container".
func (c Container) None() bool { return c.ID == "" }

// The runtimes of a [Container].
const (
	RuntimeDocker     = "docker"
	RuntimePodman     = "podman"
	RuntimeContainerd = "containerd"
	RuntimeCRIO       = "cri-o"
	RuntimeLXC        = "lxc" // LXD and Incus too
	RuntimeNspawn     = "systemd-nspawn"
)

// A Pod is the Kubernetes pod that a process belongs to.
type Pod struct {
	UID                        string          // as in the pod's metadata; empty: in no pod
	Namespace, Name, Container Reading[string] // as reported by the container runtime; see [Container]
}

// None reports whether p means "in no pod".
func (p Pod) None() bool { return p.UID == "" }

// A Unit is the systemd unit that a process belongs to.
type Unit struct {
	Name  string // a service or scope, such as "ollama.service"; empty: directly in its slice
	Slice string // such as "system.slice"
	User  bool   // run by a user's own service manager (systemctl --user)
}

// None reports whether u means "in no unit".
func (u Unit) None() bool { return u == Unit{} }

// A Job is the Slurm job that a process belongs to.
type Job struct {
	ID   int    // 0: in no job
	Step string // "0", "batch", "extern", "interactive"; empty: not in a step
}

// None reports whether j means "in no job".
func (j Job) None() bool { return j.ID == 0 }

// A Host is the machine around the devices.
type Host struct {
	// SampledAt is when it was read, together with the facts of its processes; zero if a recording or a
	// simulation does not say. With an interval below 1 s it is up to 1 s before the snapshot's time.
	SampledAt time.Time

	Hostname string
	OS       string // "Debian GNU/Linux 12 (bookworm)"
	Kernel   string
	Uptime   Reading[time.Duration]
	// Boot identifies a boot: it changes with each start of the system. Empty if the system has none.
	// From /proc/sys/kernel/random/boot_id.
	Boot string

	CPUModel             Reading[string]
	Cores                Reading[int]     // logical
	CPU                  Reading[Percent] // of all cores, since the last reading
	Load1, Load5, Load15 Reading[float64]
	// CPUPower is the average draw of all processor packages since the last reading.
	// NotSupported if the system counts no energy, NotPermitted if only root may read it,
	// NotReported at the first reading and when a counter restarts. From
	// /sys/class/powercap/intel-rapl:*/energy_uj, which AMD's processors have too.
	CPUPower Reading[Watts]
	// CPUThrottled is whether a processor slowed itself down because of heat since the last
	// reading. NotSupported if the system does not count that, as with AMD's. From
	// /sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count.
	CPUThrottled Reading[bool]
	// Busiest are the programs that use the most CPU, busiest first, at most eight.
	// NotPermitted if gpuwhy sees only the processes of its own container, NotReported
	// until it has looked twice.
	Busiest Reading[[]HostProcess]

	MemoryTotal, MemoryUsed, MemoryAvailable Reading[Bytes]
	SwapTotal, SwapUsed                      Reading[Bytes]

	Disks    []Disk      // mounted file systems on real block devices
	Networks []Interface // those that are up, without the loopback
	// The machine's own fans and sensors, without those of GPUs and drives; none if the
	// system knows none. The CPU's come first.
	Fans         []HostFan
	Temperatures []HostTemperature
	// NoFans says why Fans is empty, and what to do. It is zero if there is a fan.
	NoFans Advice
	Self   Self
}

// A HostProcess is a program of one user that uses the CPU: one process or several of one
// name in one place.
type HostProcess struct {
	PID   int // of the process that uses the most CPU
	Count int // of processes, from 1
	// CPU is in percent of one core, since the previous look, and may exceed 100. It includes
	// children that ended meanwhile. From /proc/<pid>/stat.
	CPU   Percent
	Facts ProcessFacts // of the process PID
}

// A HostFan is a fan of the machine, such as the CPU's or the case's. A [Fan] belongs to a device.
type HostFan struct {
	Name string // "CPU fan", "case fan 2", "fan 3 of nct6798"; no other fan of the machine has it
	Chip string // the kernel's name of the chip that measures: "nct6798"
	// RPM is from 0 to 30000, and also 0 if no fan is connected. NotReported if the chip
	// has no such number, or an impossible one; NotPermitted if the file may not be read;
	// Stale if the chip has not answered for half a minute. From
	// /sys/class/hwmon/hwmon*/fan*_input.
	RPM Reading[RPM]
}

// A HostTemperature is a sensor of the machine, such as the CPU's or the board's.
type HostTemperature struct {
	Name string // "CPU", "chipset", "sensor 2 of acpitz"; no other sensor of the machine has it
	Chip string // the kernel's name of the chip that measures: "coretemp"
	// Celsius is from -40 to 150, and absent for the same reasons as [HostFan.RPM]. From
	// /sys/class/hwmon/hwmon*/temp*_input.
	Celsius Reading[Celsius]
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
