package sim

import (
	"fmt"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A place is what a simulated process belongs to. The zero value is no container, unit or
// job.
type place struct {
	container gpu.Container
	pod       gpu.Pod
	unit      gpu.Unit
	step      string // of the Slurm job of the process; empty: in none
}

// session is a unit of a person who works at a desktop.
func session(unit, slice string) place {
	return place{unit: gpu.Unit{Name: unit, Slice: slice, User: slice != "user-1000.slice"}}
}

// service is a unit of the system.
func service(unit string) place {
	return place{unit: gpu.Unit{Name: unit, Slice: "system.slice"}}
}

// slurm is a step of the current Slurm job.
func slurm(step string) place {
	p := service("slurmstepd.scope")
	p.step = step
	return p
}

// docker is a container of the system's Docker.
func docker(name, image string) place {
	return place{
		container: container(gpu.RuntimeDocker, name, image),
		unit:      gpu.Unit{Slice: "system.slice"},
	}
}

// rootless is a container of a person's own Podman.
func rootless(name, image string) place {
	return place{
		container: container(gpu.RuntimePodman, name, image),
		unit:      gpu.Unit{Name: "user@1000.service", Slice: "user.slice"},
	}
}

// pod is a container of a Kubernetes pod.
func pod(namespace, name, member, image string) place {
	uid := pseudoID(namespace + "/" + name)
	uid = fmt.Sprintf("%s-%s-4%s-8%s-%s", uid[:8], uid[8:12], uid[13:16], uid[17:20], uid[20:32])
	return place{
		container: container(gpu.RuntimeContainerd, member, image),
		pod:       gpu.Pod{UID: uid, Namespace: gpu.Of(namespace), Name: gpu.Of(name), Container: gpu.Of(member)},
		unit:      gpu.Unit{Slice: "kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"},
	}
}

func container(runtime, name, image string) gpu.Container {
	return gpu.Container{ID: pseudoID(runtime + name), Runtime: runtime, Name: gpu.Of(name), Image: gpu.Of(image)}
}

// pseudoID has 64 hexadecimal digits that follow from a name.
func pseudoID(name string) string {
	seed := seedOf(name)
	return fmt.Sprintf("%016x%016x%016x%016x", mix(seed, 1), mix(seed, 2), mix(seed, 3), mix(seed, 4))
}

// tell sets the facts that follow from the place. Job is the number of the Slurm job.
func (p *place) tell(f *gpu.ProcessFacts, job int) {
	f.Container, f.Pod, f.Unit = gpu.Of(p.container), gpu.Of(p.pod), gpu.Of(p.unit)
	f.Job = gpu.Of(gpu.Job{})
	if p.step != "" {
		f.Job = gpu.Of(gpu.Job{ID: job, Step: p.step})
	}
}
