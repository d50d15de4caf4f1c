package record

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A machine with one device is read by the second.
type machine struct {
	*run
	fake *fakeStore
	boot string
	up   gpu.Reading[time.Duration] // for how long the machine has run
	set  time.Duration              // by how much its clock was set in this run
	late bool                       // a run asks the store what there was only when it writes
}

func newMachine(t *testing.T) *machine {
	fake := newFake()
	return &machine{run: newRun(t, fake), fake: fake, boot: "one"}
}

// read reads the device with such processes, or in a state without readings.
func (m *machine) read(second int, state gpu.State, list ...gpu.Process) {
	d := card("GPU-1")
	when := start.Add(time.Duration(second) * time.Second)
	switch d.State = state; state {
	case silent:
		d.State, d.SampledAt = gpu.StateOK, when
	case gpu.StateOK:
		d.SampledAt, d.Processes = when, gpu.Of(list)
		d.IdleFloor, d.Power.Draw = gpu.Of[gpu.Watts](50), gpu.Of[gpu.Watts](150)
		d.Utilization.GPU, d.Memory.Used = gpu.Of[gpu.Percent](100), gpu.Of[gpu.Bytes](10<<30)
	}
	s := snapshot(when, d)
	s.Host, s.ClockSet = &gpu.Host{Boot: m.boot, Uptime: m.up}, m.set
	m.observe(s)
}

// readAlone reads the device and nothing of the machine.
func (m *machine) readAlone(second int, list ...gpu.Process) {
	d := card("GPU-1")
	d.Processes = gpu.Of(list)
	m.observe(snapshot(start.Add(time.Duration(second)*time.Second), d))
}

// silent stands for a device that answers, and does not list its processes.
const silent gpu.State = "silent"

func (m *machine) restart() {
	m.flush()
	m.run = newRun(m.t, m.fake)
	if m.late {
		return
	}
	if err := m.load(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
}

// all are the sessions, by when they began.
func (m *machine) all() []store.Session {
	m.flush()
	var out []store.Session
	for _, s := range m.fake.sessions {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b store.Session) int { return cmp.Or(a.From.Compare(b.From), a.PID-b.PID) })
	return out
}

func process(pid int, started int) gpu.Process {
	return gpu.Process{PID: pid, Type: gpu.TypeCompute, Memory: gpu.Of[gpu.Bytes](1 << 30), SM: gpu.Of[gpu.Percent](40), Facts: gpu.ProcessFacts{
		Started: gpu.Of(start.Add(time.Duration(started) * time.Second)),
	}}
}

// told are sessions as "outcome from-to seen" in seconds.
func told(all []store.Session) string {
	var out []string
	for _, s := range all {
		second := func(t time.Time) string { return t.Sub(start).String() }
		out = append(out, string(s.Outcome)+" "+second(s.From)+"-"+second(s.To)+" "+s.Seen.String())
	}
	return strings.Join(out, ", ")
}

func TestWhatASessionIs(t *testing.T) {
	unknown := process(7, 0)
	unknown.Facts = gpu.ProcessFacts{}
	ok, lost, asleep := gpu.StateOK, gpu.StateLost, gpu.StateAsleep
	for _, tt := range []struct {
		why  string
		play func(*machine)
		want string
	}{
		{"it comes and goes", func(m *machine) {
			m.read(0, ok)
			m.read(5, ok, process(7, 3))
			m.read(10, ok, process(7, 3))
			m.read(15, ok)
		}, "ended 5s-10s 5s"},
		{"its pid is used again at once", func(m *machine) {
			m.read(0, ok, process(7, -100))
			m.read(5, ok, process(7, -100))
			m.read(10, ok, process(7, 6))
			m.read(15, ok, process(7, 6))
		}, "ended 0s-5s 5s, open 10s-15s 5s"},
		{"it leaves the device and comes back", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, ok)
			m.read(10, ok, process(7, 0))
		}, "ended 0s-0s 0s, open 10s-10s 0s"},
		{"a reading is missing", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(10, ok, process(7, 0))
		}, "open 0s-10s 10s"},
		{"the clock goes back a little, and nobody says so", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, ok, process(7, 0))
			m.read(3, ok, process(7, 0))
			m.read(8, ok, process(7, 0))
		}, "open -2s-8s 10s"},
		{"the clock was set back while gpuwhy did not run", func(m *machine) {
			m.read(100, ok, process(7, 0))
			m.read(105, ok, process(7, 0))
			m.restart()
			m.read(50, ok, process(7, 0))
			m.read(55, ok, process(7, 0))
		}, "open 45s-55s 10s"},
		{"nobody looks for a while", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, ok, process(7, 0))
			m.read(60, ok, process(7, 0))
			m.read(65, ok, process(7, 0))
		}, "open 0s-1m5s 10s"},
		{"nobody looks as it ends", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(60, ok)
		}, "unseen 0s-0s 0s"},
		{"the device is lost and comes back", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, lost)
			m.read(100, lost)
			m.read(105, ok, process(7, 0))
			m.read(110, ok, process(7, 0))
		}, "open 0s-1m50s 5s"},
		{"the device is lost", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, lost)
		}, "gpu_lost 0s-0s 0s"},
		{"it is gone when the device comes back", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, lost)
			m.read(10, ok)
			m.read(15, ok)
		}, "gpu_lost 0s-0s 0s"},
		{"the processes are not listed for a moment", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, silent)
			m.read(10, ok, process(7, 0))
		}, "open 0s-10s 10s"},
		{"the processes are not listed any more", func(m *machine) {
			m.read(0, ok, process(7, 0))
			for second := 5; second < 60; second += 5 {
				m.read(second, silent)
			}
		}, "unseen 0s-0s 0s"},
		{"the processes are not listed for a while", func(m *machine) {
			m.read(0, ok, process(7, 0), process(8, 0))
			for second := 5; second < 60; second += 5 {
				m.read(second, silent)
			}
			m.read(60, ok, process(7, 0))
			m.read(65, ok, process(7, 0))
		}, "open 0s-1m5s 5s, unseen 0s-0s 0s"},
		{"the device falls asleep", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, asleep)
		}, "ended 0s-0s 0s"},
		{"gpuwhy starts again", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, ok, process(7, 0))
			m.restart()
			m.read(100, ok, process(7, 0))
			m.read(105, ok, process(7, 0))
		}, "open 0s-1m45s 10s"},
		{"gpuwhy starts again, and another has its pid", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.read(100, ok, process(7, 50))
		}, "unseen 0s-0s 0s, open 1m40s-1m40s 0s"},
		{"the machine starts again, and one has its pid and its time since the start", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.boot = "two"
			m.read(100, ok, process(7, 0))
		}, "unseen 0s-0s 0s, open 1m40s-1m40s 0s"},
		{"gpuwhy starts again, and the device is lost", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.read(100, lost)
		}, "unseen 0s-0s 0s"},
		{"its start is not known", func(m *machine) {
			m.read(0, ok, unknown)
			m.read(5, ok, unknown)
			m.read(10, ok, unknown)
		}, "open 0s-10s 10s"},
		{"its start is not known, and nobody looked for a while", func(m *machine) {
			m.read(0, ok, unknown)
			m.read(60, ok, unknown)
		}, "open 0s-1m0s 0s"},
		{"its start is not known, and gpuwhy starts again at once", func(m *machine) {
			m.read(0, ok, unknown)
			m.restart()
			m.read(10, ok, unknown)
			m.read(15, ok, unknown)
		}, "open 0s-15s 5s"},
		{"it ends, and holds memory still: then its start is not known any more", func(m *machine) {
			orphan := unknown
			orphan.Facts.Exists = gpu.Of(false)
			m.read(0, ok, process(7, 0))
			m.read(5, ok, orphan)
			m.read(10, ok)
		}, "ended 0s-5s 5s"},
	} {
		m := newMachine(t)
		tt.play(m)
		if got := told(m.all()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.why, got, tt.want)
		}
	}
}

// A process in two MIG instances, or with two contexts, is one session, and what it holds counts once.
func TestAProcessWithSeveralElements(t *testing.T) {
	in := func(p gpu.Process, instance int) gpu.Process {
		p.GPUInstance = gpu.Of(instance)
		return p
	}
	graphics := process(9, 0)
	graphics.Type = gpu.TypeGraphics
	mps := process(10, 0)
	mps.Type, mps.SM = gpu.TypeMPS, gpu.Absent[gpu.Percent](gpu.NotSupported)
	m := newMachine(t)
	for second := 0; second <= 100; second += 5 {
		m.read(second, gpu.StateOK,
			process(7, 0), in(process(7, 0), 1), in(process(7, 0), 5), // two instances, and the device's own list
			process(8, 0), process(8, 0), graphics, mps)
	}
	all := m.all()
	if len(all) != 4 {
		t.Fatalf("%d sessions: %s", len(all), told(all))
	}
	joules := 0.0
	for _, s := range all {
		gib, sm := 1.0, 0.4
		if s.PID == 7 {
			gib, sm = 2, 0.8
		}
		if s.PID == 10 {
			sm = 0
		}
		if s.PeakMemory != gpu.Of(gpu.Bytes(gib)<<30) || s.MemorySeconds != gib*(1<<30)*100 || s.MemoryKnown != 100*time.Second || s.Seen != 100*time.Second {
			t.Errorf("pid %d: %+v", s.PID, s)
		}
		if off := s.SMSeconds - 100*sm; off > 1e-9 || off < -1e-9 || (s.SMKnown == 0) != (s.PID == 10) || (s.Busy == 0) != (s.PID == 10) {
			t.Errorf("pid %d has %g SM-seconds, known for %v, busy for %v", s.PID, s.SMSeconds, s.SMKnown, s.Busy)
		}
		if s.PID == 10 && (s.Type != gpu.TypeMPS || s.JoulesKnown != 0 || s.JoulesMethod != "") || s.PID != 10 && s.JoulesMethod != string(attribute.BySM) {
			t.Errorf("pid %d has joules by %q for %v", s.PID, s.JoulesMethod, s.JoulesKnown)
		}
		joules += s.Joules
	}
	if off := joules - 100*100; off > 1e-6 || off < -1e-6 { // 100 W above rest, for 100 s
		t.Errorf("%g J", joules)
	}
}

// Two ways to divide joules are "mixed", and what is doubtful is in no sum.
func TestSumsOfASession(t *testing.T) {
	m := newMachine(t)
	p := process(7, 0)
	m.read(0, gpu.StateOK, p)
	m.read(5, gpu.StateOK, p)
	p.SM = gpu.Absent[gpu.Percent](gpu.NotReported)
	m.read(10, gpu.StateOK, p)
	p.Memory, p.SM = gpu.DoubtfulOf[gpu.Bytes](9<<30), gpu.DoubtfulOf[gpu.Percent](100)
	m.read(15, gpu.StateOK, p)
	s := m.all()[0]
	if s.JoulesMethod != methodMixed || s.PeakMemory != gpu.Of[gpu.Bytes](1<<30) || s.MemoryKnown != 10*time.Second || s.SMKnown != 5*time.Second {
		t.Errorf("%+v", s)
	}
}

// What may be shown of a process is kept; what may not be shown any more is taken back.
func TestOnlyWhatMayBeShownIsKept(t *testing.T) {
	m := newMachine(t)
	p := process(7, 0)
	p.Facts.Name, p.Facts.User, p.Facts.Program, p.Facts.Command = gpu.Of("python3"), gpu.Of("ann"), gpu.Of("train.py"), gpu.Of("python3 train.py --secret")
	p.Facts.Container = gpu.Of(gpu.Container{ID: "c0ffee", Name: gpu.Of("lab"), Image: gpu.Of("torch:2")})
	p.Facts.Pod = gpu.Of(gpu.Pod{UID: "u", Namespace: gpu.Of("ml"), Name: gpu.Of("train-0")})
	p.Facts.Unit, p.Facts.Job = gpu.Of(gpu.Unit{Name: "a.service"}), gpu.Of(gpu.Job{ID: 1234})
	m.read(0, gpu.StateOK, p)
	s := m.all()[0]
	if s.Name != "python3" || s.User != "ann" || s.Program != "train.py" || s.Command != "python3 train.py --secret" || s.Container != "lab" ||
		s.Image != "torch:2" || s.Pod != "ml/train-0" || s.Unit != "a.service" || s.Job != "slurm:1234" || s.Boot != "one" {
		t.Errorf("%+v", s)
	}
	m.read(5, gpu.StateOK, process(7, 0)) // nothing is known now
	if got := m.all()[0]; got.Command != s.Command || got.User != "ann" || got.Pod != "ml/train-0" || got.Container != "lab" {
		t.Errorf("%+v", got)
	}
	p.Facts.Command, p.Facts.Program = gpu.Absent[string](gpu.NotPermitted), gpu.Absent[string](gpu.NotPermitted)
	m.read(10, gpu.StateOK, p)
	if got := m.all()[0]; got.Command != "" || got.Program != "" || got.Name != "python3" {
		t.Errorf("%+v", got)
	}
	for name, f := range m.fake.frames {
		if f.Time.After(start.Add(7*time.Second)) && strings.Contains(string(f.Snapshot), "secret") {
			t.Errorf("the snapshot %s has %s", name, f.Snapshot)
		}
	}
}

// Spans of nodes that are not ours wait for their gpuwhy, and are made if it does not come back.
func TestSpansOfOthers(t *testing.T) {
	m := newMachine(t)
	now := time.Now().UTC().Truncate(time.Minute)
	key := store.Key{Node: "other", UUID: "GPU-9"}
	for _, ago := range []time.Duration{10 * time.Minute, 3 * time.Hour} {
		when := now.Add(-ago)
		b := store.Batch{
			Rows:      []store.Row{{Key: key, Time: when.Add(time.Second), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns)), State: gpu.StateOK}},
			Unsettled: []store.Bucket{{Key: key, Tier: store.Minute, Time: when}},
		}
		if err := m.fake.Write(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	m.flush()
	rows := m.fake.rowsOf(store.Minute)
	if len(rows) != 1 || !rows[0].Time.Equal(now.Add(-3*time.Hour)) || rows[0].Readings != 1 || len(m.fake.open) != 1 {
		t.Errorf("rows %+v; %v wait", rows, m.fake.open)
	}
}
