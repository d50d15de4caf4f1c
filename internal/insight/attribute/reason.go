package attribute

import "github.com/gpuwhy/gpuwhy/gpu"

// A Reason is why something is explained by no process; its text is also its
// name on the wire.
type Reason string

// The reasons. The empty one: there is nothing that is not explained.
const (
	// ReasonNamespace: pids are the host's, and ours are not.
	ReasonNamespace Reason = "other_pid_namespace"
	// ReasonNotPermitted: the driver does not tell us.
	ReasonNotPermitted Reason = "not_permitted"
	// ReasonNoList: the driver does not list processes at all.
	ReasonNoList Reason = "no_process_list"
	// ReasonNotListed: it lists some, or none, and these don't explain it.
	ReasonNotListed Reason = "not_listed"
	// ReasonNoMemory: it does not say how much each process holds.
	ReasonNoMemory Reason = "no_process_memory"
	// ReasonNoSamples: it takes no samples of what each process does.
	ReasonNoSamples Reason = "no_process_samples"
	// ReasonDriver: so little is left that it is likely the driver's own.
	ReasonDriver Reason = "driver"
	// ReasonTiming: the device's and the processes' figures are of
	// different moments, and differ a little.
	ReasonTiming Reason = "different_moments"
	// ReasonOrphans: nothing runs, and the device is held awake by what
	// belongs to processes that don't exist any more.
	ReasonOrphans Reason = "orphans"
	// ReasonAtRest: nothing runs and nobody holds the device, and it draws
	// more than its floor, or the floor is not known yet.
	ReasonAtRest Reason = "at_rest"
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

// Advice says it in words, and what a person can do where something can be
// done. It is zero for the empty reason.
func (r Reason) Advice() gpu.Advice { return reasons[r] }

const (
	// drivers is as much memory as a driver keeps for itself on a device:
	// page tables, the firmware's heap, a display's buffers.
	drivers gpu.Bytes = 512 << 20
	// timing is as far as the sum of the processes' shares is below the
	// device's utilization when nobody is missing: the two have windows of
	// their own.
	timing = 10 // percent of the device's time
)

// memoryReason says why used memory is left over.
func (x *splitter) memoryReason(rest gpu.Bytes) Reason {
	if r := x.listReason(); r != "" {
		return r
	}
	for i := range x.list {
		if p := &x.list[i]; !p.Memory.Present() && !x.shares[i].Repeated {
			return absence(p.Memory.Quality(), ReasonNoMemory)
		}
	}
	switch {
	case rest <= drivers:
		return ReasonDriver
	case x.foreign:
		return ReasonNamespace
	}
	return ReasonNotListed
}

// utilizationReason says why the device works more than its processes.
func (x *splitter) utilizationReason(rest, sum float64, known bool) Reason {
	if r := x.listReason(); r != "" {
		return r
	}
	switch {
	case len(x.list) > 0 && !known:
		return absence(x.list[0].SM.Quality(), ReasonNoSamples)
	case sum > 0 && rest <= timing:
		return ReasonTiming
	case x.foreign:
		return ReasonNamespace
	}
	return ReasonNotListed
}

// powerReason says why watts above the floor are left over. It is what left
// work over, or else memory.
func (x *splitter) powerReason(m *Memory, u *Utilization) Reason {
	if u.Reason != "" {
		return u.Reason
	}
	if r := x.listReason(); r != "" {
		return r
	}
	if m.Reason != "" && m.Reason != ReasonDriver {
		return m.Reason
	}
	if m.Orphans.Or(0) > 0 {
		return ReasonOrphans
	}
	return ReasonAtRest
}

// listReason says why there is no list; empty where there is one.
func (x *splitter) listReason() Reason {
	if x.d.Processes.Present() {
		return ""
	}
	return absence(x.d.Processes.Quality(), ReasonNoList)
}

// absence is otherwise, unless it is known that we are not permitted.
func absence(q gpu.Quality, otherwise Reason) Reason {
	if q == gpu.NotPermitted {
		return ReasonNotPermitted
	}
	return otherwise
}
