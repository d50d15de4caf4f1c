//go:build !race

package record

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// facts are those of a process whose start the machine doesn't tell.
func facts(change func(*gpu.Process)) gpu.Process {
	p := process(7, 0)
	p.Facts = gpu.ProcessFacts{}
	change(&p)
	return p
}

// A process whose start nobody knows has one session over a restart, unless something says that it is another process by now.
func TestAProcessWhoseStartIsNotKnown(t *testing.T) {
	const ok, lost = gpu.StateOK, gpu.StateLost
	hidden := facts(func(*gpu.Process) {})
	gone := facts(func(p *gpu.Process) { p.Facts.Exists = gpu.Of(false) })
	called := func(name, command string) gpu.Process {
		return facts(func(p *gpu.Process) { p.Facts.Name, p.Facts.Command = gpu.Of(name), gpu.Of(command) })
	}
	is := func(kind gpu.ProcessType) gpu.Process { return facts(func(p *gpu.Process) { p.Type = kind }) }
	// again is seen for 10 s, then nobody looks, and then it is seen for 10 s.
	again := func(before, after gpu.Process, away int) func(*machine) {
		return func(m *machine) {
			for n := 0; n <= 10; n += 5 {
				m.read(n, ok, before)
			}
			m.restart()
			for n := 10; n <= 20; n += 5 {
				m.read(away+n, ok, after)
			}
		}
	}
	const one, two = "open 0s-1m20s 20s", "unseen 0s-10s 10s, open 1m10s-1m20s 10s"
	for _, tt := range []struct {
		why  string
		play func(*machine)
		want string
	}{
		{"the machine hides it", again(hidden, hidden, 60), one},
		{"only the driver lists it", again(gone, gone, 60), one},
		{"it has the same name", again(called("python3", "python3 a.py"), called("python3", "python3 a.py"), 60), one},
		{"its name is known later", again(hidden, called("python3", "python3 a.py"), 60), one},
		{"gpuwhy starts again at once", again(hidden, hidden, 5), "open 0s-25s 20s"},
		{"gpuwhy starts again twice", func(m *machine) {
			again(hidden, hidden, 60)(m)
			m.restart()
			m.read(140, ok, hidden)
			m.read(145, ok, hidden)
		}, "open 0s-2m25s 25s"},
		{"the device is lost at first", func(m *machine) {
			m.read(0, ok, hidden)
			m.read(5, ok, hidden)
			m.restart()
			m.read(60, lost)
			m.read(65, ok, hidden)
			m.read(70, ok, hidden)
		}, "open 0s-1m10s 10s"},
		{"gpuwhy does not run for almost an hour", again(hidden, hidden, 3600), "open 0s-1h0m20s 20s"},
		{"gpuwhy does not run for more than an hour", again(hidden, hidden, 3605), "unseen 0s-10s 10s, open 1h0m15s-1h0m25s 10s"},
		{"the machine sleeps", func(m *machine) {
			m.read(0, ok, hidden)
			m.read(600, ok, hidden)
			m.read(605, ok, hidden)
		}, "open 0s-10m5s 5s"},
		{"the machine sleeps for more than an hour", func(m *machine) {
			m.read(0, ok, hidden)
			m.read(4000, ok, hidden)
		}, "unseen 0s-0s 0s, open 1h6m40s-1h6m40s 0s"},
		{"it ends soon", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.read(60, ok, hidden)
			m.read(65, ok, hidden)
			m.read(70, ok)
		}, "ended 0s-1m5s 5s"},
		{"it ends soon, and then the clock is set", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.read(60, ok, hidden)
			m.read(65, ok, hidden)
			m.read(70, ok)
			m.set = 30 * time.Minute
			m.read(1875, ok)
		}, "ended 0s-1m5s 5s"},
		{"the clock is set, and it ends soon", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.read(60, ok, hidden)
			m.set = 30 * time.Minute
			m.read(1865, ok, hidden)
			m.read(1870, ok, hidden)
			m.read(1875, ok)
		}, "ended 30m0s-31m10s 5s"},
		{"its start is known, the clock is set, and it ends soon", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.read(60, ok, process(7, 0))
			m.set = 30 * time.Minute
			m.read(1865, ok, process(7, 1800))
			m.read(1870, ok)
		}, "ended 30m0s-31m5s 0s"},
		{"its name is another one", again(called("python3", "python3 a.py"), called("ffmpeg", "python3 a.py"), 60), two},
		{"its command is another one", again(called("python3", "python3 a.py"), called("python3", "python3 b.py"), 60), two},
		{"it draws, and the one before computed", again(is(gpu.TypeCompute), is(gpu.TypeGraphics), 60), two},
		{"it draws, too", again(is(gpu.TypeCompute), is(gpu.TypeComputeGraphics), 60), one},
		{"nothing is known of its type any more", again(is(gpu.TypeGraphics), is(gpu.TypeUnknown), 60), one},
		{"it was there, and only the driver lists it now", again(process(7, -60), gone, 60), two},
		{"only the driver listed it already before the machine slept", func(m *machine) {
			m.read(0, ok, process(7, -60))
			m.read(5, ok, gone)
			m.read(60, ok, gone)
		}, "open 0s-1m0s 5s"},
		{"it is not there at first", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.read(60, ok)
			m.read(65, ok, hidden)
		}, "unseen 0s-0s 0s, open 1m5s-1m5s 0s"},
		{"the machine starts again", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.boot = "two"
			m.read(60, ok, hidden)
		}, "unseen 0s-0s 0s, open 1m0s-1m0s 0s"},
		{"a machine without a boot ID starts again", func(m *machine) {
			m.boot = ""
			m.read(0, ok, hidden)
			m.restart()
			m.up = gpu.Of(30 * time.Second)
			m.read(60, ok, hidden)
		}, "unseen 0s-0s 0s, open 1m0s-1m0s 0s"},
		{"a machine without a boot ID runs on", func(m *machine) {
			m.boot = ""
			m.read(0, ok, hidden)
			m.restart()
			m.up = gpu.Of(90 * time.Second)
			m.read(60, ok, hidden)
		}, "open 0s-1m0s 0s"},
		{"it was started after the last reading", again(hidden, process(7, 30), 60), two},
		{"it was started after its session began", again(hidden, process(7, 5), 60), two},
		{"it was started before its session began", again(hidden, process(7, -30), 60), one},
		{"it was started as its session began", again(hidden, process(7, 1), 60), one},
		{"it was started before its session began, long ago", again(hidden, process(7, -30), 7200), "open 0s-2h0m20s 20s"},
		{"it is started between two readings", func(m *machine) {
			m.read(0, ok, gone)
			m.read(5, ok, gone)
			m.read(10, ok, process(7, 8))
			m.read(15, ok, process(7, 8))
		}, "ended 0s-5s 5s, open 10s-15s 5s"},
	} {
		for _, late := range []bool{false, true} {
			m := newMachine(t)
			m.late = late
			tt.play(m)
			if got := told(m.all()); got != tt.want {
				t.Errorf("%s, late %v: %s, want %s", tt.why, late, got, tt.want)
			}
		}
	}
}

// Over restarts, each second that gpuwhy looked counts once for a process that the machine hides, and nothing counts in between.
func TestUsageOfAHiddenProcess(t *testing.T) {
	fake := besideSQLite(t, t.TempDir(), 1)
	defer fake.closeBeside(t)
	m := &machine{run: newRun(t, fake), fake: fake, boot: "one"}
	for second := 0; second <= 1200; second += 5 {
		if second%400 == 200 {
			m.restart()
		}
		if second%400 < 200 || second == 1200 {
			m.read(second, gpu.StateOK, facts(func(*gpu.Process) {}))
		}
	}
	m.flush()
	p := &history.Past{Store: fake.beside, Now: func() time.Time { return start.Add(20 * time.Minute) }}
	list, err := p.Usage(t.Context(), history.ByProcess, store.Query{From: start, To: start.Add(time.Hour)})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	const seen = 3 * 195.0 // s, with 40 % of the 100 W above rest
	if u := list[0]; u.Sessions != 1 || u.Held.Seconds() != seen || u.SMSeconds != gpu.Of(0.4*seen) || u.Joules != gpu.Of(40*seen) || u.JoulesKnown != 1 {
		t.Errorf("%+v", u)
	}
}

// The first readings after a gap may have nothing of the machine. Which session is whose shows as soon as they have.
func TestTheMachineIsReadLate(t *testing.T) {
	ok, lost := gpu.StateOK, gpu.StateLost
	hidden := facts(func(*gpu.Process) {})
	gone := facts(func(p *gpu.Process) { p.Facts.Exists = gpu.Of(false) })
	for _, tt := range []struct {
		why  string
		play func(*machine)
		want string
	}{
		{"after a start", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.readAlone(60, hidden)
			m.readAlone(65, hidden)
			m.read(70, ok, hidden)
			m.read(75, ok, hidden)
		}, "open 0s-1m15s 15s"},
		{"after a start, and nobody looks once more before that", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.readAlone(60, hidden)
			m.readAlone(120, hidden)
			m.flush()
			m.read(125, ok, process(7, 0))
		}, "open 0s-2m5s 5s"},
		{"after a start in which another got its pid, and nobody looks once more before that", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.restart()
			m.readAlone(60, hidden)
			m.readAlone(120, hidden)
			m.flush()
			m.read(125, ok, process(7, 40))
		}, "unseen 0s-0s 0s, open 1m0s-2m5s 5s"},
		{"after a start of the machine", func(m *machine) {
			m.read(0, ok, hidden)
			m.restart()
			m.boot = "two"
			m.readAlone(60, hidden)
			m.readAlone(65, hidden)
			m.read(70, ok, hidden)
			m.read(75, ok, hidden)
		}, "unseen 0s-0s 0s, open 1m0s-1m15s 15s"},
		{"after a sleep", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.readAlone(60, hidden)
			m.readAlone(65, hidden)
			m.read(70, ok, process(7, 0))
			m.read(75, ok, process(7, 0))
		}, "open 0s-1m15s 15s"},
		{"after a sleep in which another got its pid", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.readAlone(60, hidden)
			m.readAlone(65, hidden)
			m.read(70, ok, process(7, 40))
			m.read(75, ok, process(7, 40))
		}, "unseen 0s-0s 0s, open 1m0s-1m15s 15s"},
		{"when the device is back", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.read(5, lost)
			m.readAlone(60, hidden)
			m.read(65, ok, gone)
		}, "gpu_lost 0s-0s 0s, open 1m0s-1m5s 5s"},
		{"and it ends before that", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.readAlone(60, hidden)
			m.readAlone(65, hidden)
			m.read(70, ok)
		}, "ended 0s-1m5s 5s"},
		{"and nobody looks once more before that", func(m *machine) {
			m.read(0, ok, process(7, 0))
			m.readAlone(60, hidden)
			m.readAlone(120, hidden)
			m.read(125, ok, process(7, 0))
		}, "open 0s-2m5s 5s"},
	} {
		for _, late := range []bool{false, true} {
			m := newMachine(t)
			m.late = late
			tt.play(m)
			if got := told(m.all()); got != tt.want {
				t.Errorf("%s, late %v: %s, want %s", tt.why, late, got, tt.want)
			}
		}
	}
}
