package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Every answer has them, errors and refusals too.
func TestSecurityHeaders(t *testing.T) {
	st, h := serving(t)
	st.show(t, fixture.Workstation())
	for _, path := range []string{"/", "/api/gpu/metrics", "/static/icon.svg", "/nothing", "/gpu/metrics/zero", "/robots.txt"} {
		for _, host := range []string{"localhost", "evil.example"} {
			header := get(h, path, "Host: "+host).Header()
			for _, want := range fixedHeaders {
				if got := header.Values(want.name); !slices.Equal(got, want.value) {
					t.Errorf("%s of %s: %s is %q, want %q", path, host, want.name, got, want.value)
				}
			}
		}
	}
}

// The policy has no way around it.
func TestContentSecurityPolicy(t *testing.T) {
	_, h := serving(t)
	csp := get(h, "/").Header().Get("Content-Security-Policy")
	for _, bad := range []string{"unsafe", "*", "http:", "https:", "blob:"} {
		if strings.Contains(csp, bad) {
			t.Errorf("%q is in the policy %q", bad, csp)
		}
	}
	if !strings.HasPrefix(csp, "default-src 'none';") {
		t.Errorf("the policy %q allows what it doesn't name", csp)
	}
}
