package serve_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// What a viewer too many is told.
func TestTooManyViewersOfAnAddress(t *testing.T) {
	proxies, err := serve.ParseProxies([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	inside, goOn := make(chan bool), make(chan bool)
	st, h := servetest.Serving(t, func(cfg *servetest.Rig) {
		cfg.MaxViewersOfAddress, cfg.TrustedProxies = 1, proxies
		cfg.WS = func(http.ResponseWriter, *http.Request, string) { inside <- true; <-goOn }
	})
	st.Show(t, fixture.Server())
	view := func(peer, forwarded string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/ws", nil)
		r.Host, r.RemoteAddr = "localhost:8003", peer
		r.Header.Set("X-Forwarded-For", forwarded)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var all sync.WaitGroup
	enter := func(peer, forwarded string) { all.Go(func() { view(peer, forwarded) }); <-inside }
	enter("10.0.0.1:5", "2001:db8::1")
	for _, again := range []string{"2001:db8::2", "198.51.100.1, 2001:db8::3"} {
		w := view("10.0.0.1:6", again)
		detail := servetest.IsProblem(t, w, http.StatusTooManyRequests)
		if !strings.Contains(detail, "--max-viewers-per-address") || w.Header().Get("Retry-After") == "" {
			t.Errorf("%q, Retry-After %q", detail, w.Header().Get("Retry-After"))
		}
	}
	enter("10.0.0.1:7", "2001:db8:0:1::1")
	enter("192.0.2.9:8", "2001:db8::1") // who is no proxy of ours is itself
	servetest.IsProblem(t, view("192.0.2.9:8", "203.0.113.77"), http.StatusTooManyRequests)
	close(goOn)
	all.Wait()
	go func() { <-inside }()
	if w := view("10.0.0.1:5", "2001:db8::1"); w.Code != http.StatusOK {
		t.Errorf("after it left: %d", w.Code)
	}
}

// A viewer counts until its connection is closed, also if who serves it has returned, and not after a panic.
func TestAViewerCountsUntilItsConnectionIsClosed(t *testing.T) {
	conns := make(chan net.Conn, 1)
	panics := false
	st, cfg := servetest.New()
	cfg.MaxViewersOfAddress = 1
	cfg.WS = func(w http.ResponseWriter, _ *http.Request, _ string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if panics {
			panic("for a test")
		}
		conns <- conn
	}
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	st.Show(t, fixture.Server())
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = s.HTTPServer()
	ts.Start()
	defer ts.Close()
	count := s.Viewers
	view := func() {
		client, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		if _, err := client.Write([]byte("GET /ws HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if panics {
			_, _ = client.Read(make([]byte, 1)) // until it is cut
		}
	}
	view()
	conn := <-conns
	if _, is := conn.(syscall.Conn); !is {
		t.Error("the connection has no descriptor")
	}
	answer, err := http.Get(ts.URL + "/ws")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusTooManyRequests || count() != 1 {
		t.Errorf("while it is open: status %d, %d counted", answer.StatusCode, count())
	}
	if err := conn.Close(); err != nil || count() != 0 {
		t.Errorf("after it was closed: %v, %d counted", err, count())
	}
	_ = conn.Close() // again
	panics = true
	view()
	if n := count(); n != 0 {
		t.Errorf("after a panic: %d counted", n)
	}
}
