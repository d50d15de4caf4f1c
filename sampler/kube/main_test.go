package kube

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/leaktest"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Run(m)) }

// A fleet collects the nodes that join.
type fleet struct {
	tb    testing.TB
	mu    sync.Mutex
	nodes map[string]Node
	left  []string
	all   *Clusters
	end   func()
}

// parsed is a file with a cluster at the server.
func parsed(tb testing.TB, server, more string) *File {
	tb.Helper()
	text := "clusters:\n- id: lab\n  url: " + server + "\n  interval: 1s\n  exec_interval: 1s\n  deadline: 10s\n"
	for line := range strings.Lines(more) {
		text += "  " + line
	}
	file, err := Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// quick makes the intervals as short as tests want them.
func quick(file *File, interval time.Duration) *File {
	for i := range file.Clusters {
		file.Clusters[i].Interval, file.Clusters[i].ExecInterval = interval, interval
	}
	return file
}

func watch(tb testing.TB, file *File) *fleet {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	all, err := New(file, log)
	if err != nil {
		tb.Fatal(err)
	}
	f := &fleet{tb: tb, nodes: map[string]Node{}, all: all}
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
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			tb.Error("Run does not end")
		}
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
		f.left = append(f.left, n.Name)
	}
}

func (f *fleet) node(name string) (Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.nodes[name]
	return n, ok
}

// await polls until something holds.
func await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(60 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("never: %s", what)
		}
	}
}

// reads reads a node until the condition holds.
func (f *fleet) reads(name, what string, holds func(*gpu.Snapshot, error) bool) *gpu.Snapshot {
	f.tb.Helper()
	var snap *gpu.Snapshot
	var err error
	defer func() {
		if f.tb.Failed() {
			f.tb.Logf("the last reading of %s: %+v, %v; %+v", name, snap, err, f.all.State())
		}
	}()
	await(f.tb, name+": "+what, func() bool {
		n, there := f.node(name)
		if !there {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		snap, err = n.Source.Read(ctx)
		return holds(snap, err)
	})
	return snap
}

// well reads a node until all its devices are read, with their processes.
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

// says reads a node until its error says something.
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
	await(f.tb, "the cluster is "+string(want), func() bool {
		s = f.all.State()[0]
		return s.Is == want
	})
	if want != OK && (s.Advice.What == "" || s.Advice.Try == "") {
		f.tb.Errorf("%s: %+v says not what happened and what to do", want, s.Advice)
	}
	return s
}

// machine is a fake nvidia-smi of a capture, and the folder it is in.
func machine(tb testing.TB, name string) (*fakesmi.Machine, string) {
	tb.Helper()
	m := fakesmi.New(tb, name)
	m.Fault("pmon-ms 20")
	return m, filepath.Dir(m.Program())
}

// lab is a cluster of one node with a driver's pod.
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
