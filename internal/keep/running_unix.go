//go:build unix

package keep

import (
	"errors"
	"syscall"
)

// running reports whether there is a process of that number.
func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
