package contract

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// Attribution says whose a GPU's memory, work and watts are, and how much of
// them no process explains.
type Attribution struct {
	// How watts were split between processes: by their shares of the multiprocessors, or by the memory
	// that they hold where there are no such shares. Null where they were not split.
	Method *string `json:"method" enum:"sm_share,memory"`
	// Lowest steady power that this GPU was seen to draw without work. Null until it was.
	IdleFloor   Watts                 `json:"idle_floor_watts"`
	Memory      AttributedMemory      `json:"memory"`      // used memory, split; the parts add up to it
	Utilization AttributedUtilization `json:"utilization"` // GPU utilization, split
	Power       AttributedPower       `json:"power"`       // power drawn, split; the parts add up to it
	Orphans     []Orphan              `json:"orphans"`     // Processes that do not exist any more and whose memory is still held.
}

// AttributedMemory splits the used memory.
type AttributedMemory struct {
	Processes Bytes   `json:"processes_mb"`     // held by processes
	Orphans   Bytes   `json:"orphans_mb"`       // held by processes that do not exist any more
	Rest      Bytes   `json:"unexplained_mb"`   // held by nobody who is listed
	Coverage  Percent `json:"coverage_percent"` // part that is not unexplained. Null where nothing is used
	Unexplained
}

// AttributedUtilization splits the GPU utilization.
type AttributedUtilization struct {
	Processes Percent `json:"processes_percent"`   // sum of the processes' shares, as far as it explains the whole
	Rest      Percent `json:"unexplained_percent"` // what they do not explain
	Coverage  Percent `json:"coverage_percent"`    // part that is not unexplained. Null where the GPU has no work
	Unexplained
}

// AttributedPower splits the power drawn. What is a process's is an estimate.
type AttributedPower struct {
	// What the GPU would draw without work. Null until the idle floor is known; until then it is in the other parts.
	Idle      Watts   `json:"idle_watts"`
	Processes Watts   `json:"processes_watts"`   // sum of the processes' parts
	Rest      Watts   `json:"unexplained_watts"` // above the idle floor and nobody's who is listed
	Coverage  Percent `json:"coverage_percent"`  // part that is not unexplained
	Unexplained
}

// Unexplained is why no process explains something.
type Unexplained struct {
	// Why something is unexplained. Null where nothing is.
	Reason     *string `json:"reason" enum:"other_pid_namespace,not_permitted,no_process_list,not_listed,no_process_memory,no_process_samples,driver,different_moments,orphans,at_rest"`
	ReasonText string  `json:"reason_text"` // the same in words, and what to do about it; empty where nothing is
}

// Orphan is memory held by a process that does not exist any more.
type Orphan struct {
	PID         int   `json:"pid"`             // the process id that it had
	UsedMemory  Bytes `json:"used_memory_mb"`  // GPU memory that is still held
	GPUInstance Count `json:"gpu_instance_id"` // MIG GPU instance. Null outside MIG mode
}

// Container is what a process runs in, the outermost where they are nested.
type Container struct {
	// 64 hexadecimal digits, or the name where the runtime goes by names; empty: the process is in none.
	ID      string `json:"id"`
	Runtime string `json:"runtime"` // docker, podman, containerd, cri-o, lxc or systemd-nspawn; empty where it can't be told
	Name    Text   `json:"name"`    // What the runtime calls it. Null until the runtime was asked, and where it may not be.
	Image   Text   `json:"image"`   // image that it was made of
}

// Pod is the Kubernetes pod of a process.
type Pod struct {
	UID       string `json:"uid"`       // as in the pod's metadata; empty: the process is in none
	Namespace Text   `json:"namespace"` // the pod's namespace
	Name      Text   `json:"name"`      // the pod's name
	Container Text   `json:"container"` // the container's name in the pod
}

// Unit is the systemd unit of a process.
type Unit struct {
	Name  string `json:"name"`  // service or scope; empty: the process is in none
	Slice string `json:"slice"` // slice that it is in
	User  bool   `json:"user"`  // whether it is one of a user's own service manager
}

// SlurmJob is the Slurm job of a process.
type SlurmJob struct {
	ID   int    `json:"id" unit:"count"` // job id; 0: the process is in none
	Step string `json:"step"`            // a number, batch, extern or interactive
}

// Reservation is a container for which a GPU, or a MIG instance of it, is kept.
type Reservation struct {
	Namespace string  `json:"namespace"`         // the pod's namespace
	Pod       string  `json:"pod"`               // the pod's name
	Container string  `json:"container"`         // the container's name in the pod
	Resource  string  `json:"resource"`          // what it asked for, such as nvidia.com/gpu
	Instance  *string `json:"mig_instance_uuid"` // the MIG instance. Null where it is the whole GPU
}

func newReservation(r *gpu.Reservation) Reservation {
	out := Reservation{Namespace: r.Namespace, Pod: r.Pod, Container: r.Container, Resource: r.Resource}
	if r.Instance != "" {
		out.Instance = new(r.Instance)
	}
	return out
}

// Usage is who has how much of all GPUs, most watts first. No sum has the memory of
// processes that do not exist any more.
type Usage struct {
	Users      []UserUsage      `json:"users"`      // by user
	Containers []ContainerUsage `json:"containers"` // by container
	Pods       []PodUsage       `json:"pods"`       // by pod
}

// UserUsage is what one user has on one machine.
type UserUsage struct {
	User Text `json:"user"` // who. Null for processes of which it is not known
	Holding
}

// ContainerUsage is what one container has.
type ContainerUsage struct {
	// Which container; one with an empty id stands for processes in none. Null for processes whose
	// container is not known.
	Container *Container `json:"container"`
	Holding
}

// PodUsage is what one pod has.
type PodUsage struct {
	// Which pod; one with an empty uid stands for processes in none. Null for processes whose pod is
	// not known.
	Pod *Pod `json:"pod"`
	Holding
}

// Holding is what somebody has of a machine's GPUs.
type Holding struct {
	Node      string `json:"node"`           // name of the machine
	Processes int    `json:"process_count"`  // processes, each once on however many GPUs it is
	Devices   int    `json:"gpu_count"`      // GPUs that they are on
	Memory    Bytes  `json:"used_memory_mb"` // GPU memory that they hold
	Power     Watts  `json:"power_watts"`    // estimated power that they cause
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
