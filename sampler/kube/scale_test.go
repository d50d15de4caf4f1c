package kube

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
)

// fleetOf is a cluster of many nodes, each with a pod. Their nvidia-smi is a script that prints what the fake one of a
// machine with two GPUs has printed: starting a program for each would measure this machine.
func fleetOf(tb testing.TB, nodes int) *fakekube.Server {
	tb.Helper()
	s := fakekube.New(tb)
	folder := quickSMI(tb)
	for i := range nodes {
		name := fmt.Sprintf("gpu-%03d", i)
		s.Node(name)
		s.Pod("gpu-operator", "driver-"+name, name, folder)
	}
	return s
}

// quickSMI is an nvidia-smi that a shell runs without another program. It prints what the fake one of a machine does.
func quickSMI(tb testing.TB) string {
	tb.Helper()
	m, folder := machine(tb, "rtx4090-550")
	s := fakekube.New(tb)
	s.Node("one")
	s.Pod("gpu-operator", "one", "one", folder)
	f := watch(tb, quick(parsed(tb, s.URL, "mode: loop\n"), 50*time.Millisecond))
	f.well("one")
	dir := tb.TempDir()
	program := "#!/bin/sh\ncase \"$*\" in\n"
	for i, start := range m.Log() {
		_, args, ok := strings.Cut(start, " start ")
		if !ok || strings.Contains(program, "'"+args+"'") {
			continue
		}
		text, err := exec.CommandContext(tb.Context(), m.Program(), strings.Fields(args)...).Output()
		if err != nil {
			tb.Fatalf("%s: %v", args, err)
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		write(tb, file, string(text))
		program += "'" + args + "') while IFS= read -r l; do printf '%s\\n' \"$l\"; done <" + file + " ;;\n"
	}
	f.end()
	write(tb, filepath.Join(dir, "nvidia-smi"), program+"*) exit 2 ;;\nesac\n")
	if err := os.Chmod(filepath.Join(dir, "nvidia-smi"), 0o755); err != nil { //nolint:gosec // a program
		tb.Fatal(err)
	}
	return dir
}

// Many nodes are all read, within the interval, with no more execs at once than allowed: counted by the server.
func TestManyPods(t *testing.T) {
	const nodes, most = manyPods, 16
	s := fleetOf(t, nodes)
	file := parsed(t, s.URL, "mode: once\n")
	file.Clusters[0].ExecInterval = manyInterval
	f := watch(t, file)
	read := f.readAll(nodes)
	if counts := s.Counts(); counts.Most > most || counts.Most < most/2 {
		t.Errorf("%d execs at once, want %d at most, and most of the time", counts.Most, most)
	}
	for name, at := range read {
		if at.IsZero() {
			t.Errorf("%s has not been read", name)
		}
	}
	s.Forget()
	// Each is read once more, with one exec each: what is repeated comes in the rounds of the interval.
	began := time.Now()
	later := f.readAfter(nodes, began)
	counts := s.Counts()
	t.Logf("%d nodes again after %v: %d execs, %d at once", len(later), time.Since(began).Round(time.Second), counts.Execs, counts.Most)
	if counts.Most > most || counts.Execs > 2*nodes+most {
		t.Errorf("%+v", counts)
	}
}

// readAll reads all nodes at the same time until each has had a reading.
func (f *fleet) readAll(nodes int) map[string]time.Time { return f.readAfter(nodes, time.Time{}) }

// readAfter reads all nodes until each has had a reading that was made after a time.
func (f *fleet) readAfter(nodes int, after time.Time) map[string]time.Time {
	f.tb.Helper()
	at := map[string]time.Time{}
	await(f.tb, fmt.Sprintf("%d nodes are read", nodes), func() bool {
		f.mu.Lock()
		var left []Node
		for name, n := range f.nodes {
			if at[name].IsZero() {
				left = append(left, n)
			}
		}
		count := len(f.nodes)
		f.mu.Unlock()
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, n := range left {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				defer cancel()
				snap, err := n.Source.Read(ctx)
				if err != nil || snap == nil || len(snap.Devices) == 0 || !snap.Devices[0].SampledAt.After(after) {
					return
				}
				mu.Lock()
				at[n.Name] = snap.Devices[0].SampledAt
				mu.Unlock()
			})
		}
		all.Wait()
		return count == nodes && len(at) == nodes
	})
	return at
}

// What a node costs: CPU of this process (with the fake API server, which is in it) for a round, and memory.
func BenchmarkNodes(b *testing.B) {
	for _, mode := range []Mode{Loop, Once} {
		b.Run(string(mode), func(b *testing.B) {
			const nodes = 50
			s := fleetOf(b, nodes)
			file := quick(parsed(b, s.URL, "mode: "+string(mode)+"\n"), 2*time.Second)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f := watch(b, file)
			f.readAll(nodes)
			runtime.GC()
			runtime.ReadMemStats(&after)
			start := cpu()
			for b.Loop() { // as a sampler reads each node once in an interval
				time.Sleep(file.Clusters[0].Interval)
				f.mu.Lock()
				for _, n := range f.nodes {
					if _, err := n.Source.Read(canceled(b)); err != nil {
						b.Fatal(err)
					}
				}
				f.mu.Unlock()
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/nodes/1024, "KiB/node")
			b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N)/nodes, "µs/node/round")
			f.end()
		})
	}
}

// cpu is what this process has used, without its children.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// canceled is a context with which a source returns what it has.
func canceled(tb testing.TB) context.Context {
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	return ctx
}
