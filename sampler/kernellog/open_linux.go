package kernellog

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

type file struct{ fd int }

func open(path string) (reader, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &file{fd}, nil
}

func (f *file) read(buf []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return 0, io.EOF
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINVAL): // overwritten; longer than buf
			return 0, errGap
		default:
			return n, err
		}
	}
}

func (f *file) close() error { return unix.Close(f.fd) }

// uptime returns the log's clock: the time since the machine booted, without sleep.
func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every kernel has it
	}
	return time.Duration(t.Nano())
}

// refused reports whether the file exists but may not be read. A service manager can replace it with a node without a device (ENXIO).
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENXIO)
}
