package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
)

// net/http puts the headers of each answer into a map, copies and sorts it, and writes them one by one: of
// an answer that is ready that takes a quarter of all the time. So those that are known beforehand are
// ready as text, and go between the status and the headers of net/http when it writes the answer.

// Listen makes the connections of a listener such that headers can be ready.
func Listen(ln net.Listener) net.Listener { return heads{ln} }

type heads struct{ net.Listener }

// Accept implements [net.Listener].
func (l heads) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return &headConn{TCPConn: tcp}, nil
	}
	return conn, err
}

// A headConn is a connection of HTTP/1. Whoever answers a request has it alone.
type headConn struct {
	*net.TCPConn
	// head are lines that the next answer has beside those of net/http; nobody changes them. With them goes
	// Cache-Control, if there is one.
	head  []byte
	cache []string
}

var errNoAnswer = errors.New("headers are ready, and what is written is no answer")

// Write writes what net/http has buffered. The first of an answer begins with its status.
func (c *headConn) Write(p []byte) (int, error) {
	const status = "HTTP/1.1 200"
	switch {
	case c.head == nil:
		return c.TCPConn.Write(p)
	case len(p) > len(status) && p[len(status)-3] == '1' && p[len(status)-1] != '1': // 100 Continue: the answer follows
		return c.TCPConn.Write(p)
	}
	at := bytes.Index(p, []byte("\r\n")) + 2
	if at < 2 || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		return 0, errNoAnswer
	}
	buffer := outs.Get().(*[]byte)
	out := append(append((*buffer)[:0], p[:at]...), c.head...)
	out = appendHeader(out, "Cache-Control", c.cache)
	added := len(out) - at
	out = append(out, p[at:]...)
	c.head, c.cache = nil, nil
	n, err := c.TCPConn.Write(out)
	if *buffer = out; cap(out) <= 8<<10 {
		outs.Put(buffer)
	}
	return min(max(n-added, 0), len(p)), err
}

// outs have what net/http buffers, 4 KiB, with the lines that are ready.
var outs = sync.Pool{New: func() any { return new([]byte) }}

type headKey struct{}

// withHead is for [http.Server.ConnContext].
func withHead(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*headConn); ok {
		return context.WithValue(ctx, headKey{}, c)
	}
	return ctx
}

// headOf is the connection on which an answer's headers can be ready; nil where they can't.
func headOf(r *http.Request) *headConn {
	c, _ := r.Context().Value(headKey{}).(*headConn)
	return c
}

// fixedHead are the fixed headers.
var fixedHead = func() []byte {
	var lines []byte
	for _, fixed := range fixedHeaders {
		lines = appendHeader(lines, fixed.name, fixed.value)
	}
	return lines
}()

func appendHeader(lines []byte, name string, values []string) []byte {
	for _, value := range values {
		lines = append(append(append(append(lines, name...), ": "...), value...), "\r\n"...)
	}
	return lines
}

// isFixed reports whether the fixed headers alone are ready.
func (c *headConn) isFixed() bool { return len(c.head) > 0 && &c.head[0] == &fixedHead[0] }

// unready puts the fixed headers of an answer where they can be changed.
func unready(w http.ResponseWriter, r *http.Request) http.Header {
	h := w.Header()
	if c := headOf(r); c != nil && c.isFixed() {
		c.head = nil
		setFixed(h)
	}
	return h
}

func setFixed(h http.Header) {
	for _, fixed := range fixedHeaders {
		h[fixed.name] = fixed.value
	}
}

// ready makes the headers that nothing but the representation decides: of a 304, and of the whole.
func (e *encoded) ready(byCoding bool) {
	e.same = appendHeader(slices.Clone(fixedHead), "Etag", e.etag)
	if byCoding {
		e.same = appendHeader(e.same, "Vary", byEncoding)
	}
	e.head = appendHeader(slices.Clone(e.same), "Content-Encoding", e.coding)
	e.head = appendHeader(e.head, "Content-Type", e.contentType)
}
