//go:build unix

package host

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// readOnce reads a short file of sysfs or /proc in one call. A driver may answer EAGAIN, after
// which [os.File.Read] would wait for ever.
func readOnce(file string) (string, error) {
	var buf [128]byte
	n, err := readInto(file, buf[:], 1)
	return strings.TrimSpace(string(buf[:n])), err
}

// readInto reads a file of sysfs or /proc into buf, as much as has room there, in so many calls at most.
// [os.Open] makes five calls more for each file, to wait for it in a way that such files don't offer.
func readInto(file string, buf []byte, calls int) (n int, err error) {
	var fd int
	if err := again(func() (err error) { fd, err = syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); return }); err != nil {
		return 0, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	defer syscall.Close(fd) // of a file that was only read
	for ; calls > 0 && n < len(buf); calls-- {
		var more int
		if err := again(func() (err error) { more, err = syscall.Read(fd, buf[n:]); return }); err != nil {
			return 0, &fs.PathError{Op: "read", Path: file, Err: err}
		}
		if more == 0 {
			break
		}
		n += more
	}
	return n, nil
}

// again calls f until no signal has interrupted it.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
