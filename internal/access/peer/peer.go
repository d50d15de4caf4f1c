// Package peer asks the kernel which user of this machine has the other end of a connection. Over a Unix socket the kernel knows that
// of each connection. Over TCP it knows it where both ends are sockets of this machine, in the same network namespace.
package peer

import (
	"context"
	"errors"
	"net"
	"sync"
)

// ErrUnknown is wrapped in the error about a connection whose other end has no user that the kernel knows: it is on another machine or
// in another network namespace, it is closed, its user does not exist in our user namespace, or this system does not say.
var ErrUnknown = errors.New("the kernel does not say which user connects")

// A UID is the number of a user of this machine.
type UID uint32

// Lookup returns the user who made the socket at the other end of a connection. That is asked of the kernel each time.
func Lookup(conn net.Conn) (UID, error) {
	switch c := plain(conn).(type) {
	case *net.UnixConn:
		return ofUnix(c)
	case *net.TCPConn:
		local, ok := c.LocalAddr().(*net.TCPAddr)
		remote, also := c.RemoteAddr().(*net.TCPAddr)
		if !ok || !also {
			return 0, ErrUnknown
		}
		return ofTCP(local.AddrPort(), remote.AddrPort())
	}
	return 0, ErrUnknown
}

// plain returns the socket's connection of one that encrypts or counts.
func plain(conn net.Conn) net.Conn {
	for {
		wrapper, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapper.NetConn()
	}
}

// An End is the other end of a connection. The kernel is asked about it once, when somebody first wants to know.
type End struct {
	conn net.Conn
	once sync.Once
	uid  UID
	err  error
}

// UID returns the user at the end; see [Lookup].
func (e *End) UID() (UID, error) {
	e.once.Do(func() { e.uid, e.err = Lookup(e.conn) })
	return e.uid, e.err
}

// Unix reports whether the connection is one of a Unix socket.
func (e *End) Unix() bool {
	_, ok := plain(e.conn).(*net.UnixConn)
	return ok
}

// Loopback reports whether the connection was made to an address of the loopback network.
func (e *End) Loopback() bool {
	address, ok := e.conn.LocalAddr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

type endKey struct{}

// NewContext is for [net/http.Server.ConnContext]: requests of the connection then have its other end.
func NewContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, endKey{}, &End{conn: conn})
}

// FromContext returns the other end of the connection that a request came over; nil if the context has none.
func FromContext(ctx context.Context) *End {
	end, _ := ctx.Value(endKey{}).(*End)
	return end
}
