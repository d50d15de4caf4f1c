//go:build unix

package hub

import (
	"errors"
	"syscall"
)

// attempt writes what a connection takes without waiting (write(2) on a descriptor that does not block).
func attempt(c syscall.RawConn, p []byte) (n int, err error) {
	closed := c.Write(func(fd uintptr) bool {
		for {
			if n, err = syscall.Write(int(fd), p); !errors.Is(err, syscall.EINTR) {
				return true
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case errors.Is(err, syscall.EAGAIN):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return n, nil
}
