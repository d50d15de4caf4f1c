package hub

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A wire is a viewer's connection below the WebSocket library, which does all but to
// write messages. For that it took up to 1.5 times as long: these are ready as whole
// frames, the same for every viewer, and one takes one system call and no copy.
//
// Frames don't mix, since both ways end in a single Write under one lock, and the
// library flushes each control frame whole.
type wire struct {
	net.Conn
	timeout time.Duration

	mu      sync.Mutex
	goodbye bool // a close frame was written; nothing may follow it
}

// controlBuffer has room for the largest control frame.
const controlBuffer = 256

// sendBuffer is how many bytes the kernel keeps for a viewer, which else are megabytes.
const sendBuffer = 128 << 10

var errGoodbye = errors.New("the connection is being closed")

func newWire(c net.Conn, timeout time.Duration) *wire {
	if c, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = c.SetWriteBuffer(sendBuffer) // without it a slow viewer is noticed later, by its pings
	}
	return &wire{Conn: c, timeout: timeout}
}

// Write writes one control frame of the library's.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.send(p, nil)
	if err != nil {
		_ = w.Close() // its error is of no use beside err
	}
	return int(n), err
}

// send writes a whole frame. After an error, but errGoodbye, half of it may be written.
func (w *wire) send(head, tail []byte) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goodbye {
		return 0, errGoodbye
	}
	w.goodbye = head[0]&opcodeBits == closeOpcode
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err // it is closed
	}
	if tail == nil {
		written, err := w.Conn.Write(head)
		return int64(written), err
	}
	pieces := net.Buffers{head, tail}
	return pieces.WriteTo(w.Conn)
}
