//go:build !unix

package host

import (
	"errors"
	"io/fs"
)

// ownerOf returns the owner of a file; here files have none.
func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

// noSuchProcess is the error of reading a file of a process that has ended since the
// file was opened; here there are no such files.
var noSuchProcess = errors.New("no such process")
