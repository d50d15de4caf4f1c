package access

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/views"
)

// A rig is a room with its pages, and two pages of others.
type rig struct {
	*Room
	t       *testing.T
	site    *Site
	handler http.Handler
	ledger  ledger.Ledger
	mu      sync.Mutex
	entries []ledger.Entry // of the audit
	sockets []auth.Principal
	later   time.Duration // how far the clock is ahead
}

// shell has the least that pages are made of.
type shell struct{ kit *serve.Kit }

// Input implements Shell.
func (s shell) Input(_ context.Context, f *insight.Fleet, _ string) views.Input {
	return views.Input{
		Monitor: s.kit.Monitor, Fleet: f, Nodes: f.Nodes(), BasePath: s.kit.Root(), Asset: s.asset, Now: s.kit.Clock.Now(), SignIn: true,
	}
}

// Plain implements Shell.
func (s shell) Plain() views.Site { return views.Site{Base: s.kit.Root(), Asset: s.asset} }

func (s shell) asset(name string) string { return s.kit.Root() + "static/" + name }

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, ledger: l}
	now := func() time.Time { return time.Now().Add(r.later) }
	started := time.Now()
	cfg := Config{
		Host: part.Host{Clock: clock.Of(now, func() time.Duration { return now().Sub(started) }), Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
		// Another program may change the ledger.
		Options: Options{Ledger: ledger.Cached(l, time.Nanosecond)}, Address: serve.Address{Listen: "localhost:8003"},
		Audit: func(_ context.Context, e *ledger.Entry) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.entries = append(r.entries, *e)
			return l.Append(t.Context(), e)
		},
		Revoke: func(is func(auth.Principal) bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sockets = slices.DeleteFunc(r.sockets, is)
		},
		Reopen: func(func(auth.Principal) bool) {},
	}
	for _, c := range change {
		c(&cfg)
	}
	r.Room = New(cfg)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	kit := serve.NewKit(serve.Settings{Hub: serve.Still{Fleet: insight.Of(fixture.Workstation()).Alone()}, Address: cfg.Address, Clock: cfg.Clock, Log: cfg.Log})
	r.site = &Site{Kit: kit, Room: r.Room, Shell: shell{kit}}
	whoami := serve.Page("/alerts", func(w http.ResponseWriter, request *http.Request) error {
		return serve.FreshJSON(w, request, auth.FromRequest(request))
	})
	home := serve.Page("/{$}", whoami.Answer)
	s, err := serve.New(kit, serve.Config{Pages: pages{shell{kit}}, Identifier: r.Room, SignIn: SignInPath}, append(r.site.Routes(), whoami, home)...)
	if err != nil {
		t.Fatal(err)
	}
	r.handler = s.Handler()
	return r
}

// add adds a user.
func (r *rig) add(name, password string, role Role, change ...func(*User)) string {
	r.t.Helper()
	u := &row[User]{Item: ledger.Item{ID: newID(), Name: nameOf(name)}, Value: User{Name: name, Role: role}}
	for _, c := range change {
		c(&u.Value)
	}
	if password != "" {
		hash, err := r.hasher.hash(password)
		if err != nil {
			r.t.Fatal(err)
		}
		u.Value.Password = hash
	}
	r.put(u)
	return u.ID
}

// write writes when sessions were used.
func (r *rig) write() {
	r.t.Helper()
	if err := r.writeUses(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) put(u *row[User]) {
	r.t.Helper()
	change, err := users.put(u)
	if err == nil {
		err = r.Room.ledger.Apply(r.t.Context(), change)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// change changes a user.
func (r *rig) change(id string, change func(*User)) {
	r.t.Helper()
	u, err := users.get(r.t.Context(), r.ledger, id)
	if err != nil || u == nil {
		r.t.Fatal(u, err)
	}
	change(&u.Value)
	r.put(u)
}

// A visitor is a browser.
type visitor struct {
	r       *rig
	address string
	cookies map[string]string
	header  http.Header
}

func (r *rig) visitor() *visitor {
	return &visitor{r: r, address: "127.0.0.1:4711", cookies: map[string]string{}, header: http.Header{"Accept": {"text/html"}}}
}

func (v *visitor) do(method, path string, fields url.Values) *httptest.ResponseRecorder {
	v.r.t.Helper()
	var body io.Reader
	if fields != nil {
		body = strings.NewReader(fields.Encode())
	}
	request := httptest.NewRequest(method, path, body)
	request.Host, request.RemoteAddr, request.Header = "localhost:8003", v.address, v.header.Clone()
	if fields != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.cookies {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.r.handler.ServeHTTP(w, request)
	for _, c := range w.Result().Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != strings.HasPrefix(c.Name, "__") {
			v.r.t.Errorf("%s %s sets %v", method, path, c)
		}
		if v.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return w
}

func (v *visitor) get(path string) *httptest.ResponseRecorder { return v.do("GET", path, nil) }

func (v *visitor) post(path string, pairs ...string) *httptest.ResponseRecorder {
	fields := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		fields.Set(pairs[i], pairs[i+1])
	}
	return v.do("POST", path, fields)
}

// in signs in, and fails the test if it can't.
func (v *visitor) in(name, password string) *visitor {
	v.r.t.Helper()
	if w := v.post("/sign-in", "name", name, "password", password); w.Code != http.StatusSeeOther {
		v.r.t.Fatalf("%s can't sign in: %d %s", name, w.Code, text(w))
	}
	return v
}

// who is how the program knows the visitor.
func (v *visitor) who() (p auth.Principal) {
	v.r.t.Helper()
	w := v.get("/alerts")
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			v.r.t.Fatal(err)
		}
	}
	return p
}

// socket is an open socket of the visitor.
func (v *visitor) socket() auth.Principal {
	v.r.t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/ws", nil)
	request.RemoteAddr = v.address
	for name, value := range v.cookies {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	p, err := v.r.Identify(nil, request)
	if err != nil || p.Key == "" {
		v.r.t.Fatal(p, err)
	}
	v.r.sockets = append(v.r.sockets, p)
	return p
}

func (v *visitor) session() string { return v.cookies[v.r.cookieName("")] }

// cookieName is the name of a cookie of a browser of this machine.
func (r *rig) cookieName(what string) string {
	return cookieName(false, r.base, r.shared.suffix(r.t.Context(), r.Room.ledger)) + what
}

var tags = regexp.MustCompile(`(?s)<head>.*</head>|<[^>]*>`)

// text is what a page says.
func text(w *httptest.ResponseRecorder) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(w.Body.String(), " ")), " ")
}

const (
	good  = "correct horse battery staple"
	other = "another long passphrase of mine"
)

func TestSetup(t *testing.T) {
	r := newRig(t)
	stale, err := r.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	link, err := r.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := r.visitor()
	if w := v.get(stale); w.Code != http.StatusGone || strings.Contains(w.Body.String(), "<form") {
		t.Errorf("an older link is answered with %d %s", w.Code, text(w))
	}
	if w := v.get(link); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `name="password"`) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", w.Code, text(w))
	}
	secret := link[strings.Index(link, "=")+1:]
	for _, bad := range [][2]string{{"", good}, {"a b", good}, {"<b>", good}, {"ann", "short"}, {"ann", "aaaaaaaaaaaaaaaaaaaa"}} {
		if w := v.post("/setup", "link", secret, "name", bad[0], "password", bad[1]); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `id="trouble"`) || strings.Contains(w.Body.String(), bad[1]) {
			t.Errorf("%q: %d %s", bad, w.Code, text(w))
		}
	}
	w := v.post("/setup", "link", secret, "name", "Ann", "password", good)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account?done=setup" {
		t.Fatalf("%d %s", w.Code, text(w))
	}
	if p := v.who(); p.Name != "Ann" || p.Access != auth.Administer || p.Way != auth.Password {
		t.Errorf("the first administrator is %+v", p)
	}
	for _, again := range []string{secret, "", "x"} {
		if w := r.visitor().post("/setup", "link", again, "name", "eve", "password", good); w.Code != http.StatusGone {
			t.Errorf("a used link is answered with %d", w.Code)
		}
	}
	if _, err := r.SetupLink(t.Context()); !errors.Is(err, ErrAdministered) {
		t.Errorf("a second administrator may be made: %v", err)
	}
}

// A link that was printed before there was an administrator is worth nothing after.
func TestSetupLinkAfterAnAdministrator(t *testing.T) {
	r := newRig(t)
	link, err := r.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.add("root", good, Administrator)
	if w := r.visitor().post("/setup", "link", link[strings.Index(link, "=")+1:], "name", "eve", "password", good); w.Code != http.StatusGone {
		t.Errorf("%d %s", w.Code, text(w))
	}
}

func TestReset(t *testing.T) {
	r := newRig(t)
	id := r.add("ann", good, Viewer)
	elsewhere := r.visitor().in("ann", good)
	elsewhere.socket()
	link, err := r.resetLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	secret := link[strings.Index(link, "=")+1:]
	v := r.visitor()
	if w := v.get(link); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `value="ann"`) {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if w := v.post("/setup", "link", secret, "name", "eve", "password", other); w.Code != http.StatusGone {
		t.Errorf("a link to reset makes an administrator: %d", w.Code)
	}
	if w := v.post("/reset", "link", secret, "password", other); w.Code != http.StatusSeeOther || v.who().Name != "ann" {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if w := r.visitor().post("/reset", "link", secret, "password", good); w.Code != http.StatusGone {
		t.Errorf("the link works twice: %d", w.Code)
	}
	if elsewhere.who() != (auth.Principal{}) || len(r.sockets) > 0 {
		t.Error("who had signed in with the old password still is")
	}
	r.visitor().in("ann", other)

	link, err = r.resetLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r.later = linkLife
	if w := r.visitor().post("/reset", "link", link[strings.Index(link, "=")+1:], "password", good); w.Code != http.StatusGone {
		t.Errorf("an old link is answered with %d", w.Code)
	}
	r.later = 0
	r.change(id, func(u *User) { u.Disabled = true })
	if w := r.visitor().post("/reset", "link", link[strings.Index(link, "=")+1:], "password", good); w.Code != http.StatusGone {
		t.Errorf("a disabled user gets in by a link: %d", w.Code)
	}
}

// Who fails can't tell why: neither by words, nor by the status, nor by how long it takes.
func TestNoEnumeration(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	r.add("bob", "", Viewer)
	r.add("eve", good, Viewer, func(u *User) { u.Disabled = true })
	said := map[string]bool{}
	for i, name := range []string{"ann", "bob", "eve", "nobody", "ANN "} {
		v := r.visitor()
		v.address = "127.0.1." + strconv.Itoa(i) + ":1"
		password := "not the password at all"
		if name == "eve" {
			password = good
		}
		before := r.hasher.hashed.Load()
		w := v.post("/sign-in", "name", name, "password", password)
		if n := r.hasher.hashed.Load() - before; n != 1 {
			t.Errorf("%s takes %d hashes", name, n)
		}
		if w.Code != http.StatusUnauthorized || len(v.cookies) > 0 {
			t.Errorf("%s: %d with %v", name, w.Code, v.cookies)
		}
		said[strings.ReplaceAll(w.Body.String(), `value="`+name+`"`, "")] = true
		w = v.post("/sign-in/code", "name", name, "code", "aaaa-bbbb-cccc-dddd")
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s with a code: %d", name, w.Code)
		}
		said[strings.ReplaceAll(w.Body.String(), `value="`+name+`"`, "")] = true
	}
	if len(said) != 2 {
		t.Errorf("there are %d different pages", len(said))
	}
}

func TestFixation(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	r.add("eve", other, Viewer)
	v := r.visitor()
	v.cookies[r.cookieName("")] = "chosen-by-somebody-else"
	if v.in("ann", good); v.session() == "chosen-by-somebody-else" {
		t.Error("the session has the ID that the browser came with")
	}
	first := *v
	first.cookies = map[string]string{r.cookieName(""): v.session()}
	v.socket()
	if v.in("eve", other); v.session() == first.session() || first.who() != (auth.Principal{}) || len(r.sockets) > 0 {
		t.Error("the session from before signing in is still one")
	}
	if p := v.who(); p.Name != "eve" {
		t.Errorf("%+v", p)
	}
}

func TestSignOut(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	v := r.visitor().in("ann", good)
	stolen := *v
	stolen.cookies = map[string]string{r.cookieName(""): v.session()}
	v.socket()
	if w := v.post("/sign-out"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in?why=out" {
		t.Errorf("%d %s", w.Code, w.Header())
	}
	if v.session() != "" || stolen.who() != (auth.Principal{}) || len(r.sockets) > 0 {
		t.Error("the session goes on")
	}
	if w := v.post("/sign-out"); w.Code != http.StatusSeeOther {
		t.Errorf("again: %d", w.Code)
	}
}

// After changeBurst sign-ins an account can sign in once a minute, in whichever way, so that nobody fills the audit. Neither failures nor the sign-ins
// of others count, a session goes on, a recovery code is not used up, and an administrator is not limited.
func TestSignInsArePaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	refusals := 0
	r.cfg.Refused = func(*ledger.Entry) { refusals++ }
	id, root := r.add("ann", good, Viewer), r.add("root", other, Administrator)
	before := r.visitor().in("ann", good)
	begin := func(user string, way auth.Way) error {
		request := httptest.NewRequest(http.MethodPost, "/sign-in", nil)
		request.Host = "localhost:8003"
		return r.beginSession(httptest.NewRecorder(), request, user, way)
	}
	ways := []auth.Way{auth.Password, auth.Passkey}
	for i := range changeBurst - 1 {
		if err := begin(id, ways[i%len(ways)]); err != nil {
			t.Fatalf("sign-in %d: %v", i, err)
		}
	}
	recorded := len(r.entries)
	for _, way := range ways {
		if err := begin(id, way); !errors.Is(err, errOften) {
			t.Errorf("by %s, one more: %v", way, err)
		}
	}
	if len(r.entries) != recorded || refusals != len(ways) {
		t.Errorf("the audit has %d more entries, and counts %d refusals", len(r.entries)-recorded, refusals)
	}
	w := r.visitor().post("/sign-in", "name", "ann", "password", good)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "60" {
		t.Errorf("the right password is answered with %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if before.who().Name != "ann" {
		t.Error("a session that had begun does not go on")
	}
	code := "12345-67890"
	change, err := codes.put(&row[Codes]{Item: ledger.Item{ID: codesOf(id), Owner: id}, Value: Codes{Hashes: []string{codeHash(id, code)}}})
	if err == nil {
		err = r.Room.ledger.Apply(t.Context(), change)
	}
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/sign-in/code", nil)
	if _, err := r.codeSignIn(request, "ann", code); !errors.Is(err, errOften) {
		t.Errorf("by a code: %v", err)
	}
	for range changeBurst + 1 {
		if err := begin(root, auth.Password); err != nil {
			t.Fatal("an administrator:", err)
		}
	}
	r.later += changeEvery
	if _, err := r.codeSignIn(request, "ann", code); err != nil {
		t.Errorf("a minute later, the code is refused: %v", err)
	}
	if err := begin(id, auth.Password); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	if err := begin(id, auth.Password); !errors.Is(err, errOften) {
		t.Errorf("two in a minute: %v", err)
	}
}

func TestBruteForce(t *testing.T) {
	r := newRig(t)
	var refused []ledger.Entry
	r.cfg.Refused = func(e *ledger.Entry) { refused = append(refused, *e) }
	r.add("ann", good, Viewer)
	r.add("bob", other, Viewer)
	owner := r.visitor().in("ann", good)
	stranger := r.visitor()
	stranger.address = "127.0.0.2:1"
	fail := func(v *visitor, name string) int {
		return v.post("/sign-in", "name", name, "password", "wrong wrong wrong").Code
	}
	for i := range freeFailures {
		if code := fail(stranger, "ann"); code != http.StatusUnauthorized {
			t.Errorf("failure %d: %d", i, code)
		}
	}
	before := r.hasher.hashed.Load()
	w := stranger.post("/sign-in", "name", "ann", "password", good)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || r.hasher.hashed.Load() != before {
		t.Errorf("too many failures are answered with %d %q", w.Code, w.Header().Get("Retry-After"))
	}
	if len(refused) != 1 || refused[0].Action != "signIn" || refused[0].Address != "127.0.0.2" || refused[0].Result != "refused" || refused[0].Detail == "" || refused[0].Principal != "" {
		t.Errorf("the audit is told %+v", refused)
	}
	elsewhere := r.visitor()
	elsewhere.address = "127.0.0.3:1"
	if code := fail(elsewhere, "ann"); code != http.StatusTooManyRequests {
		t.Errorf("from another address the name has no delay: %d", code)
	}
	if code := fail(stranger, "bob"); code != http.StatusTooManyRequests {
		t.Errorf("for another name the address has no delay: %d", code)
	}
	elsewhere.in("bob", other)
	again := *owner
	again.cookies = map[string]string{r.cookieName("-device"): owner.cookies[r.cookieName("-device")]}
	again.in("ann", good) // the browser has signed in before
	again.cookies = map[string]string{r.cookieName("-device"): owner.cookies[r.cookieName("-device")]}
	for range freeFailures {
		fail(&again, "ann")
	}
	if code := fail(&again, "ann"); code != http.StatusTooManyRequests {
		t.Errorf("a browser that is known has no delay: %d", code)
	}

	// Delays double, up to the longest.
	r.later = 2 * time.Second
	if code := fail(stranger, "ann"); code != http.StatusUnauthorized {
		t.Errorf("after the delay: %d", code)
	}
	if w := stranger.post("/sign-in", "name", "ann", "password", good); w.Header().Get("Retry-After") != "2" {
		t.Errorf("the next delay is %q", w.Header().Get("Retry-After"))
	}
	for n, want := range map[int]time.Duration{0: 0, 4: 0, 5: time.Second, 6: 2 * time.Second, 14: 512 * time.Second, 15: longestDelay, 1e6: longestDelay} {
		if got := (&Attempts{Failures: n}).delay(); got != want {
			t.Errorf("after %d failures the delay is %v, want %v", n, got, want)
		}
	}
	r.later = forgiven + time.Hour
	stranger.in("ann", good)
}

// An unknown name has the same delays as one that there is.
func TestUnknownNamesHaveDelaysToo(t *testing.T) {
	r := newRig(t)
	v := r.visitor()
	for i := range freeFailures + 1 {
		v.address = "127.0.2." + strconv.Itoa(i) + ":1"
		want := http.StatusUnauthorized
		if i == freeFailures {
			want = http.StatusTooManyRequests
		}
		if w := v.post("/sign-in", "name", "nobody", "password", "wrong"); w.Code != want {
			t.Errorf("failure %d: %d", i, w.Code)
		}
	}
}

// However many strangers fail, the ledger has a limited number of counts.
func TestCountsAreLimited(t *testing.T) {
	r := newRig(t)
	ids := map[string]bool{}
	request := httptest.NewRequest(http.MethodPost, "/sign-in", nil)
	for i := range 200_000 {
		request.RemoteAddr = "[2001:db8:" + strconv.FormatInt(int64(i%65536), 16) + ":" + strconv.FormatInt(int64(i/65536), 16) + "::1]:1"
		list, err := r.budgets(request, "name"+strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range list {
			ids[id] = true
		}
	}
	if len(ids) > 2*places || len(ids) < places {
		t.Errorf("there are %d counts", len(ids))
	}
	request.RemoteAddr = "[2001:db8:1:2::1]:1"
	one, _ := r.budgets(request, "ann")
	request.RemoteAddr = "[2001:db8:1:2:3::4]:1"
	if two, _ := r.budgets(request, "ann"); !slices.Equal(one, two) {
		t.Error("two addresses of one /64 are counted apart")
	}
}

// Only so many wait for their password to be checked.
func TestCrowd(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	r.hasher.turn <- struct{}{}
	var waiting sync.WaitGroup
	for range mostWaiting {
		waiting.Go(func() { r.visitor().post("/sign-in", "name", "ann", "password", good) })
	}
	testkit.Until(t, "all wait", func() bool { return r.hasher.waiting.Load() == mostWaiting })
	if w := r.visitor().post("/sign-in", "name", "ann", "password", good); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more is answered with %d", w.Code)
	}
	<-r.hasher.turn
	waiting.Wait()
}

func TestRecoveryCodes(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	v := r.visitor().in("ann", good)
	w := v.post("/account/codes")
	list := regexp.MustCompile(`<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</code>`).FindAllStringSubmatch(w.Body.String(), -1)
	if w.Code != http.StatusOK || len(list) != recoveryCodes {
		t.Fatalf("%d with %d codes", w.Code, len(list))
	}
	if again := v.get("/account"); strings.Contains(again.Body.String(), list[0][1]) || !strings.Contains(text(again), "10 are left") {
		t.Error("the codes are shown again")
	}
	code := strings.ToUpper(strings.ReplaceAll(list[3][1], "-", " "))
	if w := r.visitor().post("/sign-in/code", "name", "ann", "code", code); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account?done=code" {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if w := r.visitor().post("/sign-in/code", "name", "ann", "code", code); w.Code != http.StatusUnauthorized {
		t.Errorf("the code works twice: %d", w.Code)
	}
	v.post("/account/codes")
	if w := r.visitor().post("/sign-in/code", "name", "ann", "code", list[4][1]); w.Code != http.StatusUnauthorized {
		t.Errorf("a code that was replaced works: %d", w.Code)
	}
}

func TestChangeThePassword(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	v, elsewhere := r.visitor().in("ann", good), r.visitor().in("ann", good)
	elsewhere.socket()
	here := v.socket()
	r.later = young + time.Second
	if w := v.get("/account"); !strings.Contains(w.Body.String(), `name="old"`) {
		t.Errorf("an old session needs no old password: %s", text(w))
	}
	if w := v.post("/account/password", "old", "wrong", "password", other); w.Code != http.StatusForbidden {
		t.Errorf("a wrong old password: %d", w.Code)
	}
	if w := v.post("/account/password", "old", good, "password", "short"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("a short password: %d", w.Code)
	}
	for _, path := range []string{"/account/codes", "/account/passkeys/begin", "/account/passkeys"} {
		if w := v.post(path); w.Code != http.StatusForbidden {
			t.Errorf("%s of an old session: %d", path, w.Code)
		}
	}
	if w := v.post("/account/password", "old", good, "password", other); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if elsewhere.who() != (auth.Principal{}) || v.who().Name != "ann" || !slices.Equal(r.sockets, []auth.Principal{here}) {
		t.Error("the other session goes on, or this one has ended")
	}
	if w := r.visitor().post("/sign-in", "name", "ann", "password", good); w.Code != http.StatusUnauthorized {
		t.Errorf("the old password works: %d", w.Code)
	}
	r.visitor().in("ann", other)
}

func TestEndSessions(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	r.add("eve", other, Administrator)
	a, b, c, eve := r.visitor().in("ann", good), r.visitor().in("ann", good), r.visitor().in("ann", good), r.visitor().in("eve", other)
	b.socket()
	if w := eve.post("/account/sessions/end", "id", hashOf(a.session())); w.Code != http.StatusSeeOther || a.who().Name != "ann" {
		t.Error("somebody else has ended the session")
	}
	if a.post("/account/sessions/end", "id", hashOf(b.session())); b.who() != (auth.Principal{}) || c.who().Name != "ann" || len(r.sockets) > 0 {
		t.Error("not that session has ended, or its socket is open")
	}
	if a.post("/account/sessions/end"); c.who() != (auth.Principal{}) || a.who().Name != "ann" || eve.who().Name != "eve" {
		t.Error("not the others have ended")
	}
}

// What was changed elsewhere ends open sockets, too.
func TestSocketsOfChangedUsers(t *testing.T) {
	r := newRig(t)
	ann, bob, eve, dan := r.add("ann", good, Operator), r.add("bob", good, Viewer), r.add("eve", good, Viewer), r.add("dan", good, Viewer)
	var all []*visitor
	for _, name := range []string{"ann", "bob", "eve", "dan"} {
		v := r.visitor().in(name, good)
		v.socket()
		all = append(all, v)
	}
	look := func(want ...string) {
		t.Helper()
		w := watch{room: r.Room, known: map[string]time.Time{}}
		if err := w.check(t.Context(), r.held()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range r.sockets {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("sockets are open of %v, want %v", got, want)
		}
	}
	look("ann", "bob", "eve", "dan")
	// Another program that shares the ledger changes them.
	direct := func(change ledger.Change) {
		t.Helper()
		if err := r.ledger.Apply(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(id string, change func(*User)) {
		u, err := users.get(t.Context(), r.ledger, id)
		if err != nil {
			t.Fatal(err)
		}
		change(&u.Value)
		made, err := users.put(u)
		if err != nil {
			t.Fatal(err)
		}
		direct(made)
	}
	edit(ann, func(u *User) { u.Role = Viewer })
	look("bob", "eve", "dan")
	if p := all[0].who(); p.Access != auth.Read {
		t.Errorf("after the role was lowered: %+v", p)
	}
	edit(bob, func(u *User) { u.Disabled = true })
	look("eve", "dan")
	direct(users.remove(eve))
	look("dan")
	direct(sessions.remove(hashOf(all[3].session())))
	look()
	for i, v := range all[1:] {
		if p := v.who(); p != (auth.Principal{}) {
			t.Errorf("visitor %d is still %+v", i+1, p)
		}
	}
	_ = dan
}

// A session ends when nobody uses it, and after a month.
func TestSessionLimits(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	v := r.visitor().in("ann", good)
	r.later = idleLimit - time.Hour
	if v.who().Name != "ann" {
		t.Fatal("the session has ended too early")
	}
	r.write()
	r.later = 2*idleLimit - 2*time.Hour
	if v.who().Name != "ann" {
		t.Error("a session that is used has ended")
	}
	r.later = 2*idleLimit + time.Hour
	if v.who() != (auth.Principal{}) {
		t.Error("a session goes on that nobody has used for a week")
	}

	r = newRig(t)
	r.add("ann", good, Viewer)
	v = r.visitor().in("ann", good)
	v.socket()
	for r.later < absoluteLimit {
		if v.who().Name != "ann" {
			t.Fatalf("a session that is used has ended after %v", r.later)
		}
		r.write()
		r.later += idleLimit - time.Hour
	}
	if v.who() != (auth.Principal{}) {
		t.Error("a session goes on after a month")
	}
}

func TestFewSessions(t *testing.T) {
	r := newRig(t)
	id := r.add("ann", good, Viewer)
	var first *visitor
	for range mostSessions + 1 {
		r.later += changeEvery
		request := httptest.NewRequest(http.MethodPost, "/sign-in", nil)
		w := httptest.NewRecorder()
		if err := r.beginSession(w, request, id, auth.Provider); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r.visitor()
			first.cookies[r.cookieName("")] = w.Result().Cookies()[0].Value
		}
	}
	all, err := sessions.list(t.Context(), r.ledger, id)
	if err != nil || len(all) != mostSessions || first.who() != (auth.Principal{}) {
		t.Errorf("%d sessions, %v", len(all), err)
	}
	if known, err := devices.list(t.Context(), r.ledger, id); err != nil || len(known) != mostDevices {
		t.Errorf("%d devices, %v", len(known), err)
	}
}

func TestBackTo(t *testing.T) {
	for to, want := range map[string]string{
		"": "/", "/": "/", "/alerts": "/alerts", "/alerts?tab=told&q=a%26b": "/alerts?tab=told&q=a%26b", "/gpu/GPU-1#alerts": "/gpu/GPU-1", "/node/gpu%2F1/alerts": "/node/gpu%2F1/alerts",
		"/account": "/account", "//evil.example": "/", "///evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "https://evil.example": "/", "//evil.example/%2f..": "/",
		"javascript:alert(1)": "/", "evil.example": "/", "/%2f/evil.example": "/", "/%5cevil.example": "/", "/%09/evil.example": "/", "/\t/evil.example": "/", "/a/../..//evil.example": "/",
		"/..": "/", "/../other": "/", "/%2e%2e/other": "/", "/%252e%252e/other": "/", "/.%2e/other": "/", "/a/./b": "/", "/a\r\nSet-Cookie: x=y": "/", "/%0d%0aSet-Cookie:x": "/",
		"http:/alerts": "/", "?a=b": "/", "/sign-in": "/", "/sign-in?to=/sign-in": "/", "/sign-out": "/", "/ws?page=": "/", "/api/alerts": "/", "/account/codes": "/", "mailto:a@b": "/", "/@evil.example": "/@evil.example",
	} {
		if got := backTo(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// A browser is led to the page to sign in, and back.
func TestTheWayBack(t *testing.T) {
	for _, base := range []string{"", "/gpu"} {
		r := newRig(t, func(c *Config) { c.Address.BasePath = base + "/" })
		r.add("ann", good, Viewer)
		for from, to := range map[string]string{"/": base + "/", "/alerts?tab=told": base + "/alerts?tab=told", "/node/workstation/alerts": base + "/node/workstation/alerts"} {
			v := r.visitor()
			w := v.get(base + from)
			asked := w.Header().Get("Location")
			if w.Code != http.StatusSeeOther || !strings.HasPrefix(asked, base+"/sign-in") || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: %d %q", from, w.Code, asked)
			}
			page := v.get(asked)
			action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(page.Body.String())
			if page.Code != http.StatusOK || action == nil {
				t.Fatalf("%s: %d %s", asked, page.Code, text(page))
			}
			if w := v.post(strings.ReplaceAll(action[1], "&amp;", "&"), "name", "ann", "password", good); w.Header().Get("Location") != to {
				t.Errorf("from %s it leads to %q, want %q", from, w.Header().Get("Location"), to)
			}
		}
		v := r.visitor()
		v.header.Set("Accept", "application/json")
		if w := v.get(base + "/alerts"); w.Code != http.StatusUnauthorized || w.Header().Get("Www-Authenticate") == "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("a program gets %d %v", w.Code, w.Header())
		}
		if w := v.post(base+"/sign-in", "name", "ann", "password", "wrong"); w.Code != http.StatusUnauthorized || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("a program that fails to sign in gets %d %v", w.Code, w.Header())
		}
		v.header.Del("Accept")
		if v.post(base+"/sign-in?to=//evil.example", "name", "ann", "password", good); v.session() == "" {
			t.Error("a program can't sign in")
		}
	}
}

// Pages of other sites can't make a browser do anything here.
func TestNoForgedRequests(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Administrator)
	v := r.visitor().in("ann", good)
	forged := 0
	for _, route := range r.site.Routes() {
		if route.Method == http.MethodGet {
			continue
		}
		forged++
		for _, header := range [][2]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}, {"Origin", "http://localhost:8004"}} {
			v.header.Set(header[0], header[1])
			w := v.post(route.Path, "name", "ann", "password", good)
			v.header.Del(header[0])
			if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
				t.Errorf("%s with %v: %d", route.Path, header, w.Code)
			}
		}
	}
	if forged == 0 || v.who().Name != "ann" {
		t.Errorf("%d routes, and the visitor is %+v", forged, v.who())
	}
}

// Each route says who may use it, and those without an account get none of the own account.
func TestRoutesOfAccounts(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Open = auth.Read })
	v := r.visitor()
	for _, route := range r.site.Routes() {
		public := route.Needs == auth.Anyone
		if !route.Whole || !public && route.Needs != auth.Read || public == strings.HasPrefix(route.Path, "/account") {
			t.Errorf("%s %s needs %v", route.Method, route.Path, route.Needs)
		}
		if public || route.Method == http.MethodGet {
			continue
		}
		if w := v.post(route.Path); w.Code != http.StatusForbidden {
			t.Errorf("%s without an account: %d", route.Path, w.Code)
		}
	}
	if w := v.get("/account"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "account/password") {
		t.Errorf("the account of nobody: %d %s", w.Code, text(w))
	}
}

// A password is not sent over a network without TLS, unless somebody allows it.
func TestPlainPasswords(t *testing.T) {
	far := func(r *rig) *visitor {
		v := r.visitor()
		v.address = "192.0.2.7:1"
		return v
	}
	r := newRig(t)
	r.add("ann", good, Viewer)
	link, err := r.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*httptest.ResponseRecorder{
		far(r).post("/sign-in", "name", "ann", "password", good), far(r).post("/sign-in/code", "name", "ann", "code", "x"),
		far(r).post("/setup", "link", link[strings.Index(link, "=")+1:], "name", "eve", "password", good),
	} {
		if w.Code != http.StatusForbidden || !strings.Contains(text(w), "unencrypted") {
			t.Errorf("%d %s", w.Code, text(w))
		}
	}
	allowed := newRig(t, func(c *Config) { c.PlainSignIn = true })
	allowed.add("ann", good, Viewer)
	far(allowed).in("ann", good)

	proxies, err := serve.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	proxied := newRig(t, func(c *Config) { c.Address.TrustedProxies = proxies })
	proxied.add("ann", good, Viewer)
	v := proxied.visitor()
	v.header.Set("X-Forwarded-For", "192.0.2.7")
	if w := v.post("/sign-in", "name", "ann", "password", good); w.Code != http.StatusForbidden {
		t.Errorf("a proxy without TLS: %d", w.Code)
	}
	v.header.Set("X-Forwarded-Proto", "https")
	if v.in("ann", good); v.cookies["__Host-"+proxied.cookieName("")] == "" {
		t.Errorf("the cookies are %v", v.cookies)
	}
}

// From the ledger and the audit nobody gets a password, a session, a link or a code.
func TestAStolenLedger(t *testing.T) {
	r := newRig(t)
	id := r.add("ann", good, Administrator)
	v := r.visitor().in("ann", good)
	w := v.post("/account/codes")
	secrets := []string{good, other, "typed in the wrong field"}
	for _, m := range regexp.MustCompile(`<code>([a-z2-7-]{19})</code>`).FindAllStringSubmatch(w.Body.String(), -1) {
		secrets = append(secrets, m[1], strings.ReplaceAll(m[1], "-", ""))
	}
	link, err := r.resetLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, link[strings.Index(link, "=")+1:])
	v.post("/account/passkeys/begin")
	for _, value := range v.cookies {
		secrets = append(secrets, value)
	}
	v.post("/account/password", "password", other)
	r.visitor().post("/sign-in", "name", "typed in the wrong field", "password", good)
	if len(secrets) < 2*recoveryCodes+6 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	var all []string
	for _, kind := range []string{users.kind, sessions.kind, passkeys.kind, codes.kind, devices.kind, links.kind, attempts.kind, ceremonies.kind, tokens.kind} {
		items, err := r.ledger.List(t.Context(), kind, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			text, err := json.Marshal(it)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
	}
	for _, e := range r.entries {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	for _, secret := range secrets {
		for _, text := range all {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
	}
	// What the ledger has in their place is no use, either.
	items, err := r.ledger.List(t.Context(), sessions.kind, "")
	if err != nil || len(items) == 0 {
		t.Fatal(items, err)
	}
	thief := r.visitor()
	thief.cookies[r.cookieName("")] = items[0].ID
	if p := thief.who(); p != (auth.Principal{}) {
		t.Errorf("the hash of a session is a session: %+v", p)
	}
}

// items returns the items of a kind.
func (r *rig) items(t *testing.T, kind string) []ledger.Item {
	t.Helper()
	items, err := r.ledger.List(t.Context(), kind, "")
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// Recovery codes can go without anything else of their user.
func TestCodesGoAlone(t *testing.T) {
	r := newRig(t)
	id := r.add("ann", good, Viewer)
	v := r.visitor().in("ann", good)
	if w := v.post("/account/codes"); w.Code != http.StatusOK {
		t.Fatal(w.Code, text(w))
	}
	made := r.items(t, codes.kind)
	if len(made) != 1 || made[0].Owner != id {
		t.Fatalf("%+v", made)
	}
	if err := r.Room.ledger.Apply(t.Context(), codes.remove(made[0].ID)); err != nil {
		t.Fatal(err)
	}
	if p := v.who(); p.Name != "ann" || len(r.items(t, codes.kind)) > 0 || len(r.items(t, devices.kind)) != 1 {
		t.Errorf("with the codes went more: %+v", p)
	}
}

// A token that is not accepted is told to the audit, without the token.
func TestRefusedTokensAreTold(t *testing.T) {
	r := newRig(t)
	var refused []ledger.Entry
	r.cfg.Refused = func(e *ledger.Entry) { refused = append(refused, *e) }
	v := r.visitor()
	value := newTokenValue()
	for _, sent := range []string{value, value[:20], ""} {
		v.header.Set("Authorization", "Bearer "+sent)
		if w := v.get("/alerts"); w.Code != http.StatusUnauthorized {
			t.Errorf("%q: %d", sent, w.Code)
		}
		e := refused[len(refused)-1]
		if e.Action != "identify" || e.Address != "127.0.0.1" || e.Result != "refused" || !strings.Contains(e.Detail, "API token") || strings.Contains(e.Detail, "Bearer") || strings.Contains(e.Detail, value[:20]) {
			t.Errorf("the audit is told %+v", e)
		}
	}
	v.header.Del("Authorization")
	if v.get("/alerts"); len(refused) != 3 {
		t.Errorf("of somebody without a token the audit is told: %+v", refused[3:])
	}
}

// Each success, failure and change is in the audit, and what can't be is not done.
func TestRecords(t *testing.T) {
	var refuse error
	r := newRig(t)
	audit := r.cfg.Audit
	r.cfg.Audit = func(ctx context.Context, e *ledger.Entry) error {
		if refuse != nil {
			return refuse
		}
		return audit(ctx, e)
	}
	r.add("Ann", good, Viewer)
	v := r.visitor()
	v.post("/sign-in", "name", "ann", "password", "wrong")
	v.post("/sign-in", "name", "nobody", "password", "wrong")
	v.in("ann", good)
	v.post("/account/codes")
	v.post("/account/password", "password", other)
	v.post("/sign-out")
	var got []string
	for _, e := range r.entries {
		got = append(got, e.Action+" "+e.Principal+" "+e.Way+" "+e.Result+" "+e.Detail)
		if e.Address != "127.0.0.1" || (e.Identity == "") != (e.Principal == "") {
			t.Errorf("%+v", e)
		}
	}
	want := []string{
		"signIn Ann password refused wrong password", "signIn  password refused no such name", "signIn Ann password done ", "makeRecoveryCodes Ann password done ",
		"changePassword Ann password done ", "signOut Ann password done ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	v.in("ann", other)
	refuse = ledger.ErrGone
	for _, w := range []*httptest.ResponseRecorder{v.post("/account/codes"), v.post("/account/password", "password", good), v.post("/sign-out"), r.visitor().post("/sign-in", "name", "ann", "password", other)} {
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("what can't be recorded is answered with %d", w.Code)
		}
	}
	refuse = nil
	r.visitor().in("ann", other)
}

func TestPasswordsThatPeopleGuess(t *testing.T) {
	for password, good := range map[string]bool{
		"correct horse battery": true, "zwölf Boxkämpfer jagen": true, "15 characters!!": true, "パスワードは長いほど安全です。はい": true,
		"14 characters!": false, "aaaaaaaaaaaaaaaaaaaaaa": false, "123456789012345678": false, "abababababababababab": false, "passwordpassword": false, "annannannannannannann": false,
		"GPUwhyNVIDIApassword": false, "abcdefghijklmnopqrstuvwxyz": false, "with a\nline feed in it": false, "\xff\xfe not valid UTF-8 text": false, strings.Repeat("long ones ", 103): false,
	} {
		if err := checkPassword("Ann", password); (err == nil) != good {
			t.Errorf("%q: %v", password, err)
		}
	}
}

func TestWherePasskeysWork(t *testing.T) {
	r := newRig(t)
	for host, want := range map[string]string{"localhost:8003": "localhost", "gpu.localhost": "gpu.localhost", "127.0.0.1:8003": "", "[::1]:8003": "", "gpu.example.org": "", "": ""} {
		request := httptest.NewRequest(http.MethodGet, "/sign-in", nil)
		request.Host = host
		if got := r.passkeyHost(request); got != want {
			t.Errorf("passkeys of %q are of %q, want %q", host, got, want)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "https://GPU.example.org/sign-in", nil)
	if got := r.passkeyHost(request); got != "gpu.example.org" {
		t.Errorf("passkeys over TLS are of %q", got)
	}
}

// A link that was sent before the password was changed is worth nothing after.
func TestLinksOfAnOldPassword(t *testing.T) {
	r := newRig(t)
	id := r.add("ann", good, Viewer)
	link, err := r.resetLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if w := r.visitor().in("ann", good).post("/account/password", "password", other); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, text(w))
	}
	if w := r.visitor().post("/reset", "link", link[strings.Index(link, "=")+1:], "password", good); w.Code != http.StatusGone {
		t.Errorf("%d %s", w.Code, text(w))
	}
}

// The first administrator can't take the name, and with it the account, of somebody else.
func TestSetupWithANameThatIsTaken(t *testing.T) {
	r := newRig(t)
	r.add("ann", good, Viewer)
	link, err := r.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret := link[strings.Index(link, "=")+1:]
	if w := r.visitor().post("/setup", "link", secret, "name", "ANN", "password", other); w.Code != http.StatusUnprocessableEntity || !strings.Contains(text(w), "taken") {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if w := r.visitor().post("/setup", "link", secret, "name", "root", "password", other); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, text(w))
	}
}

// A stranger who begins to sign in over and over keeps nobody else from it.
func TestBeginnings(t *testing.T) {
	t.Parallel()
	b, stranger, other := newBeginnings(), "192.0.2.9/32", "192.0.2.10/32"
	begun := 0
	for range 10 * beginBurst {
		if b.allow(stranger) {
			begun++
		}
	}
	if begun < ownBurst || begun >= beginBurst {
		t.Errorf("a stranger begins %d times", begun)
	}
	if !b.allow(other) {
		t.Error("another client can't begin")
	}
	for i := range 2 * mostPaced {
		b.allow(strconv.Itoa(i))
	}
	if n := len(b.own.own); n > mostPaced {
		t.Errorf("%d clients are remembered", n)
	}
	for range beginBurst {
		if !b.allow(other) {
			return // all together are limited, too
		}
	}
	t.Error("nothing limits all together")
}

// What is no answer of a passkey is refused, in the audit, and slowed down.
func TestForgedPasskeys(t *testing.T) {
	r := newRig(t)
	v := r.visitor()
	v.header.Set("Accept", "application/json")
	for i := range freeFailures + 1 {
		w := v.post("/sign-in/passkey/begin")
		if i == freeFailures {
			if w.Code != http.StatusTooManyRequests {
				t.Errorf("after %d failures: %d", i, w.Code)
			}
			break
		}
		var options struct {
			Challenge        string
			RPID             string
			UserVerification string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &options); err != nil || len(options.Challenge) < 43 || options.RPID != "localhost" || options.UserVerification != "required" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := v.post("/sign-in/passkey", "not", "a passkey"); w.Code != http.StatusUnauthorized {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := v.post("/sign-in/passkey", "not", "a passkey"); w.Code != http.StatusBadRequest {
			t.Errorf("without a challenge: %d %s", w.Code, w.Body)
		}
	}
	if len(r.entries) != freeFailures {
		t.Errorf("the audit has %d entries", len(r.entries))
	}
}
