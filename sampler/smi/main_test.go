package smi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// atExit removes what tests share, at the end.
var atExit []func()

func TestMain(m *testing.M) {
	code := testkit.RunTests(m)
	for _, remove := range atExit {
		remove()
	}
	os.Exit(code)
}

const (
	// testDeadline is the time after which a device does not answer in these tests, by a clock that they move.
	testDeadline = 8 * time.Second
	// testInterval is how often the fake program prints, in real time.
	testInterval = 20 * time.Millisecond
)

// machine makes a fake machine. When the test ends, none of its commands may be left.
func machine(tb testing.TB, name string) *fakesmi.Machine {
	tb.Helper()
	m := fakesmi.New(tb, name)
	m.Fault("pmon-ms 20")
	return endsAll(tb, m)
}

func endsAll(tb testing.TB, m *fakesmi.Machine) *fakesmi.Machine {
	tb.Cleanup(func() {
		if runtime.GOOS == "linux" {
			m.Await("all commands to end", func() bool { return len(m.Running()) == 0 })
		}
	})
	return m
}

// source returns a source of the machine, closed when the test ends. Its clock stands still until the test moves it, or has nothing else to
// wait for.
func source(tb testing.TB, m *fakesmi.Machine, change ...func(*Config)) *Source {
	tb.Helper()
	cfg := Config{
		Program:   m.Program(),
		SysfsRoot: m.SysfsRoot, ProcRoot: m.ProcRoot,
		Interval: testInterval, Deadline: testDeadline, Clock: testkit.NewClock(),
		Log: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&cfg)
	}
	if cfg.Run == nil {
		cfg.Run = Program(cfg.Program)
	}
	w := &watch{machine: m, clock: cfg.Clock, run: cfg.Run, commands: map[*command]bool{}}
	cfg.Run = w.watched
	s := New(cfg)
	watches[s] = w
	tb.Cleanup(func() {
		closes(tb, s, nothing)
		delete(watches, s)
	})
	return s
}

// watches has the watch of each source.
var watches = map[*Source]*watch{}

// A watch watches the commands of a source.
type watch struct {
	machine *fakesmi.Machine
	clock   clockwork.Clock
	run     Run

	mu       sync.Mutex
	commands map[*command]bool // running ones
}

// A command is a running command.
type command struct {
	ctx   context.Context
	args  string
	heard time.Time // when the source received its last output
}

func (w *watch) watched(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	c := &command{ctx: ctx, args: strings.Join(args, " ")}
	w.change(func() { w.commands[c] = true })
	defer w.change(func() { delete(w.commands, c) })
	return w.run(ctx, &listener{w, c, stdout}, &listener{w, c, stderr}, args...)
}

func (w *watch) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// A listener records when the source has received something.
type listener struct {
	w   *watch
	c   *command
	out io.Writer
}

func (l *listener) Write(b []byte) (int, error) {
	n, err := l.out.Write(b)
	l.w.change(func() { l.c.heard = l.w.clock.Now() })
	return n, err
}

// A fakeClock is a clock that a test moves.
type fakeClock interface {
	clockwork.Clock
	Advance(d time.Duration)
}

func clockOf(s *Source) fakeClock { return s.cfg.Clock.(fakeClock) }

// allHeard reports whether only time is left to wait for: each running loop has printed something at this moment of the clock, which the
// source has received, or prints nothing because of a fault, and every other running command is held up.
func allHeard(s *Source) bool {
	if clock, ok := s.cfg.Clock.(*testkit.Clock); ok && !clock.Settled() {
		return false
	}
	w := watches[s]
	held := w.machine.Held()
	s.mu.Lock()
	flying := s.flying
	s.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.commands {
		loops := strings.Contains(c.args, "--loop-ms") || strings.HasPrefix(c.args, "pmon")
		if c.ctx.Err() != nil || (!loops || !c.heard.Equal(w.clock.Now())) && !slices.Contains(held, c.args) {
			return false
		}
	}
	return flying == len(w.commands) // none is starting or ending
}

// step is how much the clock advances at once: less than a loop may be silent.
func step(s *Source) time.Duration { return s.cfg.Deadline / 16 }

// pass advances the clock, in steps that wait until the commands are quiet. So no command is late, however long a busy machine takes.
func pass(tb testing.TB, s *Source, d time.Duration) {
	tb.Helper()
	for d > 0 {
		testkit.Until(tb, "the commands to be quiet", func() bool { return allHeard(s) }, func() string { return standing(s) })
		clockOf(s).Advance(min(d, step(s)))
		d -= step(s)
	}
}

// standing describes the source for a test that waits in vain.
func standing(s *Source) string {
	w := watches[s]
	out := fmt.Sprintf("at %v, held up are %q", w.clock.Now(), w.machine.Held())
	w.change(func() {
		for c := range w.commands {
			out += fmt.Sprintf("\n%s: heard at %v, %v", c.args, c.heard, c.ctx.Err())
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		out += fmt.Sprintf("\nloop of %q: runs %v since %v, seen %v, stalled %v, next %v", l.id(), l.running, l.began, l.seen, l.stalled, l.next)
	}
	return out
}

// waits runs something that waits on the clock, until it is done. Whenever it waits and idle reports true, the clock advances. It returns
// by how much.
func waits(tb testing.TB, s *Source, what string, idle func() bool, do func()) time.Duration {
	tb.Helper()
	clock, isOurs := s.cfg.Clock.(*testkit.Clock)
	begun, done, ended := s.cfg.Clock.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if isOurs && clock.Waited() && idle() {
					clock.Advance(step(s))
				}
			}
		}
	}()
	go func() {
		defer close(done)
		do()
	}()
	testkit.Receive(tb, what+" to come back", done, func() string { return standing(s) })
	<-ended
	return s.cfg.Clock.Since(begun)
}

// closes returns how long Close waits. The clock stands still while commands end, unless one can't.
func closes(tb testing.TB, s *Source, stuck func() bool) time.Duration {
	tb.Helper()
	return waits(tb, s, "Close", stuck, func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
}

func nothing() bool { return false }

// readFor reads with a patience on the clock.
func readFor(tb testing.TB, s *Source, patience time.Duration) (snap *gpu.Snapshot, took time.Duration, err error) {
	tb.Helper()
	ctx, cancel := perdevice.WithTimeout(tb.Context(), s.cfg.Clock, patience)
	defer cancel()
	took = waits(tb, s, "Read", func() bool { return allHeard(s) }, func() { snap, err = s.Read(ctx) })
	return snap, took, err
}

// try reads with ample patience.
func try(tb testing.TB, s *Source) (*gpu.Snapshot, error) {
	tb.Helper()
	snap, _, err := readFor(tb, s, s.cfg.Deadline)
	return snap, err
}

// until reads until the condition holds. The clock advances between the readings.
func until(tb testing.TB, s *Source, what string, holds func(*gpu.Snapshot, error) bool) (snap *gpu.Snapshot) {
	tb.Helper()
	var err error
	testkit.Until(tb, what, func() bool {
		if snap, _, err = readFor(tb, s, time.Second); holds(snap, err) {
			return true
		}
		pass(tb, s, step(s))
		return false
	}, func() string { return fmt.Sprintf("the last reading is %+v, %v\n%s", snap, err, standing(s)) })
	return snap
}

// whole returns a reading with the processes, which come a little after the rest.
func whole(tb testing.TB, s *Source) *gpu.Snapshot {
	tb.Helper()
	until(tb, s, "a whole round of pmon", func(*gpu.Snapshot, error) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pmon.off || !s.pmon.lastAt.IsZero() // a first round counts while it is being printed
	})
	return until(tb, s, "a whole reading", isWhole)
}

func isWhole(snap *gpu.Snapshot, err error) bool {
	return allOK(snap, err) && !slices.ContainsFunc(snap.Devices, func(d gpu.Device) bool {
		return !d.Processes.Present() || d.Architecture.Quality() == gpu.NotReported
	})
}

func adviceOf(tb testing.TB, err error) *gpu.Advice {
	tb.Helper()
	a, ok := errors.AsType[*gpu.Advice](err)
	if !ok || a.What == "" || a.Try == "" {
		tb.Fatalf("the error %v says not what happened and what to do", err)
	}
	return a
}
