package gpu

import "time"

// ProcessType is what kind of context a process has on a device.
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
	// Memory that it holds on the device, of a device with [SharedMemory.Unified] also of
	// the machine's; absent under Windows display mode, WSL and where the
	// driver does not say.
	Memory Reading[Bytes]
	// Shares of the engines' time over the last sample window: a reported 0 without
	// a sample in it, absent where the driver takes no samples.
	SM, MemoryBandwidth, Encoder, Decoder Reading[Percent]
	Video                                 Reading[Percent] // of the engines of [Utilization.Video]
	GPUInstance, ComputeInstance          Reading[int]     // of MIG; absent outside MIG mode
	Facts                                 ProcessFacts
}

// ProcessFacts are what the host knows of a process. All are absent for one that it
// can't see, such as one of another pid namespace.
type ProcessFacts struct {
	Name Reading[string] // /proc/<pid>/comm, or the program's file name where it is longer
	User Reading[string] // the user's name, or the numeric id where it has none
	// Program is what a person would call what runs: a script ("train.py"), a module, a
	// class, a Windows program, a title that it gave itself, or the file of the program;
	// 255 bytes at most, without folders and arguments. From /proc/<pid>/cmdline, and of
	// a notebook of our own user /proc/<pid>/environ. NotPermitted unless it is ours to
	// show, NotReported of what has no command line, such as a thread of the kernel.
	Program Reading[string]
	Command Reading[string]    // the command line; not permitted unless it is ours to show
	Started Reading[time.Time] // whole clock ticks (10 ms), UTC
	CPU     Reading[Percent]   // of one core, since the last reading; may pass 100
	RSS     Reading[Bytes]     // resident memory
	// Exists is a reported false where there is no process of this pid any more, or only a zombie, whose name is known;
	// absent where that can't be told.
	Exists Reading[bool]

	// What the process belongs to, from /proc/<pid>/cgroup. A reported zero: to none.
	Container Reading[Container]
	Pod       Reading[Pod]
	Unit      Reading[Unit]
	Job       Reading[Job]
}

// A Container is what a process runs in, the outermost where they are nested: that
// is the one which this machine's runtime knows.
type Container struct {
	ID      string // 64 hexadecimal digits; the name where the runtime goes by names (LXC, nspawn); empty: none
	Runtime string // see the constants; empty: can't be told from the control group
	// What the runtime says: NotPermitted where its socket or files may not be read,
	// NotSupported where it can't be asked, NotReported until it has answered.
	Name, Image Reading[string]
}

// None reports whether it stands for "in no container".
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
	Namespace, Name, Container Reading[string] // as the container runtime says; see [Container]
}

// None reports whether it stands for "in no pod".
func (p Pod) None() bool { return p.UID == "" }

// A Unit is the systemd unit that a process belongs to.
type Unit struct {
	Name  string // a service or scope, such as "ollama.service"; empty: directly in its slice
	Slice string // such as "system.slice"
	User  bool   // of a user's own service manager (systemctl --user)
}

// None reports whether it stands for "in no unit".
func (u Unit) None() bool { return u == Unit{} }

// A Job is the Slurm job that a process belongs to.
type Job struct {
	ID   int    // 0: in no job
	Step string // "0", "batch", "extern", "interactive"; empty: not in a step
}

// None reports whether it stands for "in no job".
func (j Job) None() bool { return j.ID == 0 }

// A Host is the machine around the devices.
type Host struct {
	// SampledAt is when it was read, and with it the facts of the processes that were there then; zero where a
	// recording or a simulation does not say. With an interval below 1 s it is up to 1 s before the snapshot's time.
	SampledAt time.Time

	Hostname string
	OS       string // "Debian GNU/Linux 12 (bookworm)"
	Kernel   string
	Uptime   Reading[time.Duration]
	// Boot is another one after each start of the system; empty where the system has none.
	// From /proc/sys/kernel/random/boot_id.
	Boot string

	CPUModel             Reading[string]
	Cores                Reading[int]     // logical
	CPU                  Reading[Percent] // of all cores, since the last reading
	Load1, Load5, Load15 Reading[float64]
	// CPUPower is what the processors draw, of all packages, since the last reading.
	// NotSupported where the system counts no energy, NotPermitted where it lets root alone
	// read it, NotReported at the first reading and as a counter begins anew. From
	// /sys/class/powercap/intel-rapl:*/energy_uj, which AMD's processors have too.
	CPUPower Reading[Watts]
	// CPUThrottled is whether a processor slowed itself down for its heat since the last
	// reading. NotSupported where the system does not count that, as with AMD's. From
	// /sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count.
	CPUThrottled Reading[bool]
	// Busiest are those who use most of the CPU, the busiest first, eight at most.
	// NotPermitted where gpuwhy sees the processes of its own container alone, NotReported
	// until it has looked twice.
	Busiest Reading[[]HostProcess]

	MemoryTotal, MemoryUsed, MemoryAvailable Reading[Bytes]
	SwapTotal, SwapUsed                      Reading[Bytes]

	Disks    []Disk      // mounted file systems on real block devices
	Networks []Interface // that are up, without the loopback
	// The machine's own fans and sensors, without those of GPUs and drives; none where the
	// system knows none. Those of the CPU come first.
	Fans         []HostFan
	Temperatures []HostTemperature
	// NoFans says why Fans is empty, and what to do. It is zero where there is a fan.
	NoFans Advice
	Self   Self
}

// A HostProcess is a program of one user that uses the CPU: one process or several of one
// name in one place.
type HostProcess struct {
	PID   int // of the one that uses most
	Count int // of processes, from 1
	// CPU is of one core, since the look before, and may pass 100. It has what children
	// used that ended meanwhile. From /proc/<pid>/stat.
	CPU   Percent
	Facts ProcessFacts // of the process PID
}

// A HostFan is a fan of the machine, as of the CPU or the case. [Fan] is one of a device.
type HostFan struct {
	Name string // "CPU fan", "case fan 2", "fan 3 of nct6798"; no other fan of the machine has it
	Chip string // the kernel's name of what counts: "nct6798"
	// RPM is from 0 to 30000, and also 0 where no fan is connected. NotReported where the
	// chip has no such number, or one that can't be true; NotPermitted where the file may
	// not be read; Stale where the chip has not answered for half a minute. From
	// /sys/class/hwmon/hwmon*/fan*_input.
	RPM Reading[RPM]
}

// A HostTemperature is a sensor of the machine, as of the CPU or the board.
type HostTemperature struct {
	Name string // "CPU", "chipset", "sensor 2 of acpitz"; no other sensor of the machine has it
	Chip string // the kernel's name of what measures: "coretemp"
	// Celsius is from -40 to 150, and absent as the speed of a [HostFan] is. From
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
