//go:build unix

package host

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// readOnce reads a short file of sysfs in one call. A driver may answer EAGAIN, after
// which [os.File.Read] would wait for ever.
func readOnce(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 128)
	for {
		n, err := syscall.Read(int(f.Fd()), buf)
		switch err {
		case nil:
			return strings.TrimSpace(string(buf[:n])), nil
		case syscall.EINTR:
		default:
			return "", &fs.PathError{Op: "read", Path: file, Err: err}
		}
	}
}
