//go:build !race

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// server8 is a fake driver with eight GPUs and four processes on each.
func server8(b *testing.B) *fakenvml.Library {
	gpus := make([]fakenvml.GPU, 8)
	for i := range gpus {
		gpus[i] = fakenvml.H100().At(i + 1)
	}
	var pids []uint32
	for range 4 {
		pids = append(pids, uint32(processNamed(b, "worker")))
	}
	lib, m := machine(b, gpus...)
	for _, g := range m.GPUs {
		var list []fakenvml.Process
		for _, pid := range pids {
			list = append(list, fakenvml.Process{PID: pid, Type: "compute", Memory: 1 << 30, SM: 20})
		}
		g.SetProcesses(list...)
	}
	return lib
}

// BenchmarkTimeToFirstAnswer measures the time from the start of the process to the first
// answer of /api/gpu/summary with readings of eight GPUs.
func BenchmarkTimeToFirstAnswer(b *testing.B) {
	lib := server8(b)
	for b.Loop() {
		p := start(b, lib.Env())
		for {
			var summary contract.Summary
			if p.get("/api/gpu/summary", &summary) == http.StatusOK && summary.Answering == 8 {
				break
			}
		}
		b.StopTimer()
		if err := p.stop(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkStartWithAPast measures how much a database delays the first answer, as the median over pairs of starts: without a
// database, and with a new file or with the file of an earlier start.
func BenchmarkStartWithAPast(b *testing.B) {
	lib := server8(b)
	began := func(args ...string) float64 {
		begun := time.Now()
		p := start(b, lib.Env(), args...)
		for {
			var summary contract.Summary
			if p.get("/api/gpu/summary", &summary) == http.StatusOK && summary.Answering == 8 {
				break
			}
		}
		took := time.Since(begun)
		if strings.Contains(args[0], "sqlite") {
			p.remembered() // so that there is a file for the next
		}
		if err := p.stop(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
		return float64(took.Microseconds()) / 1000
	}
	median := func(values []float64) float64 {
		slices.Sort(values)
		return values[len(values)/2]
	}
	var off, anew, again []float64
	for b.Loop() {
		dir := "--state-dir=" + b.TempDir()
		without := began("--history=off", "--state-dir="+b.TempDir())
		off = append(off, without)
		anew = append(anew, began("--history=sqlite", dir)-without)
		again = append(again, began("--history=sqlite", dir)-without)
	}
	b.ReportMetric(median(off), "ms-off")
	b.ReportMetric(median(anew), "ms-later-new")
	b.ReportMetric(median(again), "ms-later-again")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle measures the cost of gpuwhy while it reads eight GPUs every 5 s (or
// 500 or 250 ms) and nobody looks: resident memory, the part of it that belongs to no
// file, and CPU in percent of one core over 20 s.
func BenchmarkIdle(b *testing.B) {
	for _, interval := range []time.Duration{5 * time.Second, 500 * time.Millisecond, 250 * time.Millisecond} {
		b.Run(interval.String(), func(b *testing.B) {
			p := start(b, server8(b).Env(), "--interval="+interval.String())
			p.await("eight GPUs answer", func(u contract.Update) bool { return u.Answering == 8 })
			pid := p.cmd.Process.Pid
			for b.Loop() {
				begun, before := time.Now(), cpuTime(b, pid)
				time.Sleep(20 * time.Second) // what is measured is a span of time
				b.ReportMetric(100*(cpuTime(b, pid)-before).Seconds()/time.Since(begun).Seconds(), "%cpu")
				b.ReportMetric(resident(b, pid)/(1<<20), "MiB-rss")
				b.ReportMetric(anonymous(b, pid)/(1<<20), "MiB-anon")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkSnapshotCommand runs `gpuwhy snapshot --json` for eight GPUs as a whole
// process.
func BenchmarkSnapshotCommand(b *testing.B) {
	lib := server8(b)
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), binary, "snapshot", "--json")
		cmd.Env = append(os.Environ(), lib.Env()...)
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// helpers returns the processes that a program has started and that still run.
func helpers(t testing.TB, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// withHelpers adds up a figure of a program and of its helpers.
func withHelpers[T float64 | time.Duration](t testing.TB, pid int, measure func(pid int) T) T {
	t.Helper()
	sum := measure(pid)
	for _, helper := range helpers(t, pid) {
		sum += measure(helper)
	}
	return sum
}

// cpuTime returns the user and system time of a program, its helpers and their threads.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	return withHelpers(b, pid, func(pid int) time.Duration { return ownTime(b, pid) })
}

func ownTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident returns the resident memory of a program and its helpers, in bytes. Pages of the program's file count once per process.
func resident(b testing.TB, pid int) float64 {
	b.Helper()
	return withHelpers(b, pid, func(pid int) float64 { return ownResident(b, pid) })
}

func ownResident(b testing.TB, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages * os.Getpagesize())
}

// anonymous returns the resident memory of a program and its helpers that belongs to no file, in bytes.
func anonymous(b *testing.B, pid int) float64 {
	b.Helper()
	return withHelpers(b, pid, func(pid int) float64 { return ownAnonymous(b, pid) })
}

func ownAnonymous(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if amount, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(amount), " kB"), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024
		}
	}
	b.Fatal("the kernel does not say how much memory is anonymous")
	return 0
}
