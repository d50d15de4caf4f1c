package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/kube/fakekube"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// fleetOf returns a cluster of many nodes, each with a pod that has the same nvidia-smi.
func fleetOf(tb testing.TB, nodes int) (*fakekube.Server, *quickSMI) {
	tb.Helper()
	s := fakekube.New(tb)
	smi := newQuickSMI(tb)
	for i := range nodes {
		name := fmt.Sprintf("gpu-%03d", i)
		s.Node(name)
		s.Pod("gpu-operator", "driver-"+name, name, smi.dir)
	}
	return s, smi
}

// A quickSMI is an nvidia-smi that a shell runs without another program: starting one for each node would measure this machine.
type quickSMI struct {
	tb      testing.TB
	dir     string
	machine *fakesmi.Machine  // the fake nvidia-smi whose output this one prints
	files   map[string]string // files with the output, by arguments
}

func newQuickSMI(tb testing.TB) *quickSMI {
	tb.Helper()
	s, m := lab(tb)
	f := watch(tb, parsed(tb, s.URL, "mode: loop\n"))
	f.well("gpu-1")
	f.end()
	q := &quickSMI{tb: tb, dir: tb.TempDir(), machine: m, files: map[string]string{}}
	program := "#!/bin/sh\ncase \"$*\" in\n"
	for i, start := range m.Log() {
		_, args, ok := strings.Cut(start, " start ")
		if !ok || q.files[args] != "" {
			continue
		}
		q.files[args] = filepath.Join(q.dir, fmt.Sprint(i))
		program += "'" + args + "') while IFS= read -r l; do printf '%s\\n' \"$l\"; done <" + q.files[args] + " ;;\n"
	}
	q.update()
	write(tb, filepath.Join(q.dir, "nvidia-smi"), program+"*) exit 2 ;;\nesac\n")
	if err := os.Chmod(filepath.Join(q.dir, "nvidia-smi"), 0o755); err != nil { //nolint:gosec // a program
		tb.Fatal(err)
	}
	return q
}

// update makes it print the machine's current output.
func (q *quickSMI) update() {
	q.tb.Helper()
	for args, file := range q.files {
		text, err := exec.CommandContext(q.tb.Context(), q.machine.Program(), strings.Fields(args)...).Output()
		if err != nil {
			q.tb.Fatalf("%s: %v", args, err)
		}
		write(q.tb, file, string(text))
	}
}

// Many nodes are all read, once per interval, with as many concurrent execs as allowed: counted by the server.
func TestManyPods(t *testing.T) {
	const most, interval = 16, time.Minute
	s, smi := fleetOf(t, manyPods)
	file := parsed(t, s.URL, "mode: once\n")
	file.Clusters[0].ExecInterval = interval
	release := s.Hold()
	f := watch(t, file)
	f.step = interval / 10
	f.until("as many execs begin as may", func() bool { return s.Counts().Most >= most })
	release()
	f.readAll(manyPods, func(*gpu.Device) bool { return true })
	if counts := s.Counts(); counts.Most != most {
		t.Errorf("%d execs at once, want %d", counts.Most, most)
	}

	// Then each is read once per interval, with one exec: repeating commands come in the rounds of the interval.
	smi.machine.Set(smi.machine.Addresses()[0], "temperature.gpu", "83")
	smi.update()
	s.Forget()
	clock, began := f.clock.(*clockwork.FakeClock), f.clock.Now()
	step := f.step
	f.step = 0 // while they are read
	for clock.Since(began) < 2*interval {
		clock.Advance(step)
		f.until("no exec runs", func() bool { return s.Counts().Running == 0 })
	}
	f.step = step
	f.readAll(manyPods, func(d *gpu.Device) bool { return d.Thermal.GPU.Or(0) == 83 })
	rounds := 2 + int(clock.Since(began)/interval) // plus those that have begun before, and those at the end
	counts := s.Counts()
	t.Logf("%d nodes again in %v: %d execs, %d at once", manyPods, clock.Since(began), counts.Execs, counts.Most)
	if counts.Most > most || counts.Execs > rounds*manyPods {
		t.Errorf("%+v", counts)
	}
}

// readAll waits until the newest reading of each node has a device for which holds is true.
func (f *fleet) readAll(nodes int, holds func(*gpu.Device) bool) {
	f.tb.Helper()
	f.until(fmt.Sprintf("%d nodes are read", nodes), func() bool {
		for _, r := range f.last {
			if r.err != nil || len(r.snap.Devices) == 0 || !holds(&r.snap.Devices[0]) {
				return false
			}
		}
		return len(f.last) == nodes
	})
}

// The cost of a node: CPU of this process (including the fake API server) for a round, and memory.
func BenchmarkNodes(b *testing.B) {
	for _, mode := range []Mode{Loop, Once} {
		b.Run(string(mode), func(b *testing.B) {
			const nodes = 50
			s, _ := fleetOf(b, nodes)
			file := parsed(b, s.URL, "mode: "+string(mode)+"\n")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f := watchBy(b, file, clockwork.NewRealClock())
			f.readAll(nodes, func(*gpu.Device) bool { return true })
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

// cpu returns the CPU time of this process, without its children.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
