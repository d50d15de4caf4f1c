//go:build !race

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A balancer speaks TLS, and passes each request on to the hub whose turn it is.
type balancer struct {
	*httptest.Server
	hubs []*url.URL
	turn atomic.Int32
}

func balance(t *testing.T, hubs ...*program) *balancer {
	t.Helper()
	b := &balancer{}
	for _, p := range hubs {
		u, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		b.hubs = append(b.hubs, u)
	}
	b.Server = httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(b.hubs[b.turn.Load()])
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}})
	t.Cleanup(b.Close)
	return b
}

// A guest is a browser, or a program with a token, that reaches the hubs through the balancer.
type guest struct {
	t      *testing.T
	b      *balancer
	client *http.Client
	header http.Header
}

func (b *balancer) guest(t *testing.T) *guest {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := *b.Client()
	c.Jar = jar
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &guest{t, b, &c, http.Header{}}
}

// do sends a request to one of the hubs: a form, JSON, or nothing.
func (g *guest) do(hub int, method, path string, body any) (int, string) {
	g.t.Helper()
	g.b.turn.Store(int32(hub)) //nolint:gosec // there are two
	var sent io.Reader
	contentType := ""
	switch body := body.(type) {
	case url.Values:
		sent, contentType = strings.NewReader(body.Encode()), "application/x-www-form-urlencoded"
	case string:
		sent, contentType = strings.NewReader(body), "application/json"
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), testkit.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, g.b.URL+path, sent)
	if err != nil {
		g.t.Fatal(err)
	}
	if r.Header = g.header.Clone(); contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := g.client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// must does what must succeed, and reads an answer in JSON.
func (g *guest) must(hub int, method, path string, body, into any) {
	g.t.Helper()
	status, text := g.do(hub, method, path, body)
	if status >= http.StatusBadRequest {
		g.t.Fatalf("%s %s at hub %d: %d %s", method, path, hub, status, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			g.t.Fatalf("%s %s at hub %d: %v in %s", method, path, hub, err, text)
		}
	}
}

var linkSecret = regexp.MustCompile(`/reset\?link=([A-Za-z0-9_-]+)`)

// Two hubs behind a balancer share the accounts in one PostgreSQL: whoever signs in at one is signed in at the other, and what ends at one ends at
// the other. They count failures together, and write one audit.
func TestTwoHubsShareAccounts(t *testing.T) {
	t.Parallel()
	const first, second = 0, 1
	accounts := "--accounts=" + postgresServer(t).URL("postgres", "postgres")
	hub := func(node string) *program {
		return start(t, nil, "--source=simulate:rtx-4090", fast, "--node="+node, "--sign-in", "--trusted-proxy=127.0.0.1", accounts)
	}
	a, z := hub("one"), hub("other")
	b := balance(t, a, z)
	made := command(t, nil, "user", "add", "ann", "--role=administrator", accounts)
	link := linkSecret.FindStringSubmatch(made.stdout)
	if made.code != exitOK || link == nil {
		t.Fatalf("%+v", made)
	}
	const password = "correct horse battery staple"
	b.guest(t).must(first, "POST", "/reset", url.Values{"link": {link[1]}, "password": {password}}, nil)
	if status, text := b.guest(t).do(second, "POST", "/reset", url.Values{"link": {link[1]}, "password": {password}}); status != http.StatusGone {
		t.Errorf("the link works at the other hub, too: %d %s", status, text)
	}

	// A session.
	ann, root := b.guest(t), b.guest(t)
	for _, g := range []*guest{ann, root} {
		g.must(first, "POST", "/sign-in", url.Values{"name": {"ann"}, "password": {password}}, nil)
	}
	var account contract.Account
	if ann.must(second, "GET", "/api/account", nil, &account); account.Name != "ann" || account.Way != "password" {
		t.Errorf("at the other hub it is %+v", account)
	}
	ann.header.Set("Accept", "text/html")
	if status, text := ann.do(second, "GET", "/", nil); status != http.StatusOK || !strings.Contains(text, "ann") {
		t.Errorf("the page of the other hub: %d %s", status, text)
	}
	ann.header.Del("Accept")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, b.URL+"/ws", &websocket.DialOptions{HTTPClient: ann.client})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	if _, _, err := conn.Read(ctx); err != nil {
		t.Fatal(err)
	}

	// A token.
	var token contract.AddedToken
	root.must(first, "POST", "/api/tokens", `{"title":"of a program","access":"administer"}`, &token)
	robot := b.guest(t)
	robot.header.Set("Authorization", "Bearer "+token.Value)
	for _, hub := range []int{first, second} {
		robot.must(hub, "GET", "/api/gpu/summary", nil, nil)
	}
	root.must(second, "POST", "/api/silences", `{"rule":"hot","duration_seconds":60}`, nil)

	// One audit, of which each hub knows the whole.
	for i, p := range []*program{a, z} {
		r := command(t, []string{tokenVariable + "=" + token.Value}, "audit", "check", "--url="+p.url)
		if r.code != exitOK || !strings.Contains(r.stdout, "was changed") {
			t.Errorf("hub %d: %+v", i, r)
		}
		var audit contract.Audit
		root.must(i, "GET", "/api/audit", nil, &audit)
		for _, want := range []string{"addUser", "resetPassword", "signIn", "addToken", "silenceAlerts"} {
			if !slices.ContainsFunc(audit.Entries, func(e contract.AuditEntry) bool { return e.Action == want && e.Result == "done" }) {
				t.Errorf("at hub %d, %s is not among %d entries", i, want, len(audit.Entries))
			}
		}
	}

	// What ends.
	var list contract.Sessions
	ann.must(first, "GET", "/api/sessions", nil, &list)
	at := slices.IndexFunc(list.Sessions, func(s contract.Session) bool { return s.Current })
	if at < 0 {
		t.Fatalf("%+v", list)
	}
	root.must(first, "DELETE", "/api/sessions/"+list.Sessions[at].ID, nil, nil)
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the socket at the other hub ends with %v", err)
	}
	for _, hub := range []int{first, second} {
		if status, text := ann.do(hub, "GET", "/api/gpu/summary", nil); status != http.StatusUnauthorized {
			t.Errorf("after its session, hub %d answers %d %s", hub, status, text)
		}
	}
	root.must(first, "DELETE", "/api/tokens/"+token.ID, nil, nil)
	testkit.Until(t, "the token ends at the other hub", func() bool {
		status, _ := robot.do(second, "GET", "/api/gpu/summary", nil)
		return status == http.StatusUnauthorized
	})

	// Failures. Each further one doubles the delay, so that a slow machine gets there, too; alone, the other hub would allow five.
	stranger := b.guest(t)
	wrong := url.Values{"name": {"bob"}, "password": {"not the password"}}
	for range 5 {
		if status, text := stranger.do(first, "POST", "/sign-in", wrong); status != http.StatusUnauthorized {
			t.Errorf("a failure is answered with %d %s", status, text)
		}
	}
	limited := false
	for range 4 {
		if status, _ := stranger.do(second, "POST", "/sign-in", wrong); status == http.StatusTooManyRequests {
			limited = true
			break
		}
	}
	if !limited {
		t.Error("the other hub does not count failures at the first")
	}
	if r := command(t, nil, "audit", "check", accounts); r.code != exitOK {
		t.Errorf("%+v", r)
	}
}
