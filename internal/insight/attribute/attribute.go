package attribute

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Method is how watts were split between processes.
type Method string

// The methods. The empty one: they were not split.
const (
	BySM     Method = "sm_share" // by the processes' shares of the multiprocessors
	ByMemory Method = "memory"   // by the memory that living processes hold
)

// An Attribution is whose one device's memory, work and watts are.
type Attribution struct {
	// Shares has an element for each of the device's Processes, in their
	// order.
	Shares      []Share
	Memory      Memory
	Utilization Utilization
	Power       Power
}

// A Share is one process's part of a device.
type Share struct {
	// Memory is what the process holds; absent where the driver does not
	// say, and where an earlier element of the list has it already. It is
	// doubtful where processes are said to hold more than is used, and have
	// all been given less in proportion.
	Memory gpu.Reading[gpu.Bytes]
	// Power is an estimate: see the package's text.
	Power gpu.Reading[gpu.Watts]
	// Orphan: the process does not exist any more, and its memory is still
	// held.
	Orphan bool
	// Repeated: the process is in the list before, and counts there.
	Repeated bool
}

// Memory splits the device's used memory: Processes, Orphans and Remainder add
// up to Used.
type Memory struct {
	Used      gpu.Reading[gpu.Bytes]
	Processes gpu.Reading[gpu.Bytes] // held by processes that exist, or may
	Orphans   gpu.Reading[gpu.Bytes] // held by those that don't any more
	Remainder gpu.Reading[gpu.Bytes]
	// Coverage is the part of Used that is not Remainder, 0 to 100; absent
	// where nothing is used.
	Coverage gpu.Reading[gpu.Percent]
	Reason   Reason // for the remainder; empty where there is none
}

// Utilization splits the device's utilization: Processes and Remainder add up
// to Device.
type Utilization struct {
	Device    gpu.Reading[gpu.Percent]
	Processes gpu.Reading[gpu.Percent] // the sum of their SM shares, as far as it explains Device
	Remainder gpu.Reading[gpu.Percent]
	Coverage  gpu.Reading[gpu.Percent] // Processes of Device; absent where that is 0
	Reason    Reason
}

// Power splits the device's draw: Idle, Processes and Remainder add up to Draw.
type Power struct {
	Draw      gpu.Reading[gpu.Watts]
	Idle      gpu.Reading[gpu.Watts] // the idle floor's part; absent while the floor is not known
	Processes gpu.Reading[gpu.Watts]
	Remainder gpu.Reading[gpu.Watts]
	Coverage  gpu.Reading[gpu.Percent] // Idle and Processes of Draw
	Reason    Reason
	Method    Method
}

// ForeignPIDs reports whether a snapshot's notes say that pids are of another
// namespace (see [gpu.ErrForeignPIDs]).
func ForeignPIDs(s *gpu.Snapshot) bool {
	return slices.ContainsFunc(s.Notes, func(a gpu.Advice) bool { return errors.Is(&a, gpu.ErrForeignPIDs) })
}

// Snapshot attributes every device of a snapshot, in their order.
func Snapshot(s *gpu.Snapshot) []Attribution {
	foreign := ForeignPIDs(s)
	out := make([]Attribution, len(s.Devices))
	for i := range s.Devices {
		out[i] = Of(&s.Devices[i], foreign)
	}
	return out
}

// Of attributes one device. Whether its snapshot has [ForeignPIDs] is told by
// the caller.
func Of(d *gpu.Device, foreignPIDs bool) Attribution {
	list := d.Processes.Or(nil)
	a := Attribution{Shares: make([]Share, len(list))}
	markRepeated(list, a.Shares)
	for i := range list {
		a.Shares[i].Orphan = !list[i].Facts.Exists.Or(true) && !a.Shares[i].Repeated
	}
	x := &splitter{d: d, list: list, shares: a.Shares, foreign: foreignPIDs}
	a.Memory = x.memory()
	a.Utilization = x.utilization()
	a.Power = x.power(&a.Memory, &a.Utilization)
	return a
}

// markRepeated marks what a list says of a process twice: with the same MIG
// instance, or once with an instance and once without.
func markRepeated(list []gpu.Process, shares []Share) {
	type key struct {
		pid      int
		instance gpu.Reading[int]
		compute  gpu.Reading[int]
	}
	if len(list) < 2 {
		return
	}
	seen := make(map[key]bool, len(list))
	inInstance := make(map[int]bool)
	for i := range list {
		if list[i].GPUInstance.Present() {
			inInstance[list[i].PID] = true
		}
	}
	for i := range list {
		p := &list[i]
		k := key{pid: p.PID}
		if p.GPUInstance.Present() {
			k.instance, k.compute = p.GPUInstance, p.ComputeInstance
		}
		shares[i].Repeated = seen[k] || inInstance[p.PID] && !p.GPUInstance.Present()
		seen[k] = true
	}
}

// A splitter splits one device.
type splitter struct {
	d       *gpu.Device
	list    []gpu.Process
	shares  []Share
	foreign bool
}

// memory fills the shares' memory.
func (x *splitter) memory() Memory {
	m := Memory{Used: x.d.Memory.Used}
	used, ok := m.Used.Get()
	if !ok {
		return m
	}
	var held uint64 // by all that are listed; so large a sum that it wraps is none
	var known bool
	for i := range x.list {
		v, ok := x.list[i].Memory.Get()
		if !ok || x.shares[i].Repeated {
			continue
		}
		sum, carry := bits.Add64(held, uint64(v), 0)
		if carry != 0 {
			return m
		}
		held, known = sum, true
	}
	var processes, orphans gpu.Bytes
	part := proportion(uint64(used), held)
	for i := range x.list {
		v, ok := x.list[i].Memory.Get()
		if !ok || x.shares[i].Repeated {
			continue
		}
		given := gpu.Bytes(part(uint64(v)))
		x.shares[i].Memory = gpu.Of(given)
		if given < v || x.list[i].Memory.Quality() == gpu.Doubtful {
			x.shares[i].Memory = gpu.DoubtfulOf(given)
		}
		if x.shares[i].Orphan {
			orphans += given
		} else {
			processes += given
		}
	}
	if listed := x.d.Processes.Present(); listed && (known || len(x.list) == 0) {
		m.Processes, m.Orphans = gpu.Of(processes), gpu.Of(orphans)
	}
	rest := used - processes - orphans
	m.Remainder = gpu.Of(rest)
	m.Coverage = coverage(float64(used-rest), float64(used))
	if rest > 0 {
		m.Reason = x.memoryReason(rest)
	}
	return m
}

// proportion returns a function that gives each of several parts, which add up
// to sum, its part of whole: all of it where they fit, and else less, so that
// what is given adds up to whole exactly.
func proportion(whole, sum uint64) func(part uint64) uint64 {
	if sum <= whole {
		return func(part uint64) uint64 { return part }
	}
	var upTo, given uint64
	return func(part uint64) uint64 {
		upTo += part
		hi, lo := bits.Mul64(upTo, whole)
		all, _ := bits.Div64(hi, lo, sum) // upTo <= sum, so all <= whole
		out := all - given
		given = all
		return out
	}
}

// utilization compares the device's with what the processes' samples say.
func (x *splitter) utilization() Utilization {
	u := Utilization{Device: x.d.Utilization.GPU}
	device, ok := percent(u.Device)
	if !ok {
		return u
	}
	sum, known := x.sm()
	explained := min(sum, device)
	if x.d.Processes.Present() && (known || len(x.list) == 0) {
		u.Processes = gpu.Of(gpu.Percent(explained))
	}
	u.Remainder = gpu.Of(gpu.Percent(device - explained))
	u.Coverage = coverage(explained, device)
	if device > explained {
		u.Reason = x.utilizationReason(device-explained, sum, known)
	}
	return u
}

// sm is the sum of the processes' SM shares, and whether any has one.
func (x *splitter) sm() (sum float64, known bool) {
	for i := range x.list {
		if v, ok := percent(x.list[i].SM); ok && !x.shares[i].Repeated {
			sum += v
			known = true
		}
	}
	return sum, known
}

// power fills the shares' watts.
func (x *splitter) power(m *Memory, u *Utilization) Power {
	p := Power{Draw: x.d.Power.Draw}
	draw, ok := amount(p.Draw)
	if !ok {
		return p
	}
	like := func(v float64) gpu.Reading[gpu.Watts] {
		return gpu.Map(p.Draw, func(gpu.Watts) gpu.Watts { return gpu.Watts(v) })
	}
	var idle float64
	if floor, ok := amount(x.d.IdleFloor); ok {
		idle = min(floor, draw)
		p.Idle = like(idle)
	}
	active := draw - idle
	w := x.weights(m, u)
	var processes float64
	if w.sum > 0 {
		p.Method = w.method
		processes = active * w.explained
		for i := range x.shares {
			if v, ok := w.of(i); ok {
				x.shares[i].Power = like(processes * (v / w.sum))
			}
		}
	}
	if x.d.Processes.Present() && (w.sum > 0 || len(x.list) == 0) {
		p.Processes = like(processes)
	}
	rest := max(0, active-processes)
	p.Remainder = like(rest)
	p.Coverage = coverage(draw-rest, draw)
	if rest > 0 {
		p.Reason = x.powerReason(m, u)
	}
	return p
}

// weights are by what the watts above the floor are split.
type weights struct {
	method    Method
	of        func(i int) (v float64, ok bool) // of one process; not where that is not known
	sum       float64
	explained float64 // the part of the watts that is the processes', 0 to 1
}

func (x *splitter) weights(m *Memory, u *Utilization) weights {
	w := weights{method: BySM, explained: 1, of: func(i int) (float64, bool) {
		v, ok := percent(x.list[i].SM)
		return v, ok && !x.shares[i].Repeated
	}}
	if w.sum, _ = x.sm(); w.sum > 0 {
		if device, ok := percent(u.Device); ok && device > w.sum {
			w.explained = w.sum / device
		}
		return w
	}
	w = weights{method: ByMemory, of: func(i int) (float64, bool) {
		v, ok := x.shares[i].Memory.Get()
		return float64(v), ok && !x.shares[i].Orphan
	}}
	for i := range x.list {
		if v, ok := w.of(i); ok {
			w.sum += v
		}
	}
	nobodys := 0.0
	if rest, ok := m.Remainder.Get(); ok && m.Reason != ReasonDriver {
		nobodys = float64(rest)
	}
	if w.sum > 0 {
		w.explained = w.sum / (w.sum + nobodys)
	}
	return w
}

// percent is a share as far as it can be one.
func percent(r gpu.Reading[gpu.Percent]) (float64, bool) {
	v, ok := r.Get()
	if !ok || math.IsNaN(float64(v)) {
		return 0, false
	}
	return min(100, max(0, float64(v))), true
}

// amount is a power as far as it can be one.
func amount(r gpu.Reading[gpu.Watts]) (float64, bool) {
	v, ok := r.Get()
	w := float64(v)
	return w, ok && w >= 0 && !math.IsInf(w, 0) // NaN is not >= 0
}

// coverage is part of whole in percent, absent where there is nothing to cover.
func coverage(part, whole float64) gpu.Reading[gpu.Percent] {
	if !(whole > 0) {
		return gpu.Reading[gpu.Percent]{}
	}
	return gpu.Of(gpu.Percent(min(100, max(0, 100*(part/whole)))))
}
