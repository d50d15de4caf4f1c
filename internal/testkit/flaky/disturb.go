//go:build linux

package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// runMark is in the environment of the tests and, with a value of its own, of all that they start.
const runMark = "GPUWHY_FLAKY_RUN"

// disturb stops the tests, one of their children, or all of them for 1 to 3 s and lets them continue, again and again
// until the tests have ended.
func disturb(ended <-chan struct{}, mark string, tests int, random *rand.Rand) {
	pause := between(random, 0, 2*time.Second)
	for {
		select {
		case <-ended:
			return
		case <-time.After(pause):
		}
		pause = between(random, 2*time.Second, 8*time.Second)
		all := family(mark, tests)
		var stopped []int
		switch which := random.IntN(3); {
		case which == 0 || len(all) < 2:
			stopped = []int{tests}
		case which == 1:
			stopped = []int{all[random.IntN(len(all))]}
		default:
			stopped = all
		}
		signalAll(stopped, syscall.SIGSTOP)
		select {
		case <-ended:
		case <-time.After(between(random, time.Second, 3*time.Second)):
		}
		signalAll(stopped, syscall.SIGCONT)
	}
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal) // it may have ended meanwhile
	}
}

// family are the tests, unless their pid is 0, and all that they started and that has not ended.
func family(mark string, tests int) (pids []int) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, name := range entries {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(append([]byte{0}, text...), []byte("\x00"+mark)) {
			continue // it has ended, or is somebody else's
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && pid != tests && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	if tests != 0 {
		pids = append(pids, tests)
	}
	return pids
}

func names(pids []int) (out []string) {
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if err != nil {
			continue
		}
		out = append(out, string(bytes.TrimSpace(text)))
	}
	return out
}

// occupy starts processes that compute endlessly, and returns a function that ends them.
func occupy(n int) (release func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all []*exec.Cmd
	release = func() (err error) {
		for _, cmd := range all {
			err = errors.Join(err, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
		}
		return err
	}
	for range n {
		cmd := exec.Command(self, busyArg) //nolint:noctx // release ends it
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, release())
		}
		all = append(all, cmd)
	}
	return release, nil
}

func keepBusy() {
	for n := uint64(1); ; n = n*6364136223846793005 + 1 {
		if n == 0 {
			n = 1
		}
	}
}
