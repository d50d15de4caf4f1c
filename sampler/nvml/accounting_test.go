//go:build linux && cgo

package nvml

import (
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

const modeCall = "nvmlDeviceGetAccountingMode"

var accountingCalls = []string{
	modeCall, "nvmlDeviceGetAccountingBufferSize", "nvmlDeviceGetAccountingPids", "nvmlDeviceGetAccountingStats",
}

// accounted reads several times, each time with a due list, and returns the last result. A reading makes at most one accounting call.
func accounted(t *testing.T, m *fakenvml.Machine, s *Source, readings int) (d *gpu.Device) {
	t.Helper()
	for range readings {
		if s.session != nil {
			delete(s.session.devices[0].due, "accounted processes")
		}
		pass(s, time.Millisecond)
		before := m.GPU(0).Calls(accountingCalls...)
		d = readOne(t, s)
		if n := m.GPU(0).Calls(accountingCalls...) - before; n > 1 {
			t.Fatalf("%d calls in one reading", n)
		}
	}
	return d
}

// ran returns a process that the driver accounted for.
func ran(pid uint32, started time.Time, d time.Duration) fakenvml.Accounted {
	return fakenvml.Accounted{PID: pid, Utilization: 60, Memory: 3 << 30, Started: started, Ran: d}
}

// TestAccounting checks that a process that started and ended between two readings is reported once, with what the driver knows. Processes
// that ended before, that are running, or that were seen running are not reported.
func TestAccounting(t *testing.T) {
	m := machine(t, fakenvml.RTX4090().With(fakenvml.Accounting, 1))
	s := source(t, m)
	now := clockOf(s).Now().Truncate(time.Microsecond)
	old, seen := ran(100, now.Add(-2*time.Hour), time.Hour), fakenvml.Accounted{PID: 200, Started: now.Add(-time.Hour), Running: true}
	m.GPU(0).SetAccounted(old, seen)
	m.GPU(0).SetProcesses(fakenvml.Process{PID: 200, Type: "compute", Memory: 1 << 30})
	if d := accounted(t, m, s, 1); d.Accounted.Present() || d.Accounted.Quality() != gpu.NotReported {
		t.Errorf("before the list was read: %v", d.Accounted)
	}
	if d := accounted(t, m, s, 5); !d.Accounted.Present() || len(d.Accounted.Or(nil)) != 0 {
		t.Errorf("at first %+v, want an empty list", d.Accounted)
	}

	m.GPU(0).SetProcesses()
	s.session.devices[0].accounting.since = now.Add(-time.Minute)
	now = clockOf(s).Now().Truncate(time.Microsecond)
	came := ran(300, now.Add(-3*time.Second), 2500*time.Millisecond)
	short := fakenvml.Accounted{PID: 301, Memory: fakenvml.NotAvailable, Started: now.Add(-time.Second), Ran: 300 * time.Millisecond}
	seen = ran(200, seen.Started, now.Sub(seen.Started))
	goesOn := fakenvml.Accounted{PID: 302, Started: now, Running: true}
	m.GPU(0).SetAccounted(old, seen, came, short, goesOn)
	want := []gpu.AccountedProcess{
		{PID: 300, Started: came.Started.UTC(), Ran: came.Ran, PeakMemory: gpu.Of[gpu.Bytes](3 << 30), Utilization: gpu.Of[gpu.Percent](60)},
		{PID: 301, Started: short.Started.UTC(), Ran: short.Ran},
	}
	check := func(when string, want []gpu.AccountedProcess) {
		t.Helper()
		if diff := cmp.Diff(want, accounted(t, m, s, 20).Accounted.Or(nil), everything); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("two came and went", want)

	// Two pids are used again: of a reported process, and of one that had ended before.
	now = clockOf(s).Now().Truncate(time.Microsecond)
	again, again100 := ran(300, now.Add(-time.Millisecond), time.Millisecond), ran(100, now.Add(-time.Millisecond), time.Millisecond)
	m.GPU(0).SetAccounted(again100, seen, again, short)
	got := accounted(t, m, s, 30).Accounted.Or(nil)
	pids := map[int]int{}
	for _, p := range got {
		pids[p.PID]++
	}
	if diff := cmp.Diff(map[int]int{100: 1, 300: 2, 301: 1}, pids); diff != "" {
		t.Errorf("pids used again (-want +got):\n%s\n%+v", diff, got)
	}

	// After its minute nothing is reported again, although the driver still has it.
	a := &s.session.devices[0].accounting
	for i := range a.added {
		a.added[i] = a.added[i].Add(-2 * toldFor)
	}
	check("a minute later", []gpu.AccountedProcess{})
}

// TestAccountingOff checks that only the mode is read while it is off, and that missing or forbidden functions are reported.
func TestAccountingOff(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(d *fakenvml.Device)
		want gpu.Quality
	}{
		{"off", func(*fakenvml.Device) {}, gpu.NotSupported},
		{"a product without", func(d *fakenvml.Device) { d.Unset(fakenvml.Accounting) }, gpu.NotSupported},
		{"a driver without", func(d *fakenvml.Device) { d.Answer(13, accountingCalls...) }, gpu.NotSupported},
		{"not permitted", func(d *fakenvml.Device) { d.Answer(4, modeCall) }, gpu.NotPermitted},
		{"a failure", func(d *fakenvml.Device) { d.Answer(999, modeCall) }, gpu.NotReported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090())
			tt.set(m.GPU(0))
			d := accounted(t, m, source(t, m), 5)
			if d.State != gpu.StateOK || d.Accounted.Present() || d.Accounted.Quality() != tt.want {
				t.Errorf("%v, accounted %v; want it absent as %v", d.State, d.Accounted, tt.want)
			}
			if n := m.GPU(0).Calls(accountingCalls[1:]...); n != 0 {
				t.Errorf("%d calls beside the mode", n)
			}
			if n := m.GPU(0).Calls(modeCall); n != 1 {
				t.Errorf("the mode was asked %d times in five readings", n)
			}
		})
	}
}

// TestAccountingMany checks a list with more pids than the driver announced, and with impossible values.
func TestAccountingMany(t *testing.T) {
	m := machine(t, fakenvml.RTX4090().With(fakenvml.Accounting, 1).Without(fakenvml.AccountingSize))
	s := source(t, m)
	accounted(t, m, s, 3)
	now := clockOf(s).Now().Truncate(time.Microsecond)
	all := []fakenvml.Accounted{
		ran(0, now, time.Second), ran(1<<30, now, time.Second), ran(7, now.Add(time.Hour), time.Second), ran(8, time.UnixMicro(0), time.Second),
		{PID: 9, Started: now, Ran: 200 * 365 * 24 * time.Hour},
	}
	const many = 2*firstRows + 1
	for i := range uint32(many) {
		all = append(all, ran(1000+i, now, time.Millisecond))
	}
	m.GPU(0).SetAccounted(all...)
	got := accounted(t, m, s, many+20).Accounted.Or(nil)
	if len(got) != many {
		t.Errorf("%d processes are told of %d", len(got), many)
	}
	told := map[int]int{}
	for _, p := range got {
		if told[p.PID]++; p.PID < 1000 || told[p.PID] > 1 {
			t.Errorf("told: %+v", p)
		}
	}
}

// TestAccountingTurnedOff checks that everything is forgotten, since the driver forgets it, too.
func TestAccountingTurnedOff(t *testing.T) {
	m := machine(t, fakenvml.RTX4090().With(fakenvml.Accounting, 1))
	s := source(t, m)
	accounted(t, m, s, 3)
	m.GPU(0).SetAccounted(ran(300, clockOf(s).Now(), time.Second))
	if got := accounted(t, m, s, 3).Accounted.Or(nil); len(got) != 1 {
		t.Fatalf("told: %+v", got)
	}
	m.GPU(0).Set(fakenvml.Accounting, 0)
	delete(s.session.devices[0].due, "accounting mode")
	if got := accounted(t, m, s, 2).Accounted; got.Present() || got.Quality() != gpu.NotSupported {
		t.Errorf("turned off: %+v", got)
	}
}

// TestAccountingIsTrue checks, with processes that come and go at any time and with few pids, that each process that was in no process list
// is reported once, and no other. A process whose pid is reused before it was reported may be missed: the driver only knows the newest.
func TestAccountingIsTrue(t *testing.T) {
	type process struct {
		pid        uint32
		began, end time.Duration // true times
		seen, told bool
		newest     bool // the newest process of its pid
	}
	const ticks, patience = 120, 400 // readings, a second apart
	epoch := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var all []*process
		for pid := range uint32(4) {
			for elapsed := time.Duration(0); elapsed < ticks*time.Second; {
				elapsed += time.Duration(rapid.IntRange(1, 30_000).Draw(t, "pause")) * time.Millisecond
				run := time.Duration(rapid.OneOf(rapid.IntRange(1, 900), rapid.IntRange(1000, 30_000)).Draw(t, "run")) * time.Millisecond
				all = append(all, &process{pid: 100 + pid, began: elapsed, end: elapsed + run, newest: true})
				if n := len(all); n > 1 && all[n-2].pid == all[n-1].pid {
					all[n-2].newest = false
				}
				elapsed += run
			}
		}
		a, due := &accounting{}, time.Duration(0)
		for tick := range ticks + patience {
			elapsed := time.Duration(tick) * time.Second
			now := epoch.Add(elapsed)
			var running []gpu.Process
			ended := map[uint32]*process{}
			var listed []uint32
			for _, p := range all {
				switch {
				case p.began > elapsed:
				case p.end > elapsed:
					running = append(running, gpu.Process{PID: int(p.pid)})
					p.seen = true
				default:
					ended[p.pid] = p
				}
			}
			for _, p := range all { // each pid once, running or ended
				if p.began <= elapsed && p.newest || ended[p.pid] == p {
					listed = append(listed, p.pid)
				}
			}
			a.see(running, now)
			switch {
			case len(a.ask) > 0:
				pid := a.ask[0]
				a.ask = a.ask[1:]
				if p := ended[pid]; p != nil {
					before := len(a.told)
					a.take(pid, &nvml.AccountingStats{
						GpuUtilization: 9, Time: uint64((p.end - p.began).Milliseconds()), StartTime: uint64(epoch.Add(p.began).UnixMicro()),
					}, gpu.Reading[gpu.Bytes]{}, now)
					if len(a.told) > before {
						if p.told || p.seen || epoch.Add(p.end).Before(a.since) {
							t.Fatalf("%+v is told", p)
						}
						p.told = true
					}
				}
			case elapsed >= due:
				a.list(listed, now)
				due = elapsed + sometimes
			}
		}
		for _, p := range all {
			if !p.told && !p.seen && p.newest && !epoch.Add(p.end).Before(a.since) {
				t.Fatalf("%+v is not told", p)
			}
		}
	})
}
