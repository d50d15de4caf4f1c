package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// accountScene is the scene whose pages are about signing in and about the account of somebody who has. Nobody can do anything there.
const accountScene = "account"

// auditScenes are the scenes whose page is the audit: one with entries, one of a new installation, and one that somebody changed by hand.
var auditScenes = map[string]audit.Record{
	"audit":         &madeAudit{entries: someEntries},
	"audit-new":     &madeAudit{},
	"audit-changed": &madeAudit{entries: someEntries, broken: &ledger.BrokenError{Number: 1203, Why: "audit entry 1203 was changed, or the hash of the one before it"}},
}

// signedIn has everybody signed in as ann.
type signedIn auth.Access

// Identify implements [serve.Identifier].
func (s signedIn) Identify(_ http.ResponseWriter, r *http.Request) (auth.Principal, error) {
	who := auth.Principal{Name: "ann", Access: auth.Access(s), Audience: auth.Everything, Way: auth.Passkey}
	if strings.HasSuffix(r.URL.Path, ownTokens) {
		who.Access = auth.Operate
	}
	return who, nil
}

// ownTokens is the path of a page of somebody who does not administer gpuwhy.
const ownTokens = "/no-tokens"

// accountSite makes what the pages of a scene are of.
func (g *gallery) accountSite(scene string) *now.Site {
	kit := serve.NewKit(serve.Settings{
		Monitor: contract.Monitor{Node: pastNode, Source: madeUp, Version: g.opt.Version, Interval: g.opt.Interval},
		Hub:     serve.Still{Fleet: insight.Of(pastSnapshot(1, pastNow)).Alone()}, Log: g.log,
		Address: serve.Address{BasePath: g.opt.BasePath + "state/" + scene, Listen: g.opt.Listen},
	})
	return &now.Site{
		Kit: kit, Assets: static.New(), Hues: new(now.Hues), Monitor: func() contract.Monitor { return kit.Monitor }, Recent: recent.New(), Alerts: alert.New(nil),
		Past: &past.Site{Kit: kit}, Forecasts: &forecast.Site{Kit: kit}, Metrics: http.NotFoundHandler(), SignIn: func() bool { return true }, Accounts: true,
	}
}

// newAudit serves the page of a record.
func (g *gallery) newAudit(scene string, record audit.Record) (http.Handler, error) {
	shown := g.accountSite(scene)
	site := &audit.Site{Kit: shown.Kit, Shell: shown, Record: record, Looked: func(context.Context, string) error { return nil }}
	s, err := serve.New(shown.Kit, serve.Config{Pages: shown, Identifier: signedIn(auth.Administer)}, site.Routes()...)
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

// newAccounts serves the pages of the scene.
func (g *gallery) newAccounts() (http.Handler, error) {
	shown := g.accountSite(accountScene)
	kit := shown.Kit
	page := func(path string, render func(r *http.Request) templ.Component) serve.Route {
		return serve.Page(path, func(w http.ResponseWriter, r *http.Request) error { return serve.FreshHTML(w, r, render(r)) })
	}
	wrong := views.Trouble{What: "the name or the password is wrong", Try: "check both; after several failures gpuwhy makes you wait before the next try"}
	signIn := func(code bool, name string, trouble views.Trouble, providers ...views.VouchingLink) func(*http.Request) templ.Component {
		return func(*http.Request) templ.Component {
			return views.SignInPage{Site: shown.Plain(), To: "/alerts", Code: code, Name: name, Passkeys: true, Providers: providers, Trouble: trouble}
		}
	}
	link := func(p views.PasswordPage) func(*http.Request) templ.Component {
		p.Site, p.Least = shown.Plain(), 15
		return func(*http.Request) templ.Component { return p }
	}
	account := func(change func(p *views.AccountPage)) func(r *http.Request) templ.Component {
		return func(r *http.Request) templ.Component {
			p := annsAccount(shown.Input(r.Context(), kit.Latest(r), ""))
			change(&p)
			return p
		}
	}
	administered := func(path string, most string, render func(views.AccountsInput) templ.Component) serve.Route {
		return page(path, func(r *http.Request) templ.Component {
			in := views.AccountsInput{Input: shown.Input(r.Context(), kit.Latest(r), ""), Most: most}
			in.Choices = views.Choices{Path: in.BasePath + path[1:], Asked: url.Values{}}
			return render(in)
		})
	}
	s, err := serve.New(kit, serve.Config{Pages: shown, Identifier: signedIn(auth.Administer)},
		page("/sign-in", signIn(false, "", views.Trouble{}, views.VouchingLink{Link: views.Link{Path: "#", Label: "the lab’s accounts"}},
			views.VouchingLink{Link: views.Link{Path: "#", Label: "Example"}, Down: true})),
		page("/wrong", signIn(false, "ann", wrong)), page("/code", signIn(true, "ann", views.Trouble{})),
		page("/setup", link(views.PasswordPage{Secret: "x", First: true})), page("/reset", link(views.PasswordPage{Secret: "x", Name: "ann"})),
		page("/used", link(views.PasswordPage{Trouble: views.Trouble{What: "this link does not work any more", Try: "links work once, for 15 minutes: ask for another"}})),
		page("/account", account(func(*views.AccountPage) {})),
		page("/old", account(func(p *views.AccountPage) { p.NeedsOld, p.Young, p.Notice = true, false, "The session has ended." })),
		page("/codes", account(func(p *views.AccountPage) {
			p.Codes = []string{"mfrg-gzdf-mztw-q2lk", "nrwg-2ytf-onsx-i4tb", "orsx-g5dj-nzxs-aylo", "pfxw-k3tu-mvzg-kzlo"}
		})),
		page("/without", account(func(p *views.AccountPage) {
			p.SignedIn, p.Name, p.Way, p.Sight.SignedIn = false, "root", "from this machine", false
			p.Notices = []gpu.Advice{{What: "nobody signs in here: everybody who reaches this address may look", Try: "start gpuwhy with --sign-in to change that"}}
		})),
		page("/refused", account(func(p *views.AccountPage) {
			p.Trouble = views.Trouble{What: "password must have at least 15 characters: a few words are easy to remember"}
		})),
		administered("/users", "administer", func(in views.AccountsInput) templ.Component { return views.NewUsersPage(in, &somePeople) }),
		administered("/no-users", "administer", func(in views.AccountsInput) templ.Component { return views.NewUsersPage(in, new(contract.Users)) }),
		administered("/tokens", "administer", func(in views.AccountsInput) templ.Component { return views.NewTokensPage(in, &someTokens) }),
		administered(ownTokens, "operate", func(in views.AccountsInput) templ.Component { return views.NewTokensPage(in, new(contract.Tokens)) }),
		administered("/sessions", "administer", func(in views.AccountsInput) templ.Component { return views.NewSessionsPage(in, &someSessions) }),
		administered("/no-sessions", "administer", func(in views.AccountsInput) templ.Component { return views.NewSessionsPage(in, new(contract.Sessions)) }),
		administered("/token", "administer", func(in views.AccountsInput) templ.Component {
			return views.NewTokenMade(in, &contract.AddedToken{Token: someTokens.Tokens[0], Value: "gpw_3NI5Y4R7YGFSIVKWODWCLNPAOENZG5NLDCH7BYLHTZ73AQ6PW7UINKFVFKI"})
		}),
		administered("/link", "administer", func(in views.AccountsInput) templ.Component {
			return views.NewLinkMade(in, &contract.AddedUser{User: somePeople.Users[1], LinkExpires: new("2026-03-29T09:15:00Z")}, "https://gpu.example.org/reset?link=cPq09DtfHVH0AALl5Lgont2epoC8MySiLSlIUXlSlQ")
		}),
	)
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

// annsAccount is an account with a bit of everything.
func annsAccount(in views.Input) views.AccountPage {
	day := 24 * time.Hour
	return views.AccountPage{
		Input: in, Name: "ann", Role: "administrator", Way: "with a passkey", SignedIn: true, Password: true, Young: true, Least: 15, Offered: true, CodesLeft: 9,
		Passkeys: []views.AccountPasskey{
			{ID: "1", Title: "Laptop", Host: "gpu.example.org", Made: pastNow.Add(-90 * day), Used: pastNow.Add(-2 * time.Minute)},
			{ID: "2", Title: `<b>A security key</b> with quite a long name that somebody has given to it, to see what happens`, Host: "gpu.example.org", Made: pastNow.Add(-day)},
		},
		Sessions: []views.AccountSession{
			{ID: "1", Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:152.0) Gecko/20100101 Firefox/152.0", Address: "192.0.2.7", Way: "with a passkey", Began: pastNow.Add(-2 * time.Minute), Seen: pastNow, Here: true},
			{ID: "2", Agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1", Address: "2001:db8::7", Way: "with a password", Began: pastNow.Add(-6 * day), Seen: pastNow.Add(-day)},
			{ID: "3", Way: "with another account", Began: pastNow.Add(-20 * day), Seen: pastNow.Add(-3 * day)},
		},
	}
}

// Accounts, tokens and sessions of all kinds.
var (
	somePeople = contract.Users{Users: []contract.User{
		{Name: "ann", Role: "administrator", Ways: []string{"password", "passkey"}, Sessions: 3, Tokens: 1, Created: "2026-01-10T08:00:00Z", LastSeen: new("2026-03-29T08:58:00Z")},
		{Name: "bob@example.org", Role: "operator", Scope: "cluster:lab,label:rack=r12", Unix: "bob", Ways: []string{}, Created: "2026-03-28T08:00:00Z"},
		{Name: "carol", Role: "viewer", Disabled: true, Unix: "carol", Ways: []string{"provider"}, Created: "2025-11-02T08:00:00Z", LastSeen: new("2026-01-02T10:00:00Z")},
	}}
	someTokens = contract.Tokens{Tokens: []contract.Token{
		{ID: "13af7eab05db3f58", Title: "Prometheus", Access: "metrics", By: "root", Made: "2026-03-01T08:00:00Z", Expires: new("2026-05-30T08:00:00Z"), LastUsed: new("2026-03-29T08:59:00Z")},
		{ID: "c831d02278b8ded1", Title: "The wiki’s picture", Access: "read", Path: "/picture.svg?gpu=0&theme=dark", User: "ann", By: "ann", Made: "2026-02-01T08:00:00Z", Expires: new("2026-05-02T08:00:00Z")},
		{ID: "90f1d02278b8de77", Title: "<b>A script</b> with quite a long title that somebody has given to it, to see what happens", Access: "operate", Scope: "label:rack=r12", User: "bob@example.org", By: "bob@example.org", Made: "2026-01-01T08:00:00Z"},
	}}
	someSessions = contract.Sessions{Sessions: []contract.Session{
		{ID: "b94d27b9934d3e08", User: "ann", Way: "passkey", Began: "2026-03-29T08:00:00Z", Seen: "2026-03-29T08:59:00Z", Address: "192.0.2.7", Agent: "Mozilla/5.0 (X11; Linux x86_64; rv:152.0) Gecko/20100101 Firefox/152.0", Current: true},
		{ID: "c94d27b9934d3e08", User: "ann", Way: "password", Began: "2026-03-27T08:00:00Z", Seen: "2026-03-28T08:59:00Z", Address: "2001:db8::7", Agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1"},
		{ID: "d94d27b9934d3e08", User: "carol", Way: "provider", Began: "2026-03-20T08:00:00Z", Seen: "2026-03-21T08:59:00Z"},
	}}
)

// A madeAudit is the record of the gallery.
type madeAudit struct {
	entries []ledger.Entry // newest first
	broken  *ledger.BrokenError
}

// Entries implements [audit.Record].
func (m *madeAudit) Entries(_ context.Context, q ledger.Query) (out []ledger.Entry, err error) {
	for _, e := range m.entries {
		if (q.Principal == "" || q.Principal == e.Principal) && (q.Result == "" || q.Result == e.Result) {
			out = append(out, e)
		}
	}
	return out, nil
}

// Verify implements [audit.Record].
func (m *madeAudit) Verify(context.Context) (ledger.Chain, error) {
	if len(m.entries) == 0 {
		return ledger.Chain{}, nil
	}
	chain := ledger.Chain{First: 1200, Last: m.entries[0].Number, Anchor: 1199, Head: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
	if m.broken != nil {
		chain.Last = m.broken.Number - 1
		return chain, m.broken
	}
	return chain, nil
}

// someEntries are what people, programs and gpuwhy itself did.
var someEntries = []ledger.Entry{
	{Number: 1210, Time: pastNow.Add(-2 * time.Minute), Action: "removeToken", Principal: "ann", Identity: "user:7f3a", Way: "passkey", Address: "192.0.2.7", Target: "token c831d02278b8ded1", Result: "begun"},
	{
		Number: 1209, Time: pastNow.Add(-8 * time.Minute), Action: "silenceAlert", Principal: "bob@example.org", Identity: "user:91bc", Way: "provider", Address: "2001:db8::7", Node: "gpu-7",
		Target: "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535", Result: "refused", Detail: "you may do this on label rack=r12 only", Of: 1208,
	},
	{
		Number: 1208, Time: pastNow.Add(-8 * time.Minute), Action: "silenceAlert", Principal: "bob@example.org", Identity: "user:91bc", Way: "provider", Address: "2001:db8::7", Node: "gpu-7",
		Target: "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535", Result: "begun", Args: json.RawMessage(`{"comment":"<b>training</b>","duration_seconds":28800}`),
	},
	{
		Number: 1207, Time: pastNow.Add(-time.Hour), Action: "changeUser", Principal: "ann", Identity: "user:7f3a", Way: "passkey", Address: "192.0.2.7", Target: "carol", Result: "done",
		Before: json.RawMessage(`{"name":"carol","role":"operator","disabled":false}`), After: json.RawMessage(`{"name":"carol","role":"viewer","disabled":true}`), Of: 1206,
	},
	{
		Number: 1206, Time: pastNow.Add(-time.Hour), Action: "changeUser", Principal: "ann", Identity: "user:7f3a", Way: "passkey", Address: "192.0.2.7", Target: "carol", Result: "begun",
		Args: json.RawMessage(`{"role":"viewer","disabled":true}`),
	},
	{Number: 1205, Time: pastNow.Add(-2 * time.Hour), Action: "signIn", Way: "password", Address: "198.51.100.23", Result: "failed", Detail: "the name or the password is wrong"},
	{Number: 1204, Time: pastNow.Add(-3 * time.Hour), Action: "testTarget", Principal: "root", Identity: "uid:0", Way: "local", Target: "pager", Result: "failed", Detail: "it answered 503"},
	{Number: 1203, Time: pastNow.Add(-26 * time.Hour), Action: "acknowledgeAlert", Principal: "ann", Identity: "user:7f3a", Way: "hub", Address: "hub-1", Asked: "hub-1", Target: "gpu_lost-GPU-0", Node: "gpu-7", Result: "done"},
	{Number: 1202, Time: pastNow.Add(-50 * time.Hour), Action: "changeSettings", Principal: "gpuwhy", Result: "done", Before: json.RawMessage(`{"interval":"2s"}`), After: json.RawMessage(`{"interval":"1s"}`)},
}
