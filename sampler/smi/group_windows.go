package smi

import (
	"os/exec"
	"syscall"
)

// ownGroup opens no console window, and keeps our Ctrl+C from the command.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
