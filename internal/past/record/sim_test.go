//go:build !race

package record

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// What is kept of the simulator's processes is what they did, second by second.
func TestSessionsOfASimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a machine 7,000 times")
	}
	type used struct {
		seconds, bytes, sm, joules float64
		last                       int // second in which it was there
		gaps                       int // in which its device could not be read
	}
	x := simulate(t, "dgx-h100", start)
	fake := newFake()
	r := newRun(t, fake)
	r.cfg.Nodes = []string{x.nodes[0].Node()}
	stage := insight.NewStage()
	truth := map[string]*used{}
	name := func(uuid string, pid int, started time.Time) string {
		return fmt.Sprint(uuid, " ", pid, " ", started.UnixMilli())
	}
	const seconds = 3600
	var floors []gpu.Reading[gpu.Watts]
	for second := range seconds {
		x.now = start.Add(time.Duration(second) * time.Second)
		s := x.read(x.nodes[0])
		if second%5 == 0 {
			m := withFloors(stage.Next(s))
			r.Observe(m)
			if floors = floors[:0]; second%60 == 0 {
				r.flush()
			}
			for i := range m.Snapshot.Devices {
				floors = append(floors, m.Snapshot.Devices[i].IdleFloor)
			}
			s = m.Snapshot
		}
		for i := range s.Devices {
			d := &s.Devices[i]
			d.IdleFloor = floors[i]
			a := attribute.Of(d, false)
			for j, p := range d.Processes.Or(nil) {
				if a.Shares[j].Repeated {
					continue
				}
				key := name(d.UUID, p.PID, p.Facts.Started.Or(time.Time{}))
				u := truth[key]
				if u == nil {
					u = &used{last: second}
					truth[key] = u
					continue
				}
				if u.last == second-1 {
					u.seconds++
					u.bytes += float64(p.Memory.Or(0))
					u.sm += float64(p.SM.Or(0)) / 100
					u.joules += float64(a.Shares[j].Power.Or(0))
				} else {
					u.gaps++
				}
				u.last = second
			}
		}
	}
	r.flush()
	var sum, all used
	kept := map[string]bool{}
	for _, s := range fake.sessions {
		key := name(s.UUID, s.PID, s.Started)
		u := truth[key]
		if u == nil || kept[key] {
			t.Fatalf("no process of the simulation, or one with two sessions, is %s: %+v", key, s)
		}
		kept[key] = true
		// At most an interval is missing at each end, and at both ends of each gap.
		if lacks := u.seconds - s.Seen.Seconds(); lacks < 0 || lacks > float64(10*(1+u.gaps)) {
			t.Errorf("%s %s was there for %v s, and seen for %v", s.Name, key, u.seconds, s.Seen)
		}
		ended := u.last < seconds-10
		if d := s.Outcome; ended != (d != store.Open) || d == store.Unseen {
			t.Errorf("%s %s was there last in second %d, and is %s", s.Name, key, u.last, d)
		}
		if ghost := s.Started.IsZero(); (s.User == "" || s.Name == "") != ghost || s.PeakMemory.Or(0) == 0 {
			t.Errorf("the session is %+v", s)
		}
		sum.seconds, all.seconds = sum.seconds+s.Seen.Seconds(), all.seconds+u.seconds
		sum.bytes, all.bytes = sum.bytes+s.MemorySeconds, all.bytes+u.bytes
		sum.sm, all.sm = sum.sm+s.SMSeconds, all.sm+u.sm
		sum.joules, all.joules = sum.joules+s.Joules, all.joules+u.joules
	}
	for key, u := range truth {
		if !kept[key] && u.seconds >= 5 { // a shorter one can be between two readings
			t.Errorf("%s was there for %v s and has no session", key, u.seconds)
		}
	}
	for what, values := range map[string][2]float64{
		"seconds": {sum.seconds, all.seconds}, "byte-seconds": {sum.bytes, all.bytes}, "SM-seconds": {sum.sm, all.sm}, "joules": {sum.joules, all.joules},
	} {
		off := values[0]/values[1] - 1
		t.Logf("%d processes: %.0f %s kept of %.0f, %+.2f %%", len(kept), values[0], what, values[1], 100*off)
		if math.Abs(off) > 0.02 || values[1] == 0 {
			t.Errorf("%.0f %s are kept of %.0f", values[0], what, values[1])
		}
	}
	outcomes := map[store.Outcome]int{}
	for _, s := range fake.sessions {
		outcomes[s.Outcome]++
	}
	if outcomes[store.Ended] == 0 || outcomes[store.Open] == 0 {
		t.Errorf("outcomes: %v", outcomes)
	}
	t.Log("outcomes:", outcomes, slices.Sorted(maps.Keys(kept))[:2])
}

// A machine with 64 devices at each second: the CPU time of a Moment, and of what is written of it.
func BenchmarkObserve(b *testing.B) {
	x := simulate(b, "fleet:64", start)
	stage := insight.NewStage()
	var moments [][]*insight.Moment
	for second := range 60 {
		x.now = start.Add(time.Duration(second) * time.Second)
		var simulated []*insight.Moment
		for _, n := range x.nodes {
			simulated = append(simulated, stage.Next(x.read(n)))
		}
		moments = append(moments, simulated)
	}
	fake := newFake()
	r := newRun(b, fake)
	r.cfg.Interval = time.Second
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, m := range moments[n%60] {
			s := *m.Snapshot
			s.Time = start.Add(time.Duration(n) * time.Second)
			s.Devices = slices.Clone(s.Devices)
			for i := range s.Devices {
				s.Devices[i].SampledAt = s.Time
			}
			later := *m
			later.Snapshot = &s
			r.Observe(&later)
		}
		if n++; n%5 == 0 { // as batches are made
			r.mu.Lock()
			part := r.out.take(rowsAtOnce, framesAtOnce)
			r.mu.Unlock()
			_, r.values = part.batch(r.values)
			r.out.away = 0
		}
	}
}

// What waits with 64 devices at each second, and the snapshots and processes of eight nodes.
func TestMemoryOfWhatWaits(t *testing.T) {
	x := simulate(t, "fleet:64", start)
	stage := insight.NewStage()
	fake := newFake()
	r := newRun(t, fake)
	r.cfg.Interval = time.Second
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for second := range 30 {
		x.now = start.Add(time.Duration(second) * time.Second)
		for _, n := range x.nodes {
			r.Observe(stage.Next(x.read(n)))
		}
	}
	full, told := heap(), r.State().Bytes
	r.out = newBuffer(0, 0)
	holds := full - heap()
	t.Logf("thirty seconds of 64 devices: %d kB by our count, and %d kB of the heap", told>>10, holds>>10)
	if told < holds/2 || told > 2*holds {
		t.Errorf("%d bytes wait by our count, and %d of the heap", told, holds)
	}
	runtime.KeepAlive(r)
}
