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
	reads   *rate.Limiter // in bytes

	writing chan struct{} // has a value while a frame is being written, including between offer and finish; capacity 1
	goodbye bool          // a close frame was written; nothing may follow it
	attempt attempt
	below   *below // the connection below TLS; nil without TLS, and with it where [Listen] does not listen
}

const (
	// readBuffer is enough for most messages of clients.
	readBuffer = 512
	// controlBuffer has room for the largest control frame.
	controlBuffer = 256
	// sendBuffer is how many bytes the kernel buffers for a viewer; by default it would be megabytes.
	sendBuffer = 128 << 10
	// readRate and readBurst limit the bytes read from a viewer, per second and at once, to what [limits] lets it send in messages. A
	// message may have any number of empty frames, which limits on messages don't count.
	readRate, readBurst = 20 * messageLimit, 50 * messageLimit
)

var errGoodbye = errors.New("the connection is being closed")

func newWire(c net.Conn, timeout time.Duration) *wire {
	w := &wire{Conn: c, timeout: timeout, reads: rate.NewLimiter(readRate, readBurst), writing: make(chan struct{}, 1)}
	lowest := c
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		lowest = over.NetConn()
		if w.below, ok = lowest.(*below); ok {
			w.below.wire()
		}
	}
	if tcp, ok := lowest.(interface{ SetWriteBuffer(int) error }); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // without it a slow viewer is noticed later, by its pings
	}
	w.attempt.use(c)
	return w
}

// rests waits until no frame is being written, and reports whether that is so in time.
func (w *wire) rests(timeout time.Duration) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case w.writing <- struct{}{}:
		<-w.writing
		return true
	case <-late.C:
		return false
	}
}

// drop keeps the kernel from sending what it has buffered for the viewer, once the connection is closed.
func (w *wire) drop() {
	lowest := w.Conn
	if over, ok := lowest.(interface{ NetConn() net.Conn }); ok { // TLS
		lowest = over.NetConn()
	}
	if tcp, ok := lowest.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
}

// Read reads what the viewer sends, no faster than it may send.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if wait := w.reads.ReserveN(time.Now(), min(n, readBurst)).Delay(); wait > 0 {
		<-time.After(wait) // milliseconds
	}
	return n, err
}

// Write writes one of the library's control frames.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.finish(p, nil, false)
	if err != nil {
		_ = w.Close() // err says more than this error
	}
	return int(n), err
}

// offer writes as much of a frame as the connection accepts at once, without waiting; finish writes the rest. If holds is true, a part is
// written, or all but what TLS made of it, and the wire belongs to the caller until finish returns.
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
	if w.below != nil {
		n, holds, err = w.below.offer(w.Conn, frame)
	} else {
		n, err = w.attempt.write(frame)
		holds = 0 < n && n < len(frame)
	}
	if holds && err == nil {
		return n, true, nil
	}
	<-w.writing
	return n, false, err
}

// finish writes a frame, or the rest of one, and waits up to the timeout. After an error other than errGoodbye, a part of it may be
// written.
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
	n, err := w.write(head, tail)
	if err == nil {
		err = w.SetWriteDeadline(time.Time{}) // attempts obey the deadline, too
	}
	return n, err
}

// write writes two pieces, and waits as long as the deadline permits.
func (w *wire) write(head, tail []byte) (int64, error) {
	if w.below != nil {
		return w.below.finish(w.Conn, head, tail)
	}
	pieces := net.Buffers{head}
	if tail != nil { // an empty piece would be written
		pieces = append(pieces, tail)
	}
	return pieces.WriteTo(w.Conn)
}
