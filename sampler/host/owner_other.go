//go:build !unix

package host

import (
	"errors"
	"io/fs"
)

// ownerOf returns the user whose file it is; here files have none.
func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

// noSuchProcess is what reading a process's files says that has ended since
// they were opened; here there are no such files.
var noSuchProcess = errors.New("no such process")
