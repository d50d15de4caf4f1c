package serve_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

var logLevels = []slog.Level{slog.LevelInfo, slog.LevelDebug}

func TestRequestsAreLoggedAtDebug(t *testing.T) {
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 3, slog.LevelInfo: 0} {
		var out bytes.Buffer
		_, h := servetest.Serving(t, func(c *servetest.Rig) {
			c.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		})
		servetest.Get(h, "/api/gpu/devices")
		servetest.Get(h, "/nothing")
		servetest.Ask(h, "HEAD", "/robots.txt")
		if got := strings.Count(out.String(), "msg=request"); got != lines {
			t.Errorf("level %v: %d lines, want %d: %s", level, got, lines, &out)
		}
		if lines == 0 {
			continue
		}
		for _, want := range []string{"path=/api/gpu/devices", "path=/nothing", "status=404", "status=200", "method=HEAD", "part=server"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log has no %s: %s", want, &out)
			}
		}
	}
}

// A body that nobody asked for is not read to its end.
func TestBodyLimit(t *testing.T) {
	_, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	var read []byte
	h := s.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, err = io.ReadAll(r.Body)
	}))
	post := func(body string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Host = "localhost"
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if post(strings.Repeat("x", serve.MaxBody+1)); err == nil || len(read) != serve.MaxBody {
		t.Errorf("%d bytes were read with %v, want %d and an error", len(read), err, serve.MaxBody)
	}
	if post("short"); err != nil || string(read) != "short" {
		t.Errorf("%q, %v", read, err)
	}
}
