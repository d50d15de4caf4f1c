package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// An unclosed ledger stays open when one of several programs ends.
type unclosed struct{ ledger.Ledger }

func (unclosed) Close() error { return nil }

const passphrase = "correct horse battery staple"

// membership is a running program with accounts, all with the same passphrase, and its ledger.
func membership(t *testing.T, roles map[string]access.Role) (*running, ledger.Ledger) {
	t.Helper()
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, end, err := Accounts(access.Options{Ledger: unclosed{l}}, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	owner := auth.LocalOwner()
	for name, role := range roles {
		body := fmt.Sprintf(`{"name":%q,"role":%q,"password":%q}`, name, role, passphrase)
		r, err := http.NewRequestWithContext(auth.NewContext(t.Context(), &owner), http.MethodPost, "http://127.0.0.1/api/users", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w := &answered{header: http.Header{}}
		if h.ServeHTTP(w, r); w.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, w.status, &w.body)
		}
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return run(t, Options{Access: &access.Options{Ledger: l}}), l
}

type answered struct {
	header http.Header
	status int
	body   strings.Builder
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) WriteHeader(status int)      { a.status = status }
func (a *answered) Write(b []byte) (int, error) { return a.body.Write(b) }

// A member is somebody with a browser, or a program with a token.
type member struct {
	p      *running
	client *http.Client
	token  string
}

// signIn is a browser in which somebody has signed in.
func (p *running) signIn(name string) *member {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	m := &member{p: p, client: &http.Client{Jar: jar}}
	if status, text := m.send("POST", "sign-in", "application/x-www-form-urlencoded", url.Values{"name": {name}, "password": {passphrase}}.Encode()); status != http.StatusOK {
		p.t.Fatalf("%s can't sign in: %d %s", name, status, text)
	}
	return m
}

func (m *member) send(method, path, contentType, body string) (int, string) {
	m.p.t.Helper()
	r, err := http.NewRequestWithContext(m.p.t.Context(), method, m.p.url+path, strings.NewReader(body))
	if err != nil {
		m.p.t.Fatal(err)
	}
	if r.Header.Set("Content-Type", contentType); m.token != "" {
		r.Header.Set("Authorization", "Bearer "+m.token)
	}
	answer, err := m.client.Do(r)
	if err != nil {
		m.p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		m.p.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// json sends JSON, and reads the answer.
func (m *member) json(method, path, body string, into any) {
	m.p.t.Helper()
	status, text := m.send(method, path, "application/json", body)
	if status >= http.StatusBadRequest {
		m.p.t.Fatalf("%s %s %s: %d %s", method, path, body, status, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			m.p.t.Fatal(err)
		}
	}
}

// socket opens a socket, and waits for its first message.
func (m *member) socket(ctx context.Context) *websocket.Conn {
	m.p.t.Helper()
	o := &websocket.DialOptions{HTTPClient: m.client, HTTPHeader: http.Header{}}
	if m.token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+m.token)
	}
	conn, _, err := websocket.Dial(ctx, m.p.url+"ws", o) //nolint:bodyclose // Dial says that nobody needs to
	if err != nil {
		m.p.t.Fatal(err)
	}
	m.p.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	if _, _, err := conn.Read(ctx); err != nil {
		m.p.t.Fatal(err)
	}
	return conn
}

// closed reads until the socket ends, and returns why it did.
func closed(ctx context.Context, conn *websocket.Conn) error {
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return err
		}
	}
}

// An open socket ends, with the code for it, once whoever has it may no longer do what it could. That of somebody else goes on.
func TestOpenSocketsEnd(t *testing.T) {
	t.Parallel()
	roles := map[string]access.Role{"root": access.Administrator}
	for _, name := range []string{"lowered", "disabled", "removed", "ended", "leaving"} {
		roles[name] = access.Operator
	}
	p, _ := membership(t, roles)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	root := p.signIn("root")
	stays := root.socket(ctx)
	var token contract.AddedToken
	root.json("POST", "api/tokens", `{"title":"of a program","access":"read"}`, &token)
	for _, tt := range []struct {
		who                string
		method, path, body string
		after              int // the status of a request
	}{
		{"lowered", "POST", "api/users/lowered", `{"role":"viewer"}`, http.StatusOK},
		{"disabled", "POST", "api/users/disabled", `{"disabled":true}`, http.StatusUnauthorized},
		{"removed", "DELETE", "api/users/removed", "", http.StatusUnauthorized},
		{"ended", "DELETE", "api/users/ended/sessions", "", http.StatusUnauthorized},
		{"leaving", "POST", "sign-out", "", http.StatusUnauthorized},
		{"", "DELETE", "api/tokens/" + token.ID, "", http.StatusUnauthorized},
	} {
		m, by := &member{p: p, client: &http.Client{}, token: token.Value}, root
		if tt.who != "" {
			m = p.signIn(tt.who)
		}
		if tt.who == "leaving" {
			by = m
		}
		conn := m.socket(ctx)
		by.json(tt.method, tt.path, tt.body, nil)
		if err := closed(ctx, conn); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("%s: the socket ends with %v", tt.path, err)
		}
		if status, text := m.send("GET", "api/gpu/summary", "", ""); status != tt.after {
			t.Errorf("%s: a request gets %d %s", tt.path, status, text)
		}
	}
	if _, _, err := stays.Read(ctx); err != nil {
		t.Errorf("the socket of another: %v", err)
	}
}

// Whoever asks for what they may not, through an address or as an action, is in the audit, and so is a token that is not valid. The token is not.
func TestRefusalsAreRecorded(t *testing.T) {
	t.Parallel()
	p, l := membership(t, map[string]access.Role{"ann": access.Viewer, "ben": access.Viewer, "cid": access.Viewer})
	bad := strings.Repeat("x", 40)
	for _, tt := range []struct{ who, method, path, body, action, by string }{
		{"ann", "GET", "api/users", "", "listUsers", "ann"},
		{"ben", "GET", "audit", "", "GET /audit", "ben"},
		{"cid", "POST", "api/silences", `{"rule":"hot","duration_seconds":60}`, "silenceAlerts", "cid"},
		{"", "GET", "api/users", "", "identify", ""},
	} {
		m, want := &member{p: p, client: &http.Client{}, token: bad}, http.StatusUnauthorized
		if tt.who != "" {
			m, want = p.signIn(tt.who), http.StatusForbidden
		}
		if status, text := m.send(tt.method, tt.path, "application/json", tt.body); status != want {
			t.Fatalf("%s %s: %d %s", tt.method, tt.path, status, text)
		}
		var found []ledger.Entry
		testkit.Until(t, tt.action+" is in the audit", func() bool {
			var err error
			if found, err = l.Entries(t.Context(), ledger.Query{Result: "refused", Action: tt.action}); err != nil {
				t.Fatal(err)
			}
			return len(found) > 0
		})
		if len(found) != 1 || found[0].Principal != tt.by || found[0].Address != "127.0.0.1" || found[0].Detail == "" || slices.ContainsFunc(found, func(e ledger.Entry) bool { return strings.Contains(fmt.Sprint(e), bad) }) {
			t.Errorf("%s: %+v", tt.action, found)
		}
	}
}
