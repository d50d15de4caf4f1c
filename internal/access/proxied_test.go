package access

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/access/proxy"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

func proxies(t *testing.T, list ...string) serve.Proxies {
	t.Helper()
	all, err := serve.ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A spy is a way that recognizes nobody, and sees what says who somebody is.
type spy struct{ saw []string }

// Recognize implements [Way].
func (s *spy) Recognize(r *http.Request) (auth.Principal, bool, error) {
	for _, header := range proxy.Identities() {
		if r.Header[header] != nil {
			s.saw = append(s.saw, header)
		}
	}
	return auth.Principal{}, false, nil
}

// signsIn makes a proxy sign people in.
func signsIn(header string, change ...func(*ProxySignIn)) func(*Config) {
	p := &ProxySignIn{
		Config: proxy.Config{Header: header}, Others: Viewer,
		Roles: []Grant{{Group: "gpu", Role: Operator, Scope: "node:a"}, {Group: "bosses", Role: Administrator}, {User: "root@example.org", Role: Administrator}},
	}
	if strings.HasPrefix(header, "Cf-") {
		p.Issuer, p.Audience = "https://team.example", "tag"
	}
	for _, c := range change {
		c(p)
	}
	return func(cfg *Config) { cfg.Proxy = p }
}

// Nobody but the proxy can say who somebody is, with any header, on any way here, over HTTP and to the socket; and nothing behind the
// decision gets to see that somebody has tried.
func TestHeadersOfStrangers(t *testing.T) {
	mine := peer.UID(os.Getuid()) //nolint:gosec // it is one of this system
	uses := func(uid peer.UID) func(*http.Request) (bool, bool) { return ProxyUsers([]peer.UID{uid}) }
	for _, header := range append(proxy.Headers(), "") {
		for _, tt := range []struct {
			name   string
			listen string // the network
			here   func(*http.Request) (bool, bool)
			trust  []string
			comes  bool
		}{
			{name: "nobody is named", listen: "tcp"},
			{name: "another address is named", listen: "tcp", trust: []string{"192.0.2.7"}},
			{name: "another user of this machine is named", listen: "tcp", trust: []string{"127.0.0.1"}, here: uses(mine + 1)},
			{name: "an address is named, and a Unix socket has none", listen: "unix", trust: []string{"127.0.0.1", "::1"}},
			{name: "another user is named for a Unix socket", listen: "unix", trust: []string{"127.0.0.1"}, here: uses(mine + 1)},
			{name: "the address is named", listen: "tcp", trust: []string{"127.0.0.1"}, comes: true},
			{name: "the user is named", listen: "tcp", here: uses(mine), comes: true},
			{name: "the user is named for a Unix socket", listen: "unix", here: uses(mine), comes: true},
		} {
			if header == "" && (tt.comes || tt.here != nil) || strings.HasPrefix(header, "Cf-") && tt.comes {
				continue
			}
			watcher := new(spy)
			r := newRig(t, func(cfg *Config) {
				if header != "" {
					signsIn(header)(cfg)
				}
				cfg.Ways, cfg.Address.TrustedProxies = []Way{watcher}, proxies(t, tt.trust...)
				cfg.Address.TrustedProxies.Here = tt.here
			})
			get := listenOn(t, r, tt.listen)
			for _, path := range []string{"/alerts", "/ws"} {
				request := http.Header{"Accept": {"application/json"}, "X-Forwarded-For": {"198.51.100.7"}}
				for _, identity := range proxy.Identities() {
					request.Set(identity, "root@example.org")
				}
				code, said := get(path, request)
				if tt.comes != (code != http.StatusUnauthorized) || tt.comes && path == "/alerts" && !strings.Contains(said, `"root@example.org"`) {
					t.Errorf("%s, and %s from a stranger at %s: %d %s", tt.name, header, path, code, said)
				}
			}
			if len(watcher.saw) > 0 {
				t.Errorf("%s: %s gets through", tt.name, watcher.saw)
			}
		}
	}
}

// A proxy that is named by its user is believed that a browser speaks TLS, and where it is, over loopback and over a Unix socket; others are
// not, whatever address is trusted.
func TestNamedProxiesSpeakForBrowsers(t *testing.T) {
	mine := peer.UID(os.Getuid()) //nolint:gosec // it is one of this system
	for _, network := range []string{"tcp", "unix"} {
		for _, user := range []peer.UID{mine, mine + 1} {
			r := newRig(t, func(cfg *Config) {
				cfg.Address.TrustedProxies = proxies(t, "127.0.0.1")
				cfg.Address.TrustedProxies.Here = ProxyUsers([]peer.UID{user})
			})
			get := listenOn(t, r, network)
			for scheme, secure := range map[string]bool{"https": user == mine, "http": false} {
				_, page := get("/sign-in", http.Header{"Accept": {"text/html"}, "X-Forwarded-Proto": {scheme}, "X-Forwarded-For": {"198.51.100.7"}})
				if !strings.Contains(page, `type="password"`) || strings.Contains(page, "unencrypted") == secure {
					t.Errorf("%s, user %d, and %s says the proxy of %d: a password is refused: %v", network, mine, scheme, user, strings.Contains(page, "unencrypted"))
				}
				request := httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(r.connection(t, network))
				request.RemoteAddr = "127.0.0.1:99"
				request.Header = http.Header{"X-Forwarded-Proto": {scheme}, "X-Forwarded-For": {"198.51.100.7"}}
				if got := r.cookie(request, ""); strings.HasPrefix(got, "__Host-") != secure {
					t.Errorf("%s, user %d, and %s says the proxy of %d: the cookie is %s", network, mine, scheme, user, got)
				}
				if got := r.address(request); (got == "198.51.100.7") != (user == mine) {
					t.Errorf("%s, user %d, and the proxy of %d says where the browser is: %s", network, mine, user, got)
				}
			}
		}
	}
}

// connection is the context of requests over a connection from this process.
func (r *rig) connection(t *testing.T, network string) context.Context {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	browser, err := net.Dial(network, ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { browser.Close() })
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return peer.NewContext(t.Context(), conn)
}

// listenOn serves the rig on a real listener, and returns what asks it.
func listenOn(t *testing.T, r *rig, network string) func(path string, header http.Header) (code int, said string) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: r.handler, ConnContext: peer.NewContext, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
	}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := errors.Join(s.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func(path string, header http.Header) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:8003"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = header
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

// by is a visitor whom a proxy has signed in.
func (r *rig) by(address string, pairs ...string) *visitor {
	v := r.visitor()
	v.address = address
	v.header = http.Header{"Accept": {"application/json"}}
	for i := 0; i < len(pairs); i += 2 {
		v.header.Add(pairs[i], pairs[i+1])
	}
	return v
}

func TestSignedInByAProxy(t *testing.T) {
	r := newRig(t, signsIn("Remote-User"), func(cfg *Config) { cfg.Address.TrustedProxies = proxies(t, "10.0.0.0/8") })
	const at = "10.0.0.5:4711"
	who := r.by(at, "Remote-User", "anna", "Remote-Groups", "staff, gpu", "X-Forwarded-For", "203.0.113.9, 198.51.100.7, 10.0.0.9").who()
	if who.Name != "anna" || who.Access != auth.Operate || who.Scope != "node:a" || who.Way != auth.Proxy || who.ID != "proxy:anna" || who.Address != "198.51.100.7" || who.Audience == "" {
		t.Errorf("%+v", who)
	}
	if who := r.by(at, "Remote-User", "otto").who(); who.Access != auth.Read {
		t.Errorf("%+v", who)
	}
	if who := r.by(at, "Remote-User", "root@example.org", "Remote-Groups", "gpu").who(); who.Access != auth.Administer {
		t.Errorf("%+v", who)
	}
	for name, pairs := range map[string][]string{
		"nobody":       nil,
		"two":          {"Remote-User", "anna", "Remote-User", "root"},
		"empty":        {"Remote-User", ""},
		"a line break": {"Remote-User", "anna\nroot"},
		"too long":     {"Remote-User", strings.Repeat("a", 300)},
		"another one":  {"X-Forwarded-User", "root@example.org"},
	} {
		if w := r.by(at, pairs...).get("/alerts"); w.Code != http.StatusUnauthorized || name != "nobody" && name != "another one" && !strings.Contains(w.Body.String(), "Remote-User") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := r.by(at).get("/sign-in"); w.Code != http.StatusOK {
		t.Errorf("nobody can't sign in: %d", w.Code)
	}
}

// A session and an API token say more than the proxy's silence; with roles alone, others are refused.
func TestProxyAndSessions(t *testing.T) {
	r := newRig(t, signsIn("Remote-User", func(p *ProxySignIn) { p.Others = "" }), func(cfg *Config) {
		cfg.Address.TrustedProxies, cfg.Open, cfg.PlainSignIn = proxies(t, "10.0.0.5"), auth.Read, true
	})
	r.add("root", good, Administrator)
	v := r.visitor()
	v.address = "10.0.0.5:1"
	if who := v.in("root", good).who(); who.Way != auth.Password || who.Access != auth.Administer {
		t.Errorf("%+v", who)
	}
	if w := r.by("10.0.0.5:1", "Remote-User", "otto").get("/alerts"); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "the proxy signed you in") {
		t.Errorf("somebody without a role: %d %s", w.Code, w.Body)
	}
	if e := r.entries[len(r.entries)-1]; e.Result != "refused" || e.Principal != "otto" || e.Way != "proxy" {
		t.Errorf("%+v", e)
	}
	if w := r.by("10.0.0.5:1").get("/alerts"); w.Code != http.StatusUnauthorized {
		t.Errorf("a proxy without a person is let in as anyone: %d", w.Code)
	}
}

// The first request of a person is recorded, and each change of the role, but not each request. What can't be recorded is refused.
func TestMeetings(t *testing.T) {
	var fails error
	r := newRig(t, signsIn("Remote-User"), func(cfg *Config) {
		cfg.Address.TrustedProxies = proxies(t, "10.0.0.5")
		record := cfg.Audit
		cfg.Audit = func(ctx context.Context, e *ledger.Entry) error {
			if fails != nil {
				return fails
			}
			return record(ctx, e)
		}
	})
	come := func(want int, pairs ...string) {
		t.Helper()
		r.by("10.0.0.5:1", pairs...).get("/alerts")
		if len(r.entries) != want {
			t.Fatalf("%d entries, want %d: %+v", len(r.entries), want, r.entries)
		}
	}
	come(1, "Remote-User", "anna")
	come(1, "Remote-User", "anna")
	come(2, "Remote-User", "otto")
	come(3, "Remote-User", "anna", "Remote-Groups", "bosses")
	if e := r.entries[2]; e.Action != "signIn" || e.Way != "proxy" || e.Principal != "anna" || !strings.Contains(string(e.Before), "viewer") || !strings.Contains(string(e.After), "administrator") {
		t.Errorf("%+v", e)
	}
	r.later += metAgain + time.Minute
	come(4, "Remote-User", "anna", "Remote-Groups", "bosses")
	fails = errors.New("away")
	if w := r.by("10.0.0.5:1", "Remote-User", "new").get("/alerts"); w.Code < 500 {
		t.Errorf("somebody comes in unrecorded: %d", w.Code)
	}
}

// Whoever comes with other rights loses the open sockets that have the old ones, and nobody else does.
func TestSocketsOfGuests(t *testing.T) {
	for groups, stays := range map[string]bool{"bosses": true, "bosses gpu": true, "gpu": false, "": false} {
		r := newRig(t, signsIn("Remote-User"), func(cfg *Config) { cfg.Address.TrustedProxies = proxies(t, "10.0.0.5") })
		come := func(name, groups string) {
			r.by("10.0.0.5:1", "Remote-User", name, "Remote-Groups", strings.ReplaceAll(groups, " ", ",")).get("/alerts")
		}
		come("anna", "bosses")
		boss := auth.Principal{Access: auth.Administer, Audience: auth.Everything, ID: "proxy:anna", Way: auth.Proxy}
		other := boss
		other.ID = "proxy:otto"
		r.sockets = []auth.Principal{boss, other}
		come("anna", groups)
		if left := len(r.sockets); left != 1 && !stays || left != 2 && stays || r.sockets[left-1] != other {
			t.Errorf("%q: %+v are left", groups, r.sockets)
		}
	}
}

// A proxy of this machine that nobody has named is not taken for the user it runs as, whichever header gives it away.
func TestProxyThatNobodyHasNamed(t *testing.T) {
	r := newRig(t, func(cfg *Config) {
		cfg.Ways = []Way{NewKernel(KernelConfig{Loopback: true, Clock: cfg.Clock, Log: cfg.Log})}
	})
	get := listenOn(t, r, "unix")
	if code, said := get("/alerts", http.Header{"Accept": {"application/json"}}); code != http.StatusOK || !strings.Contains(said, "administer") {
		t.Errorf("the user who runs the program: %d %s", code, said)
	}
	for _, identity := range proxy.Identities() {
		if code, said := get("/alerts", http.Header{"Accept": {"application/json"}, identity: {"anna"}}); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", identity, code, said)
		}
	}
}

// Where the kernel says who calls, failures count for that user of the machine, and not for all who have the same address.
func TestFailuresOfUsersOfThisMachine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.add("ann", good, Viewer)
	sign := func(ctx context.Context, name string) int {
		t.Helper()
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/sign-in", strings.NewReader(url.Values{"name": {name}, "password": {good}}.Encode()))
		request.Host, request.RemoteAddr = "localhost:8003", "127.0.0.1:4711"
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, request)
		return w.Code
	}
	known := r.connection(t, "tcp")
	for range freeFailures {
		if code := sign(known, "nobody"); code != http.StatusUnauthorized {
			t.Fatalf("a failure is answered with %d", code)
		}
	}
	if code := sign(known, "ann"); code != http.StatusTooManyRequests {
		t.Errorf("the user who failed does not wait: %d", code)
	}
	if code := sign(r.connection(t, "unix"), "ann"); code != http.StatusTooManyRequests {
		t.Errorf("the user who failed does not wait at another connection: %d", code)
	}
	if code := sign(t.Context(), "ann"); code != http.StatusSeeOther {
		t.Errorf("somebody else at the same address waits: %d", code)
	}
}

// miswired is a way that is set up in the wrong way by a user of the machine.
type miswired struct{ spy }

// Warning implements warner.
func (*miswired) Warning() (*gpu.Advice, time.Time) {
	return &gpu.Advice{What: "mallory passes on requests", Try: "name the proxy"}, time.Now()
}

// Only those who administer gpuwhy learn what is set up in the wrong way; others read in health that there is something.
func TestWhoIsWarned(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *Config) { cfg.Ways = append(cfg.Ways, new(miswired)) })
	owner := auth.LocalOwner()
	near := owner
	near.Scope = "node:near"
	for name, tt := range map[string]struct {
		who  auth.Principal
		want int
	}{
		"the owner": {owner, 1}, "an administrator of one machine": {near, 0}, "a viewer": {auth.Principal{Access: auth.Read, Audience: auth.Everything}, 0},
	} {
		if got := r.Notices(&tt.who); len(got) != tt.want {
			t.Errorf("%s reads %v", name, got)
		}
	}
	parts := r.Health()
	if whole := parts["access"].LastError; whole == nil || !strings.Contains(*whole, "mallory") {
		t.Errorf("administrators read %v in health", whole)
	}
	if some := contract.Discreet(parts)["access"].LastError; some == nil || *some == "" || strings.Contains(*some, "mallory") {
		t.Errorf("others read %v in health", some)
	}
}
