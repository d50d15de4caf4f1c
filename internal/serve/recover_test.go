package serve_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

// panicking serves a handler behind all middleware, on a real listener.
func panicking(t *testing.T, h http.HandlerFunc) (*servetest.Stage, *httptest.Server) {
	t.Helper()
	st, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s.Wrap(h))
	t.Cleanup(ts.Close)
	return st, ts
}

func TestPanicBeforeTheAnswer(t *testing.T) {
	st, ts := panicking(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		panic("at the disco")
	})
	for range 2 { // the second on the same connection
		resp, err := ts.Client().Get(ts.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusInternalServerError || strings.Contains(string(body), "disco") || !strings.Contains(string(body), "internal error") {
			t.Errorf("status %d: %s, %v", resp.StatusCode, body, err)
		}
		if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Content-Type") != typeProblem {
			t.Errorf("headers of the answer that failed are left: %v", resp.Header)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("the security headers are gone: %v", resp.Header)
		}
	}
	log := st.Log.String()
	if strings.Count(log, "at the disco") != 2 || !strings.Contains(log, "recover_test.go") {
		t.Errorf("the log has not each panic once, with its stack: %s", log)
	}
}

// Half an answer must not look like a whole one.
func TestPanicInTheAnswer(t *testing.T) {
	st, ts := panicking(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half an ")
		_ = http.NewResponseController(w).Flush()
		panic("at the disco")
	})
	resp, err := ts.Client().Get(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q and %v, want an unexpected end", body, err)
	}
	if !strings.Contains(st.Log.String(), "at the disco") {
		t.Errorf("the log says nothing of it: %s", &st.Log)
	}
}

func TestAbortIsNoPanic(t *testing.T) {
	st, ts := panicking(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if resp, err := ts.Client().Get(ts.URL); err == nil {
		_ = resp.Body.Close()
		t.Errorf("an aborted request is answered with %d", resp.StatusCode)
	}
	if st.Log.String() != "" {
		t.Errorf("it is logged: %s", &st.Log)
	}
}

// A connection that was handed over and then forgotten is closed.
func TestPanicAfterHijack(t *testing.T) {
	st, ts := panicking(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(conn, "hello\n")
		panic("at the disco")
	})
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v, want the end", rest, err)
	}
	if !strings.Contains(st.Log.String(), "at the disco") {
		t.Errorf("the log says nothing of it: %s", &st.Log)
	}
}

// A socket passes all middleware, with the log of requests on and off.
func TestWebSocketThroughMiddleware(t *testing.T) {
	for _, level := range logLevels {
		_, h := servetest.Serving(t, func(c *servetest.Rig) {
			c.Log = slog.New(slog.NewTextHandler(new(servetest.Logged), &slog.HandlerOptions{Level: level}))
			c.WS = func(w http.ResponseWriter, r *http.Request, _ string) {
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.CloseNow() }() // it is closed already, unless the test fails
				kind, message, err := conn.Read(r.Context())
				if err != nil {
					t.Error(err)
				}
				if err := conn.Write(r.Context(), kind, message); err != nil {
					t.Error(err)
				}
				_ = conn.Close(websocket.StatusNormalClosure, "")
			}
		})
		ts := httptest.NewServer(h)
		conn, _, err := websocket.Dial(t.Context(), ts.URL+"/ws", nil) //nolint:bodyclose // a socket's response has none
		if err != nil {
			t.Fatalf("%v: %v", level, err)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("echo")); err != nil {
			t.Error(err)
		}
		if _, got, err := conn.Read(t.Context()); string(got) != "echo" {
			t.Errorf("%v: %q, %v", level, got, err)
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("%v: %v, want the goodbye", level, err)
		}
		ts.Close()
	}
}
