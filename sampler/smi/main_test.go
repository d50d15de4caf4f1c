package smi

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/leaktest"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// atExit is what tests share, and remove at the end.
var atExit []func()

func TestMain(m *testing.M) {
	code := leaktest.Run(m)
	for _, remove := range atExit {
		remove()
	}
	os.Exit(code)
}

const (
	// testDeadline is after how long a device does not answer in these tests, by a clock that
	// they move.
	testDeadline = 8 * time.Second
	// testInterval is how often the fake program prints in reality.
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

// source is a source of the machine, closed when the test ends. It goes by a clock that stands
// still until the test lets time pass, or has nothing else to wait for.
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
	s := New(cfg)
	machines[s] = m
	tb.Cleanup(func() {
		closes(tb, s, nothing)
		delete(machines, s)
	})
	return s
}

// machines are those of the sources.
var machines = map[*Source]*fakesmi.Machine{}

// A fakeClock is a clock that a test moves.
type fakeClock interface {
	clockwork.Clock
	Advance(d time.Duration)
}

func clockOf(s *Source) fakeClock { return s.cfg.Clock.(fakeClock) }

// allHeard reports whether there is nothing to wait for but time: each command that runs has
// printed something at this moment of the clock, which the source has heard, or is held up.
func allHeard(s *Source) bool {
	clock, isOurs := s.cfg.Clock.(*testkit.Clock)
	if isOurs && !clock.Settled() {
		return false
	}
	held := machines[s].Held()
	holds := func(of func(args string) bool) bool { return slices.ContainsFunc(held, of) }
	s.mu.Lock()
	defer s.mu.Unlock()
	now, known := s.cfg.Clock.Now(), 0
	silent := func(runs, heard bool, of func(args string) bool) bool {
		if runs {
			known++
		}
		return runs && !heard && !holds(of)
	}
	for _, l := range s.loops {
		its := func(args string) bool {
			_, ids, _ := strings.Cut(args, "--id=")
			return strings.HasPrefix(args, "--query-gpu") && ids == l.id()
		}
		if silent(l.running, l.heard.Equal(now) || l.foreign.Equal(now), its) {
			return false
		}
	}
	of := func(words string) func(string) bool {
		return func(args string) bool { return strings.HasPrefix(args, words) }
	}
	return !silent(s.asking, false, of("--help")) && !silent(s.stopDetails != nil, false, of("-q -x")) &&
		!silent(s.pmon.running, s.pmon.at.Equal(now) || s.pmon.lines == 0 && !s.pmon.began.IsZero(), of("pmon")) && s.flying == known
}

// step is how much time passes at once: less than a loop may be silent.
func step(s *Source) time.Duration { return s.cfg.Deadline / 16 }

// pass lets time pass, in steps before which the commands are quiet. So none of them is late,
// however long a busy machine takes.
func pass(tb testing.TB, s *Source, d time.Duration) {
	tb.Helper()
	for d > 0 {
		testkit.Until(tb, "the commands to be quiet", func() bool { return allHeard(s) }, func() string { return standing(s) })
		clockOf(s).Advance(min(d, step(s)))
		d -= step(s)
	}
}

// standing is what a test that waits in vain says of the source.
func standing(s *Source) string {
	held := machines[s].Held()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := fmt.Sprintf("at %v %d commands run; asking %v, details %v, pmon %v since %v", s.cfg.Clock.Now(), s.flying,
		s.asking, s.stopDetails != nil, s.pmon.running, s.pmon.at)
	for _, l := range s.loops {
		out += fmt.Sprintf("\nloop of %q: runs %v since %v, seen %v, heard at %v, stalled %v, next %v", l.id(), l.running, l.began, l.seen, l.heard, l.stalled, l.next)
	}
	return fmt.Sprintf("%s\nheld up: %.60q", out, held)
}

// waits waits until something is done that waits on the clock. Time passes while it does and is
// idle. It returns how much passed.
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

// closes returns for how long Close waits. Time stands still while commands end, unless one
// can't.
func closes(tb testing.TB, s *Source, stuck func() bool) time.Duration {
	tb.Helper()
	return waits(tb, s, "Close", stuck, func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
}

func nothing() bool { return false }

// readFor reads with a patience by the clock.
func readFor(tb testing.TB, s *Source, patience time.Duration) (snap *gpu.Snapshot, err error, took time.Duration) {
	tb.Helper()
	ctx, cancel := perdevice.WithTimeout(tb.Context(), s.cfg.Clock, patience)
	defer cancel()
	took = waits(tb, s, "Read", func() bool { return allHeard(s) }, func() { snap, err = s.Read(ctx) })
	return snap, err, took
}

// try reads with the patience of a program that has time.
func try(tb testing.TB, s *Source) (*gpu.Snapshot, error) {
	tb.Helper()
	snap, err, _ := readFor(tb, s, s.cfg.Deadline)
	return snap, err
}

// until reads until the condition holds. Time passes between the readings.
func until(tb testing.TB, s *Source, what string, holds func(*gpu.Snapshot, error) bool) (snap *gpu.Snapshot) {
	tb.Helper()
	var err error
	testkit.Until(tb, what, func() bool {
		if snap, err, _ = readFor(tb, s, time.Second); holds(snap, err) {
			return true
		}
		pass(tb, s, step(s))
		return false
	}, func() string { return fmt.Sprintf("the last reading is %+v, %v\n%s", snap, err, standing(s)) })
	return snap
}

// whole is a reading with the processes, which come a little after the rest.
func whole(tb testing.TB, s *Source) *gpu.Snapshot {
	tb.Helper()
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
