//go:build unix

package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// running reports whether there is a process with that id. An ended process does not count, even if its parent has not collected
// it yet.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux has it
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err != nil || !found || !bytes.HasPrefix(state, []byte("Z"))
}
