//go:build unix

package drm

import (
	"io/fs"
	"os"
	"syscall"
)

// ReadFile reads a small file of the kernel, 64 KiB at most. A driver may answer EAGAIN,
// after which [os.File.Read] would wait for ever.
func ReadFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, 0, 4<<10)
	for {
		n, err := syscall.Read(int(f.Fd()), buf[len(buf):cap(buf)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: file, Err: err}
		case n <= 0 || len(buf)+n >= mostFile:
			return buf[:min(len(buf)+max(n, 0), mostFile-1)], nil
		default:
			buf = buf[:len(buf)+n]
			if len(buf) == cap(buf) {
				buf = append(make([]byte, 0, 4*cap(buf)), buf...)
			}
		}
	}
}
