//go:build unix

package checkup

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Access asks the kernel whether this process may open a file. It opens nothing.
func Access(path string, write bool) error {
	mode := uint32(unix.R_OK)
	if write {
		mode |= unix.W_OK
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}

// GroupOf returns the group of a file.
func GroupOf(path string) (name string, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	about, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return GroupName(about.Gid), true
}
