package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
)

func TestOtherPages(t *testing.T) {
	st, h := serving(t)
	snap := fixture.Server()
	st.show(t, snap)
	for path, want := range map[string]string{"/processes?q=a": "processes of  a", "/node/" + snap.Node + "/processes": "processes of " + snap.Node} {
		if w := get(h, path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || w.Header().Get("Content-Type") != typeHTML {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(h, "/processes?q=none"); w.Code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d %s", w.Code, w.Body)
	}
	if w := get(h, "/manifest.webmanifest"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/manifest+json" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "manifest-src 'self'") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A part of a page can be asked for on /find alone, and does not change by itself; other pages do, whatever is asked.
func TestPartOfAPage(t *testing.T) {
	st, cfg := newStage()
	cfg.OtherPages["find"] = cfg.OtherPages["processes"]
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st.show(t, fixture.Server())
	for address, want := range map[string]error{"find?part=list": ErrNotLive, "find": nil, "processes?part=list": nil, "?part=list": nil} {
		if page, err := s.Render(t.Context(), address, auth.Everything); !errors.Is(err, want) || (want == nil) != (len(page) > 0) {
			t.Errorf("%s: %v, %d bytes", address, err, len(page))
		}
	}
}

// Only the card of a GPU may be in a frame, and only of pages whose origin is named.
func TestEmbed(t *testing.T) {
	frames, err := auth.ParseFrames([]string{"https://wiki.example.org", "https://*.farm.example"})
	if err != nil {
		t.Fatal(err)
	}
	st, h := serving(t, func(c *Config) { c.AllowEmbed = frames })
	stNone, none := serving(t)
	snap := fixture.Server()
	st.show(t, snap)
	stNone.show(t, snap)
	card := "/embed/gpu/" + snap.Devices[2].UUID
	const deny = "frame-ancestors 'none'"
	for _, tt := range []struct {
		h     http.Handler
		path  string
		code  int
		frame string
	}{
		{h, card, http.StatusOK, "frame-ancestors https://wiki.example.org https://*.farm.example"},
		{h, "/embed/gpu/2", http.StatusOK, "frame-ancestors https://wiki.example.org https://*.farm.example"},
		{h, "/embed/gpu/77", http.StatusNotFound, deny},
		{h, "/", http.StatusOK, deny},
		{h, "/gpu/" + snap.Devices[2].UUID, http.StatusOK, deny},
		{h, "/processes", http.StatusOK, deny},
		{none, card, http.StatusOK, deny},
	} {
		w := get(tt.h, tt.path, "Accept: text/html")
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != tt.code || !strings.HasSuffix(policy, tt.frame) || !strings.Contains(policy, "default-src 'none'; script-src 'self'") {
			t.Errorf("%s: %d, %q", tt.path, w.Code, policy)
		}
		if got := w.Header().Get("X-Frame-Options"); (got == "DENY") != (tt.frame == deny) {
			t.Errorf("%s: X-Frame-Options %q", tt.path, got)
		}
	}
	// What is told of one answer is told of no other.
	if got := get(h, "/").Header().Get("X-Frame-Options"); got != "DENY" {
		t.Errorf("X-Frame-Options %q", got)
	}
	if got := get(h, card).Body.String(); !strings.Contains(got, "card of "+snap.Devices[2].UUID) {
		t.Errorf("%s", got)
	}
}
