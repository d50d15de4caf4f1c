//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == busyArg {
		keepBusy()
	}
	os.Exit(m.Run())
}

// flaky runs the program on the package in testdata.
func flaky(t *testing.T, args ...string) (failed int, said, logs string) {
	t.Helper()
	logs = t.TempDir()
	var out bytes.Buffer
	failed, err := start(t.Context(), append(args, "-logs", logs, "-build=", "./testdata/shaky"), &out)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &out)
	}
	return failed, out.String(), logs
}

func TestListsWhatFailed(t *testing.T) {
	failed, said, logs := flaky(t, "-runs=2", "-loads=0,1", "-stops=false", "-seed=7")
	if failed != 4 || strings.Count(said, "shaky beside 1, seed 7: TestOdd") != 4 {
		t.Errorf("%d failed, want 4; it said\n%s", failed, said)
	}
	log, err := os.ReadFile(filepath.Join(logs, filepath.Base(strings.TrimSpace(said[strings.LastIndex(said, "/"):]))))
	if err != nil || !strings.Contains(string(log), "seed 7 is odd") {
		t.Errorf("the log is %q, %v", log, err)
	}
	if failed, said, _ := flaky(t, "-runs=2", "-loads=0", "-seed=8"); failed != 0 || !strings.Contains(said, "0 of 2 failed") {
		t.Errorf("%d failed, want none; it said\n%s", failed, said)
	}
}

// A folder of -plain is tested with the flags and, for the tests of -only, also without them.
func TestPlainToo(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-runs=1", "-loads=0", "-stops=false", "-seed=7", "-build=-tags=some", "-plain=testdata/other testdata/shaky", "-only=^TestSound$", "-logs=" + t.TempDir(), "./testdata/shaky"}
	failed, err := start(t.Context(), args, &out)
	for _, want := range []string{"0 of 1 failed", "1 of 1 failed", "shaky (plain)", "\n1 runs failed:\n"} {
		if err != nil || failed != 1 || strings.Count(out.String(), want) != 1 {
			t.Errorf("%d failed, %v; it does not say %q once:\n%s", failed, err, want, &out)
		}
	}
}

func TestFindsWhatIsLeft(t *testing.T) {
	t.Setenv("SHAKY_LEAVES", "yes")
	failed, said, _ := flaky(t, "-runs=1", "-loads=0", "-seed=8")
	if failed != 1 || !strings.Contains(said, "processes were left") {
		t.Errorf("%d failed, want 1; it said\n%s", failed, said)
	}
}

// Stops reach the tests and their children, and end.
func TestStopsAndContinues(t *testing.T) {
	mark := runMark + "=" + t.Name()
	cmd := exec.Command("sh", "-c", "sleep 300 & echo started; wait")
	cmd.Env = append(os.Environ(), mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and its child
		_ = cmd.Wait()
	})
	var all []int
	testkit.Until(t, "a child", func() bool { all = family(mark, cmd.Process.Pid); return len(all) == 2 })
	inState := func(state byte) func() bool {
		return func() bool {
			for _, pid := range all {
				text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
				after := bytes.LastIndexByte(text, ')')
				if err != nil || after < 0 || text[after+2] != state {
					return false
				}
			}
			return true
		}
	}
	signalAll(all, syscall.SIGSTOP)
	testkit.Until(t, "both are stopped", inState('T'))
	signalAll(all, syscall.SIGCONT)
	testkit.Until(t, "both go on", inState('S'))
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-loads=many"}, {"-loads=-1"}, {"./no/such/package"}, {"-fast"}} {
		if _, err := start(t.Context(), args, new(bytes.Buffer)); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
