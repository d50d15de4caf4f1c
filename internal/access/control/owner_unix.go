//go:build unix && !linux

package control

import (
	"io/fs"
	"syscall"

	"github.com/gpuwhy/gpuwhy/internal/access/peer"
)

func ownerOf(info fs.FileInfo) peer.UID {
	if at, ok := info.Sys().(*syscall.Stat_t); ok {
		return peer.UID(at.Uid)
	}
	return 0
}
