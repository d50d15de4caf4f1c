// Package attribute assigns a device's memory, utilization and watts to processes,
// and says how much no process explains. Its functions are pure functions of snapshots.
//
// The idle power draw belongs to nobody: it is the idle floor, which [Floors]
// learns. The watts above the floor are split by the processes' shares of the
// multiprocessors (SM) or, if no process has a share, by the memory that living
// processes hold, because a context keeps the clocks up. This is an estimate, and
// [Method] names it: two processes with the same share may draw different power.
//
// The part that no process explains is a remainder with its most likely reason. No
// part is negative or more than the device reports.
package attribute

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Method is how watts were split between processes; empty if they were not.
type Method string

// The methods.
const (
	BySM     Method = "sm_share" // by the processes' shares of the multiprocessors
	ByMemory Method = "memory"   // by the memory that living processes hold
)

// An Attribution says who uses one device's memory, utilization and power.
type Attribution struct {
	Shares      []Share // one for each of the device's Processes, in the same order
	Memory      Memory
	Utilization Utilization
	Power       Power
}

// A Share is one process's part of a device.
type Share struct {
	// Memory is what the process holds. It is absent if the driver does not report it, or if an earlier element of the list has it. It is
	// doubtful if the processes hold more than the used memory: then each gets proportionally less.
	Memory   gpu.Reading[gpu.Bytes]
	Power    gpu.Reading[gpu.Watts] // an estimate: see the package comment
	Orphan   bool                   // the process no longer exists, but still holds memory
	Repeated bool                   // an earlier element of the list already counts the process
}

// A Split says how much of a reading processes explain; it is empty if there is no reading.
type Split[T any] struct {
	Processes gpu.Reading[T] // the processes' part, as far as it fits into the reading
	Remainder gpu.Reading[T]
	Coverage  gpu.Reading[gpu.Percent] // the part that is not Remainder; absent for a reading of 0
	Reason    *Reason                  // why there is a remainder; nil if there is none
}

// Memory splits the device's used memory, taken from [gpu.Readings.Pool]: Processes, Orphans and Remainder add up to it.
type Memory struct {
	Split[gpu.Bytes]
	Orphans gpu.Reading[gpu.Bytes] // held by processes that no longer exist
}

// Utilization splits the device's utilization: Processes, the sum of the SM shares, and Remainder add up to it.
type Utilization = Split[gpu.Percent]

// Power splits the device's power draw: Idle, Processes and Remainder add up to it.
type Power struct {
	Split[gpu.Watts]
	Idle   gpu.Reading[gpu.Watts] // the idle floor's part; absent until the floor is known
	Method Method
}

// ForeignPIDs reports whether notes say that pids belong to another namespace; see [gpu.ErrForeignPIDs].
func ForeignPIDs(s *gpu.Snapshot) bool {
	return slices.ContainsFunc(s.Notes, func(a gpu.Advice) bool { return errors.Is(&a, gpu.ErrForeignPIDs) })
}

// Snapshot attributes every device of a snapshot, in the same order.
func Snapshot(s *gpu.Snapshot) []Attribution {
	foreign := ForeignPIDs(s)
	out := make([]Attribution, len(s.Devices))
	for i := range s.Devices {
		out[i] = Of(&s.Devices[i], foreign)
	}
	return out
}

// Of attributes one device; foreignPIDs is [ForeignPIDs] of its snapshot.
func Of(d *gpu.Device, foreignPIDs bool) Attribution {
	list := d.Processes.Or(nil)
	x := &splitter{d: d, list: list, shares: make([]Share, len(list)), elsewhere: ReasonNotListed}
	switch {
	case foreignPIDs:
		x.elsewhere = ReasonNamespace
	case d.ProcessesPartial.Or(false):
		x.elsewhere = ReasonNotPermitted
	}
	if !d.Processes.Present() {
		x.unlisted = absence(d.Processes.Quality(), ReasonNoList)
	}
	markRepeated(list, x.shares)
	for i := range list {
		x.shares[i].Orphan = !list[i].Facts.Exists.Or(true) && !x.shares[i].Repeated
	}
	a := Attribution{Shares: x.shares, Memory: x.memory(), Utilization: x.utilization()}
	a.Power = x.power(&a.Memory, &a.Utilization)
	return a
}

// markRepeated marks elements of a list that repeat a process: with the same MIG instance, or without an instance if another element has
// one.
func markRepeated(list []gpu.Process, shares []Share) {
	if len(list) < 2 {
		return
	}
	type key struct {
		pid               int
		instance, compute gpu.Reading[int]
	}
	seen := make(map[key]bool, len(list))
	inInstance := map[int]bool{}
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

type splitter struct {
	d         *gpu.Device
	list      []gpu.Process
	shares    []Share
	unlisted  *Reason // why there is no list; nil if there is one
	elsewhere *Reason // why a list may lack processes
}

// memory fills in the shares' memory.
func (x *splitter) memory() Memory {
	var m Memory
	used, ok := x.d.Pool().Used.Get()
	if !ok {
		return m
	}
	var held uint64 // by all processes; a sum that overflows is impossible
	var known bool
	for i := range x.list {
		if v, ok := x.list[i].Memory.Get(); ok && !x.shares[i].Repeated {
			if held, known = held+uint64(v), true; held < uint64(v) {
				return m
			}
		}
	}
	var processes, orphans gpu.Bytes
	var before uint64 // of the previous elements
	for i := range x.list {
		share := &x.shares[i]
		v, ok := x.list[i].Memory.Get()
		if !ok || share.Repeated {
			continue
		}
		given := gpu.Bytes(scaled(before+uint64(v), held, uint64(used)) - scaled(before, held, uint64(used)))
		before += uint64(v)
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
	remainder := used - processes - orphans
	m.Split = split(x, gpu.Of[gpu.Bytes], used, processes, remainder, known, x.memoryReason(remainder))
	if m.Processes.Present() {
		m.Orphans = gpu.Of(orphans)
	}
	return m
}

// split makes a Split of a whole; known means that some process reports its part.
func split[T gpu.Bytes | gpu.Percent | gpu.Watts](
	x *splitter, amount func(T) gpu.Reading[T], whole, processes, remainder T, known bool, why *Reason,
) Split[T] {
	s := Split[T]{Remainder: amount(remainder), Coverage: coverage(float64(whole-remainder), float64(whole))}
	if x.unlisted == nil && (known || len(x.list) == 0) {
		s.Processes = amount(processes)
	}
	if remainder > 0 {
		s.Reason = cmp.Or(x.unlisted, why)
	}
	return s
}

// scaled cuts a part of sum to fit into whole. The differences between its results for 0 to sum add up to exactly whole, or to sum if that
// is less.
func scaled(part, sum, whole uint64) uint64 {
	if sum <= whole {
		return part
	}
	hi, lo := bits.Mul64(part, whole)
	out, _ := bits.Div64(hi, lo, sum) // part <= sum, so out <= whole
	return out
}

func (x *splitter) utilization() Utilization {
	device, ok := percent(x.d.Utilization.GPU)
	if !ok {
		return Utilization{}
	}
	sum, known := x.sum(x.bySM)
	explained := min(sum, device)
	why := x.utilizationReason(device-explained, sum, known)
	return split(x, gpu.Of[gpu.Percent], gpu.Percent(device), gpu.Percent(explained), gpu.Percent(device-explained), known, why)
}

// power fills in the shares' watts.
func (x *splitter) power(m *Memory, u *Utilization) Power {
	var p Power
	draw, ok := amount(x.d.Power.Draw)
	if !ok {
		return p
	}
	like := func(v gpu.Watts) gpu.Reading[gpu.Watts] {
		return gpu.Map(x.d.Power.Draw, func(gpu.Watts) gpu.Watts { return v })
	}
	var idle, processes gpu.Watts
	if floor, ok := amount(x.d.IdleFloor); ok {
		idle = min(floor, draw)
		p.Idle = like(idle)
	}
	active := draw - idle
	method, weightOf, sum, explained := x.weights(m)
	if sum > 0 {
		p.Method = method
		processes = active * gpu.Watts(explained)
		for i := range x.shares {
			if v, ok := weightOf(i); ok {
				x.shares[i].Power = like(processes * gpu.Watts(v/sum))
			}
		}
	}
	p.Split = split(x, like, draw, processes, max(0, active-processes), sum > 0, cmp.Or(u.Reason, x.powerReason(m)))
	return p
}

// weights says how the watts above the floor are split; explained is the processes' part, 0 to 1.
func (x *splitter) weights(m *Memory) (method Method, weigh weight, sum, explained float64) {
	if sum, _ := x.sum(x.bySM); sum > 0 {
		whole, _ := percent(x.d.Utilization.GPU)
		return BySM, x.bySM, sum, sum / max(sum, whole)
	}
	sum, _ = x.sum(x.byMemory)
	whole := sum
	if m.Reason != ReasonDriver {
		whole += float64(m.Remainder.Or(0)) // nobody's
	}
	return ByMemory, x.byMemory, sum, sum / whole
}

// A weight returns a process's part of something; ok is false if that is not known.
type weight func(process int) (v float64, ok bool)

func (x *splitter) bySM(i int) (float64, bool) {
	v, ok := percent(x.list[i].SM)
	return v, ok && !x.shares[i].Repeated
}

func (x *splitter) byMemory(i int) (float64, bool) {
	v, ok := x.shares[i].Memory.Get()
	return float64(v), ok && !x.shares[i].Orphan
}

// sum adds up the weights; known means that some process has one.
func (x *splitter) sum(weigh weight) (sum float64, known bool) {
	for i := range x.list {
		if v, ok := weigh(i); ok {
			sum += v
			known = true
		}
	}
	return sum, known
}

// percent returns a share, limited to 0 to 100.
func percent(r gpu.Reading[gpu.Percent]) (float64, bool) {
	v, ok := r.Get()
	if !ok || math.IsNaN(float64(v)) {
		return 0, false
	}
	return min(100, max(0, float64(v))), true
}

// amount returns a power, if it is possible.
func amount(r gpu.Reading[gpu.Watts]) (gpu.Watts, bool) {
	w, ok := r.Get()
	return w, ok && w >= 0 && !math.IsInf(float64(w), 0) // NaN is not >= 0
}

// coverage is part of whole in percent, absent if there is nothing to cover.
func coverage(part, whole float64) gpu.Reading[gpu.Percent] {
	if !(whole > 0) {
		return gpu.Reading[gpu.Percent]{}
	}
	return gpu.Of(gpu.Percent(min(100, max(0, 100*(part/whole)))))
}
