package attribute

import "github.com/gpuwhy/gpuwhy/gpu"

// A Reason is why no process explains something. Its text is also its name on
// the wire. It is empty where nothing is unexplained.
type Reason string

// The reasons.
const (
	ReasonNamespace    Reason = "other_pid_namespace" // pids are the host's, and gpuwhy sees another namespace
	ReasonNotPermitted Reason = "not_permitted"       // the driver does not permit it
	ReasonNoList       Reason = "no_process_list"     // the driver does not list processes at all
	ReasonNotListed    Reason = "not_listed"          // the listed processes don't explain it
	ReasonNoMemory     Reason = "no_process_memory"   // the driver does not report each process's memory
	ReasonNoSamples    Reason = "no_process_samples"  // the driver takes no samples of each process
	ReasonDriver       Reason = "driver"              // it is so little that the driver probably holds it
	ReasonTiming       Reason = "different_moments"   // the figures are of different moments, and differ a little
	ReasonOrphans      Reason = "orphans"             // nothing runs, and dead processes keep the device awake
	ReasonAtRest       Reason = "at_rest"             // nobody holds it: it draws more than its floor, or that is not known yet
)

var reasons = map[Reason]gpu.Advice{
	ReasonNamespace:    {What: "pids of the host are not visible from this container", Try: "start it with --pid=host (in Kubernetes: hostPID: true)", Err: gpu.ErrForeignPIDs},
	ReasonNotPermitted: {What: "gpuwhy is not permitted to see all processes", Try: "run it as root, or as the user whose processes they are"},
	ReasonNoList:       {What: "the driver does not list this device's processes"},
	ReasonNotListed:    {What: "the driver does not list who uses the rest", Try: "look for programs in other containers, virtual machines or sessions"},
	ReasonNoMemory:     {What: "the driver does not say how much memory each process holds"},
	ReasonNoSamples:    {What: "the driver takes no samples of what each process does"},
	ReasonDriver:       {What: "the driver keeps some memory for itself"},
	ReasonTiming:       {What: "the device and its processes are sampled at different moments"},
	ReasonOrphans:      {What: "the device is held awake by processes that do not exist any more", Try: "end the programs that they belonged to, or reset the GPU"},
	ReasonAtRest:       {What: "the device draws this while nobody uses it"},
}

// Advice says the reason in words, and what a person can do about it, if
// anything. It is zero for the empty reason.
func (r Reason) Advice() gpu.Advice { return reasons[r] }

const (
	// drivers is the most memory that a driver keeps for itself on a device.
	drivers gpu.Bytes = 512 << 20
	// timing is how many percent the processes' shares may lack though no process
	// does: they have another sample window than the device.
	timing = 10
)

// memoryReason says why the listed processes don't explain some of the used memory.
func (x *splitter) memoryReason(remainder gpu.Bytes) Reason {
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
func (x *splitter) utilizationReason(remainder, sum float64, known bool) Reason {
	switch {
	case len(x.list) > 0 && !known:
		return absence(x.list[0].SM.Quality(), ReasonNoSamples)
	case sum > 0 && remainder <= timing:
		return ReasonTiming
	default:
		return x.elsewhere
	}
}

// powerReason says why no process explains some of the watts above the floor,
// though the listed processes explain the utilization.
func powerReason(m *Memory) Reason {
	switch {
	case m.Reason != "" && m.Reason != ReasonDriver:
		return m.Reason
	case m.Orphans.Or(0) > 0:
		return ReasonOrphans
	default:
		return ReasonAtRest
	}
}

// absence is otherwise, unless the driver says that it does not permit it.
func absence(q gpu.Quality, otherwise Reason) Reason {
	if q == gpu.NotPermitted {
		return ReasonNotPermitted
	}
	return otherwise
}
