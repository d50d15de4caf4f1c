//go:build linux

package state

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A program has ended once it has, and not only when its parent has asked how.
func TestRunning(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if !running(pid) || !running(os.Getpid()) {
		t.Error("a process that runs does not")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it has ended, and nobody has asked how", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	if running(pid) {
		t.Error("a process that was killed runs")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if running(pid) {
		t.Error("a process that is gone runs")
	}
}
