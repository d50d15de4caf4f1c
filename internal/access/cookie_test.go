package access

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

func TestCookieName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		secure               bool
		basePath, shared, is string
	}{
		{true, "/", "one", "__Host-gpuwhy-one"},
		{true, "", "one", "__Host-gpuwhy-one"},
		{true, "/gpu/", "one", "__Secure-gpuwhy-one"},
		{false, "/", "one", "gpuwhy-one"},
		{false, "/gpu/", "one", "gpuwhy-one"},
		{true, "/", "", "__Host-gpuwhy"},
		{false, "/", "", "gpuwhy"},
	} {
		name := cookieName(tt.secure, tt.basePath, tt.shared)
		if name != tt.is {
			t.Errorf("secure %v, base path %q, shared %q: the name is %s instead of %s", tt.secure, tt.basePath, tt.shared, name, tt.is)
		}
		// What browsers demand of a cookie with such a name (RFC 6265bis, 4.1.3).
		if prefixed, whole := strings.HasPrefix(name, "__"), strings.HasPrefix(name, "__Host-"); prefixed && !tt.secure || whole && strings.Trim(tt.basePath, "/") != "" {
			t.Errorf("no browser takes %s", name)
		}
	}
	if a, b := cookieName(true, "/", "one"), cookieName(true, "/", "two"); a == b {
		t.Errorf("two installations share the cookie %s", a)
	}
}

// Over which connections passwords are taken, cookies are secure and passkeys offered.
func TestPlainConnections(t *testing.T) {
	t.Parallel()
	const lan, proxy, loopback, unixSocket = "192.0.2.9:4711", "10.1.2.3:4711", "127.0.0.1:4711", "@"
	forwarded := func(proto ...string) http.Header {
		return http.Header{"X-Forwarded-For": {"192.0.2.9"}, "X-Forwarded-Proto": proto}
	}
	for _, tt := range []struct {
		name, from, host            string
		tls                         bool
		header                      http.Header
		secure, passwords, passkeys bool
	}{
		{"TLS", lan, "gpu.example.org", true, nil, true, true, true},
		{"TLS to an address", lan, "192.0.2.1:8003", true, nil, true, true, false},
		{"plain over the network", lan, "gpu.example.org", false, nil, false, false, false},
		{"plain, and the client says otherwise", lan, "gpu.example.org", false, forwarded("https"), false, false, false},
		{"this machine", loopback, "localhost:8003", false, nil, false, true, true},
		{"this machine by its address", "[::1]:4711", "[::1]:8003", false, nil, false, true, false},
		{"this machine by a name of its own", loopback, "gpu.localhost:8003", false, nil, false, true, true},
		{"something that passes on connections to this machine", loopback, "gpu.example.org", false, nil, false, false, false},
		{"this machine over a Unix socket", unixSocket, "localhost", false, nil, false, true, true},
		{"a proxy at a Unix socket, to a public name", unixSocket, "gpu.example.org", false, nil, false, false, false},
		{"a proxy at a Unix socket", unixSocket, "localhost", false, forwarded("https"), false, false, true},
		{"a proxy of this machine that is not trusted", loopback, "localhost:8003", false, forwarded("https"), false, false, true},
		{"from the network to a name of the machine itself", lan, "localhost", false, nil, false, false, true},
		{"a trusted proxy with TLS", proxy, "gpu.example.org", false, forwarded("https"), true, true, true},
		{"a trusted proxy without TLS", proxy, "gpu.example.org", false, forwarded("http"), false, false, false},
		{"a trusted proxy that does not say", proxy, "gpu.example.org", false, forwarded(), false, false, false},
		{"two proxies with TLS", proxy, "gpu.example.org", false, forwarded("https, HTTPS"), true, true, true},
		{"two proxies, of which the first has none", proxy, "gpu.example.org", false, forwarded("http, https"), false, false, false},
		{"a client that says so before its proxy does", proxy, "gpu.example.org", false, forwarded("https", "http"), false, false, false},
	} {
		proxies, err := serve.ParseProxies([]string{"10.0.0.0/8"})
		if err != nil {
			t.Fatal(err)
		}
		room := &Room{cfg: Config{Address: serve.Address{TrustedProxies: proxies}}}
		r := httptest.NewRequest(http.MethodGet, "/sign-in", http.NoBody)
		r.RemoteAddr, r.Host = tt.from, tt.host
		if tt.from == unixSocket {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/gpuwhy/page", Net: "unix"}))
		}
		if r.TLS = nil; tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		maps.Copy(r.Header, tt.header)
		if got := room.secure(r); got != tt.secure {
			t.Errorf("%s: encrypted: %v", tt.name, got)
		}
		refused := room.plainSignIn(r)
		if (refused == nil) != tt.passwords {
			t.Errorf("%s: a password is refused with: %v", tt.name, refused)
		}
		if advice, told := errors.AsType[*gpu.Advice](refused); refused != nil && (!told || !strings.Contains(advice.Try, "https")) {
			t.Errorf("%s: it does not say what to do: %v", tt.name, refused)
		}
		if got := room.passkeyHost(r) != ""; got != tt.passkeys {
			t.Errorf("%s: passkeys offered: %v", tt.name, got)
		}
		room.cfg.PlainSignIn = true
		if err := room.plainSignIn(r); err != nil {
			t.Errorf("%s: permitted without encryption, but: %v", tt.name, err)
		}
	}
}
