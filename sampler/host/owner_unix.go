//go:build unix

package host

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the owner of a file.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// noSuchProcess is the error of reading a file of a process that has ended since the
// file was opened.
const noSuchProcess = syscall.ESRCH
