//go:build unix

package drm

import (
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
)

var buffers = sync.Pool{New: func() any { return new([mostFile]byte) }}

// ReadFile reads a small kernel file, at most 64 KiB. A driver may answer EAGAIN, which would make [os.File.Read] wait forever.
func ReadFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := buffers.Get().(*[mostFile]byte)
	defer buffers.Put(buf)
	for length := 0; ; {
		n, err := syscall.Read(int(f.Fd()), buf[length:mostFile-1])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: file, Err: err}
		case n <= 0:
			return slices.Clone(buf[:length]), nil
		default:
			length += n
		}
	}
}
