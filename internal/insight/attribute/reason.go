package attribute

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Reason says in words why no process explains something, and what a person can do about it, if anything. It is nil if nothing is
// unexplained.
type Reason struct {
	Name string // on the wire
	gpu.Advice
}

// The reasons.
var (
	ReasonNamespace = &Reason{"other_pid_namespace", gpu.Advice{
		What: "the host's pids are not visible from this container", Try: "start it with --pid=host (in Kubernetes: hostPID: true)", Err: gpu.ErrForeignPIDs,
	}}
	ReasonNotPermitted = &Reason{"not_permitted", gpu.Advice{
		What: "gpuwhy is not allowed to see all processes", Try: "run it as root, or as the user who owns the processes",
	}}
	ReasonNoList    = &Reason{"no_process_list", gpu.Advice{What: "the driver does not list this device's processes"}}
	ReasonNotListed = &Reason{"not_listed", gpu.Advice{
		What: "the driver does not list what uses the rest", Try: "look for programs in other containers, virtual machines or sessions",
	}}
	ReasonNoMemory  = &Reason{"no_process_memory", gpu.Advice{What: "the driver does not say how much memory each process holds"}}
	ReasonNoSamples = &Reason{"no_process_samples", gpu.Advice{What: "the driver does not sample what each process does"}}
	ReasonDriver    = &Reason{"driver", gpu.Advice{What: "the driver keeps some memory for itself"}} // so little is it
	ReasonTiming    = &Reason{"different_moments", gpu.Advice{What: "the device and its processes are sampled at different moments"}}
	ReasonOrphans   = &Reason{"orphans", gpu.Advice{
		What: "processes that no longer exist hold the device awake", Try: "end the programs they belonged to, or reset the GPU",
	}}
	ReasonAtRest = &Reason{"at_rest", gpu.Advice{What: "the device draws this while idle"}} // above its floor, if that is known
)

const (
	// drivers is the most memory that a driver keeps for itself on a device.
	drivers gpu.Bytes = 512 << 20
	// timing is how many percent the processes' shares may lack without a missing process: their sample window differs from the device's.
	timing = 10
)

// memoryReason says why the listed processes don't explain some of the used memory.
func (x *splitter) memoryReason(remainder gpu.Bytes) *Reason {
	for i := range x.list {
		if p := &x.list[i]; !p.Memory.Present() && !x.shares[i].Repeated {
			return absence(p.Memory.Quality(), ReasonNoMemory)
		}
	}
	if remainder <= drivers {
		return ReasonDriver
	}
	return x.elsewhere
}

// utilizationReason says why the device works more than its listed processes.
func (x *splitter) utilizationReason(remainder, sum float64, known bool) *Reason {
	switch {
	case len(x.list) > 0 && !known:
		return absence(x.list[0].SM.Quality(), ReasonNoSamples)
	case sum > 0 && remainder <= timing:
		return ReasonTiming
	case x.silent() >= 0: // the rest may be theirs
		return absence(x.list[x.silent()].SM.Quality(), ReasonNoSamples)
	default:
		return x.elsewhere
	}
}

// silent returns the first process that may work but whose usage the driver does not report; -1: none.
func (x *splitter) silent() int {
	return slices.IndexFunc(x.list, func(p gpu.Process) bool {
		return !p.SM.Present() && p.Type != gpu.TypeGraphics && p.Facts.Exists.Or(true)
	})
}

// powerReason says why watts are unexplained although the listed processes explain the utilization.
func (x *splitter) powerReason(m *Memory) *Reason {
	switch {
	case m.Reason != nil && m.Reason != ReasonDriver:
		return m.Reason
	case m.Orphans.Or(0) > 0:
		return ReasonOrphans
	case x.d.ProcessesPartial.Or(false):
		return x.elsewhere
	default:
		return ReasonAtRest
	}
}

// absence returns otherwise, unless the driver says that the reading is not permitted.
func absence(q gpu.Quality, otherwise *Reason) *Reason {
	if q == gpu.NotPermitted {
		return ReasonNotPermitted
	}
	return otherwise
}
