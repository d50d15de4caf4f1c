//go:build !unix

package hub

import "net"

// An attempt writes nothing on this system: a goroutine that may wait writes each message.
type attempt struct{}

func (attempt) use(net.Conn) {}

func (attempt) write([]byte) (int, error) { return 0, nil }
