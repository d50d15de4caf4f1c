package serve

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A pipeListener hands out connections that take no time but the test's own.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// timed runs a test against a server of ours in its own time.
func timed(t *testing.T, h http.HandlerFunc, test func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		srv := HTTPServer(h, slog.New(slog.DiscardHandler))
		done := make(chan error)
		go func() { done <- srv.Serve(ln) }()
		test(t, ln.dial)
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		time.Sleep(time.Second) // of the bubble's time: refused connections linger for half of one
	})
}

// ended reads until the other side ends the connection, and returns after how
// long that was.
func ended(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("reading until the end: %v", err)
	}
	_ = conn.Close()
	return time.Since(begin)
}

func TestSlowClients(t *testing.T) {
	timed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}, func(t *testing.T, dial func() net.Conn) {
		t.Helper()
		silent := dial()
		if took := ended(t, silent); took > 10*time.Second {
			t.Errorf("who says nothing was kept for %v", took)
		}

		halfHeader := dial()
		_, _ = io.WriteString(halfHeader, "GET / HTTP/1.1\r\nHost: localhost\r\n")
		if took := ended(t, halfHeader); took > 10*time.Second {
			t.Errorf("who sends half a header was kept for %v", took)
		}

		halfBody := dial()
		_, _ = io.WriteString(halfBody, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf")
		begin := time.Now()
		if _, err := halfBody.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("who sends half a body was kept for %v", took)
		}
		_ = halfBody.Close()

		deaf := dial()
		_, _ = io.WriteString(deaf, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(time.Minute)
		if n, err := io.Copy(io.Discard, deaf); err != nil || n >= 1<<20 {
			t.Errorf("who doesn't read for a minute then got %d bytes, %v, want the answer to be cut", n, err)
		}
		_ = deaf.Close()

		idle := dial()
		_, _ = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if took := ended(t, idle); took < time.Minute || took > 5*time.Minute {
			t.Errorf("an idle connection was kept for %v", took)
		}
	})
}

func TestLongHeaders(t *testing.T) {
	timed(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, dial func() net.Conn) {
		t.Helper()
		for length, status := range map[int]string{16 << 10: "200 OK", 64 << 10: "431 Request Header Fields Too Large"} {
			conn := dial()
			go func() {
				// It fails where the server stops reading.
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", length)+"\r\n\r\n")
			}()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if !strings.Contains(line, status) {
				t.Errorf("a header of %d bytes: %q, %v, want %s", length, line, err, status)
			}
			_ = conn.Close()
		}
	})
}

// No deadline of the server cuts a connection that was handed over.
func TestDeadlinesEndWithHijack(t *testing.T) {
	timed(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, err := buffered.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(conn, line); err != nil {
			t.Error(err)
		}
	}, func(t *testing.T, dial func() net.Conn) {
		t.Helper()
		conn := dial()
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(time.Hour)
		_, _ = io.WriteString(conn, "echo\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "echo\n" {
			t.Errorf("after an hour: %q, %v", line, err)
		}
	})
}

func TestServerLogsToSlog(t *testing.T) {
	var out bytes.Buffer
	srv := HTTPServer(http.NotFoundHandler(), slog.New(slog.NewTextHandler(&out, nil)))
	srv.ErrorLog.Print("http: a complaint")
	if got := out.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "part=http") || !strings.Contains(got, "a complaint") {
		t.Errorf("logged %q", got)
	}
}
