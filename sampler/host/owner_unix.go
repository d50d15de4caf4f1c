//go:build unix

package host

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user whose file it is.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// noSuchProcess is what reading a process's files says that has ended since
// they were opened.
const noSuchProcess = syscall.ESRCH
