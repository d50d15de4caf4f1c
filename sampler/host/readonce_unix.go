//go:build unix

package host

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// readOnce reads a short file of sysfs or /proc in one call. A driver may answer EAGAIN, which would make [os.File.Read] wait forever.
func readOnce(file string) (string, error) {
	var buf [128]byte
	n, err := readInto(file, buf[:], 1)
	return strings.TrimSpace(string(buf[:n])), err
}

// readInto reads as much of a sysfs or /proc file as fits into buf, in at most the given number of calls. [os.Open] makes five more system
// calls per file, to wait for it in a way that such files don't support.
func readInto(file string, buf []byte, calls int) (n int, err error) {
	var fd int
	if err := again(func() (err error) { fd, err = syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); return }); err != nil {
		return 0, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	defer syscall.Close(fd) // the file was only read
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

// again calls f until no signal interrupts it.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
