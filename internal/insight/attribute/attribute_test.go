package attribute_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

const (
	mib gpu.Bytes = 1 << 20
	gib gpu.Bytes = 1 << 30
)

// figures are a test's values of a device; all others are absent.
type figures struct {
	used         gpu.Bytes
	draw, floor  gpu.Watts
	util         gpu.Percent // -1: absent
	processes    []gpu.Process
	noList       gpu.Quality // if there is no list
	foreign      bool
	partial      bool
	wantMemory   *attribute.Reason
	wantUtil     *attribute.Reason
	wantPower    *attribute.Reason
	method       attribute.Method
	watts        []float64 // of each process; -1: absent
	remainder    float64   // watts
	memoryCover  float64   // -1: absent
	utilCover    float64
	orphanMemory gpu.Bytes
}

func (c *figures) device() *gpu.Device {
	d := &gpu.Device{State: gpu.StateOK}
	d.Memory.Used = gpu.Of(c.used)
	d.Power.Draw = gpu.Of(c.draw)
	if c.floor > 0 {
		d.IdleFloor = gpu.Of(c.floor)
	}
	if c.util >= 0 {
		d.Utilization.GPU = gpu.Of(c.util)
	}
	d.Processes = gpu.Of(c.processes)
	if c.noList != 0 {
		d.Processes = gpu.Absent[[]gpu.Process](c.noList)
	}
	d.ProcessesPartial = gpu.Of(c.partial)
	return d
}

// proc returns a process that exists; with sm -1 the driver takes no samples, with memory 0 it does not report it.
func proc(pid int, memory gpu.Bytes, sm gpu.Percent) gpu.Process {
	p := gpu.Process{PID: pid, Type: gpu.TypeCompute, Facts: gpu.ProcessFacts{Exists: gpu.Of(true)}}
	if memory > 0 {
		p.Memory = gpu.Of(memory)
	}
	if sm >= 0 {
		p.SM = gpu.Of(sm)
	}
	return p
}

func dead(pid int, memory gpu.Bytes) gpu.Process {
	p := proc(pid, memory, 0)
	p.Facts.Exists = gpu.Of(false)
	return p
}

func inInstance(p gpu.Process, instance int) gpu.Process {
	p.GPUInstance, p.ComputeInstance = gpu.Of(instance), gpu.Of(0)
	return p
}

func TestOf(t *testing.T) {
	tests := map[string]figures{
		"all of it is one process's": {
			used: 10 * gib, draw: 320, floor: 20, util: 98, processes: []gpu.Process{proc(1, 10*gib, 98)},
			method: attribute.BySM, watts: []float64{300}, memoryCover: 100, utilCover: 100,
		},
		"two by their SM shares": {
			used: 10 * gib, draw: 320, floor: 20, util: 100, processes: []gpu.Process{proc(1, 1*gib, 75), proc(2, 9*gib, 25)},
			method: attribute.BySM, watts: []float64{225, 75}, memoryCover: 100, utilCover: 100,
		},
		"the floor is not known": {
			used: 1 * gib, draw: 300, util: 50, processes: []gpu.Process{proc(1, 1*gib, 50)},
			method: attribute.BySM, watts: []float64{300}, memoryCover: 100, utilCover: 100,
		},
		"below its floor": {
			used: 1 * gib, draw: 15, floor: 20, util: 1, processes: []gpu.Process{proc(1, 1*gib, 1)},
			method: attribute.BySM, watts: []float64{0}, memoryCover: 100, utilCover: 100,
		},
		"shares above the device's": { // different sample windows
			used: 2 * gib, draw: 120, floor: 20, util: 40, processes: []gpu.Process{proc(1, 1*gib, 60), proc(2, 1*gib, 20)},
			method: attribute.BySM, watts: []float64{75, 25}, memoryCover: 100, utilCover: 100,
		},
		"shares a little below the device's": {
			used: 1 * gib, draw: 120, floor: 20, util: 100, processes: []gpu.Process{proc(1, 1*gib, 95)},
			method: attribute.BySM, watts: []float64{95}, remainder: 5, memoryCover: 100, utilCover: 95,
			wantUtil: attribute.ReasonTiming, wantPower: attribute.ReasonTiming,
		},
		"half of the work is nobody's": {
			used: 4 * gib, draw: 220, floor: 20, util: 80, processes: []gpu.Process{proc(1, 1*gib, 40)},
			method: attribute.BySM, watts: []float64{100}, remainder: 100, memoryCover: 25, utilCover: 50,
			wantMemory: attribute.ReasonNotListed, wantUtil: attribute.ReasonNotListed, wantPower: attribute.ReasonNotListed,
		},
		"the same from a container": {
			used: 4 * gib, draw: 220, floor: 20, util: 80, processes: []gpu.Process{proc(1, 1*gib, 40)}, foreign: true,
			method: attribute.BySM, watts: []float64{100}, remainder: 100, memoryCover: 25, utilCover: 50,
			wantMemory: attribute.ReasonNamespace, wantUtil: attribute.ReasonNamespace, wantPower: attribute.ReasonNamespace,
		},
		"held awake": { // no work, and the clocks up
			used: 3*gib + 100*mib, draw: 80, floor: 20, util: 0, processes: []gpu.Process{proc(1, 1*gib, 0), proc(2, 2*gib, 0)},
			method: attribute.ByMemory, watts: []float64{20, 40}, memoryCover: 100 * 3072. / 3172, utilCover: -1,
			wantMemory: attribute.ReasonDriver,
		},
		"no samples": {
			used: 4 * gib, draw: 120, floor: 20, util: 90, processes: []gpu.Process{proc(1, 1*gib, -1), proc(2, 3*gib, -1)},
			method: attribute.ByMemory, watts: []float64{25, 75}, memoryCover: 100, utilCover: 0, wantUtil: attribute.ReasonNoSamples,
		},
		"no samples of the one that works": { // ROCm beside a desktop
			used: 4 * gib, draw: 220, floor: 20, util: 80, processes: []gpu.Process{proc(1, 3*gib, -1), proc(2, 1*gib, 4)},
			method: attribute.BySM, watts: []float64{-1, 10}, remainder: 190, memoryCover: 100, utilCover: 5,
			wantUtil: attribute.ReasonNoSamples, wantPower: attribute.ReasonNoSamples,
		},
		"MIG: no utilization of the whole": {
			used: 4 * gib, draw: 120, floor: 20, util: -1,
			processes: []gpu.Process{inInstance(proc(1, 1*gib, -1), 1), inInstance(proc(2, 3*gib, -1), 2)},
			method:    attribute.ByMemory, watts: []float64{25, 75}, memoryCover: 100, utilCover: -1,
		},
		"one pid in two MIG instances": {
			used: 4 * gib, draw: 120, floor: 20, util: -1,
			processes: []gpu.Process{inInstance(proc(1, 1*gib, -1), 1), inInstance(proc(1, 3*gib, -1), 2)},
			method:    attribute.ByMemory, watts: []float64{25, 75}, memoryCover: 100, utilCover: -1,
		},
		"listed with its instance, and once more without": {
			used: 4 * gib, draw: 120, floor: 20, util: -1,
			processes: []gpu.Process{proc(1, 4*gib, -1), inInstance(proc(1, 4*gib, -1), 1)},
			method:    attribute.ByMemory, watts: []float64{-1, 100}, memoryCover: 100, utilCover: -1,
		},
		"listed twice": {
			used: 8 * gib, draw: 120, floor: 20, util: 50, processes: []gpu.Process{proc(1, 4*gib, 50), proc(1, 4*gib, 50)},
			method: attribute.BySM, watts: []float64{100, -1}, memoryCover: 50, utilCover: 100, wantMemory: attribute.ReasonNotListed,
		},
		"memory of the dead": {
			used: 6 * gib, draw: 80, floor: 20, util: 0, processes: []gpu.Process{dead(1, 4*gib), proc(2, 2*gib, 0)},
			method: attribute.ByMemory, watts: []float64{-1, 60}, memoryCover: 100, utilCover: -1, orphanMemory: 4 * gib,
		},
		"only the dead": {
			used: 4 * gib, draw: 80, floor: 20, util: 0, processes: []gpu.Process{dead(1, 4*gib)},
			watts: []float64{-1}, remainder: 60, memoryCover: 100, utilCover: -1, orphanMemory: 4 * gib, wantPower: attribute.ReasonOrphans,
		},
		"memory that is not told": { // Windows' display mode, WSL
			used: 4 * gib, draw: 120, floor: 20, util: 60, processes: []gpu.Process{proc(1, 0, 60)},
			method: attribute.BySM, watts: []float64{100}, memoryCover: 0, utilCover: 100, wantMemory: attribute.ReasonNoMemory,
		},
		"nothing at all is told": {
			used: 4 * gib, draw: 120, floor: 20, util: 60, processes: []gpu.Process{proc(1, 0, -1)},
			watts: []float64{-1}, remainder: 100, memoryCover: 0, utilCover: 0,
			wantMemory: attribute.ReasonNoMemory, wantUtil: attribute.ReasonNoSamples, wantPower: attribute.ReasonNoSamples,
		},
		"no list": {
			used: 4 * gib, draw: 120, floor: 20, util: 60, noList: gpu.NotSupported, remainder: 100, memoryCover: 0, utilCover: 0,
			wantMemory: attribute.ReasonNoList, wantUtil: attribute.ReasonNoList, wantPower: attribute.ReasonNoList,
		},
		"no list for us": {
			used: 4 * gib, draw: 120, floor: 20, util: 60, noList: gpu.NotPermitted, remainder: 100, memoryCover: 0, utilCover: 0,
			wantMemory: attribute.ReasonNotPermitted, wantUtil: attribute.ReasonNotPermitted, wantPower: attribute.ReasonNotPermitted,
		},
		"an empty list while it works": {
			used: 4 * gib, draw: 120, floor: 20, util: 60, processes: []gpu.Process{}, foreign: true, remainder: 100, memoryCover: 0, utilCover: 0,
			wantMemory: attribute.ReasonNamespace, wantUtil: attribute.ReasonNamespace, wantPower: attribute.ReasonNamespace,
		},
		"at rest, as far as can be seen": {
			used: 2 * mib, draw: 25, floor: 20, util: 0, processes: []gpu.Process{}, partial: true, remainder: 5, memoryCover: 0, utilCover: -1,
			wantMemory: attribute.ReasonDriver, wantPower: attribute.ReasonNotPermitted,
		},
		"an empty list of which some is hidden": {
			used: 4 * gib, draw: 120, floor: 20, util: 60, processes: []gpu.Process{}, partial: true, remainder: 100, memoryCover: 0, utilCover: 0,
			wantMemory: attribute.ReasonNotPermitted, wantUtil: attribute.ReasonNotPermitted, wantPower: attribute.ReasonNotPermitted,
		},
		"at rest": {
			used: 2 * mib, draw: 25, floor: 20, util: 0, processes: []gpu.Process{}, remainder: 5, memoryCover: 0, utilCover: -1,
			wantMemory: attribute.ReasonDriver, wantPower: attribute.ReasonAtRest,
		},
		"nothing used": {used: 0, draw: 20, floor: 20, util: 0, processes: []gpu.Process{}, memoryCover: -1, utilCover: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := attribute.Of(tt.device(), tt.foreign)
			if a.Memory.Reason != tt.wantMemory || a.Utilization.Reason != tt.wantUtil || a.Power.Reason != tt.wantPower {
				t.Errorf("reasons: memory %v, utilization %v, power %v, want %v, %v, %v",
					a.Memory.Reason, a.Utilization.Reason, a.Power.Reason, tt.wantMemory, tt.wantUtil, tt.wantPower)
			}
			for i, want := range tt.watts {
				if got := float64(a.Shares[i].Power.Or(-1)); math.Abs(got-want) > 1e-9 {
					t.Errorf("process %d has %v W, want %v", i, a.Shares[i].Power, want)
				}
			}
			if got := float64(a.Power.Remainder.Or(-1)); math.Abs(got-tt.remainder) > 1e-9 || a.Power.Method != tt.method {
				t.Errorf("%v W are left by %q, want %v by %q", got, a.Power.Method, tt.remainder, tt.method)
			}
			if got := float64(a.Memory.Coverage.Or(-1)); math.Abs(got-tt.memoryCover) > 1e-9 {
				t.Errorf("memory is covered to %v, want %v", got, tt.memoryCover)
			}
			if got := float64(a.Utilization.Coverage.Or(-1)); math.Abs(got-tt.utilCover) > 1e-9 {
				t.Errorf("utilization is covered to %v, want %v", got, tt.utilCover)
			}
			if got := a.Memory.Orphans.Or(0); got != tt.orphanMemory {
				t.Errorf("orphans hold %v, want %v", got, tt.orphanMemory)
			}
		})
	}
}

// What processes hold of the machine's memory counts for a GPU that works in it.
func TestMemoryOfTheMachine(t *testing.T) {
	const own, shared = 240 << 20, 2400 << 20
	d := &gpu.Device{}
	d.Memory.Used, d.Memory.Total = gpu.Of[gpu.Bytes](own), gpu.Of[gpu.Bytes](256<<20)
	d.Shared = gpu.SharedMemory{Unified: gpu.Of(true), Used: gpu.Of[gpu.Bytes](shared), Total: gpu.Of[gpu.Bytes](6 << 30)}
	d.Processes = gpu.Of([]gpu.Process{proc(7, 2081<<20, 50)})
	a := attribute.Of(d, false)
	if a.Shares[0].Memory != gpu.Of[gpu.Bytes](2081<<20) || a.Memory.Remainder != gpu.Of[gpu.Bytes](own+shared-(2081<<20)) {
		t.Errorf("the process has %v, nobody %v", a.Shares[0].Memory, a.Memory.Remainder)
	}
	d.Shared.Unified = gpu.Of(false) // on a card it does not count toward the card's own memory
	if a := attribute.Of(d, false); a.Shares[0].Memory != gpu.DoubtfulOf[gpu.Bytes](own) {
		t.Errorf("of a card the process has %v", a.Shares[0].Memory)
	}
}

func TestReasonsHaveWords(t *testing.T) {
	for _, r := range []*attribute.Reason{
		attribute.ReasonNamespace, attribute.ReasonNotPermitted, attribute.ReasonNoList, attribute.ReasonNotListed,
		attribute.ReasonNoMemory, attribute.ReasonNoSamples, attribute.ReasonDriver, attribute.ReasonTiming, attribute.ReasonOrphans, attribute.ReasonAtRest,
	} {
		if r.Name == "" || r.What == "" {
			t.Errorf("%q has no words", r.Name)
		}
	}
}

// A reading that a device does not report is not split.
func TestAbsentStaysAbsent(t *testing.T) {
	for _, d := range []gpu.Device{
		{State: gpu.StateLost},
		{State: gpu.StateOK, Readings: gpu.Readings{Processes: gpu.Of([]gpu.Process{})}},
	} {
		a := attribute.Of(&d, true)
		if len(a.Shares) != 0 {
			t.Errorf("shares of nobody: %+v", a.Shares)
		}
		a.Shares = nil
		if !reflect.DeepEqual(a, attribute.Attribution{}) {
			t.Errorf("of nothing: %+v", a)
		}
	}
	d := (&figures{used: gib, draw: 100, util: 50, processes: []gpu.Process{proc(1, gib, 50)}}).device()
	d.Power.Draw = gpu.Absent[gpu.Watts](gpu.NotSupported)
	a := attribute.Of(d, false)
	if a.Shares[0].Power.Present() || a.Power.Remainder.Present() || a.Power.Method != "" || a.Power.Reason != nil {
		t.Errorf("watts of a device that reports none: %+v", a)
	}
	d.Power.Draw = gpu.DoubtfulOf[gpu.Watts](9000)
	if a := attribute.Of(d, false); a.Shares[0].Power.Quality() != gpu.Doubtful || a.Power.Processes.Quality() != gpu.Doubtful {
		t.Errorf("a part of doubtful watts is not doubtful: %+v", a)
	}
}

// maybe makes a reading of any quality.
func maybe[T any](r *rand.Rand, v T) gpu.Reading[T] {
	switch r.IntN(8) {
	case 0:
		return gpu.Absent[T](gpu.Quality(r.IntN(4)))
	case 1:
		return gpu.DoubtfulOf(v)
	default:
		return gpu.Of(v)
	}
}

// someDevice returns any device, likely or not.
func someDevice(r *rand.Rand) *gpu.Device {
	d := &gpu.Device{State: gpu.StateOK, IdleFloor: maybe(r, gpu.Watts(r.Float64()*100))}
	d.Memory.Used = maybe(r, gpu.Bytes(r.Uint64N(uint64(80*gib))))
	d.Utilization.GPU = maybe(r, gpu.Percent(r.IntN(101)))
	d.Power.Draw = maybe(r, gpu.Watts(r.Float64()*700))
	if r.IntN(50) == 0 { // a value that no sensor should report
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e300}
		d.Power.Draw = gpu.DoubtfulOf(gpu.Watts(odd[r.IntN(len(odd))]))
		d.Utilization.GPU = gpu.DoubtfulOf(gpu.Percent(odd[r.IntN(len(odd))]))
		d.Memory.Used = gpu.DoubtfulOf(gpu.Bytes(math.MaxUint64))
	}
	list := make([]gpu.Process, r.IntN(12))
	for i := range list {
		p := &list[i]
		p.PID = 1 + r.IntN(10) // often twice
		p.Memory = maybe(r, gpu.Bytes(r.Uint64N(uint64(20*gib))))
		if r.IntN(60) == 0 {
			p.Memory = gpu.Of(gpu.Bytes(math.MaxUint64 - r.Uint64N(4)))
		}
		if r.IntN(3) > 0 {
			p.SM = maybe(r, gpu.Percent(r.IntN(101)))
		}
		if r.IntN(3) == 0 {
			p.GPUInstance, p.ComputeInstance = gpu.Of(r.IntN(3)), gpu.Of(r.IntN(2))
		}
		p.Facts.Exists = maybe(r, r.IntN(4) > 0)
		p.Facts.User = maybe(r, []string{"alice", "bob", "root"}[r.IntN(3)])
		p.Facts.Container = maybe(r, gpu.Container{ID: []string{"", "a", "b"}[r.IntN(3)]})
	}
	d.Processes = maybe(r, list)
	return d
}

// Whatever a device reports: parts add up, none is negative, none is more than the whole, and a process listed twice counts once.
func TestPartsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for round := range 50_000 {
		d := someDevice(r)
		a := attribute.Of(d, r.IntN(2) == 0)
		check(t, d, &a)
		if t.Failed() {
			t.Fatalf("round %d: %+v\nof %+v", round, a, d)
		}
	}
}

func check(t *testing.T, d *gpu.Device, a *attribute.Attribution) {
	t.Helper()
	list := d.Processes.Or(nil)
	if len(a.Shares) != len(list) {
		t.Fatalf("%d shares of %d processes", len(a.Shares), len(list))
	}
	var memory, orphans gpu.Bytes
	var watts float64
	once := map[[3]int]int{}
	for i, s := range a.Shares {
		v, ok := s.Memory.Get()
		if s.Orphan {
			orphans += v
		} else {
			memory += v
		}
		if ok && v > list[i].Memory.Or(0) {
			t.Errorf("process %d holds %v, and has %v", i, list[i].Memory, s.Memory)
		}
		w, ok := s.Power.Get()
		if ok && (!(w >= 0) || w > d.Power.Draw.Or(0)) {
			t.Errorf("process %d has %v W of %v", i, w, d.Power.Draw)
		}
		watts += float64(w)
		if s.Repeated && (s.Memory.Present() || s.Power.Present() || s.Orphan) {
			t.Errorf("process %d counts twice: %+v", i, s)
		}
		if !s.Repeated {
			once[[3]int{list[i].PID, list[i].GPUInstance.Or(-1), list[i].ComputeInstance.Or(-1)}]++
		}
	}
	for k, n := range once {
		if n > 1 {
			t.Errorf("%v is attributed %d times", k, n)
		}
	}
	m := a.Memory
	if rest, ok := m.Remainder.Get(); ok {
		if memory+orphans+rest != d.Pool().Used.Or(0) {
			t.Errorf("memory: %v + %v + %v of %v", memory, orphans, rest, d.Pool().Used)
		}
		if (rest == 0) != (m.Reason == nil) {
			t.Errorf("%v left, for %v", rest, m.Reason)
		}
	}
	if m.Processes.Present() && (m.Processes.Or(0) != memory || m.Orphans.Or(0) != orphans) {
		t.Errorf("memory: %v and %v, the shares say %v and %v", m.Processes, m.Orphans, memory, orphans)
	}
	u := a.Utilization
	if rest, ok := u.Remainder.Get(); ok {
		device := min(100, max(0, float64(d.Utilization.GPU.Or(0))))
		if !(rest >= 0) || math.Abs(float64(u.Processes.Or(0)+rest)-device) > 1e-9 {
			t.Errorf("utilization: %v + %v of %v", u.Processes, rest, d.Utilization.GPU)
		}
	}
	p := a.Power
	if rest, ok := p.Remainder.Get(); ok {
		draw := float64(d.Power.Draw.Or(0))
		sum := float64(p.Idle.Or(0)) + watts + float64(rest)
		if !(rest >= 0) || math.Abs(sum-draw) > 1e-9*max(1, draw) {
			t.Errorf("watts: %v + %v + %v of %v", p.Idle, watts, rest, d.Power.Draw)
		}
		if math.Abs(float64(p.Processes.Or(0))-watts) > 1e-9*max(1, draw) {
			t.Errorf("watts: %v, the shares say %v", p.Processes, watts)
		}
		if (rest == 0) != (p.Reason == nil) || (watts > 0) && p.Method == "" {
			t.Errorf("%v W left for %v, split by %q", rest, p.Reason, p.Method)
		}
	} else if watts > 0 || p.Processes.Present() || p.Idle.Present() {
		t.Errorf("watts of a device that reports none: %+v", p)
	}
	for _, c := range []gpu.Reading[gpu.Percent]{m.Coverage, u.Coverage, p.Coverage} {
		if v := c.Or(0); !(v >= 0 && v <= 100) {
			t.Errorf("covered to %v", c)
		}
	}
}

// A user's sum is what the user's processes have, and no process counts twice, however many devices it uses.
func TestSumsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	for range 3000 {
		s := &gpu.Snapshot{}
		for range 1 + r.IntN(4) {
			d := someDevice(r)
			d.Node = []string{"a", "b"}[r.IntN(2)]
			s.Devices = append(s.Devices, *d)
		}
		all := attribute.Snapshot(s)
		var memory gpu.Bytes
		var watts float64
		pids := map[string]map[int]bool{"a": {}, "b": {}}
		for i := range all {
			for j, share := range all[i].Shares {
				if !share.Orphan && !share.Repeated {
					memory += share.Memory.Or(0)
					watts += float64(share.Power.Or(0))
					pids[s.Devices[i].Node][s.Devices[i].Processes.Or(nil)[j].PID] = true
				}
			}
		}
		var gotMemory gpu.Bytes
		var gotWatts float64
		users := attribute.ByUser(pairs(s, all))
		for i, sum := range users {
			gotMemory += sum.Memory.Or(0)
			gotWatts += float64(sum.Power.Or(0))
			if sum.Processes < 1 || sum.Processes > len(pids[sum.Node]) || sum.Devices < 1 || sum.Devices > len(s.Devices) {
				t.Fatalf("%+v, of pids %v", sum, pids)
			}
			if i > 0 && sum.Power.Or(0) > users[i-1].Power.Or(0) {
				t.Fatalf("not by watts: %+v", users)
			}
		}
		if gotMemory != memory || math.Abs(gotWatts-watts) > 1e-6*max(1, watts) {
			t.Fatalf("users have %v and %v W, their processes %v and %v W", gotMemory, gotWatts, memory, watts)
		}
	}
}

func TestSums(t *testing.T) {
	who := func(p gpu.Process, user, container, pod string) gpu.Process {
		p.Facts.User = gpu.Of(user)
		p.Facts.Container = gpu.Of(gpu.Container{ID: container})
		p.Facts.Pod = gpu.Of(gpu.Pod{UID: pod})
		return p
	}
	unseen := proc(9, gib, 0)
	unseen.Facts = gpu.ProcessFacts{}
	first := figures{used: 8 * gib, draw: 220, floor: 20, util: 100, processes: []gpu.Process{
		who(proc(1, 4*gib, 50), "alice", "c1", "p1"), who(proc(2, 2*gib, 50), "bob", "", ""), dead(3, gib), unseen}}
	second := figures{used: 4 * gib, draw: 120, floor: 20, util: 100, processes: []gpu.Process{who(proc(1, 4*gib, 100), "alice", "c1", "p1")}}
	s := &gpu.Snapshot{Devices: []gpu.Device{*first.device(), *second.device()}}
	all := attribute.Snapshot(s)

	users := attribute.ByUser(pairs(s, all))
	want := []attribute.Sum[string]{
		{Of: gpu.Of("alice"), Holding: attribute.Holding{Processes: 1, Devices: 2, Memory: gpu.Of(8 * gib), Power: gpu.Of[gpu.Watts](200)}},
		{Of: gpu.Of("bob"), Holding: attribute.Holding{Processes: 1, Devices: 1, Memory: gpu.Of(2 * gib), Power: gpu.Of[gpu.Watts](100)}},
		{Holding: attribute.Holding{Processes: 1, Devices: 1, Memory: gpu.Of(gib), Power: gpu.Of[gpu.Watts](0)}},
	}
	if !reflect.DeepEqual(users, want) {
		t.Errorf("users:\n%+v\nwant\n%+v", users, want)
	}
	containers := attribute.ByContainer(pairs(s, all))
	if len(containers) != 3 || containers[0].Of != gpu.Of(gpu.Container{ID: "c1"}) || containers[0].Devices != 2 ||
		containers[1].Of != gpu.Of(gpu.Container{}) || containers[2].Of.Present() {
		t.Errorf("containers: %+v", containers)
	}
	if pods := attribute.ByPod(pairs(s, all)); len(pods) != 3 || pods[0].Of.Or(gpu.Pod{}).UID != "p1" {
		t.Errorf("pods: %+v", pods)
	}
}

// Eight cards with two hundred processes in total, and with as many each.
func BenchmarkSnapshot8x25(b *testing.B)  { benchmarkSnapshot(b, 25) }
func BenchmarkSnapshot8x200(b *testing.B) { benchmarkSnapshot(b, 200) }

func benchmarkSnapshot(b *testing.B, each int) {
	s := &gpu.Snapshot{}
	for i := range 8 {
		c := figures{used: 70 * gib, draw: 600, floor: 70, util: 97}
		for j := range each {
			p := proc(1000*i+j, gpu.Bytes(1+j)*mib, gpu.Percent(j%5))
			p.Facts.User = gpu.Of("user" + string(rune('a'+j%7)))
			p.Facts.Container = gpu.Of(gpu.Container{ID: string(rune('a' + j%25))})
			p.Facts.Pod = gpu.Of(gpu.Pod{UID: string(rune('a' + j%25))})
			c.processes = append(c.processes, p)
		}
		s.Devices = append(s.Devices, *c.device())
	}
	var floors attribute.Floors
	b.ReportAllocs()
	for b.Loop() {
		noted := floors.Note(s)
		all := attribute.Snapshot(noted)
		attribute.ByUser(pairs(noted, all))
		attribute.ByContainer(pairs(noted, all))
		attribute.ByPod(pairs(noted, all))
	}
}

// pairs yields a snapshot's devices with their attributions.
func pairs(s *gpu.Snapshot, all []attribute.Attribution) attribute.Devices {
	return func(yield func(*gpu.Device, *attribute.Attribution) bool) {
		for i := range all {
			if !yield(&s.Devices[i], &all[i]) {
				return
			}
		}
	}
}
