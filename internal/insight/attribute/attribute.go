package attribute

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Method is how watts were split between processes; empty where they were not.
type Method string

// The methods.
const (
	BySM     Method = "sm_share" // by the processes' shares of the multiprocessors
	ByMemory Method = "memory"   // by the memory that living processes hold
)

// An Attribution says whose one device's memory, work and watts are.
type Attribution struct {
	Shares      []Share // one for each of the device's Processes, in their order
	Memory      Memory
	Utilization Utilization
	Power       Power
}

// A Share is one process's part of a device.
type Share struct {
	// Memory is what the process holds. It is absent where the driver does
	// not report it, and where an earlier element of the list has it. It is
	// doubtful where the processes hold more than is used, according to the
	// driver: then each gets less, in proportion.
	Memory   gpu.Reading[gpu.Bytes]
	Power    gpu.Reading[gpu.Watts] // an estimate: see the package's text
	Orphan   bool                   // the process does not exist any more, and still holds memory
	Repeated bool                   // an earlier element of the list counts for the process
}

// Memory splits the device's used memory: Processes, Orphans and Remainder add
// up to Used.
type Memory struct {
	Used      gpu.Reading[gpu.Bytes]
	Processes gpu.Reading[gpu.Bytes] // held by processes that exist, or may exist
	Orphans   gpu.Reading[gpu.Bytes] // held by processes that don't exist any more
	Remainder gpu.Reading[gpu.Bytes]
	Coverage  gpu.Reading[gpu.Percent] // the part of Used that is not Remainder; absent where nothing is used
	Reason    Reason                   // for the remainder; empty where there is none
}

// Utilization splits the device's utilization: Processes and Remainder add up
// to Device.
type Utilization struct {
	Device    gpu.Reading[gpu.Percent]
	Processes gpu.Reading[gpu.Percent] // the sum of their SM shares, as far as it explains Device
	Remainder gpu.Reading[gpu.Percent]
	Coverage  gpu.Reading[gpu.Percent] // the part of Device that Processes are; absent where Device is 0
	Reason    Reason
}

// Power splits the device's draw: Idle, Processes and Remainder add up to Draw.
type Power struct {
	Draw      gpu.Reading[gpu.Watts]
	Idle      gpu.Reading[gpu.Watts] // the idle floor's part; absent while the floor is not known
	Processes gpu.Reading[gpu.Watts]
	Remainder gpu.Reading[gpu.Watts]
	Coverage  gpu.Reading[gpu.Percent] // the part of Draw that is not Remainder
	Reason    Reason
	Method    Method
}

// ForeignPIDs reports whether a snapshot's notes say that its pids are from
// another namespace (see [gpu.ErrForeignPIDs]).
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

// Of attributes one device. The caller says whether its snapshot has
// [ForeignPIDs].
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

// markRepeated marks the elements of a list that repeat a process: with the same
// MIG instance, or without an instance where another element has one.
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
	var held uint64 // by all processes; a sum that overflows can't be right
	var known bool
	for i := range x.list {
		if v, ok := x.list[i].Memory.Get(); ok && !x.shares[i].Repeated {
			sum, carry := bits.Add64(held, uint64(v), 0)
			if carry != 0 {
				return m
			}
			held, known = sum, true
		}
	}
	var processes, orphans gpu.Bytes
	part := proportion(uint64(used), held)
	for i := range x.list {
		share := &x.shares[i]
		v, ok := x.list[i].Memory.Get()
		if !ok || share.Repeated {
			continue
		}
		given := gpu.Bytes(part(uint64(v)))
		share.Memory = gpu.Of(given)
		if given < v || x.list[i].Memory.Quality() == gpu.Doubtful {
			share.Memory = gpu.DoubtfulOf(given)
		}
		if share.Orphan {
			orphans += given
		} else {
			processes += given
		}
	}
	if x.listed(known) {
		m.Processes, m.Orphans = gpu.Of(processes), gpu.Of(orphans)
	}
	remainder := used - processes - orphans
	m.Remainder = gpu.Of(remainder)
	m.Coverage = coverage(float64(used-remainder), float64(used))
	if remainder > 0 {
		m.Reason = x.memoryReason(remainder)
	}
	return m
}

// listed reports whether the processes' sum is known: the driver lists the
// processes, and has a figure of one, or there is none.
func (x *splitter) listed(figure bool) bool {
	return x.d.Processes.Present() && (figure || len(x.list) == 0)
}

// proportion returns a function that cuts parts, which add up to sum, to fit
// into whole. Where they fit it returns each as it is; else the returned parts
// add up to whole exactly.
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

// utilization compares the device's utilization with the processes' samples.
func (x *splitter) utilization() Utilization {
	u := Utilization{Device: x.d.Utilization.GPU}
	device, ok := percent(u.Device)
	if !ok {
		return u
	}
	sum, known := x.sm()
	explained := min(sum, device)
	if x.listed(known) {
		u.Processes = gpu.Of(gpu.Percent(explained))
	}
	u.Remainder = gpu.Of(gpu.Percent(device - explained))
	u.Coverage = coverage(explained, device)
	if device > explained {
		u.Reason = x.utilizationReason(device-explained, sum, known)
	}
	return u
}

// sm is the sum of the processes' SM shares, and whether a process has one.
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
	if x.listed(w.sum > 0) {
		p.Processes = like(processes)
	}
	remainder := max(0, active-processes)
	p.Remainder = like(remainder)
	p.Coverage = coverage(draw-remainder, draw)
	if remainder > 0 {
		p.Reason = x.powerReason(m, u)
	}
	return p
}

// weights decide how the watts above the floor are split.
type weights struct {
	method    Method
	of        func(i int) (v float64, ok bool) // of one process; not ok where it is not known
	sum       float64
	explained float64 // the processes' part of the watts, 0 to 1
}

func (x *splitter) weights(m *Memory, u *Utilization) weights {
	if sum, _ := x.sm(); sum > 0 {
		w := weights{method: BySM, sum: sum, explained: 1, of: func(i int) (float64, bool) {
			v, ok := percent(x.list[i].SM)
			return v, ok && !x.shares[i].Repeated
		}}
		if device, ok := percent(u.Device); ok && device > sum {
			w.explained = sum / device
		}
		return w
	}
	w := weights{method: ByMemory, of: func(i int) (float64, bool) {
		v, ok := x.shares[i].Memory.Get()
		return float64(v), ok && !x.shares[i].Orphan
	}}
	for i := range x.list {
		if v, ok := w.of(i); ok {
			w.sum += v
		}
	}
	nobodys := 0.0
	if m.Reason != ReasonDriver {
		nobodys = float64(m.Remainder.Or(0))
	}
	if w.sum > 0 {
		w.explained = w.sum / (w.sum + nobodys)
	}
	return w
}

// percent is a share, cut to 0 to 100.
func percent(r gpu.Reading[gpu.Percent]) (float64, bool) {
	v, ok := r.Get()
	if !ok || math.IsNaN(float64(v)) {
		return 0, false
	}
	return min(100, max(0, float64(v))), true
}

// amount is a power, if it can be right.
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
