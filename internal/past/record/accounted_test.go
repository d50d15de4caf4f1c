package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// readAccounted reads a device of which the driver accounts: who is on it, and who came and went.
func (m *machine) readAccounted(second int, list []gpu.Process, accounted ...gpu.AccountedProcess) {
	d := card("GPU-1")
	when := start.Add(time.Duration(second) * time.Second)
	d.State, d.SampledAt, d.Processes, d.Accounted = gpu.StateOK, when, gpu.Of(list), gpu.Of(accounted)
	s := snapshot(when, d)
	s.Host = &gpu.Host{Boot: m.boot}
	m.observe(s)
}

// ran is a process that the driver accounted for, in seconds.
func ran(pid, from, to int) gpu.AccountedProcess {
	return gpu.AccountedProcess{PID: pid, Started: start.Add(time.Duration(from) * time.Second), Ran: time.Duration(to-from) * time.Second}
}

func TestWhatTheDriverAccountsFor(t *testing.T) {
	for _, tt := range []struct {
		why  string
		play func(*machine)
		want string
	}{
		{"it came and went between two readings", func(m *machine) {
			m.readAccounted(0, nil)
			m.readAccounted(5, nil, ran(7, 1, 4))
			m.readAccounted(10, nil, ran(7, 1, 4)) // told once more
		}, "ended 1s-4s 3s"},
		{"gpuwhy started again, and it is told once more", func(m *machine) {
			m.readAccounted(5, nil, ran(7, 1, 4))
			m.restart()
			m.readAccounted(10, nil, ran(7, 1, 4))
		}, "ended 1s-4s 3s"},
		{"it runs, and was told too early", func(m *machine) {
			m.readAccounted(0, []gpu.Process{process(7, -9)})
			m.readAccounted(5, []gpu.Process{process(7, -9)}, ran(7, -3, 4))
		}, "open 0s-5s 5s"},
		{"it was seen once", func(m *machine) {
			m.readAccounted(0, nil)
			m.readAccounted(5, []gpu.Process{process(7, 3)})
			m.readAccounted(10, nil, ran(7, 4, 8))
			m.readAccounted(900, nil, ran(7, 4, 8))
		}, "ended 5s-5s 0s"},
		{"it was seen before gpuwhy started again", func(m *machine) {
			m.readAccounted(0, []gpu.Process{process(7, 0)})
			m.readAccounted(5, []gpu.Process{process(7, 0)})
			m.restart()
			m.readAccounted(60, nil, ran(7, 0, 40))
		}, "unseen 0s-5s 5s"},
		{"its pid is used again, and again", func(m *machine) {
			m.readAccounted(0, []gpu.Process{process(7, 0)})
			m.readAccounted(5, []gpu.Process{process(7, 0)})
			m.readAccounted(10, nil, ran(7, 0, 6))
			m.readAccounted(30, nil, ran(7, 0, 6), ran(7, 12, 15), ran(7, 21, 23))
			m.readAccounted(35, []gpu.Process{process(7, 33)})
		}, "ended 0s-5s 5s, ended 12s-15s 3s, ended 21s-23s 2s, open 35s-35s 0s"},
		{"nobody may list the processes", func(m *machine) {
			m.read(0, silent)
			d := card("GPU-1")
			d.State, d.SampledAt, d.Accounted = gpu.StateOK, start.Add(5*time.Second), gpu.Of([]gpu.AccountedProcess{ran(7, 1, 4)})
			m.observe(snapshot(start.Add(5*time.Second), d))
		}, "ended 1s-4s 3s"},
		{"the clock was set meanwhile", func(m *machine) {
			m.readAccounted(0, []gpu.Process{process(7, 0)})
			m.readAccounted(5, nil)
			d := card("GPU-1")
			d.State, d.Processes, d.Accounted = gpu.StateOK, gpu.Of([]gpu.Process{}), gpu.Of([]gpu.AccountedProcess{ran(7, 3600, 3602)})
			s := snapshot(start.Add(time.Hour+10*time.Second), d)
			s.Host, s.ClockSet = &gpu.Host{Boot: m.boot}, time.Hour
			m.observe(s)
		}, "ended 0s-0s 0s"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			m := newMachine(t)
			tt.play(m)
			if got := told(m.all()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// What nobody knows of a process that only the driver saw is absent.
func TestWhatIsKnownOfAnAccountedProcess(t *testing.T) {
	m := newMachine(t)
	p, short := ran(7, 1, 5), ran(8, 2, 3)
	p.PeakMemory, p.Utilization = gpu.Of[gpu.Bytes](3<<30), gpu.Of[gpu.Percent](25)
	m.readAccounted(5, nil, p, short)
	instant := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	key := func(pid, begin int) store.SessionKey {
		return store.SessionKey{Key: store.Key{Node: "box", UUID: "GPU-1"}, Boot: "one", PID: pid, Begin: instant(begin)}
	}
	want := []store.Session{{
		SessionKey: key(7, 1), Type: gpu.TypeUnknown, From: instant(1), To: instant(5), Outcome: store.Ended, Seen: 4 * time.Second,
		PeakMemory: gpu.Of[gpu.Bytes](3 << 30), SMSeconds: 1, SMKnown: 4 * time.Second, Busy: time.Second, Accounted: true,
	}, {
		SessionKey: key(8, 2), Type: gpu.TypeUnknown, From: instant(2), To: instant(3), Outcome: store.Ended, Seen: time.Second, Accounted: true,
	}}
	if diff := cmp.Diff(want, m.all(), cmp.AllowUnexported(gpu.Reading[gpu.Bytes]{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
