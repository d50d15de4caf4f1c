package serve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// A browser gets a page, whoever prefers JSON or says nothing a problem.
func TestErrorsByAccept(t *testing.T) {
	_, h := servetest.Serving(t)
	for _, tt := range []struct {
		accept string
		page   bool
	}{
		{browser, true},
		{"Accept: text/html", true},
		{"Accept: */*", false},
		{"Accept: application/json", false},
		{"Accept: application/problem+json, text/html;q=0.5", false},
		{"Accept: application/json;q=0.5, text/html", true},
		{"Accept: image/png", false},
		{"X: none", false},
	} {
		w := servetest.Get(h, "/gpu/metrics/zero", tt.accept)
		if got := w.Header().Get("Vary"); got != "Accept" {
			t.Errorf("%s: Vary is %q", tt.accept, got)
		}
		if !tt.page {
			servetest.IsProblem(t, w, 422)
			continue
		}
		if w.Code != 422 || w.Header().Get("Content-Type") != typeHTML || !strings.Contains(w.Body.String(), "<h1>422 Unprocessable Entity</h1>") {
			t.Errorf("%s: status %d, type %q: %s", tt.accept, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
	if w := servetest.Ask(h, "HEAD", "/nothing", browser); w.Code != 404 || w.Body.Len() > 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("HEAD: status %d, %d bytes, length %s", w.Code, w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

// brokenPages have an error's page that fails.
type brokenPages struct{ servetest.Pages }

func (brokenPages) Error(int, string, gpu.Advice) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		_, _ = io.WriteString(w, "half a page")
		return errors.New("the template broke")
	})
}

// Where even the error's page fails, the problem is told as JSON.
func TestErrorPageFails(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Pages = brokenPages{} })
	servetest.IsProblem(t, servetest.Get(h, "/nothing", browser), 404)
	if !strings.Contains(st.Log.String(), "the template broke") {
		t.Errorf("the log says nothing of it: %s", &st.Log)
	}
}

// Advice is told in full, anything else is for the log.
func TestErrorsOfHandlers(t *testing.T) {
	cause := errors.New("a secret cause")
	for _, tt := range []struct {
		err    error
		status int
		detail string
		logged bool
	}{
		{serve.Refuse(404, "no such thing", "try another"), 404, "no such thing: try another", false},
		{fmt.Errorf("wrapped: %w", serve.Refuse(422, "not a number", "")), 422, "not a number", false},
		{&gpu.Advice{What: "the disk is full", Try: "make room", Err: cause}, 500, "the disk is full: make room", true},
		{cause, 500, "internal error: see gpuwhy's log", true},
	} {
		st, cfg := servetest.New()
		s, err := cfg.Server()
		if err != nil {
			t.Fatal(err)
		}
		h := s.Wrap(s.Handle(func(http.ResponseWriter, *http.Request) error { return tt.err }))
		w := servetest.Get(h, "/")
		if got := servetest.IsProblem(t, w, tt.status); got != tt.detail {
			t.Errorf("%v: detail %q, want %q", tt.err, got, tt.detail)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%v: an error may be kept: %q", tt.err, w.Header().Get("Cache-Control"))
		}
		if got := strings.Count(st.Log.String(), "a secret cause") == 1; got != tt.logged || !tt.logged && st.Log.String() != "" {
			t.Errorf("%v: logged %v, want %v: %s", tt.err, got, tt.logged, &st.Log)
		}
	}
}

// What a snapshot can't be encoded to is an internal error, and asked for again
// the next time.
func TestAnswerThatCannotBeEncoded(t *testing.T) {
	st, cfg := servetest.New()
	s, err := cfg.Server()
	if err != nil {
		t.Fatal(err)
	}
	broken := true
	h := s.Wrap(s.Handle(serve.Derived(s.Kit(), func(contract.Monitor, *insight.Fleet) any {
		if broken {
			return func() {}
		}
		return 1
	})))
	st.Show(t, fixture.Workstation())
	servetest.IsProblem(t, servetest.Get(h, "/"), 500)
	broken = false
	if w := servetest.Get(h, "/"); w.Code != 200 {
		t.Errorf("status %d after the cause is gone", w.Code)
	}
}

// Retry-After is the interval in whole seconds, rounded up; never more than 30,
// however seldom readings are: a driver that appears is found by then.
func TestRetryAfter(t *testing.T) {
	for interval, want := range map[time.Duration]string{
		250 * time.Millisecond:   "1",
		time.Second:              "1",
		1001 * time.Millisecond:  "2",
		5 * time.Second:          "5",
		29500 * time.Millisecond: "30",
		30 * time.Second:         "30",
		31 * time.Second:         "30",
		time.Hour:                "30",
	} {
		st, h := servetest.Serving(t, func(c *servetest.Rig) { c.Monitor.Interval = interval })
		check := func(when string) {
			t.Helper()
			for _, path := range []string{"/gpu/metrics", "/gpu/metrics/0", "/api/gpu/metrics/GPU-5c8f0e9b-0000-4000-8000-000000000000", "/api/gpu/why/0"} {
				w := servetest.Get(h, path)
				if got := w.Header().Get("Retry-After"); w.Code != http.StatusServiceUnavailable || got != want {
					t.Errorf("%s, each %v: %s has status %d, Retry-After %q, want %q", when, interval, path, w.Code, got, want)
				}
			}
		}
		check("starting")
		st.Show(t, fixture.Empty())
		check("without a GPU")
	}
}
