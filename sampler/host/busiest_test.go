package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// used writes what a process has used, and its ended children, in ticks.
func (m *machine) used(pid, parent int, comm string, start, own, waited int, args ...string) {
	m.process(pid, comm, 1000, start, own, args...)
	line := fmt.Sprintf("%d (%s) R %d 1 1 0 -1 4194304 100 0 0 0 %d 0 %d 0 20 0 1 0 %d 1000000 300 18446744073709551615 1 1 0\n", pid, comm, parent, own, waited, start)
	m.write(fmt.Sprintf("proc/%d/stat", pid), line)
}

func told(h *gpu.Host) string {
	var out []string
	for _, p := range h.Busiest.Or(nil) {
		out = append(out, fmt.Sprintf("%d %s (%s) x%d %.0f", p.PID, p.Facts.Program.Or(p.Facts.Name.Or("?")), p.Facts.User.Or("?"), p.Count, float64(p.CPU)))
	}
	return strings.Join(out, "; ")
}

// With many processes a look takes long: the next one comes later.
func TestALongLookIsRare(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowNames)
	readHost(t, r)
	for _, step := range []struct {
		took, passed time.Duration
		looks        bool
	}{{time.Millisecond, 1900 * time.Millisecond, false}, {time.Millisecond, 2 * time.Second, true}, {20 * time.Millisecond, 9 * time.Second, false}, {20 * time.Millisecond, 10 * time.Second, true}} {
		r.busiest.took, r.busiest.looked = step.took, m.now
		m.now = m.now.Add(step.passed)
		readHost(t, r)
		if looked := r.busiest.looked.Equal(m.now); looked != step.looks {
			t.Errorf("%v after a look that took %v: a new look %v", step.passed, step.took, looked)
		}
	}
}

func TestBusiest(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowNames)
	m.used(10, 1, "bash", 100, 50, 9000, "bash")
	m.used(20, 10, "python3", 200, 1000, 0, "python3", "/home/alice/fit.py", "--secret=x")
	m.used(21, 10, "python3", 200, 1000, 0, "python3", "fit.py")
	m.used(30, 1, "sleeps", 300, 5, 0, "sleeps")
	if h := readHost(t, r); h.Busiest.Present() {
		t.Errorf("at the first look: %v", told(&h))
	}
	m.now = m.now.Add(5 * time.Second)
	m.used(20, 10, "python3", 200, 1500, 0, "python3", "/home/alice/fit.py", "--secret=x")
	m.used(21, 10, "python3", 200, 1250, 0, "python3", "fit.py")
	m.used(40, 10, "new", 900, 100, 0, "new")
	h := readHost(t, r)
	if want := "20 fit.py (alice) x2 150; 40 new (alice) x1 20"; told(&h) != want {
		t.Errorf("got %s, want %s", told(&h), want)
	}

	// No second look within two seconds.
	m.now = m.now.Add(time.Second)
	m.end(20)
	if again := readHost(t, r); told(&again) != told(&h) {
		t.Errorf("a second later: %s", told(&again))
	}

	// Ended processes have used nothing since: bash has waited for what was already seen.
	m.now = m.now.Add(4 * time.Second)
	m.used(10, 1, "bash", 100, 50, 9000+1500, "bash")
	if h := readHost(t, r); told(&h) != "" || !h.Busiest.Present() {
		t.Errorf("after the end: %q", told(&h))
	}
}

// A build is many short-lived processes: their usage counts for the process that started them.
func TestBusiestWaitsForChildren(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowNames)
	m.used(10, 1, "make", 100, 10, 0, "make")
	m.used(11, 10, "sh", 100, 0, 20, "sh")
	m.used(12, 11, "cc1", 100, 100, 0, "cc1")
	readHost(t, r)
	m.now = m.now.Add(5 * time.Second)
	m.end(11)
	m.end(12)
	// Of its children's 1020 ticks, 120 are from before.
	m.used(10, 1, "make", 100, 10, 1020, "make")
	m.used(15, 10, "cc1", 1200, 100, 0, "cc1")
	m.used(16, 10, "cc1", 1200, 50, 0, "cc1")
	h := readHost(t, r)
	if want := "10 make (alice) x1 180; 15 cc1 (alice) x2 30"; told(&h) != want {
		t.Errorf("got %s, want %s", told(&h), want)
	}
	// A reused pid is a different process.
	m.now = m.now.Add(5 * time.Second)
	m.used(15, 1, "other", 1500, 100, 0, "other")
	h = readHost(t, r)
	if want := "15 other (alice) x1 20"; told(&h) != want {
		t.Errorf("got %s, want %s", told(&h), want)
	}
}

func TestBusiestOfAnotherNamespace(t *testing.T) {
	m := newMachine(t)
	m.link("proc/self/ns/pid", "pid:[4026532999]")
	if h := readHost(t, m.reader(ShowNames)); h.Busiest.Quality() != gpu.NotPermitted {
		t.Errorf("got %v", h.Busiest.Quality())
	}
}

// Names are shown under the same rules as for a GPU's processes.
func TestBusiestShowsNoCommands(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowNone)
	m.used(20, 1, "python3", 200, 1000, 0, "python3", "fit.py", "--password=x")
	readHost(t, r)
	m.now = m.now.Add(5 * time.Second)
	m.used(20, 1, "python3", 200, 1500, 0, "python3", "fit.py", "--password=x")
	h := readHost(t, r)
	list := h.Busiest.Or(nil)
	if len(list) != 1 || list[0].Facts.Program.Quality() != gpu.NotPermitted || list[0].Facts.Command.Present() || list[0].Facts.Name != gpu.Of("python3") {
		t.Errorf("got %+v", list)
	}
}

// A process table whose parents form a cycle ends, too.
func TestBusiestOfARing(t *testing.T) {
	before := map[int]procStat{1: {parent: 2, ticks: 5}, 2: {parent: 1, ticks: 5}}
	if got := usedSince(before, map[int]procStat{3: {start: 9, ticks: 4}}); len(got) != 1 || got[0] != (consumer{3, 4}) {
		t.Errorf("got %v", got)
	}
}
