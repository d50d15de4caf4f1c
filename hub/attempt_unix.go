//go:build unix

package hub

import (
	"errors"
	"net"
	"syscall"
)

// An attempt writes to a connection without waiting: write(2) on its descriptor, which does not block.
type attempt struct {
	conn  syscall.RawConn // nil if the connection has no descriptor, as with TLS
	try   func(fd uintptr) bool
	frame []byte
	n     int
	err   error
}

func (a *attempt) use(c net.Conn) {
	if c, ok := c.(syscall.Conn); ok {
		a.conn, _ = c.SyscallConn() // an error means that it is closed, which others report
	}
	a.try = func(fd uintptr) bool { // made once, to avoid garbage
		for {
			if a.n, a.err = syscall.Write(int(fd), a.frame); !errors.Is(a.err, syscall.EINTR) {
				return true
			}
		}
	}
}

// write returns how many bytes of the frame it wrote, which may be none.
func (a *attempt) write(frame []byte) (int, error) {
	if a.conn == nil {
		return 0, nil
	}
	a.frame = frame
	err := a.conn.Write(a.try)
	a.frame = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(a.err, syscall.EAGAIN):
		return 0, nil
	case a.err != nil:
		return 0, a.err
	}
	return a.n, nil
}
