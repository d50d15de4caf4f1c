package serve_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

func TestCORS(t *testing.T) {
	_, h := servetest.Serving(t, func(c *servetest.Rig) {
		c.AllowOrigins = servetest.Origins(t, "https://board.example.org", "https://*.farm.example", "http://[::1]:3000")
	})
	for origin, allowed := range map[string]bool{
		"https://board.example.org":      true,
		"https://a.farm.example":         true,
		"http://[::1]:3000":              true,
		"http://board.example.org":       false,
		"https://board.example.org:8443": false,
		"https://farm.example":           false,
		"https://evil.example":           false,
		"https://evilfarm.example":       false,
		"null":                           false,
		"http://:":                       false,
		"":                               false,
	} {
		w := servetest.Get(h, "/api/gpu/devices", "Origin: "+origin)
		want := ""
		if allowed {
			want = origin
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != want || w.Code != 200 {
			t.Errorf("%q: status %d, allowed %q, want %q", origin, w.Code, got, want)
		}
		if !slices.Contains(w.Header().Values("Vary"), "Origin") {
			t.Errorf("%q: Vary is %q, want Origin in it", origin, w.Header().Values("Vary"))
		}
		if w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%q may send credentials", origin)
		}

		preflight := servetest.Ask(h, http.MethodOptions, "/api/gpu/devices", "Origin: "+origin, "Access-Control-Request-Method: GET")
		switch {
		case !allowed:
			if preflight.Header().Get("Access-Control-Allow-Methods") != "" || preflight.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%q: the preflight allows %v", origin, preflight.Header())
			}
		case preflight.Code != http.StatusNoContent || preflight.Header().Get("Access-Control-Allow-Methods") != "GET" || preflight.Header().Get("Access-Control-Allow-Origin") != origin:
			t.Errorf("%q: the preflight gives %d with %v", origin, preflight.Code, preflight.Header())
		}
	}
	// Errors are readable too, or a page could not tell why.
	if got := servetest.Get(h, "/gpu/metrics", "Origin: https://board.example.org").Header().Get("Access-Control-Allow-Origin"); got == "" {
		t.Error("an error is hidden from an allowed origin")
	}
}

func TestNoCORSUnlessConfigured(t *testing.T) {
	_, h := servetest.Serving(t)
	w := servetest.Get(h, "/api/gpu/devices", "Origin: https://board.example.org")
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" || slices.Contains(w.Header().Values("Vary"), "Origin") {
		t.Errorf("allowed %q, Vary %q", got, w.Header().Values("Vary"))
	}
}

// A page of another origin can change nothing, also one that may read.
func TestCrossOriginWrites(t *testing.T) {
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.AllowOrigins = servetest.Origins(t, board) })
	for _, headers := range [][]string{
		{"Origin: https://evil.example"},
		{"Origin: https://board.example.org"},
		{"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site"},
	} {
		servetest.IsProblem(t, servetest.Ask(h, "POST", "/api/gpu/devices", headers...), http.StatusForbidden)
	}
	// Of our own page, and of programs, it is answered as all writes are now.
	servetest.IsProblem(t, servetest.Ask(h, "POST", "/api/gpu/devices", "Sec-Fetch-Site: same-origin", "Origin: http://localhost:8003"), http.StatusMethodNotAllowed)
	servetest.IsProblem(t, servetest.Ask(h, "POST", "/api/gpu/devices"), http.StatusMethodNotAllowed)
}

// A proxy may put the usual port into the name that it passes on. The page is ours all the same, and others' are not.
func TestUsualPorts(t *testing.T) {
	_, h := servetest.Serving(t, func(c *servetest.Rig) { c.AllowHosts = []string{"gpu.example.org"} })
	for _, tt := range []struct {
		host, origin string
		ours         bool
	}{
		{"gpu.example.org:443", "https://gpu.example.org", true},
		{"gpu.example.org:80", "http://gpu.example.org", true},
		{"gpu.example.org:80", "https://gpu.example.org", true}, // TLS ends before the proxy
		{"GPU.example.org:443", "https://gpu.example.org", true},
		{"gpu.example.org", "https://gpu.example.org", true},
		{"[::1]:443", "https://[::1]", true},
		{"gpu.example.org:8443", "https://gpu.example.org:8443", true},
		{"gpu.example.org:443", "https://gpu.example.org:8443", false},
		{"gpu.example.org:8443", "https://gpu.example.org", false},
		{"gpu.example.org:443", "https://evil.example", false},
		{"gpu.example.org:443", "https://gpu.example.org.evil.example", false},
		{"gpu.example.org:443", "null", false},
	} {
		want := http.StatusForbidden
		if tt.ours {
			want = http.StatusMethodNotAllowed
		}
		if got := servetest.Ask(h, "POST", "/api/gpu/devices", "Host: "+tt.host, "Origin: "+tt.origin); got.Code != want {
			t.Errorf("%s for %s: %d, want %d", tt.origin, tt.host, got.Code, want)
		}
	}
}
