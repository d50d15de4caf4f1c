package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// An office is a room whose actions tests ask for, with the time that it has.
type office struct {
	*Room
	t       *testing.T
	desk    *action.Desk
	now     time.Time
	log     bytes.Buffer
	records []*action.Record
	notes   []action.Outcome
	ended   []func(auth.Principal) bool // whose sockets were to end

	reopened []func(auth.Principal) bool // and who may open them again
}

// Begin implements [action.Audit].
func (o *office) Begin(_ context.Context, r *action.Record) (func(action.Outcome), error) {
	o.records = append(o.records, r)
	return func(out action.Outcome) { o.notes = append(o.notes, out) }, nil
}

// Denied implements [action.Audit].
func (*office) Denied(context.Context, *action.Record, error) {}

func newOffice(t *testing.T, change ...func(*Config)) *office {
	t.Helper()
	l, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, now: time.Now().UTC()}
	begun := time.Now()
	cfg := Config{
		Host:    part.Host{Clock: clock.Of(func() time.Time { return o.now }, func() time.Duration { return time.Since(begun) + o.now.Sub(begun) }), Log: slog.New(slog.NewTextHandler(&o.log, nil))},
		Options: Options{Ledger: l}, Address: serve.Address{BasePath: "/gpus/"}, Audit: func(context.Context, *ledger.Entry) error { return nil },
		Revoke: func(is func(auth.Principal) bool) { o.ended = append(o.ended, is) },
		Reopen: func(is func(auth.Principal) bool) { o.reopened = append(o.reopened, is) },
	}
	for _, c := range change {
		c(&cfg)
	}
	o.Room = New(cfg)
	o.desk = action.NewDesk(o, (&AdminSite{Room: o.Room}).Actions()...)
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// do runs an action.
func (o *office) do(who auth.Principal, id, target string, args any) (any, error) {
	return o.desk.Run(o.t.Context(), action.Call{Action: id, Principal: who, Target: target, Args: args})
}

// must is do for what has to succeed.
func must[A any](o *office, who auth.Principal, id, target string, args any) (got A) {
	o.t.Helper()
	answer, err := o.do(who, id, target, args)
	if err != nil {
		o.t.Fatalf("%s: %v", id, err)
	}
	got, _ = answer.(A)
	return got
}

const goodPassword = "seven wet otters in a tub"

// member adds an account and returns who it is.
func (o *office) member(name string, role Role, scope auth.Scope) auth.Principal {
	o.t.Helper()
	must[contract.AddedUser](o, auth.LocalOwner(), "addUser", "", contract.UserRequest{Name: name, Role: string(role), Scope: string(scope), Password: goodPassword})
	u, err := users.named(o.t.Context(), o.ledger, nameOf(name))
	if err != nil || u == nil {
		o.t.Fatalf("%s: %v", name, err)
	}
	return u.Value.principal(u.ID, auth.Password, "192.0.2.1", "session of "+name)
}

// asks returns who makes a request, and the status that refuses it; 0: it is accepted.
func (o *office) asks(target string, headers ...string) (auth.Principal, int) {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	who, err := o.Identify(httptest.NewRecorder(), r)
	if err != nil {
		status, advice := serve.AsRefusal(err)
		if advice.Try == "" {
			o.t.Errorf("%s does not say what to do", advice.What)
		}
		return who, status
	}
	return who, 0
}

func TestTokenValues(t *testing.T) {
	t.Parallel()
	value := newTokenValue()
	if len(value) != tokenLength || !strings.HasPrefix(value, "gpw_") || !whole(value) || value == newTokenValue() {
		t.Errorf("a token is %q", value)
	}
	for _, wrong := range []string{"", "gpw_", value[:len(value)-1], value + "A", strings.ToLower(value), "x" + value[1:], value[:20] + string(value[20]^1) + value[21:]} {
		if whole(wrong) {
			t.Errorf("%q is taken for a token", wrong)
		}
	}
}

// A request with a token is the token's, whatever else recognizes it, or it is refused.
func TestTokensRecognize(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann := o.member("ann", Operator, "node:a,node:b")
	add := func(who auth.Principal, ask contract.TokenRequest) contract.AddedToken {
		return must[contract.AddedToken](o, who, "addToken", "", ask)
	}
	free := add(auth.LocalOwner(), contract.TokenRequest{Title: "free", Access: "administer", Scope: "node:x", Never: true})
	mine := add(ann, contract.TokenRequest{Title: "mine", Access: "operate", Scope: "node:a"})
	all := add(ann, contract.TokenRequest{Title: "all", Access: "operate"})
	short := add(auth.LocalOwner(), contract.TokenRequest{Title: "short", Access: "metrics", Days: 1})
	picture := add(auth.LocalOwner(), contract.TokenRequest{Title: "wiki", Path: "/picture.svg?theme=dark&gpu=0"})
	gone := add(auth.LocalOwner(), contract.TokenRequest{Title: "gone"})
	must[any](o, auth.LocalOwner(), "removeToken", gone.ID, nil)
	bearer := func(value string) []string { return []string{"Authorization", "Bearer " + value} }

	for _, tt := range []struct {
		name, target string
		headers      []string
		status       int
		want         auth.Principal
	}{
		{"nothing", "/api/alerts", nil, 0, auth.Principal{}},
		{"another scheme", "/api/alerts", []string{"Authorization", "Basic YTpi"}, 0, auth.Principal{}},
		{"of nobody", "/api/alerts", bearer(free.Value), 0, auth.Principal{Name: "free", Access: auth.Administer, Scope: "node:x", ID: "token:" + free.ID, Key: free.ID, Way: auth.Token}},
		{"in other letters", "/api/alerts", []string{"Authorization", "bearer " + mine.Value}, 0, auth.Principal{Name: "mine", Access: auth.Operate, Scope: "node:a", ID: "token:" + mine.ID, Key: mine.ID, Way: auth.Token}},
		{"after a tab", "/", []string{"Authorization", "Bearer\t" + gone.Value}, 401, auth.Principal{}},
		{"as much as its owner", "/", bearer(all.Value), 0, auth.Principal{Name: "all", Access: auth.Operate, Scope: "node:a,node:b", ID: "token:" + all.ID, Key: all.ID, Way: auth.Token}},
		{"removed", "/", bearer(gone.Value), 401, auth.Principal{}},
		{"never made", "/", bearer(newTokenValue()), 401, auth.Principal{}},
		{"cut", "/", bearer(free.Value[:40]), 401, auth.Principal{}},
		{"empty", "/", bearer(""), 401, auth.Principal{}},
		{"of something else", "/", bearer("eyJhbGciOiJub25lIn0.e30."), 401, auth.Principal{}},
		{"twice", "/", append(bearer(free.Value), bearer(mine.Value)...), 401, auth.Principal{}},
		{"with a password", "/", append(bearer(free.Value), "Authorization", "Basic YTpi"), 401, auth.Principal{}},
		{"in the address of a page", "/alerts?token=" + free.Value, nil, 0, auth.Principal{}},
		{"in the address of a picture", "/gpus/picture.svg?theme=dark&gpu=0&token=" + free.Value, nil, 401, auth.Principal{}},
		{"a picture's", "/gpus/picture.svg?gpu=0&theme=dark&token=" + picture.Value, nil, 0, auth.Principal{Name: "wiki", Access: auth.Read, ID: "token:" + picture.ID, Key: picture.ID, Way: auth.Picture}},
		{"a picture's at another", "/gpus/picture.svg?gpu=1&theme=dark&token=" + picture.Value, nil, 401, auth.Principal{}},
		{"a picture's at a card", "/gpus/embed/gpu/0?token=" + picture.Value, nil, 401, auth.Principal{}},
		{"a picture's of a node", "/gpus/node/x/picture.svg?gpu=0&theme=dark&token=" + picture.Value, nil, 401, auth.Principal{}},
		{"a picture's elsewhere", "/gpus/api/alerts?gpu=0&theme=dark&token=" + picture.Value, nil, 0, auth.Principal{}},
		{"a picture's as a header", "/gpus/picture.svg?gpu=0&theme=dark", bearer(picture.Value), 401, auth.Principal{}},
		{"a picture's at the socket", "/gpus/ws?gpu=0&theme=dark&token=" + picture.Value, nil, 0, auth.Principal{}},
	} {
		who, status := o.asks(tt.target, tt.headers...)
		if tt.want.Name != "" {
			tt.want.Audience, tt.want.Address = who.Audience, "192.0.2.1"
		}
		if status != tt.status || who != tt.want {
			t.Errorf("%s: status %d, %+v, want %d, %+v", tt.name, status, who, tt.status, tt.want)
		}
	}

	if who, status := o.asks("/", bearer(short.Value)...); status != 0 || who.Access != auth.Metrics {
		t.Errorf("a token that has not ended: %d, %+v", status, who)
	}
	o.now = o.now.Add(24 * time.Hour)
	if _, status := o.asks("/", bearer(short.Value)...); status != 401 {
		t.Errorf("a token that has ended: %d", status)
	}

	// What an account may not do any more, its tokens may not do either.
	change := func(c contract.UserChange) {
		must[contract.User](o, auth.LocalOwner(), "changeUser", "ann", c)
	}
	change(contract.UserChange{Role: new("viewer")})
	if who, _ := o.asks("/", bearer(mine.Value)...); who.Access != auth.Read {
		t.Errorf("after the role was lowered: %+v", who)
	}
	change(contract.UserChange{Scope: new("node:b")})
	if who, status := o.asks("/", bearer(mine.Value)...); status != 401 {
		t.Errorf("on a machine that its owner has lost: %d, %+v", status, who)
	}
	if who, _ := o.asks("/", bearer(all.Value)...); who.Scope != "node:b" {
		t.Errorf("after the scope was narrowed: %+v", who)
	}
	change(contract.UserChange{Disabled: new(true)})
	if who, status := o.asks("/", bearer(all.Value)...); status != 401 {
		t.Errorf("of a disabled account: %d, %+v", status, who)
	}
	must[any](o, auth.LocalOwner(), "removeUser", "ann", nil)
	if list, err := o.Tokens(t.Context(), new(auth.LocalOwner())); err != nil || len(list.Tokens) != 2 {
		t.Errorf("after the account was removed, tokens are %+v, %v", list, err)
	}
}

// The last use of a token is written, at most once a minute.
func TestTokenUse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	made := must[contract.AddedToken](o, auth.LocalOwner(), "addToken", "", contract.TokenRequest{Title: "t"})
	use := func() string {
		o.asks("/", "Authorization", "Bearer "+made.Value)
		o.tokens.writeUses(t.Context())
		list, err := o.Tokens(t.Context(), new(auth.LocalOwner()))
		if err != nil || list.Tokens[0].LastUsed == nil {
			t.Fatalf("%+v, %v", list, err)
		}
		return *list.Tokens[0].LastUsed
	}
	o.now = o.now.Truncate(time.Minute)
	first := use()
	if o.now = o.now.Add(50 * time.Second); use() != first {
		t.Error("the second use within a minute is written too")
	}
	if o.now = o.now.Add(2 * time.Minute); use() == first {
		t.Error("the use after two minutes is not written")
	}
}

// Nobody gives a token more than they have.
func TestNobodyGivesMore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann, bob := o.member("ann", Operator, "label:rack=r12"), o.member("bob", Viewer, "")
	cleo, dora := o.member("cleo", Administrator, ""), o.member("dora", Administrator, "node:a")
	anyone := auth.Principal{Name: "anyone", Access: auth.Operate, Audience: auth.Everything, Way: auth.Open}
	program := auth.Principal{Name: "t", Access: auth.Operate, Way: auth.Token, ID: "token:x", Key: "x"}
	titles := 0
	for _, tt := range []struct {
		who    auth.Principal
		access string
		scope  string
		want   *action.Refusal // nil: it is made
	}{
		{ann, "metrics", "", nil}, {ann, "read", "", nil}, {ann, "operate", "label:rack=r12", nil},
		{ann, "administer", "", tooMuch}, {ann, "read", "node:a", tooMuch}, {ann, "operate", "label:rack=r12,node:a", tooMuch},
		{bob, "read", "node:a", nil}, {bob, "operate", "", tooMuch},
		{cleo, "administer", "", nil}, {cleo, "administer", "node:a", nil},
		{dora, "administer", "", nil}, {dora, "administer", "node:b", tooMuch},
		{auth.LocalOwner(), "administer", "", nil},
		{anyone, "read", "", action.Denied}, {auth.Principal{}, "metrics", "", action.Denied}, {program, "read", "", action.Denied},
		{bob, "all", "", action.Invalid("", "")}, {bob, "read", "everything", action.Invalid("", "")},
	} {
		titles++
		got, err := o.do(tt.who, "addToken", "", contract.TokenRequest{Title: fmt.Sprint("t", titles), Access: tt.access, Scope: tt.scope})
		if tt.want == nil != (err == nil) || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s asks for %s on %q: %v, want %v", tt.who.Name, tt.access, tt.scope, err, tt.want)
		}
		if made, ok := got.(contract.AddedToken); ok && err == nil && made.Scope != "" && !auth.Scope(made.Scope).Within(tt.who.Scope) {
			t.Errorf("%s of %q gets a token of %q", tt.who.Name, tt.who.Scope, made.Scope)
		}
	}
	for _, ask := range []contract.TokenRequest{
		{Title: ""}, {Title: strings.Repeat("x", 101)}, {Title: "a\nb"}, {Title: "a", Days: -1}, {Title: "a", Days: 731}, {Title: "a", Days: 3, Never: true},
		{Title: "a", Path: "/api/alerts"}, {Title: "a", Path: "//host/picture.svg"}, {Title: "a", Path: "/picture.svg", Access: "operate"},
		{Title: "a", Path: "/picture.svg", Never: true}, {Title: "a", Path: "/embed/gpu/../../picture.svg"}, {Title: "a", Path: "/picture.svg?token=x"},
	} {
		if _, err := o.do(bob, "addToken", "", ask); !errors.Is(err, action.Invalid("", "")) {
			t.Errorf("%+v: %v", ask, err)
		}
	}
	made := must[contract.AddedToken](o, bob, "addToken", "", contract.TokenRequest{Title: "once"})
	if ends, err := time.Parse(time.RFC3339, *made.Expires); err != nil || ends.Sub(o.now).Round(24*time.Hour) != 90*24*time.Hour {
		t.Errorf("a token of which nothing is said ends %v, %v", *made.Expires, err)
	}
	if _, err := o.do(bob, "addToken", "", contract.TokenRequest{Title: "Once "}); !errors.Is(err, titleTaken) {
		t.Errorf("a second token of the title: %v", err)
	}
	if _, err := o.do(ann, "addToken", "", contract.TokenRequest{Title: "once"}); err != nil {
		t.Errorf("a title of somebody else's token: %v", err)
	}
}

// No account can use up the tokens of all.
func TestTokensOfAnAccount(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	bob, ann := o.member("bob", Viewer, ""), o.member("ann", Viewer, "")
	for i := range mostOwnTokens {
		o.now = o.now.Add(changeEvery) // as fast as an account may for long
		must[contract.AddedToken](o, bob, "addToken", "", contract.TokenRequest{Title: fmt.Sprint(i)})
	}
	o.now = o.now.Add(changeEvery)
	if _, err := o.do(bob, "addToken", "", contract.TokenRequest{Title: "more"}); !errors.Is(err, tooManyTokens) {
		t.Errorf("one more: %v", err)
	}
	for _, who := range []auth.Principal{ann, auth.LocalOwner()} {
		if _, err := o.do(who, "addToken", "", contract.TokenRequest{Title: "more"}); err != nil {
			t.Errorf("%s: %v", who.Name, err)
		}
	}
}

// Each account can be named in an address, so that it can be changed and removed.
func TestNamesInAddresses(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, name := range []string{".", "..", "...", "", "a/b", "a b"} {
		if _, err := o.do(auth.LocalOwner(), "addUser", "", contract.UserRequest{Name: name}); !errors.Is(err, action.Invalid("", "")) {
			t.Errorf("%q: %v", name, err)
		}
	}
	must[contract.AddedUser](o, auth.LocalOwner(), "addUser", "", contract.UserRequest{Name: ".ann."})
}

// People end their own sessions and tokens, and no others; administrators all.
func TestWhoseItIs(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann, bob, cleo, dora := o.member("ann", Operator, ""), o.member("bob", Viewer, ""), o.member("cleo", Administrator, ""), o.member("dora", Administrator, "node:a")
	session := func(of auth.Principal, id string) string {
		change, err := sessions.put(&row[Session]{Item: ledger.Item{ID: id, Owner: of.Account()}, Value: Session{User: of.Account(), Ends: o.now.Add(time.Hour)}})
		if err == nil {
			err = o.ledger.Apply(t.Context(), change)
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	token := func(of auth.Principal, title string) string {
		return must[contract.AddedToken](o, of, "addToken", "", contract.TokenRequest{Title: title}).ID
	}
	for i, tt := range []struct {
		who, whose auth.Principal
		may        bool
	}{
		{ann, ann, true}, {bob, bob, true}, {cleo, bob, true}, {auth.LocalOwner(), bob, true},
		{ann, bob, false}, {bob, cleo, false}, {dora, bob, false},
		{auth.Principal{Name: "anyone", Access: auth.Operate, Audience: auth.Everything, Way: auth.Open}, bob, false},
		{auth.Principal{Name: "t", Access: auth.Read, Way: auth.Token, ID: "token:1", Key: "1"}, bob, false},
	} {
		for _, ask := range [][2]string{
			{"endSession", session(tt.whose, fmt.Sprint("s", i))}, {"removeToken", token(tt.whose, fmt.Sprint("t", i))},
			{"endSessions", tt.whose.Name},
		} {
			id, target := ask[0], ask[1]
			session(tt.whose, fmt.Sprint(id, i)) // there is one to end
			o.ended = nil
			_, err := o.do(tt.who, id, target, nil)
			if tt.may != (err == nil) || err != nil && !errors.Is(err, action.Denied) && !errors.Is(err, tooMuch) {
				t.Errorf("%s: %s of %s: %v", tt.who.Name, id, tt.whose.Name, err)
			}
			if tt.may != (len(o.ended) > 0) {
				t.Errorf("%s: %s of %s: open connections end %d times", tt.who.Name, id, tt.whose.Name, len(o.ended))
			}
		}
		// A stranger learns nothing of what there is.
		_, there := o.do(tt.who, "endSessions", tt.whose.Name, nil)
		_, none := o.do(tt.who, "endSessions", "nobody", nil)
		if !tt.may && there.Error() != none.Error() {
			t.Errorf("%s: %v differs from %v", tt.who.Name, there, none)
		}
	}
	token(ann, "of ann")
	for _, who := range []auth.Principal{ann, bob, cleo, dora, {Name: "anyone", Access: auth.Read, Way: auth.Open}} {
		own, err := o.Tokens(t.Context(), &who)
		if err != nil {
			t.Fatal(err)
		}
		for i := range own.Tokens {
			if own.Tokens[i].User != who.Name && who.Name != "cleo" {
				t.Errorf("%s sees the token %+v", who.Name, own.Tokens[i])
			}
		}
		if seen := len(own.Tokens); (who.Name == "anyone" || who.Name == "dora") != (seen == 0) {
			t.Errorf("%s sees %d tokens", who.Name, seen)
		}
	}
}

// A scope that no machine has is warned of: it may be a typing error.
func TestUnmatchedScopes(t *testing.T) {
	t.Parallel()
	o := newOffice(t, func(cfg *Config) {
		cfg.Known = func(s auth.Scope) bool {
			return s.Has(auth.Machine{Node: "ada", Labels: map[string]string{"rack": "r12"}})
		}
	})
	root := auth.LocalOwner()
	text := func(s string) *string { return &s }
	for i, tt := range []struct{ scope, sees, warns string }{
		{"", "", ""}, {"node:ada", "label:rack=r12", ""}, {"", "node:adda,node:ada", ""}, {"", "node:adda", `"node:adda", so nothing`}, {"label:rack=r21", "", `"label:rack=r21", so the role`},
	} {
		name := fmt.Sprint("user", i)
		added := must[contract.AddedUser](o, root, "addUser", "", contract.UserRequest{Name: name, Scope: tt.scope, Sees: tt.sees})
		must[contract.User](o, root, "changeUser", name, contract.UserChange{Scope: text(""), Sees: text("")})
		changed := must[contract.User](o, root, "changeUser", name, contract.UserChange{Scope: &tt.scope, Sees: &tt.sees})
		for what, got := range map[string]string{"added": added.Warning, "changed": changed.Warning} {
			if (got != "") != (tt.warns != "") || !strings.Contains(got, tt.warns) {
				t.Errorf("%q %q, %s: it warns %q", tt.scope, tt.sees, what, got)
			}
		}
		if told := tellAddedUser(&added); strings.Contains(told, "\nWarning: ") != (tt.warns != "") {
			t.Errorf("people are told %q", told)
		}
	}
	for scope, warns := range map[string]bool{"": false, "node:ada": false, "node:adda": true} {
		made := must[contract.AddedToken](o, root, "addToken", "", contract.TokenRequest{Title: "for " + scope, Scope: scope})
		if (made.Warning != "") != warns || strings.Contains(tellAddedToken(&made), "Warning: ") != warns {
			t.Errorf("a token for %q: it warns %q", scope, made.Warning)
		}
	}
	for _, note := range o.notes {
		if text, err := json.Marshal(note.After); err != nil || bytes.Contains(text, []byte("warning")) {
			t.Errorf("the audit has %s %v", text, err)
		}
	}
}

// Somebody who can sign in can always administer gpuwhy, unless the owner of the machine decides otherwise.
func TestLastAdministrator(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann := o.member("ann", Administrator, "")
	o.member("scoped", Administrator, "node:a")
	o.member("bob", Operator, "")
	must[contract.AddedUser](o, auth.LocalOwner(), "addUser", "", contract.UserRequest{Name: "invited", Role: "administrator"}) // has no password yet
	lower := []contract.UserChange{{Role: new("viewer")}, {Role: new("operator")}, {Scope: new("node:b")}, {Sees: new("node:b")}, {Disabled: new(true)}}
	for _, c := range lower {
		if _, err := o.do(ann, "changeUser", "ann", c); !errors.Is(err, lastOne) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := o.do(ann, "removeUser", "ann", nil); !errors.Is(err, lastOne) {
		t.Errorf("removed: %v", err)
	}
	if got := must[contract.User](o, ann, "changeUser", "Ann", contract.UserChange{Unix: new("ann"), Scope: new("")}); got.Unix != "ann" || got.Role != "administrator" {
		t.Errorf("what takes nothing: %+v", got)
	}
	cleo := o.member("cleo", Administrator, "")
	must[contract.User](o, ann, "changeUser", "ann", lower[0])
	if _, err := o.do(cleo, "removeUser", "cleo", nil); !errors.Is(err, lastOne) {
		t.Errorf("the other one: %v", err)
	}
	must[any](o, auth.LocalOwner(), "removeUser", "cleo", nil)
	if list, err := o.Users(t.Context()); err != nil || len(list.Users) != 4 {
		t.Errorf("%+v, %v", list, err)
	}
}

// Two administrators who lower each other at the same time do not both succeed.
func TestLastAdministratorOfTwo(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann, bob := o.member("ann", Administrator, ""), o.member("bob", Administrator, "")
	a, err := users.named(t.Context(), o.ledger, "ann")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := o.keepingOne(t.Context(), &action.Call{Principal: bob}, a, nil) // bob has looked …
	if err != nil || len(changes) != 1 {
		t.Fatalf("%v, %v", changes, err)
	}
	must[contract.User](o, ann, "changeUser", "bob", contract.UserChange{Role: new("viewer")}) // … and ann is faster
	if err := o.apply(t.Context(), append(changes, users.remove(a.ID))...); !errors.Is(err, meanwhile) {
		t.Errorf("the second change: %v", err)
	}
}

// Changes of an account are noted for the record, and open connections end.
func TestChangesAreNoted(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann := o.member("ann", Operator, "")
	token := must[contract.AddedToken](o, ann, "addToken", "", contract.TokenRequest{Title: "t"})
	o.ended, o.notes = nil, nil
	must[contract.User](o, auth.LocalOwner(), "changeUser", "ann", contract.UserChange{Role: new("viewer")})
	before, _ := o.notes[0].Before.(contract.User)
	after, _ := o.notes[0].After.(contract.User)
	if before.Role != "operator" || after.Role != "viewer" {
		t.Errorf("noted are %+v and %+v", before, after)
	}
	ends := func(p auth.Principal) (ends bool) {
		for _, is := range o.ended {
			ends = ends || is(p)
		}
		return ends
	}
	if !ends(ann) || !ends(auth.Principal{Key: token.ID, Way: auth.Token}) || ends(auth.Principal{Key: "other"}) || ends(auth.LocalOwner()) {
		t.Error("the wrong connections end")
	}
}

// No record, no log and no answer but that of the request itself has a secret.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann := o.member("ann", Administrator, "")
	token := must[contract.AddedToken](o, ann, "addToken", "", contract.TokenRequest{Title: "t"})
	link := must[contract.AddedUser](o, ann, "resetUser", "ann", nil)
	_, _ = o.do(ann, "addUser", "", contract.UserRequest{Name: "ann", Password: goodPassword})
	o.asks("/", "Authorization", "Bearer "+token.Value)
	o.asks("/", "Authorization", "Bearer "+token.Value+"x")
	var told bytes.Buffer
	write := func(v any, err error) {
		text, failed := json.Marshal(v)
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	for _, r := range o.records {
		write(action.Masked(r.Args))
	}
	for _, n := range o.notes {
		write(action.Masked(n.Before))
		write(action.Masked(n.After))
		if n.Err != nil {
			told.WriteString(n.Err.Error())
		}
	}
	all := auth.LocalOwner()
	write(o.Users(t.Context()))
	write(o.Tokens(t.Context(), &all))
	write(o.Sessions(t.Context(), &all))
	for _, kind := range []string{users.kind, tokens.kind, links.kind} {
		write(o.ledger.List(t.Context(), kind, ""))
	}
	secret := (*link.Link)[strings.IndexByte(*link.Link, '=')+1:]
	for name, text := range map[string]string{"password": goodPassword, "token": token.Value, "part of the token": token.Value[4:24], "link": secret} {
		if strings.Contains(told.String(), text) || strings.Contains(o.log.String(), text) {
			t.Errorf("the %s is told", name)
		}
	}
	if !strings.Contains(told.String(), token.ID) {
		t.Error("the record does not say which token was made")
	}
}
