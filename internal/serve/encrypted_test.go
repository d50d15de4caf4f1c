package serve_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

// Browsers are told to use TLS alone only for a name that a public authority vouches for, at the usual port, over TLS, and for as long as
// somebody has said. Whoever turns it off has them forget it.
func TestHSTS(t *testing.T) {
	t.Parallel()
	_, rig := servetest.New()
	rig.Listen, rig.AllowHosts = ":443", []string{"gpu.example.org", "gpu.lan"}
	rig.Proven = func(host string) bool { return host == "gpu.example.org" || host == "192.0.2.1" || host == "localhost" }
	rig.HSTS = 24 * time.Hour
	s, err := rig.Server()
	if err != nil {
		t.Fatal(err)
	}
	rig.HSTS = 0
	off, err := rig.Server()
	if err != nil {
		t.Fatal(err)
	}
	rig.Proven = nil // as without TLS
	without, err := rig.Server()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host string
		tls  bool
		want string
	}{
		{"gpu.example.org", true, "max-age=86400"},
		{"GPU.example.org:443", true, "max-age=86400"},
		{"gpu.example.org", false, ""},
		{"gpu.example.org:8003", true, ""}, // of other programs at this name some may have no TLS
		{"gpu.lan", true, ""},
		{"192.0.2.1", true, ""},
		{"[::1]", true, ""},
		{"other.example.org", true, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/robots.txt", http.NoBody)
		if r.Host = tt.host; tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		for s, want := range map[*serve.Server]string{s: tt.want, off: strings.Replace(tt.want, "86400", "0", 1), without: ""} {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if got := w.Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s, TLS %v: %q, want %q", tt.host, tt.tls, got, want)
			}
		}
	}
}

// Whoever comes without TLS is led to the same address with it, at a name of this program, and for now: it may go without TLS again.
func TestRedirectToTLS(t *testing.T) {
	t.Parallel()
	_, rig := servetest.New()
	rig.Listen, rig.AllowHosts = ":443", []string{"gpu.example.org"}
	s, err := rig.Server()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		port, method, host, path string
		status                   int
		to                       string
	}{
		{"443", "GET", "gpu.example.org", "/past?since=1h&q=a%20b", 307, "https://gpu.example.org/past?since=1h&q=a%20b"},
		{"443", "HEAD", "gpu.example.org:80", "/", 307, "https://gpu.example.org/"},
		{"8003", "GET", "gpu.example.org:8080", "/node/a%2Fb/", 307, "https://gpu.example.org:8003/node/a%2Fb/"},
		{"8003", "GET", "[2001:db8::1]", "//evil.example/x", 307, "https://[2001:db8::1]:8003//evil.example/x"},
		{"443", "GET", "evil.example", "/", 421, ""},
		{"443", "POST", "gpu.example.org", "/sign-in", 403, ""},
	} {
		r := httptest.NewRequest(tt.method, "http://x"+tt.path, http.NoBody)
		r.Host = tt.host
		w := httptest.NewRecorder()
		s.Redirect(tt.port).ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Location") != tt.to || w.Header().Get("X-Content-Type-Options") == "" {
			t.Errorf("%s %s%s: %d to %q, want %d to %q", tt.method, tt.host, tt.path, w.Code, w.Header().Get("Location"), tt.status, tt.to)
		}
	}
}

// An unencrypted request of a proxy that nobody trusts is not encrypted, whatever it says.
func TestSecure(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr, r.Header = "10.0.0.1:1", http.Header{"X-Forwarded-Proto": {"https"}}
	proxies, err := serve.ParseProxies([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if (serve.Proxies{}).Secure(r) || !proxies.Secure(r) {
		t.Error("a proxy is believed that is not trusted, or one that is trusted is not")
	}
	for _, decides := range []struct{ proxy, decided bool }{{true, true}, {false, true}, {false, false}} {
		proxies.Here = func(*http.Request) (bool, bool) { return decides.proxy, decides.decided }
		if want := decides.proxy || !decides.decided; proxies.Secure(r) != want || proxies.Trusts(r) != want {
			t.Errorf("the users of proxies say %v, and it is encrypted: %v", decides, proxies.Secure(r))
		}
	}
}
