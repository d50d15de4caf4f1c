package access

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A token may do and see no more than its owner may now.
func TestTokensAreLimited(t *testing.T) {
	t.Parallel()
	administrator := &holder{Rights: Rights{Role: Administrator}, unix: "ann"}
	rack := &holder{Rights: Rights{Role: Operator, Sees: "label:rack=r12"}, unix: "ann"}
	near := &holder{Rights: Rights{Role: Viewer, Scope: "node:a", Sees: "node:a,node:b"}}
	none := &holder{}
	own, names := auth.CommandsOf("ann"), auth.Names
	for _, tt := range []struct {
		token    Token
		owner    *holder
		access   auth.Access
		scope    auth.Scope
		audience auth.Audience
	}{
		{Token{Access: auth.Administer}, administrator, auth.Administer, "", auth.NewAudience("", auth.Shown)},
		{Token{Access: auth.Read}, administrator, auth.Read, "", auth.NewAudience("", own)},
		{Token{Access: auth.Administer}, rack, auth.Operate, "", auth.NewAudience("label:rack=r12", own)},
		{Token{Access: auth.Read, Scope: "label:rack=r12"}, rack, auth.Read, "label:rack=r12", auth.NewAudience("label:rack=r12", own)},
		{Token{Access: auth.Read, Scope: "node:a"}, rack, 0, "", ""},
		{Token{Access: auth.Read}, near, auth.Read, "node:a", auth.NewAudience("node:a,node:b", names)},
		{Token{Access: auth.Operate, Scope: "node:a"}, near, auth.Read, "node:a", auth.NewAudience("node:a", names)},
		{Token{Access: auth.Read, Scope: "node:b"}, near, 0, "", ""},
		{Token{Access: auth.Read}, none, 0, "", ""}, {Token{Access: auth.Read}, nil, 0, "", ""},
	} {
		who, valid := tokenPrincipal(&row[Token]{Item: ledger.Item{ID: "t", Owner: "o"}, Value: tt.token}, tt.owner, "")
		if valid != (tt.access > 0) || valid && (who.Access != tt.access || who.Scope != tt.scope || who.Audience != tt.audience) {
			t.Errorf("%+v of %+v: %t %+v", tt.token, tt.owner, valid, who)
		}
	}
}

// Whoever sees some machines can give away those alone, and administers nothing that is about all.
func TestAccountsThatSeeSome(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.member("root", Administrator, "")
	must[contract.AddedUser](o, auth.LocalOwner(), "addUser", "", contract.UserRequest{Name: "ann", Role: "administrator", Sees: "label:rack=r12, node:a", Password: goodPassword})
	found, err := users.named(t.Context(), o.ledger, "ann")
	if err != nil {
		t.Fatal(err)
	}
	ann := found.Value.principal(found.ID, auth.Password, "192.0.2.1", "s")
	if sees, some := ann.Audience.Machines(); sees != "label:rack=r12,node:a" || !some || ann.MayOnAll(auth.Administer) {
		t.Errorf("ann is %+v", ann)
	}
	for scope, may := range map[string]bool{"": true, "node:a": true, "label:rack=r12": true, "node:b": false, "cluster:c": false} {
		made, err := o.do(ann, "addToken", "", contract.TokenRequest{Title: "t " + scope, Scope: scope})
		if (err == nil) != may || !may && !errors.Is(err, tooMuch) {
			t.Errorf("a token for %q: %v", scope, err)
		}
		if made, ok := made.(contract.AddedToken); ok && err == nil {
			if who, _ := o.asks("/", "Authorization", "Bearer "+made.Value); who.Audience.SeesAll() || who.Audience.Sees(auth.Machine{Node: "b"}) {
				t.Errorf("the token for %q is %+v", scope, who)
			}
		}
	}
	for id, args := range map[string]any{"addUser": contract.UserRequest{Name: "eve"}, "changeUser": contract.UserChange{Sees: new("")}, "showCommands": struct{}{}} {
		if _, err := o.do(ann, id, "ann", args); err == nil {
			t.Errorf("ann does %s", id)
		}
	}
	if got := must[contract.User](o, auth.LocalOwner(), "changeUser", "ann", contract.UserChange{Sees: new("")}); got.Sees != "" {
		t.Errorf("%+v", got)
	}
}

// The tokens of somebody whom a proxy signs in end soon, and at once when the person comes with less.
func TestTokensOfGuests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		groups   string
		others   Role
		left     []string // the tokens that still let somebody in
		smallest auth.Scope
	}{
		{"as before", "bosses", Viewer, []string{"all", "small"}, ""},
		{"a lower role, on one machine", "gpu", Viewer, []string{"small"}, "node:a"},
		{"the role of everybody", "", Viewer, []string{"small"}, ""},
		{"no role", "", "", nil, ""},
	} {
		o := newOffice(t, signsIn("Remote-User", func(p *ProxySignIn) { p.Others = tt.others }), func(cfg *Config) { cfg.Address.TrustedProxies = proxies(t, "192.0.2.1") })
		comes := func(groups string) auth.Principal {
			who, _ := o.asks("/", "Remote-User", "ann", "Remote-Groups", groups)
			return who
		}
		ann := comes("bosses")
		for _, ask := range []contract.TokenRequest{{Title: "n", Never: true}, {Title: "d", Days: 31}} {
			if _, err := o.do(ann, "addToken", "", ask); err == nil {
				t.Errorf("a token lasts for %d days", ask.Days)
			}
		}
		values := map[string]string{}
		for _, ask := range []contract.TokenRequest{{Title: "all", Access: "administer"}, {Title: "small", Days: 7}} {
			made := must[contract.AddedToken](o, ann, "addToken", "", ask)
			if ends, err := time.Parse(time.RFC3339, *made.Expires); err != nil || ends.After(o.now.Add(longestOutside)) {
				t.Errorf("%s ends %s", ask.Title, *made.Expires)
			}
			values[ask.Title] = made.Value
		}
		clear(o.byProxy.met) // as after a restart
		comes(tt.groups)
		var left []string
		for _, title := range []string{"all", "small"} {
			who, status := o.asks("/", "Authorization", "Bearer "+values[title])
			if status == 0 {
				left = append(left, title)
				if title == "small" && (who.Scope != tt.smallest || who.Access != auth.Read) {
					t.Errorf("%s: %+v", tt.name, who)
				}
			}
		}
		if fmt.Sprint(left) != fmt.Sprint(tt.left) {
			t.Errorf("%s: %v are left, want %v", tt.name, left, tt.left)
		}
		if tt.groups == "bosses" {
			// A token that such a token makes is limited likewise.
			who, _ := o.asks("/", "Authorization", "Bearer "+values["all"])
			if _, err := o.do(who, "addToken", "", contract.TokenRequest{Title: "of a token", Never: true}); err == nil {
				t.Error("a token of a guest makes one that never ends")
			}
		}
		o.now = o.now.Add(longestOutside)
		for title, value := range values {
			if _, status := o.asks("/", "Authorization", "Bearer "+value); status != http.StatusUnauthorized {
				t.Errorf("%s: %s lives on: %d", tt.name, title, status)
			}
		}
	}
}

// So do those of an account for which a provider vouches.
func TestTokensOfVouchedAccounts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	user := &row[User]{Item: ledger.Item{ID: "oidc-1", Name: "ann"}, Value: User{Name: "ann", Role: Administrator, Provider: "sso", Subject: "1"}}
	put, err := users.put(user)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.ledger.Apply(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	ann := user.Value.principal(user.ID, auth.Provider, "192.0.2.1", "s")
	if _, err := o.do(ann, "addToken", "", contract.TokenRequest{Title: "n", Never: true}); err == nil {
		t.Error("a token never ends")
	}
	values := map[string]string{}
	for _, ask := range []contract.TokenRequest{{Title: "all", Access: "administer"}, {Title: "far", Scope: ""}} {
		made := must[contract.AddedToken](o, ann, "addToken", "", ask)
		if ends, err := time.Parse(time.RFC3339, *made.Expires); err != nil || ends.After(o.now.Add(longestOutside)) {
			t.Errorf("%s ends %s", ask.Title, *made.Expires)
		}
		values[ask.Title] = made.Value
	}
	found, err := users.get(t.Context(), o.ledger, user.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.regrant(t.Context(), &ledger.Entry{}, found, Rights{Role: Viewer, Sees: "node:a"}); err != nil {
		t.Fatal(err)
	}
	if _, status := o.asks("/", "Authorization", "Bearer "+values["all"]); status != http.StatusUnauthorized {
		t.Errorf("a token to administer outlives the role: %d", status)
	}
	if who, _ := o.asks("/", "Authorization", "Bearer "+values["far"]); who.Access != auth.Read || who.Audience.Sees(auth.Machine{Node: "b"}) || !who.Audience.Sees(auth.Machine{Node: "a"}) {
		t.Errorf("%+v", who)
	}
}

// Nobody fills the audit with changes of what is their own, and nobody is in another's way.
func TestOwnChangesArePaced(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ann, bob, root := o.member("ann", Viewer, ""), o.member("bob", Viewer, ""), o.member("root", Administrator, "")
	before := len(o.notes)
	try := func(who auth.Principal, id string) error {
		_, err := o.do(who, id, "none", map[string]any{"addToken": contract.TokenRequest{Title: "t"}}[id])
		return err
	}
	refused := 0
	for i := range 3 * changeBurst {
		if err := try(ann, []string{"addToken", "removeToken", "endSession", "endSessions"}[i%4]); errors.Is(err, tooFast) {
			refused++
		}
	}
	if recorded := len(o.notes) - before; recorded != changeBurst || refused != 2*changeBurst {
		t.Errorf("%d are recorded, and %d refused", recorded, refused)
	}
	if err := try(bob, "removeToken"); errors.Is(err, tooFast) {
		t.Error("bob waits for ann")
	}
	for range 2 * changeBurst {
		if err := try(root, "removeToken"); errors.Is(err, tooFast) {
			t.Fatal("an administrator is limited")
		}
	}
	o.now = o.now.Add(changeEvery)
	if err := try(ann, "addToken"); errors.Is(err, tooFast) {
		t.Error("a minute later, ann still waits")
	}
	if err := try(ann, "addToken"); !errors.Is(err, tooFast) {
		t.Errorf("two in a minute: %v", err)
	}
}

// Whole command lines are shown to the session that asks, to an administrator of all machines, for an hour.
func TestShownCommands(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	root := o.member("root", Administrator, "")
	seen := func(who auth.Principal) bool {
		o.widen(&who)
		return who.Audience.Commands() == auth.Entire
	}
	for _, who := range []auth.Principal{
		o.member("ann", Operator, ""), o.member("near", Administrator, "node:a"), {Name: "nobody", Access: auth.Administer, Audience: auth.Everything},
		{Name: "limited", ID: "user:x", Access: auth.Administer, Audience: auth.NewAudience("node:a", auth.Shown)},
	} {
		if _, err := o.do(who, "showCommands", "", struct{}{}); err == nil || seen(who) {
			t.Errorf("%s sees all command lines: %v", who.Name, err)
		}
	}
	answer := must[contract.ShownCommands](o, root, "showCommands", "", struct{}{})
	if len(o.notes) == 0 || o.notes[len(o.notes)-1].After != any(answer) {
		t.Errorf("the audit has %+v", o.notes)
	}
	other, lowered := root, root
	other.Key, lowered.Access = "another session", auth.Operate
	for name, is := range map[string]bool{"root": seen(root), "another session": !seen(other), "with a lower role": !seen(lowered)} {
		if !is {
			t.Errorf("%s: wrong", name)
		}
	}
	// An open socket stays as long.
	put := changeOf(t, sessions, root.Key, root.Account(), o.now.Add(24*time.Hour), Session{User: root.Account(), Ends: o.now.Add(24 * time.Hour)})
	if err := o.ledger.Apply(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	wide := root
	o.widen(&wide)
	stays := func(who auth.Principal) bool {
		standing, err := o.standing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, stays := standing.stays(&who)
		return stays
	}
	if !stays(wide) || stays(root) {
		t.Error("the socket that shows them ends, or the one that does not stays")
	}
	o.now = o.now.Add(showFor)
	if seen(root) || stays(wide) || !stays(root) {
		t.Error("they are shown after an hour")
	}
	must[contract.ShownCommands](o, root, "showCommands", "", struct{}{})
	o.reopened = nil
	must[any](o, root, "hideCommands", "", struct{}{})
	if len(o.reopened) != 1 || !o.reopened[0](wide) || o.reopened[0](root) || seen(root) {
		t.Error("hiding does not end the socket")
	}
	if len(o.ended) != 0 {
		t.Error("somebody is told that they may no longer view this")
	}
	none := newOffice(t, func(cfg *Config) { cfg.NoCommands = true })
	if _, err := none.do(none.member("root", Administrator, ""), "showCommands", "", struct{}{}); !errors.Is(err, noneShown) {
		t.Errorf("with --show-commands none: %v", err)
	}
}

// The hour ends by itself.
func TestTheHourEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, v, ended, began := showing{now: map[viewer]*shown{}}, viewer{"user:1", "s"}, 0, time.Now()
		begin := func() { s.begin(v, time.Since(began), func() { ended++ }) }
		begin()
		time.Sleep(showFor - time.Minute)
		begin()
		time.Sleep(showFor - time.Minute)
		if ended != 0 || !s.shows(v, time.Since(began)) {
			t.Error("a second hour has not begun")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ended != 1 || s.shows(v, time.Since(began)) {
			t.Errorf("it has ended %d times", ended)
		}
		begin()
		s.close()
	})
}
