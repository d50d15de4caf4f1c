//go:build unix

package smi

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command the leader of a process group, which is killed as a whole: the program may be a script.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
