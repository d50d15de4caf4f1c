package serve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Every answer has them, errors and refusals too.
func TestSecurityHeaders(t *testing.T) {
	st, h := servetest.Serving(t)
	st.Show(t, fixture.Workstation())
	for _, path := range []string{"/", "/api/gpu/metrics", "/static/icon.svg", "/nothing", "/gpu/metrics/zero", "/robots.txt"} {
		for _, host := range []string{"localhost", "evil.example"} {
			header := servetest.Get(h, path, "Host: "+host).Header()
			for name, want := range serve.FixedHeaders() {
				if got := header.Values(name); !slices.Equal(got, want) {
					t.Errorf("%s of %s: %s is %q, want %q", path, host, name, got, want)
				}
			}
		}
	}
}

// The policy has no way around it.
func TestContentSecurityPolicy(t *testing.T) {
	_, h := servetest.Serving(t)
	csp := servetest.Get(h, "/").Header().Get("Content-Security-Policy")
	for _, bad := range []string{"unsafe", "*", "http:", "https:", "blob:"} {
		if strings.Contains(csp, bad) {
			t.Errorf("%q is in the policy %q", bad, csp)
		}
	}
	if !strings.HasPrefix(csp, "default-src 'none';") {
		t.Errorf("the policy %q allows what it doesn't name", csp)
	}
}
