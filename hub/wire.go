package hub

import (
	"errors"
	"net"
	"time"

	"golang.org/x/time/rate"
)

// A wire is a viewer's connection below the WebSocket library, which does everything except write
// messages. The library took up to 1.5 times as long to write them: they are ready as whole frames,
// the same for every viewer, and each needs one system call and no copy.
//
// Frames don't mix: both ways write a whole frame, one at a time, and the library flushes each
// control frame whole.
type wire struct {
	net.Conn
	timeout time.Duration
	reads   *rate.Limiter // of bytes

	writing chan struct{} // has a value while a frame is written, also between offer and finish; capacity 1
	goodbye bool          // a close frame was written; nothing may follow it
	attempt attempt
}

const (
	// readBuffer is enough for what clients send most.
	readBuffer = 512
	// controlBuffer has room for the largest control frame.
	controlBuffer = 256
	// sendBuffer is how many bytes the kernel keeps for a viewer, which else are megabytes.
	sendBuffer = 128 << 10
	// readRate and readBurst are how many bytes a second, and at once, are read from a viewer: as many as [limits] lets it send
	// in messages. A message may be in any number of empty frames, of which no limit of messages knows.
	readRate, readBurst = 20 * messageLimit, 50 * messageLimit
)

var errGoodbye = errors.New("the connection is being closed")

func newWire(c net.Conn, timeout time.Duration) *wire {
	w := &wire{Conn: c, timeout: timeout, reads: rate.NewLimiter(readRate, readBurst), writing: make(chan struct{}, 1)}
	if c, ok := c.(interface{ SetWriteBuffer(int) error }); ok {
		_ = c.SetWriteBuffer(sendBuffer) // without it a slow viewer is noticed later, by its pings
	}
	w.attempt.on(c)
	return w
}

// Read reads what the viewer sends, no faster than it may send.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if wait := w.reads.ReserveN(time.Now(), min(n, readBurst)).Delay(); wait > 0 {
		<-time.After(wait) // milliseconds
	}
	return n, err
}

// Write writes one control frame of the library's.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.finish(p, nil, false)
	if err != nil {
		_ = w.Close() // its error is of no use beside err
	}
	return int(n), err
}

// offer writes as much of a frame as the connection takes at once, and waits for nothing.
// The rest is for finish. Where holds is true, a part is written, and the wire belongs to
// who offered it until finish returns.
func (w *wire) offer(frame []byte) (n int, holds bool, err error) {
	select {
	case w.writing <- struct{}{}:
	default:
		return 0, false, nil
	}
	if w.goodbye {
		<-w.writing
		return 0, false, errGoodbye
	}
	if n, err = w.attempt.write(frame); err == nil && 0 < n && n < len(frame) {
		return n, true, nil
	}
	<-w.writing
	return n, false, err
}

// finish writes a frame, or the rest of one, and waits as long as the timeout. After an error,
// but errGoodbye, half of it may be written.
func (w *wire) finish(head, tail []byte, holds bool) (int64, error) {
	if !holds {
		w.writing <- struct{}{}
		if w.goodbye {
			<-w.writing
			return 0, errGoodbye
		}
		w.goodbye = head[0]&opcodeBits == closeOpcode
	}
	defer func() { <-w.writing }()
	if err := w.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err // it is closed
	}
	pieces := net.Buffers{head}
	if tail != nil { // an empty piece would be written
		pieces = append(pieces, tail)
	}
	n, err := pieces.WriteTo(w.Conn)
	if err == nil {
		err = w.SetWriteDeadline(time.Time{}) // attempts obey it, too
	}
	return n, err
}
