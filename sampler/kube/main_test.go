package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// A fleet collects the nodes that join. While a test waits, it moves their clock by one step between two looks.
type fleet struct {
	tb    testing.TB
	clock clockwork.Clock
	step  time.Duration
	all   *Clusters
	end   func()
	last  map[string]reading // of each node, by until

	mu    sync.Mutex
	nodes map[string]Node
}

// deadline is a node's deadline in tests: longer than the steps of a whole wait, so that no answering node reaches it.
const deadline = 24 * time.Hour

// parsed returns a file with one cluster at the server.
func parsed(tb testing.TB, server, more string) *File {
	tb.Helper()
	text := "clusters:\n- id: lab\n  url: " + server + "\n  interval: 1s\n  exec_interval: 1s\n"
	for line := range strings.Lines(more) {
		text += "  " + line
	}
	file, err := Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	file.Clusters[0].Deadline = deadline
	return file
}

func watch(tb testing.TB, file *File) *fleet {
	tb.Helper()
	return watchBy(tb, file, clockwork.NewFakeClock())
}

func watchBy(tb testing.TB, file *File, clock clockwork.Clock) *fleet {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	all, err := newClusters(file, log, clock)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fleet{tb: tb, clock: clock, step: time.Second, last: map[string]reading{}, nodes: map[string]Node{}, all: all}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := all.Run(ctx, f.join); err != nil {
			tb.Errorf("Run: %v", err)
		}
	}()
	f.end = sync.OnceFunc(func() {
		cancel()
		testkit.Receive(tb, "Run ends", done)
	})
	tb.Cleanup(f.end)
	return f
}

func (f *fleet) join(n Node) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[n.Name] = n
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.nodes, n.Name)
	}
}

func (f *fleet) node(name string) (Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[name]
	return n, ok
}

// A reading is what a node's source returned.
type reading struct {
	snap *gpu.Snapshot
	err  error
}

// until waits for an event. Meanwhile it moves the clock, and reads all nodes, as a sampler does.
func (f *fleet) until(what string, holds func() bool) {
	f.tb.Helper()
	fake, _ := f.clock.(*clockwork.FakeClock)
	testkit.Until(f.tb, what, func() bool {
		f.mu.Lock()
		nodes := slices.Collect(maps.Values(f.nodes))
		f.mu.Unlock()
		clear(f.last)
		for _, n := range nodes {
			snap, err := n.Source.Read(canceled(f.tb))
			f.last[n.Name] = reading{snap, err}
		}
		if holds() {
			return true
		}
		if fake != nil {
			fake.Advance(f.step)
		}
		return false
	}, func() any { return f.last }, func() any { return f.all.State() })
}

// reads waits until a reading of a node satisfies the test.
func (f *fleet) reads(name, what string, holds func(*gpu.Snapshot, error) bool) *gpu.Snapshot {
	f.tb.Helper()
	f.until(name+": "+what, func() bool {
		r, there := f.last[name]
		return there && holds(r.snap, r.err)
	})
	return f.last[name].snap
}

// canceled returns a context with which a source returns what it has, without waiting.
func canceled(tb testing.TB) context.Context {
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	return ctx
}

// well reads a node until all its devices, with their processes, have been read.
func (f *fleet) well(name string) *gpu.Snapshot {
	f.tb.Helper()
	return f.reads(name, "a whole reading", func(snap *gpu.Snapshot, err error) bool {
		if err != nil || snap == nil || len(snap.Devices) == 0 {
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

// says reads a node until its error contains a text.
func (f *fleet) says(name, what string) *gpu.Advice {
	f.tb.Helper()
	var a *gpu.Advice
	f.reads(name, "the advice "+what, func(_ *gpu.Snapshot, err error) bool {
		var is bool
		a, is = errors.AsType[*gpu.Advice](err)
		return is && strings.Contains(a.Text(), what)
	})
	if a.What == "" || a.Try == "" {
		f.tb.Errorf("%+v says not what happened and what to do", a)
	}
	return a
}

func (f *fleet) is(want Condition) State {
	f.tb.Helper()
	var s State
	f.until("the cluster is "+string(want), func() bool {
		s = f.all.State()[0]
		return s.Is == want
	})
	if want != OK && (s.Advice.What == "" || s.Advice.Try == "") {
		f.tb.Errorf("%s: %+v says not what happened and what to do", want, s.Advice)
	}
	return s
}

// machine returns a capture's fake nvidia-smi, and its folder.
func machine(tb testing.TB, name string) (*fakesmi.Machine, string) {
	tb.Helper()
	m := fakesmi.New(tb, name)
	return m, filepath.Dir(m.Program())
}

// lab returns a cluster of one node with a driver pod.
func lab(tb testing.TB) (*fakekube.Server, *fakesmi.Machine) {
	tb.Helper()
	s := fakekube.New(tb)
	m, folder := machine(tb, "rtx4090-550")
	s.Node("gpu-1")
	s.Pod("gpu-operator", "driver-1", "gpu-1", folder)
	return s, m
}

func write(tb testing.TB, file, text string) {
	tb.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		tb.Fatal(err)
	}
}
