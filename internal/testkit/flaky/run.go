//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A result is a run that ended.
type result struct {
	binary binary
	load   int
	seed   uint64
	took   time.Duration
	failed bool
	tests  []string // those that failed
	log    string   // a file
}

// runAll runs each binary as often as asked, a few at a time, and returns the failed runs.
func runAll(ctx context.Context, o options, binaries []binary, load int, out io.Writer) (failures []result) {
	var mu sync.Mutex // guards what follows, and out
	var wait sync.WaitGroup
	turns := make(chan struct{}, o.beside)
	for _, b := range binaries {
		left, failed, times := o.runs, 0, []time.Duration{}
		for n := range o.runs {
			turns <- struct{}{}
			if ctx.Err() != nil {
				<-turns
				break
			}
			wait.Go(func() {
				defer func() { <-turns }()
				r := runOnce(ctx, o, b, load, n)
				mu.Lock()
				defer mu.Unlock()
				if ctx.Err() != nil {
					return // it was interrupted, which says nothing of the tests
				}
				if r.failed {
					failed++
					failures = append(failures, r)
					fmt.Fprintf(out, "FAIL  %s beside %d, seed %d: %s\n", b.name, load, r.seed, strings.Join(r.tests, ", "))
				}
				times = append(times, r.took)
				if left--; left == 0 {
					slices.Sort(times)
					fmt.Fprintf(out, "%d of %d failed beside %d, median %v, longest %v: %s\n", failed, o.runs, load,
						times[len(times)/2].Round(10*time.Millisecond), times[len(times)-1].Round(10*time.Millisecond), b.name)
				}
			})
		}
	}
	wait.Wait()
	return failures
}

// runOnce runs a binary for the nth time, and stops and continues it and its children meanwhile.
func runOnce(ctx context.Context, o options, b binary, load, n int) result {
	r := result{binary: b, load: load, seed: o.seed}
	for r.seed == 0 {
		r.seed = rand.Uint64() >> 1 // go test takes a signed number
	}
	r.log = filepath.Join(o.logs, fmt.Sprintf("%s-beside%d-run%d-seed%d.log", strings.TrimSuffix(filepath.Base(b.path), ".test"), load, n, r.seed))
	file, err := os.Create(r.log)
	if err != nil {
		r.failed, r.tests = true, []string{err.Error()}
		return r
	}
	defer file.Close()

	run := o.run
	if b.plain {
		run = cmp.Or(run, o.only)
	}
	mark := runMark + "=" + strconv.FormatUint(r.seed, 10) + "-" + strconv.FormatUint(rand.Uint64(), 36)
	cmd := exec.CommandContext(ctx, b.path, "-test.shuffle="+strconv.FormatUint(r.seed, 10), "-test.timeout="+o.timeout.String(),
		"-test.paniconexit0", "-test.run="+run)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, append(os.Environ(), mark), file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute // for children that hold the file
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		r.failed, r.tests = true, []string{err.Error()}
		return r
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if o.stops {
			disturb(ended, mark, cmd.Process.Pid, rand.New(rand.NewPCG(r.seed, 0)))
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-stopped
	r.took, r.failed = time.Since(begun), err != nil
	if left := family(mark, 0); len(left) > 0 {
		fmt.Fprintf(file, "flaky: the tests left %d processes: %s\n", len(left), strings.Join(names(left), ", "))
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		r.failed, r.tests = true, append(r.tests, "processes were left")
	}
	if !r.failed {
		if err := os.Remove(r.log); err != nil {
			r.failed, r.tests = true, []string{err.Error()}
		}
		return r
	}
	r.tests = append(r.tests, failedTests(r.log)...)
	if err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			r.tests = append(r.tests, err.Error())
		}
	}
	return r
}

// failedTests returns the tests that failed according to a log, including one during which the program ended.
func failedTests(log string) (names []string) {
	text, err := os.ReadFile(log)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		for _, what := range []string{"--- FAIL: ", "panic: test timed out"} {
			if rest, ok := strings.CutPrefix(line, what); ok {
				name, _, _ := strings.Cut(rest, " ")
				if name == "" {
					name = line
				}
				names = append(names, name)
			}
		}
		if strings.HasPrefix(line, "WARNING: DATA RACE") {
			names = append(names, "a data race")
		}
	}
	return slices.Compact(names)
}
