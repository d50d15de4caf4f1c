package hub

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A wire is a viewer's connection below the WebSocket library, which does the
// handshake, the reading, the pongs and the goodbye. Messages go past it: they
// lie ready as whole frames, the same for every viewer, and one write of such a
// frame takes one system call, no copy and no allocation. Writing them through
// the library, which writes each in two pieces, took up to 1.5 times as long.
//
// Frames don't mix, since both ways end in a single Write under one lock: the
// library flushes each control frame (125 bytes at most, and nothing else is
// written through it) whole from a buffer that has room for it.
type wire struct {
	net.Conn
	timeout time.Duration

	mu      sync.Mutex
	goodbye bool // a close frame was written; nothing may follow it
}

// controlBuffer has room for the largest control frame.
const controlBuffer = 256

// sendBuffer is how much of what a viewer does not read the kernel keeps. Left
// to itself it keeps megabytes, of snapshots that newer ones have replaced.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.write(p, nil)
	if err != nil {
		_ = w.Close() // its error is of no use beside err
	}
	if len(p) > 0 && p[0]&opcodeBits == closeOpcode {
		w.goodbye = true
	}
	return int(n), err
}

// send writes a whole frame, in one or two pieces. It fails with errGoodbye
// after a close frame, and with os.ErrDeadlineExceeded when the viewer did not
// take it in time. After any other error than errGoodbye the caller has to cut
// the connection, as half a frame may have been written; it knows first why.
func (w *wire) send(head, tail []byte) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(head, tail)
}

func (w *wire) write(head, tail []byte) (n int64, err error) {
	if w.goodbye {
		return 0, errGoodbye
	}
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err // it is closed
	}
	if tail == nil {
		var written int
		written, err = w.Conn.Write(head)
		n = int64(written)
	} else {
		pieces := net.Buffers{head, tail}
		n, err = pieces.WriteTo(w.Conn)
	}
	return n, err
}
