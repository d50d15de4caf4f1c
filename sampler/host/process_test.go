package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// thisMachine reads the real /proc, whatever namespace the tests run in: the tests ask about pids as this process sees them.
func thisMachine(show ShowCommands) *Reader {
	r := New("/sys", show, slog.New(slog.DiscardHandler))
	r.hint = gpu.Advice{}
	return r
}

// child starts a shell that waits until the test ends, and returns its pid and a function that ends it.
func child(t testing.TB, args ...string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", "read line"}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			stdin.Close()
			_ = cmd.Wait() // "read" fails at the end of its input
		}
	}
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

func TestDescribeRealProcess(t *testing.T) {
	earlier, _ := child(t)
	before := time.Now()
	pid, end := child(t, "--token", "hunter2", "--epochs=3")
	later, _ := child(t)
	r := thisMachine(ShowOwn)
	r.now = func() time.Time { return before } // so that all have the same boot time
	f := facts(t, r, pid)

	if f.Name != gpu.Of("sh") {
		t.Errorf("name = %v", f.Name)
	}
	if want := r.users.name(os.Geteuid(), before); f.User != gpu.Of(want) || want == "" {
		t.Errorf("user = %v, want %s", f.User, want)
	}
	if f.Command != gpu.Of("sh -c read line --token *** --epochs=3") {
		t.Errorf("command = %v", f.Command)
	}
	started, first, last := f.Started.Or(time.Time{}), facts(t, r, earlier).Started.Or(time.Time{}), facts(t, r, later).Started.Or(time.Time{})
	if first.IsZero() || started.Before(first) || started.After(last) {
		t.Errorf("started %v, want between %v and %v", started, first, last)
	}
	if rss := facts(t, r, os.Getpid()).RSS.Or(0); rss < 1<<20 || rss > 8<<30 {
		t.Errorf("our own RSS = %v", rss)
	}
	if f.CPU.Present() {
		t.Errorf("CPU = %v at the first reading", f.CPU)
	}

	end()
	if got := facts(t, r, pid); got != (gpu.ProcessFacts{Exists: gpu.Of(false)}) {
		t.Errorf("after its end: %+v", got)
	}
	if r.known[pid] != nil {
		t.Errorf("it is still remembered: %v", r.known)
	}
}

func TestDescribeWork(t *testing.T) {
	r := thisMachine(ShowOwn)
	now := r.now()
	r.now = func() time.Time { now = now.Add(time.Second); return now }
	testkit.Until(t, "a process that works uses CPU", func() (uses bool) {
		for range 100 { // the CPU time it uses
			uses = uses || facts(t, r, os.Getpid()).CPU.Or(0) > 0
		}
		return uses
	})
}

func TestCommandsOfOthers(t *testing.T) {
	const me, other = 1000, 1001
	tests := []struct {
		show      ShowCommands
		mine, his bool
	}{
		{show: ""},
		{show: ShowOwn, mine: true},
		{show: ShowNames, mine: true},
		{show: ShowAll, mine: true, his: true},
		{show: ShowNone},
		{show: "everything"},
	}
	for _, tt := range tests {
		t.Run(string(tt.show), func(t *testing.T) {
			m := newMachine(t)
			m.process(10, "python", me, 200, 0, "python", "mine.py")
			m.process(11, "python", other, 300, 0, "python", "his.py")
			r := m.reader(tt.show)
			r.uid = me
			for pid, shown := range map[int]bool{10: tt.mine, 11: tt.his} {
				f := facts(t, r, pid)
				if f.Command.Present() != shown || !shown && f.Command.Quality() != gpu.NotPermitted {
					t.Errorf("command of %d = %v, shown should be %v", pid, f.Command, shown)
				}
				if !f.Name.Present() || !f.User.Present() || !f.Started.Present() || !f.RSS.Present() {
					t.Errorf("the rest is hidden too: %+v", f)
				}
			}
			if name := facts(t, r, 10).User; name != gpu.Of("alice") {
				t.Errorf("user = %v", name)
			}
			if name := facts(t, r, 11).User; name != gpu.Of("1001") {
				t.Errorf("a user without a name = %v", name)
			}
		})
	}
}

func TestReusedPidGetsItsOwnFacts(t *testing.T) {
	m := newMachine(t)
	m.process(10, "python", 0, 200, 500, "python", "first.py")
	r := m.reader(ShowAll)
	m.now = m.now.Add(time.Second)
	facts(t, r, 10)
	m.now = m.now.Add(time.Second)
	first := facts(t, r, 10)
	m.process(10, "python", 1000, 99_000, 600, "python", "second.py")
	m.now = m.now.Add(time.Second)
	second := facts(t, r, 10)
	if first.Command != gpu.Of("python first.py") || first.User != gpu.Of("root") || first.CPU != gpu.Of[gpu.Percent](0) {
		t.Errorf("first = %+v", first)
	}
	if second.Command != gpu.Of("python second.py") || second.User != gpu.Of("alice") || second.CPU.Present() {
		t.Errorf("second = %+v", second)
	}
	if want := first.Started.Or(time.Time{}).Add(988 * time.Second); second.Started != gpu.Of(want) {
		t.Errorf("second started %v, want %v", second.Started, want)
	}
}

func TestStartTime(t *testing.T) {
	m := newMachine(t) // booted 1000 s ago
	m.process(10, "a", 0, 99_950, 0, "a")
	r := m.reader(ShowAll)
	want := gpu.Of(m.now.Add(-500 * time.Millisecond))
	if got := facts(t, r, 10).Started; got != want {
		t.Errorf("started %v, want %v", got, want)
	}
	m.now = m.now.Add(2 * sweepEvery)
	m.write("proc/uptime", "1119.43 1.0\n") // the clock is a little ahead
	if got := facts(t, r, 10).Started; got != want {
		t.Errorf("two minutes later: started %v, want %v", got, want)
	}
	m.now = m.now.Add(time.Hour) // someone sets the clock
	if got, want := facts(t, r, 10).Started, gpu.Of(m.now.Add(-1119430*time.Millisecond+999500*time.Millisecond)); got != want {
		t.Errorf("with another clock: started %v, want %v", got, want)
	}
	r.now = func() time.Time { // the machine stands still between reading the clock and the time since boot
		now := m.now
		m.now = m.now.Add(time.Hour)
		m.write("proc/uptime", "4719.43 1.0\n")
		r.now = func() time.Time { return m.now }
		return now
	}
	r.noteBoot()
	if got, want := r.boot, m.now.Add(-4719430*time.Millisecond); !got.Equal(want) {
		t.Errorf("booted %v, want %v", got, want)
	}
	m.remove("proc/uptime")
	if got := facts(t, m.reader(ShowAll), 10).Started; got.Present() {
		t.Errorf("without a time of boot: started %v", got)
	}
}

func TestProcessCPU(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowAll)
	steps := []struct {
		after time.Duration
		ticks int
		want  gpu.Reading[gpu.Percent]
	}{
		{0, 1000, gpu.Reading[gpu.Percent]{}},
		{2 * time.Second, 1100, gpu.Of[gpu.Percent](50)},
		{time.Millisecond, 1101, gpu.Of[gpu.Percent](50)}, // too soon to know
		{999 * time.Millisecond, 1500, gpu.Of[gpu.Percent](400)},
		{time.Second, 1500, gpu.Of[gpu.Percent](0)},
		{-time.Minute, 1600, gpu.Of[gpu.Percent](0)}, // the clock was set back
		{time.Second, 1700, gpu.Of[gpu.Percent](100)},
	}
	for i, s := range steps {
		m.now = m.now.Add(s.after)
		m.process(10, "a", 0, 100, s.ticks, "a")
		if got := facts(t, r, 10).CPU; got != s.want {
			t.Errorf("step %d: CPU = %v, want %v", i, got, s.want)
		}
	}
}

func TestProgramChanges(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowAll)
	m.process(10, "sh", 0, 100, 0, "sh", "run.sh")
	facts(t, r, 10)
	m.process(10, "python", 0, 100, 0, "python", "train.py") // exec
	if f := facts(t, r, 10); f.Name != gpu.Of("python") || f.Command != gpu.Of("python train.py") {
		t.Errorf("after exec: %+v", f)
	}
	m.process(10, "python", 1000, 100, 0, "my title") // drops root's rights, sets a title
	if f := facts(t, r, 10); f.User != gpu.Of("root") {
		t.Errorf("read anew at once: %+v", f)
	}
	m.now = m.now.Add(2 * refreshAfter)
	if f := facts(t, r, 10); f.User != gpu.Of("alice") || f.Command != gpu.Of("my title") {
		t.Errorf("a minute later: %+v", f)
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		comm string
		args []string
		want string
	}{
		{"python", []string{"/usr/bin/python"}, "python"},
		{"stable-diffusio", []string{"/opt/sd/stable-diffusion-webui", "--port", "1"}, "stable-diffusion-webui"},
		{"stable-diffusio", []string{"python"}, "stable-diffusio"},
		{"stable-diffusio", nil, "stable-diffusio"},
		{"exactly-fifteen", []string{"./exactly-fifteen"}, "exactly-fifteen"},
		{"text-generation", []string{"text-generation-server: worker 1"}, "text-generation-server:"},
		{"a) S 1 (b", []string{"x"}, "a) S 1 (b"},
		{"bad\xff\x1b", []string{"x"}, "bad\uFFFD\uFFFD"},
	}
	for _, tt := range tests {
		m := newMachine(t)
		m.process(10, tt.comm, 0, 100, 0, tt.args...)
		if got := facts(t, m.reader(ShowAll), 10).Name; got != gpu.Of(tt.want) {
			t.Errorf("%q %q: name = %v, want %q", tt.comm, tt.args, got, tt.want)
		}
	}
}

func TestKernelThreadHasNoCommand(t *testing.T) {
	m := newMachine(t)
	m.process(10, "kworker/0:1", 0, 100, 0)
	m.write("proc/10/stat", statLine(10, "kworker/0:1", 0, 0, 100, 0))
	if f := facts(t, m.reader(ShowAll), 10); f.Command != (gpu.Reading[string]{}) || f.Name != gpu.Of("kworker/0:1") || f.RSS != (gpu.Reading[gpu.Bytes]{}) {
		t.Errorf("facts = %+v", f)
	}
}

func TestAbsentProcesses(t *testing.T) {
	m := newMachine(t)
	m.write("proc/12/stat", "12 (broken")
	r := m.reader(ShowAll)
	for pid, exists := range map[int]gpu.Reading[bool]{0: {}, -1: {}, 99: gpu.Of(false), 12: {}} {
		ps := []gpu.Process{{PID: pid, Facts: gpu.ProcessFacts{Name: gpu.Of("stale")}}}
		r.Describe(t.Context(), ps)
		if ps[0].Facts != (gpu.ProcessFacts{Exists: exists}) {
			t.Errorf("pid %d: %+v", pid, ps[0].Facts)
		}
	}
}

// If the system shows no processes of other users, a process that is not shown may well exist.
func TestHiddenProcessesMayExist(t *testing.T) {
	m := newMachine(t)
	m.remove("proc/1")
	if f := facts(t, m.reader(ShowAll), 99); f != (gpu.ProcessFacts{}) {
		t.Errorf("facts = %+v", f)
	}
}

func TestReasonsOfAbsence(t *testing.T) {
	for err, want := range map[error]gpu.Quality{
		&fs.PathError{Op: "open", Path: "/proc/1/stat", Err: syscall.EACCES}: gpu.NotPermitted,
		&fs.PathError{Op: "open", Path: "/proc/1/stat", Err: syscall.EPERM}:  gpu.NotPermitted,
		&fs.PathError{Op: "open", Path: "/proc/1/stat", Err: syscall.ENOENT}: gpu.NotReported,
		&fs.PathError{Op: "read", Path: "/proc/1/stat", Err: syscall.ESRCH}:  gpu.NotReported,
	} {
		r := thisMachine(ShowAll)
		f := r.factsAbsent(os.Getpid(), err)
		for _, got := range []gpu.Quality{f.Name.Quality(), f.User.Quality(), f.Program.Quality(), f.Command.Quality(), f.Started.Quality(), f.CPU.Quality(), f.RSS.Quality(),
			f.Container.Quality(), f.Pod.Quality(), f.Unit.Quality(), f.Job.Quality()} {
			if got != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}
		if exists := gpu.Of(want == gpu.NotPermitted); f.Exists != exists {
			t.Errorf("%v: exists = %v, want %v", err, f.Exists, exists)
		}
	}
}

func TestForgetsProcessesThatEnded(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowAll)
	for pid := 10; pid < 14; pid++ {
		m.process(pid, "a", 0, 100, 0, "a")
		facts(t, r, pid)
	}
	m.end(10)                                   // ends; the driver never mentions it again
	m.process(11, "b", 0, 90_000, 0, "b")       // another process takes its pid, without a GPU
	for _, pid := range []int{12, 13, 12, 13} { // two sweeps: asked about before the first
		m.now = m.now.Add(sweepEvery)
		facts(t, r, pid)
	}
	if len(r.known) != 2 || r.known[12] == nil || r.known[13] == nil {
		t.Errorf("remembers %v", r.known)
	}
}

func TestDescribeAfterContextEnds(t *testing.T) {
	m := newMachine(t)
	m.process(10, "a", 0, 100, 0, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ps := []gpu.Process{{PID: 10}}
	m.reader(ShowAll).Describe(ctx, ps)
	if ps[0].Facts != (gpu.ProcessFacts{}) {
		t.Errorf("facts = %+v", ps[0].Facts)
	}
}

func TestPidNamespaces(t *testing.T) {
	const first, private = "pid:[4026531836]", "pid:[4026532281]"
	tests := map[string]struct {
		prepare func(m *machine)
		hinted  bool
	}{
		"the machine's own": {func(*machine) {}, false},
		"private": {func(m *machine) {
			m.link("proc/self/ns/pid", private)
			m.write("proc/self/status", "Name:\tgpuwhy\nNSpid:\t1\n")
		}, true},
		"private, with the host's /proc": {func(m *machine) {
			m.link("proc/self/ns/pid", private)
			m.write("proc/self/status", "Name:\tgpuwhy\nNSpid:\t4711\t1\n")
		}, false},
		"a kernel without namespaces": {func(m *machine) { m.remove("proc/self/ns") }, false},
		"can't be told": {func(m *machine) {
			m.remove("proc/self/ns/pid")
			m.write("proc/self/ns/pid", "not a link")
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.process(10, "stranger", 0, 100, 0, "stranger")
			tt.prepare(m)
			r := m.reader(ShowAll)
			hint := r.Hint()
			if hint.IsZero() == tt.hinted || errors.Is(&hint, gpu.ErrForeignPIDs) != tt.hinted || tt.hinted && !strings.Contains(hint.Text(), "--pid=host") {
				t.Errorf("hint = %q", hint.Text())
			}
			if f := facts(t, r, 10); (f == gpu.ProcessFacts{}) != tt.hinted {
				t.Errorf("facts = %+v", f)
			}
		})
	}
}

func TestHintClearsOldFacts(t *testing.T) {
	m := newMachine(t)
	m.link("proc/self/ns/pid", "pid:[1]")
	ps := []gpu.Process{{PID: 10, Facts: gpu.ProcessFacts{Name: gpu.Of("stranger")}}}
	m.reader(ShowAll).Describe(t.Context(), ps)
	if ps[0].Facts != (gpu.ProcessFacts{}) {
		t.Errorf("facts = %+v", ps[0].Facts)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine(1, "a b) (c", 1, 2, 3, 4)))
	f.Add([]byte("1 (a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStat(text)
		if err == nil && !strings.Contains(string(text), "("+s.comm+")") {
			t.Errorf("the name %q is not in %q", s.comm, text)
		}
	})
}

// Two hundred processes, as a busy node has: real ones, several times over.
func BenchmarkDescribe200(b *testing.B) {
	r := thisMachine(ShowAll)
	ps := make([]gpu.Process, 200)
	pids := make([]int, 8)
	for i := range pids {
		pids[i], _ = child(b)
	}
	for i := range ps {
		ps[i].PID = pids[i%len(pids)]
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Describe(b.Context(), ps)
	}
	if !ps[199].Facts.Command.Present() {
		b.Fatalf("facts = %+v", ps[199].Facts)
	}
}

// The same with nothing known yet.
func BenchmarkDescribe200Cold(b *testing.B) {
	pid, _ := child(b)
	ps := make([]gpu.Process, 200)
	for i := range ps {
		ps[i].PID = pid
	}
	r := thisMachine(ShowAll)
	for b.Loop() {
		for i := range ps {
			clear(r.known)
			r.Describe(b.Context(), ps[i:i+1])
		}
	}
}

// A zombie has ended: its name stays known, and nobody is told to end it.
func TestAZombieHasEnded(t *testing.T) {
	m := newMachine(t)
	m.process(10, "python3", 0, 100, 50, "python3", "train.py")
	r := m.reader(ShowAll)
	if f := facts(t, r, 10); f.Exists != gpu.Of(true) {
		t.Fatalf("alive: %+v", f)
	}
	m.write("proc/10/stat", strings.Replace(statLine(10, "python3", 50, 0, 100, 0), ") S ", ") Z ", 1))
	if f := facts(t, r, 10); f.Exists != gpu.Of(false) || f.Name != gpu.Of("python3") {
		t.Errorf("a zombie: %+v", f)
	}
	m.write("proc/10/stat", strings.NewReplacer(") S ", ") Z ", " 20 0 1 0 ", " 20 0 7 0 ").Replace(statLine(10, "python3", 50, 0, 100, 0)))
	if f := facts(t, r, 10); f.Exists != gpu.Of(true) {
		t.Errorf("its first thread has ended, and six live: %+v", f)
	}
}
