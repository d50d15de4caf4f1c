//go:build unix

package ledger

import (
	"io/fs"
	"syscall"
)

func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
