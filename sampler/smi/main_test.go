package smi

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/leaktest"
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
	// testDeadline is after how long a device does not answer in these tests.
	testDeadline = time.Second
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

// source is a source of the machine, closed when the test ends.
func source(tb testing.TB, m *fakesmi.Machine, change ...func(*Config)) *Source {
	tb.Helper()
	cfg := Config{
		Program:   m.Program(),
		SysfsRoot: m.SysfsRoot, ProcRoot: m.ProcRoot,
		Interval: testInterval, Deadline: testDeadline,
		Log: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// try reads with the patience of a program that has time.
func try(tb testing.TB, s *Source) (*gpu.Snapshot, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Second)
	defer cancel()
	return s.Read(ctx)
}

// until reads until the condition holds.
func until(tb testing.TB, s *Source, what string, holds func(*gpu.Snapshot, error) bool) *gpu.Snapshot {
	tb.Helper()
	end := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(tb.Context(), 200*time.Millisecond)
		snap, err := s.Read(ctx)
		cancel()
		if holds(snap, err) {
			return snap
		}
		if time.Now().After(end) {
			tb.Fatalf("never: %s; the last reading is %+v, %v", what, snap, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// whole is a reading with the processes, which come a little after the rest.
func whole(tb testing.TB, s *Source) *gpu.Snapshot {
	tb.Helper()
	return until(tb, s, "a whole reading", func(snap *gpu.Snapshot, err error) bool {
		if err != nil || len(snap.Devices) == 0 {
			return false
		}
		for _, d := range snap.Devices {
			if d.State != gpu.StateOK || !d.Processes.Present() || d.Architecture.Quality() == gpu.NotReported {
				return false
			}
		}
		return true
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
