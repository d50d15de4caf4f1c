package access

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/provider"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// newIssuer starts a provider in this process.
func newIssuer(t *testing.T) *mockoidc.MockOIDC {
	t.Helper()
	m, err := mockoidc.NewServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(ln, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Server.Close() })
	return m
}

// vouches makes a provider sign people in.
func vouches(name string, m *mockoidc.MockOIDC, change ...func(*Provider)) func(*Config) {
	p := Provider{
		Config: provider.Config{
			Name: name, Title: strings.ToUpper(name), Issuer: m.Issuer(), ClientID: m.ClientID, Secret: func() (string, error) { return m.ClientSecret, nil },
			Scopes: []string{"profile", "email", "groups"}, GroupsClaim: "groups",
		},
		Roles:  []Grant{{Group: "engineering", Role: Operator, Scope: "node:a"}, {Group: "bosses", Role: Administrator}},
		Create: true,
	}
	for _, c := range change {
		c(&p)
	}
	return func(cfg *Config) { cfg.Providers = append(cfg.Providers, p) }
}

// atProvider follows the browser to the provider, and returns the path with which it comes back.
func (v *visitor) atProvider(path string) string {
	v.r.t.Helper()
	w := v.get(path)
	if w.Code != http.StatusSeeOther {
		v.r.t.Fatalf("%s: %d %s", path, w.Code, text(w))
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer browser.CloseIdleConnections()
	answer, err := browser.Get(w.Header().Get("Location"))
	if err != nil {
		v.r.t.Fatal(err)
	}
	defer answer.Body.Close()
	back, err := answer.Location()
	if err != nil || back.Host != "localhost:8003" || back.Scheme != "http" {
		v.r.t.Fatalf("%s: it comes back to %v, %v", answer.Status, back, err)
	}
	return back.RequestURI()
}

// with signs in with a provider.
func (v *visitor) with(name string) (code int, said string) {
	v.r.t.Helper()
	w := v.get(v.atProvider("/sign-in/with/" + name))
	return w.Code, text(w)
}

// person is somebody at a provider.
func person(subject, name string, groups ...string) *mockoidc.MockUser {
	return &mockoidc.MockUser{Subject: subject, PreferredUsername: name, Groups: groups}
}

func TestSignInWithAProvider(t *testing.T) {
	m := newIssuer(t)
	r := newRig(t, vouches("mock", m))
	v := r.visitor()
	if page := text(v.get("/sign-in?to=/alerts")); !strings.Contains(page, "Sign in with MOCK") || strings.Contains(page, "does not answer") {
		t.Errorf("the page does not offer the provider: %s", page)
	}
	if !r.HasAccounts() {
		t.Error("nobody can sign in")
	}
	back := v.atProvider("/sign-in/with/mock?to=" + url.QueryEscape("/alerts?from=7"))
	items, err := r.ledger.List(t.Context(), begunAttempts.kind, "")
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	query, _ := url.ParseQuery(back[strings.IndexByte(back, '?')+1:])
	secrets := slices.Concat(slices.Collect(maps.Values(v.cookies)), query["state"], query["code"])
	a := derived(query.Get("state"), slices.Collect(maps.Values(v.cookies))[0], "")
	for _, secret := range append(secrets, a.Nonce, a.Verifier) {
		if secret == "" || strings.Contains(string(items[0].Doc)+items[0].ID, secret) {
			t.Errorf("whoever has the ledger has %q", secret)
		}
	}
	w := v.get(back)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/alerts?from=7" {
		t.Fatalf("%d to %s: %s", w.Code, w.Header().Get("Location"), text(w))
	}
	who := v.who()
	if who.Name != "jane.doe" || who.Access != auth.Operate || who.Scope != "node:a" || who.Way != auth.Provider || len(v.cookies) == 0 {
		t.Errorf("%+v", who)
	}
	user, err := users.named(t.Context(), r.ledger, "jane.doe")
	if err != nil || user == nil || user.Value.Provider != "mock" || user.Value.Subject != "1234567890" || user.Value.Password != "" {
		t.Fatalf("%+v, %v", user, err)
	}
	if e := r.entries[len(r.entries)-1]; e.Action != "signIn" || e.Result != "done" || e.Principal != "jane.doe" || e.Way != "provider" || e.Identity != identityOf(user.ID) {
		t.Errorf("%+v", e)
	}
	if code, said := r.visitor().with("mock"); code != http.StatusSeeOther {
		t.Errorf("the same person can't sign in a second time: %d %s", code, said)
	}
	if w := v.post("/sign-out"); w.Header().Get("Location") != "/sign-in?why=out&from=mock" {
		t.Errorf("signing out leads to %s", w.Header().Get("Location"))
	}
	if w := v.get("/sign-in/with/mock/end"); w.Header().Get("Location") != "/sign-in" {
		t.Errorf("a provider that ends no sessions: %s", w.Header().Get("Location"))
	}
	if w := v.get("/sign-in/with/other"); w.Code != http.StatusNotFound {
		t.Errorf("there is no such provider, and it answers %d", w.Code)
	}
}

// Below a base path and behind TLS, a browser comes back to where it was.
func TestWhereAProviderSendsBack(t *testing.T) {
	for _, tt := range []struct {
		base, public, proto, want string
	}{
		{"", "", "", "http://localhost:8003/sign-in/with/mock/callback"},
		{"/gpuwhy/", "", "", "http://localhost:8003/gpuwhy/sign-in/with/mock/callback"},
		{"/gpuwhy/", "", "https", "https://localhost:8003/gpuwhy/sign-in/with/mock/callback"},
		{"/gpuwhy/", "https://gpu.example.org", "", "https://gpu.example.org/gpuwhy/sign-in/with/mock/callback"},
	} {
		m := newIssuer(t)
		r := newRig(t, vouches("mock", m), func(cfg *Config) {
			cfg.PublicURL, cfg.Address.BasePath = tt.public, tt.base
			cfg.Address.TrustedProxies = proxies(t, "127.0.0.1")
		})
		v := r.visitor()
		if tt.proto != "" {
			v.header.Set("X-Forwarded-Proto", tt.proto)
		}
		to, err := url.Parse(v.get(strings.TrimSuffix(tt.base, "/") + "/sign-in/with/mock").Header().Get("Location"))
		if err != nil || to.Query().Get("redirect_uri") != tt.want {
			t.Errorf("%+v: %v, %v", tt, to, err)
		}
	}
}

// An answer is taken once, from the browser that began, within ten minutes, and at the address of its provider.
func TestAttacksOnAnAttempt(t *testing.T) {
	m, evil := newIssuer(t), newIssuer(t)
	r := newRig(t, vouches("mock", m), vouches("evil", evil))
	nobody := func(name string, v *visitor, path string) {
		t.Helper()
		if w := v.get(path); w.Code < 400 || w.Code > 499 || v.who().Name != "" {
			t.Errorf("%s: %d, and it is %q: %s", name, w.Code, v.who().Name, text(w))
		}
	}
	v := r.visitor()
	back := v.atProvider("/sign-in/with/mock")
	cookies := maps.Clone(v.cookies)
	if w := v.get(back); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code, text(w))
	}
	replay := r.visitor()
	replay.cookies = maps.Clone(cookies)
	nobody("the state is used again", replay, back)
	replay.cookies = maps.Clone(cookies)
	fresh := r.visitor().atProvider("/sign-in/with/mock")
	nobody("the cookie is used again, with the state of another browser", replay, fresh)

	v = r.visitor()
	back = v.atProvider("/sign-in/with/mock")
	nobody("no cookie", r.visitor(), back)
	other := r.visitor()
	other.atProvider("/sign-in/with/mock")
	nobody("the cookie of another browser", other, back)
	if w := v.get(back); w.Code != http.StatusSeeOther {
		t.Errorf("strangers have used up a sign-in: %d %s", w.Code, text(w))
	}

	v = r.visitor()
	back = v.atProvider("/sign-in/with/mock")
	nobody("a mix-up of two providers", v, strings.Replace(back, "/with/mock/", "/with/evil/", 1))
	mixed := r.visitor()
	back = mixed.atProvider("/sign-in/with/mock")
	nobody("a mix-up", mixed, strings.Replace(back, "/with/mock/", "/with/evil/", 1))
	if w := mixed.get(back); w.Code != http.StatusSeeOther {
		t.Errorf("the code went to another provider: %d %s", w.Code, text(w))
	}
	back = v.atProvider("/sign-in/with/mock")
	nobody("no state", v, strings.Replace(back, "state=", "estate=", 1))
	nobody("two states", v, back+"&state=x")
	nobody("another state", v, strings.Replace(back, "state=", "state=x", 1))
	nobody("another issuer says so", v, back+"&iss="+url.QueryEscape(evil.Issuer()))

	// The code of one provider at the other: an attacker's provider would learn it, and the honest one refuses it.
	v = r.visitor()
	honest := r.visitor().atProvider("/sign-in/with/mock")
	code, _, _ := strings.Cut(honest[strings.Index(honest, "code="):], "&")
	back = v.atProvider("/sign-in/with/evil")
	own, _, _ := strings.Cut(back[strings.Index(back, "code="):], "&")
	nobody("the code of another provider", v, strings.Replace(back, own, code, 1))

	v = r.visitor()
	back = v.atProvider("/sign-in/with/mock")
	r.later += attemptLife + time.Second
	nobody("after ten minutes", v, back)

	v = r.visitor()
	back = v.atProvider("/sign-in/with/mock")
	state := back[strings.Index(back, "state="):]
	nobody("the provider says no", v, "/sign-in/with/mock/callback?error=%3Cscript%3E&error_description=%3Cscript%3Ealert(1)%3C/script%3E&"+strings.SplitN(state, "&", 2)[0])
	if e := r.entries[len(r.entries)-1]; e.Result != "refused" || e.Action != "signIn" || e.Target != "mock" {
		t.Errorf("%+v", e)
	}

	v = r.visitor()
	back = v.atProvider("/sign-in/with/mock")
	again := *m.SessionStore
	for _, s := range again.Store {
		s.Granted = true // somebody else was faster
	}
	nobody("the code was used", v, back)
}

// Whatever somebody puts into the address, a browser ends at a page of ours.
func TestNoOpenRedirect(t *testing.T) {
	m := newIssuer(t)
	r := newRig(t, vouches("mock", m), func(cfg *Config) { cfg.Address.BasePath = "/gpuwhy/" })
	for _, to := range []string{
		"https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "/%5cevil.example", "/%2f/evil.example", "javascript:alert(1)", "/../evil", "/a/../../evil",
		"http:evil.example", "/\tevil", "@evil.example", "evil.example", "/sign-in/with/mock", "https:///evil.example", "/%09/evil.example", "///evil.example",
	} {
		v := r.visitor()
		w := v.get(v.atProvider("/gpuwhy/sign-in/with/mock?to=" + url.QueryEscape(to)))
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != "/gpuwhy/" {
			t.Errorf("%q leads to %d %q", to, w.Code, got)
		}
	}
}

// Accounts belong to a subject at a provider. A name or an address gives nobody the account of somebody else.
func TestWhoseAccountItIs(t *testing.T) {
	m, other := newIssuer(t), newIssuer(t)
	r := newRig(t, vouches("mock", m), vouches("other", other), vouches("closed", m, func(p *Provider) { p.Create, p.Issuer = false, m.Issuer() }))
	owner := r.add("jane.doe", "correct horse battery staple", Administrator)
	m.QueueUser(person("7", "Jane.Doe", "engineering"))
	if code, said := r.visitor().with("mock"); code != http.StatusForbidden || !strings.Contains(said, "another account here has the name") {
		t.Errorf("the account of a password is taken over: %d %s", code, said)
	}
	if u, err := users.get(t.Context(), r.ledger, owner); err != nil || u.Value.Provider != "" || u.Value.Role != Administrator || u.Value.Password == "" {
		t.Errorf("%+v, %v", u, err)
	}
	if e := r.entries[len(r.entries)-1]; e.Result != "refused" || e.Principal != "Jane.Doe" || e.Way != "provider" {
		t.Errorf("%+v", e)
	}
	m.QueueUser(person("8", "anna", "engineering"))
	other.QueueUser(person("8", "anna", "engineering"))
	if code, said := r.visitor().with("mock"); code != http.StatusSeeOther {
		t.Fatal(code, said)
	}
	if code, said := r.visitor().with("other"); code != http.StatusForbidden || !strings.Contains(said, "has the name") {
		t.Errorf("the subject of another provider is taken for the same person: %d %s", code, said)
	}
	m.QueueUser(person("8", "bertha", "engineering")) // she has another name now
	v := r.visitor()
	if code, said := v.with("mock"); code != http.StatusSeeOther || v.who().Name != "anna" {
		t.Errorf("%d %s: %+v", code, said, v.who())
	}
	m.QueueUser(person("9", "carl", "engineering"))
	if code, said := r.visitor().with("closed"); code != http.StatusForbidden || !strings.Contains(said, "no account") {
		t.Errorf("somebody unknown comes in: %d %s", code, said)
	}
	for _, name := range []string{"local owner", "an\x07na", "a\u202eb", strings.Repeat("a", 300), "<script>alert(1)</script>"} {
		m.QueueUser(person("10", name, "engineering"))
		v := r.visitor()
		if code, said := v.with("mock"); code != http.StatusForbidden || strings.Contains(said, "<script>") || strings.Contains(said, "\x07") {
			t.Errorf("%q gets an account: %d %s", name, code, said)
		}
	}
}

// Whoever a provider vouches for has no other way in: else somebody whom it no longer lets in could use that.
func TestNoWayAroundAProvider(t *testing.T) {
	m := newIssuer(t)
	r := newRig(t, vouches("mock", m))
	v := r.visitor()
	v.with("mock")
	if page := text(v.get("/account")); !strings.Contains(page, "signs in with MOCK") || strings.Contains(page, "Set the password") || strings.Contains(page, "Make recovery codes") {
		t.Errorf("%s", page)
	}
	for _, path := range []string{"/account/password", "/account/passkeys/begin", "/account/passkeys", "/account/codes"} {
		if w := v.post(path, "password", good); w.Code != http.StatusForbidden || !strings.Contains(text(w), "provider") {
			t.Errorf("%s: %d %s", path, w.Code, text(w))
		}
	}
	id := vouchedID(m.Issuer(), "1234567890")
	if _, err := r.resetLink(t.Context(), id); !errors.Is(err, errVouched) {
		t.Errorf("an administrator can give a link: %v", err)
	}
	hash, err := r.hasher.hash(good)
	if err != nil {
		t.Fatal(err)
	}
	r.change(id, func(u *User) { u.Password = hash }) // somehow
	w := r.visitor()
	if answer := w.post("/sign-in", "name", "jane.doe", "password", good); answer.Code != http.StatusUnauthorized || w.who().Name != "" {
		t.Errorf("a password works: %d %s", answer.Code, text(answer))
	}
}

// The role is that of the groups at each sign-in. Whoever has lost all groups is out at once.
func TestRolesFollowGroups(t *testing.T) {
	m := newIssuer(t)
	r := newRig(t, vouches("mock", m))
	sign := func(groups ...string) (*visitor, int, string) {
		m.QueueUser(person("7", "anna", groups...))
		v := r.visitor()
		code, said := v.with("mock")
		return v, code, said
	}
	v, code, said := sign("bosses", "engineering")
	if who := v.who(); code != http.StatusSeeOther || who.Access != auth.Administer || who.Scope != "" {
		t.Fatalf("%d %s: %+v", code, said, who)
	}
	r.sockets = []auth.Principal{v.who()}
	second, _, _ := sign("engineering")
	if who := second.who(); who.Access != auth.Operate || who.Scope != "node:a" {
		t.Errorf("%+v", who)
	}
	if who := v.who(); who.Access != auth.Operate || len(r.sockets) > 0 {
		t.Errorf("an earlier session keeps the role: %+v, %v", who, r.sockets)
	}
	if i := slices.IndexFunc(r.entries, func(e ledger.Entry) bool { return e.Action == "changeRole" }); i < 0 || !strings.Contains(string(r.entries[i].Before), "administrator") ||
		!strings.Contains(string(r.entries[i].After), "node:a") {
		t.Errorf("the change is not recorded: %+v", r.entries)
	}
	out, code, said := sign("design")
	if code != http.StatusForbidden || !strings.Contains(said, "none of your groups") || out.who().Name != "" {
		t.Errorf("%d %s", code, said)
	}
	if v.who().Name != "" || second.who().Name != "" {
		t.Error("earlier sessions go on")
	}
	if e := r.entries[len(r.entries)-1]; e.Result != "refused" || e.Principal != "anna" || !strings.Contains(e.Detail, "groups") {
		t.Errorf("%+v", e)
	}
	if u, err := users.get(t.Context(), r.ledger, vouchedID(m.Issuer(), "7")); err != nil || u.Value.Role != "" {
		t.Errorf("API tokens of the account go on: %+v, %v", u, err)
	}
	if back, code, _ := sign("engineering"); code != http.StatusSeeOther || back.who().Name != "anna" {
		t.Error("she can't come back")
	}
	id := vouchedID(m.Issuer(), "7")
	r.change(id, func(u *User) { u.Disabled = true })
	if out, code, said := sign("engineering"); code != http.StatusForbidden || out.who().Name != "" {
		t.Errorf("a disabled account: %d %s", code, said)
	}
}

// Without roles of groups, an account has the role that somebody here has given it.
func TestRolesOfAccounts(t *testing.T) {
	m := newIssuer(t)
	r := newRig(t, vouches("mock", m, func(p *Provider) { p.Roles, p.Others = nil, Viewer }))
	v := r.visitor()
	if code, said := v.with("mock"); code != http.StatusSeeOther || v.who().Access != auth.Read {
		t.Fatalf("%d %s: %+v", code, said, v.who())
	}
	r.change(vouchedID(m.Issuer(), "1234567890"), func(u *User) { u.Role = Operator })
	if code, said := v.with("mock"); code != http.StatusSeeOther || v.who().Access != auth.Operate {
		t.Errorf("%d %s: %+v", code, said, v.who())
	}
}

// Nobody comes in unrecorded, and nobody while the provider is away; the page says so.
func TestWhenSomethingIsAway(t *testing.T) {
	m := newIssuer(t)
	away := errors.New("away")
	var fails error
	r := newRig(t, vouches("mock", m), func(cfg *Config) {
		record := cfg.Audit
		cfg.Audit = func(ctx context.Context, e *ledger.Entry) error {
			if fails != nil {
				return fails
			}
			return record(ctx, e)
		}
	})
	fails = away
	v := r.visitor()
	if code, said := v.with("mock"); code < 500 || v.who().Name != "" {
		t.Errorf("%d %s", code, said)
	}
	fails = nil
	if err := m.Server.Close(); err != nil {
		t.Fatal(err)
	}
	gone := newRig(t, vouches("mock", m))
	v = gone.visitor()
	if w := v.get("/sign-in/with/mock"); w.Code != http.StatusServiceUnavailable || !strings.Contains(text(w), "MOCK does not answer") {
		t.Errorf("%d %s", w.Code, text(w))
	}
	if page := text(v.get("/sign-in")); !strings.Contains(page, "MOCK does not answer") {
		t.Error("the page does not say which provider does not answer")
	}
}

func TestGrants(t *testing.T) {
	for text, want := range map[string]Grant{
		"gpu-admins=administrator":               {Group: "gpu-admins", Role: Administrator},
		"user:anna@example.org=operator@node:a":  {User: "anna@example.org", Role: Operator, Scope: "node:a"},
		"r12=operator@label:rack=r12":            {Group: "r12", Role: Operator, Scope: "label:rack=r12"},
		"cn=gpu,ou=lab=viewer":                   {Group: "cn=gpu,ou=lab", Role: Viewer},
		"a b=viewer":                             {Group: "a b", Role: Viewer},
		"r12=viewer sees label:rack=r12":         {Group: "r12", Role: Viewer, Sees: "label:rack=r12"},
		"r12=operator@node:a sees node:b,node:a": {Group: "r12", Role: Operator, Scope: "node:a", Sees: "node:a,node:b"},
		"r12=viewer sees":                        {},
		"r12=viewer sees rack12":                 {},
		"x=root":                                 {},
		"=viewer":                                {},
		"user:=viewer":                           {},
		"x":                                      {},
		"x=operator@rack12":                      {},
		"":                                       {},
	} {
		if got, err := ParseGrant(text); got != want || (err == nil) != (want != Grant{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	all := []Grant{
		{Group: "a", Role: Viewer}, {Group: "b", Role: Operator, Scope: "node:b"}, {Group: "c", Role: Operator, Scope: "cluster:c"}, {Group: "d", Role: Operator}, {User: "root", Role: Administrator},
	}
	for _, tt := range []struct {
		user   string
		groups []string
		others Role
		want   string
	}{
		{"x", []string{"a"}, "", "viewer "}, {"x", []string{"b", "a"}, "", "operator node:b"}, {"x", []string{"b", "c"}, "", "operator cluster:c,node:b"},
		{"x", []string{"b", "d"}, "", "operator "}, {"root", nil, "", "administrator "}, {"x", []string{"root", "user:root"}, "", ""}, {"x", nil, Viewer, "viewer "}, {"x", []string{"A"}, "", ""},
	} {
		r, ok := granted(all, tt.others, tt.user, tt.groups)
		if got := string(r.Role) + " " + string(r.Scope); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%+v: %q %t", tt, got, ok)
		}
	}
	// What somebody sees is what any of the groups sees; without a group, everything.
	all = []Grant{{Group: "a", Role: Viewer, Sees: "node:a"}, {Group: "b", Role: Operator, Scope: "node:b", Sees: "node:b"}, {Group: "all", Role: Viewer}}
	for groups, want := range map[string]Rights{
		"a": {Viewer, "", "node:a"}, "b": {Operator, "node:b", "node:b"}, "a b": {Operator, "node:b", "node:a,node:b"}, "a b all": {Operator, "node:b", ""}, "": {Viewer, "", ""},
	} {
		if got, ok := granted(all, Viewer, "x", strings.Fields(groups)); !ok || got != want {
			t.Errorf("%q: %+v, want %+v", groups, got, want)
		}
	}
}
