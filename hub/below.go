package hub

import (
	"errors"
	"net"
	"sync"
)

// Listen returns a listener of connections to which the hub can write without waiting also where they are encrypted: TLS is then above
// them. Other connections than TCP's remain as they are.
func Listen(ln net.Listener) net.Listener { return listener{ln} }

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &below{TCPConn: tcp}, nil
	}
	return conn, err
}

// A below is a connection below TLS. What TLS has encrypted it can't take back, if the connection does not accept it. So once a below has a
// wire, no call of Write waits: it keeps the rest, which flush writes. Otherwise a client that reads nothing could make TLS wait for it, and
// with TLS who writes to the next client.
type below struct {
	*net.TCPConn

	mu       sync.Mutex
	wired    bool
	frames   bool // what is being written are frames of the wire, and no answers of TLS to the client
	flushing bool // flush writes what was written before
	attempt  attempt
	rest     []byte // not written yet
	answers  int    // bytes of answers of TLS in it
}

const (
	// sealed is how many bytes of a frame are encrypted at once, and so at most wait for a client.
	sealed = 64 << 10
	// mostAnswers is how many bytes of answers of TLS may wait for a client that makes it answer again and again, and reads nothing.
	mostAnswers = 4 << 10
)

var errUnread = errors.New("the client does not read the answers of TLS")

// NetConn is the connection itself, as with [crypto/tls.Conn].
func (b *below) NetConn() net.Conn { return b.TCPConn }

// wire gives a below to a wire.
func (b *below) wire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wired = true
	b.attempt.use(b.TCPConn)
}

// Write implements [net.Conn].
func (b *below) Write(p []byte) (int, error) {
	b.mu.Lock()
	if !b.wired {
		b.mu.Unlock()
		return b.TCPConn.Write(p)
	}
	defer b.mu.Unlock()
	n := 0
	if len(b.rest) == 0 && !b.flushing {
		var err error
		if n, err = b.attempt.write(p); err != nil {
			return n, err
		}
	}
	if n < len(p) && !b.frames {
		if b.answers += len(p) - n; b.answers > mostAnswers {
			return n, errUnread
		}
	}
	b.rest = append(b.rest, p[n:]...)
	return len(p), nil
}

// seal has TLS write a part of a frame, and reports whether there is a rest.
func (b *below) seal(over net.Conn, part []byte) (rest bool, err error) {
	b.during(true)
	_, err = over.Write(part)
	return b.during(false), err
}

func (b *below) during(frames bool) (rest bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frames = frames
	return len(b.rest) > 0
}

// offer writes as much of a frame as the connection accepts. If there is a rest, of the part that is encrypted, flush writes it.
func (b *below) offer(over net.Conn, frame []byte) (n int, rest bool, err error) {
	if b.during(false) { // of an answer of TLS
		return 0, true, nil
	}
	for !rest && err == nil && n < len(frame) {
		part := frame[n:min(n+sealed, len(frame))]
		if rest, err = b.seal(over, part); err == nil {
			n += len(part)
		}
	}
	return n, rest, err
}

// finish writes the rest, and then the pieces, and waits as long as the connection's deadline permits. It returns how many bytes of the
// pieces it wrote.
func (b *below) finish(over net.Conn, pieces ...[]byte) (n int64, err error) {
	if err := b.flush(); err != nil {
		return 0, err
	}
	for _, piece := range pieces {
		for len(piece) > 0 {
			part := piece[:min(sealed, len(piece))]
			rest, err := b.seal(over, part)
			if err == nil && rest {
				err = b.flush()
			}
			if err != nil {
				return n, err
			}
			n += int64(len(part))
			piece = piece[len(part):]
		}
	}
	return n, nil
}

// flush writes the rest. Only the owner of the wire calls it.
func (b *below) flush() error {
	for {
		b.mu.Lock()
		rest := b.rest
		b.rest, b.answers, b.flushing = nil, 0, len(rest) > 0
		b.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
		if _, err := b.TCPConn.Write(rest); err != nil {
			return err
		}
	}
}
