package contract

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// Attribution says who uses a GPU's memory, utilization and power, and how much of each no process
// explains.
type Attribution struct {
	// How power was split between processes: by their shares of the multiprocessors, or, without
	// such shares, by the memory that they hold. Null if it was not split.
	Method *string `json:"method" enum:"sm_share,memory"`
	// The lowest steady power draw of this GPU seen while idle. Null until one was seen.
	IdleFloor   Watts                 `json:"idle_floor_watts"`
	Memory      AttributedMemory      `json:"memory"`      // used memory, split into parts that add up to it
	Utilization AttributedUtilization `json:"utilization"` // GPU utilization, split
	Power       AttributedPower       `json:"power"`       // power draw, split into parts that add up to it
	Orphans     []Orphan              `json:"orphans"`     // Ended processes whose memory is still held.
}

// AttributedMemory splits the used memory.
type AttributedMemory struct {
	Processes Bytes   `json:"processes_mb"`     // held by processes
	Orphans   Bytes   `json:"orphans_mb"`       // held by ended processes
	Rest      Bytes   `json:"unexplained_mb"`   // held by no listed process
	Coverage  Percent `json:"coverage_percent"` // the explained share. Null if nothing is used
	Unexplained
}

// AttributedUtilization splits the GPU utilization.
type AttributedUtilization struct {
	Processes Percent `json:"processes_percent"`   // sum of the processes' shares, capped at the whole
	Rest      Percent `json:"unexplained_percent"` // the rest
	Coverage  Percent `json:"coverage_percent"`    // the explained share. Null if the GPU has no work
	Unexplained
}

// AttributedPower splits the power draw. The processes' parts are estimates.
type AttributedPower struct {
	// The power that the GPU would draw while idle. Null until the idle floor is known; until then the other
	// parts include it.
	Idle      Watts   `json:"idle_watts"`
	Processes Watts   `json:"processes_watts"`   // sum of the processes' parts
	Rest      Watts   `json:"unexplained_watts"` // above the idle floor, and caused by no listed process
	Coverage  Percent `json:"coverage_percent"`  // the explained share
	Unexplained
}

// Unexplained says why no process explains something.
type Unexplained struct {
	// Why something is unexplained. Null if nothing is.
	Reason     *string `json:"reason" enum:"other_pid_namespace,not_permitted,no_process_list,not_listed,no_process_memory,no_process_samples,driver,different_moments,orphans,at_rest"`
	ReasonText string  `json:"reason_text"` // the same in words, and what to do about it; empty if nothing is unexplained
}

// Orphan is memory held by an ended process.
type Orphan struct {
	PID         int   `json:"pid"`             // its former process id
	UsedMemory  Bytes `json:"used_memory_mb"`  // GPU memory still held
	GPUInstance Count `json:"gpu_instance_id"` // MIG GPU instance. Null outside MIG mode
}

// Container is a process's container, the outermost one if they are nested.
type Container struct {
	// 64 hexadecimal digits, or the name if the runtime identifies containers by name; empty if the
	// process is in none.
	ID      string `json:"id"`
	Runtime string `json:"runtime"` // docker, podman, containerd, cri-o, lxc or systemd-nspawn; empty if unknown
	Name    Text   `json:"name"`    // The runtime's name for it. Null until gpuwhy has asked the runtime, and if it may not ask.
	Image   Text   `json:"image"`   // its image
}

// Pod is the Kubernetes pod of a process.
type Pod struct {
	UID       string `json:"uid"`       // as in the pod's metadata; empty if the process is in none
	Namespace Text   `json:"namespace"` // the pod's namespace
	Name      Text   `json:"name"`      // the pod's name
	Container Text   `json:"container"` // the container's name in the pod
}

// Unit is the systemd unit of a process.
type Unit struct {
	Name  string `json:"name"`  // service or scope; empty if the process is in none
	Slice string `json:"slice"` // its slice
	User  bool   `json:"user"`  // whether it belongs to a user's own service manager
}

// SlurmJob is the Slurm job of a process.
type SlurmJob struct {
	ID   int    `json:"id" unit:"count"` // job id; 0 if the process is in none
	Step string `json:"step"`            // a number, batch, extern or interactive
}

// Reservation is a container that a GPU, or one of its MIG instances, is reserved for.
type Reservation struct {
	Namespace string  `json:"namespace"`         // the pod's namespace
	Pod       string  `json:"pod"`               // the pod's name
	Container string  `json:"container"`         // the container's name in the pod
	Resource  string  `json:"resource"`          // the resource it requested, such as nvidia.com/gpu
	Instance  *string `json:"mig_instance_uuid"` // the MIG instance. Null for the whole GPU
}

func newReservation(r *gpu.Reservation) Reservation {
	out := Reservation{Namespace: r.Namespace, Pod: r.Pod, Container: r.Container, Resource: r.Resource}
	if r.Instance != "" {
		out.Instance = new(r.Instance)
	}
	return out
}

// Usage says who uses how much of all GPUs, highest power first. No sum includes memory of ended
// processes.
type Usage struct {
	Users      []UserUsage      `json:"users"`      // by user
	Containers []ContainerUsage `json:"containers"` // by container
	Pods       []PodUsage       `json:"pods"`       // by pod
}

// UserUsage is what one user uses on one machine.
type UserUsage struct {
	User Text `json:"user"` // the user. Null for processes whose user is unknown
	Holding
}

// ContainerUsage is what one container uses.
type ContainerUsage struct {
	// The container; an empty id stands for processes outside any container. Null for processes
	// whose container is unknown.
	Container *Container `json:"container"`
	Holding
}

// PodUsage is what one pod uses.
type PodUsage struct {
	// The pod; an empty uid stands for processes outside any pod. Null for processes whose pod is
	// unknown.
	Pod *Pod `json:"pod"`
	Holding
}

// Holding is what somebody uses of a machine's GPUs.
type Holding struct {
	Node      string `json:"node"`           // name of the machine
	Processes int    `json:"process_count"`  // the number of processes, each counted once
	Devices   int    `json:"gpu_count"`      // the number of GPUs they are on
	Memory    Bytes  `json:"used_memory_mb"` // GPU memory that they hold
	Power     Watts  `json:"power_watts"`    // estimated power draw that they cause
}

func newAttribution(d *gpu.Device, a *attribute.Attribution) Attribution {
	m, u, p := &a.Memory, &a.Utilization, &a.Power
	out := Attribution{
		IdleFloor:   d.IdleFloor,
		Memory:      AttributedMemory{m.Processes, m.Orphans, m.Remainder, m.Coverage, newUnexplained(m.Reason)},
		Utilization: AttributedUtilization{u.Processes, u.Remainder, u.Coverage, newUnexplained(u.Reason)},
		Power:       AttributedPower{p.Idle, p.Processes, p.Remainder, p.Coverage, newUnexplained(p.Reason)},
		Orphans:     []Orphan{},
	}
	if p.Method != "" {
		out.Method = new(string(p.Method))
	}
	for i, p := range d.Processes.Or(nil) {
		if a.Shares[i].Orphan {
			out.Orphans = append(out.Orphans, Orphan{p.PID, a.Shares[i].Memory, p.GPUInstance})
		}
	}
	return out
}

func newUnexplained(r *attribute.Reason) Unexplained {
	if r == nil {
		return Unexplained{}
	}
	return Unexplained{new(r.Name), r.Text()}
}

func newUsage(devices attribute.Devices) Usage {
	return Usage{
		Users: listOf(attribute.ByUser(devices), func(s *attribute.Sum[string]) UserUsage {
			return UserUsage{s.Of, Holding(s.Holding)}
		}),
		Containers: listOf(attribute.ByContainer(devices), func(s *attribute.Sum[gpu.Container]) ContainerUsage {
			return ContainerUsage{(*Container)(pointer(s.Of)), Holding(s.Holding)}
		}),
		Pods: listOf(attribute.ByPod(devices), func(s *attribute.Sum[gpu.Pod]) PodUsage {
			return PodUsage{(*Pod)(pointer(s.Of)), Holding(s.Holding)}
		}),
	}
}
