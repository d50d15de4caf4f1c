package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// administers returns a refusal unless a principal may change what belongs to others: accounts are not about a machine, so the role must
// hold on all.
func administers(who *auth.Principal) error {
	if !who.May(auth.Administer) {
		return action.Lacks(who, auth.Administer)
	}
	if !who.MayOnAll(auth.Administer) {
		r := *tooMuch
		r.What = "accounts, tokens and sessions of others are for administrators of all machines, and you have some of them alone"
		r.Try = "ask an administrator of all machines"
		return &r
	}
	return nil
}

// localOwner reports whether a principal is whom the kernel shows to own this gpuwhy.
func localOwner(who *auth.Principal) bool { return who.Way == auth.Local && who.May(auth.Administer) }

// parsedRole returns the role with a name.
func parsedRole(name string) (Role, error) {
	role := Role(name)
	if role.Access() == 0 {
		return "", action.Invalid("role", "is "+strconv.Quote(name)+", which is none of viewer, operator and administrator")
	}
	return role, nil
}

func parsedScope(field, text string) (auth.Scope, error) {
	scope, err := auth.ParseScope(text)
	if err != nil {
		return "", action.Invalid(field, "can't be read: "+err.Error())
	}
	return scope, nil
}

// checkUnix refuses names that no system gives a user.
func checkUnix(name string) error {
	if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == ':' || r == '/' }) {
		return action.Invalid("unix_user", "must be the name of a user of the machines, without spaces, colons and slashes")
	}
	return nil
}

func (r *Room) addUser(ctx context.Context, c *action.Call, ask contract.UserRequest) (any, error) {
	if err := administers(&c.Principal); err != nil {
		return nil, err
	}
	name := strings.TrimSpace(ask.Name)
	if err := checkName(name); err != nil {
		return nil, err
	}
	role, err := parsedRole(cmp.Or(ask.Role, string(Viewer)))
	if err != nil {
		return nil, err
	}
	scope, err := parsedScope("scope", ask.Scope)
	if err != nil {
		return nil, err
	}
	sees, err := parsedScope("sees", ask.Sees)
	if err != nil {
		return nil, err
	}
	if err := checkUnix(ask.Unix); err != nil {
		return nil, err
	}
	made := &row[User]{
		Item:  ledger.Item{ID: newID(), Name: nameOf(name)},
		Value: User{Name: name, Role: role, Scope: scope, Sees: sees, Unix: ask.Unix, Created: r.cfg.Clock.Now().UTC()},
	}
	if ask.Password != "" {
		if made.Value.Password, err = r.newHash(ctx, name, ask.Password); err != nil {
			return nil, err
		}
	}
	change, err := users.put(made)
	if err != nil {
		return nil, err
	}
	switch err := r.ledger.Apply(ctx, change); {
	case errors.Is(err, ledger.ErrConflict):
		return nil, userTaken
	case err != nil:
		return nil, err
	}
	answer := contract.AddedUser{User: newUser(made, holdings{})}
	c.Note(nil, answer.User)
	answer.Warning = r.unmatched(scope, sees)
	if ask.Password == "" {
		err = r.addLink(ctx, made.ID, &answer)
	}
	return answer, err
}

// addLink makes the link with which a user chooses a password, and adds it to an answer.
func (r *Room) addLink(ctx context.Context, id string, answer *contract.AddedUser) error {
	link, err := r.resetLink(ctx, id)
	if err != nil {
		return err
	}
	answer.Link, answer.LinkExpires = &link, contract.OptionalTime(r.cfg.Clock.Now().Add(linkLife))
	return nil
}

// user returns the account that a call is about.
func (r *Room) user(ctx context.Context, c *action.Call) (*row[User], error) {
	if err := administers(&c.Principal); err != nil {
		return nil, err
	}
	found, err := users.named(ctx, r.ledger, nameOf(c.Target))
	if err == nil && found == nil {
		err = noUser
	}
	return found, err
}

func (r *Room) changeUser(ctx context.Context, c *action.Call, ask contract.UserChange) (any, error) {
	found, err := r.user(ctx, c)
	if err != nil {
		return nil, err
	}
	held, err := r.holdings(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	before := newUser(found, held)
	changed := *found
	if err := change(&changed.Value, &ask); err != nil {
		return nil, err
	}
	changes, err := r.keepingOne(ctx, c, found, &changed)
	if err != nil {
		return nil, err
	}
	if changed.Value.Disabled {
		ended, err := r.endings(ctx, found.ID, "")
		if err != nil {
			return nil, err
		}
		changes = append(changes, ended...)
		held.sessions = 0
	}
	put, err := users.put(&changed)
	if err != nil {
		return nil, err
	}
	if err := r.apply(ctx, append(changes, put)...); err != nil {
		return nil, err
	}
	r.endConnections(found.ID, held)
	after := newUser(&changed, held)
	c.Note(before, after)
	after.Warning = r.unmatched(changed.Value.Scope, changed.Value.Sees)
	return after, nil
}

// unmatched warns of a scope that no machine is in that is known now, which may be a typing error; empty if there is nothing to warn of.
func (r *Room) unmatched(scope, sees auth.Scope) string {
	switch {
	case r.cfg.Known == nil:
		return ""
	case !r.cfg.Known(sees):
		return "no machine that is known now is one of " + strconv.Quote(string(sees)) + ", so nothing is seen until one is"
	case !r.cfg.Known(scope):
		return "no machine that is known now is one of " + strconv.Quote(string(scope)) + ", so the role holds nowhere until one is"
	}
	return ""
}

// change makes a change of an account.
func change(u *User, ask *contract.UserChange) (err error) {
	if ask.Role != nil {
		if u.Role, err = parsedRole(*ask.Role); err != nil {
			return err
		}
	}
	if ask.Scope != nil {
		if u.Scope, err = parsedScope("scope", *ask.Scope); err != nil {
			return err
		}
	}
	if ask.Sees != nil {
		if u.Sees, err = parsedScope("sees", *ask.Sees); err != nil {
			return err
		}
	}
	if ask.Unix != nil {
		if err := checkUnix(*ask.Unix); err != nil {
			return err
		}
		u.Unix = *ask.Unix
	}
	if ask.Disabled != nil {
		u.Disabled = *ask.Disabled
	}
	return nil
}

func (r *Room) removeUser(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	found, err := r.user(ctx, c)
	if err != nil {
		return nil, err
	}
	held, err := r.holdings(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	changes, err := r.keepingOne(ctx, c, found, nil)
	if err != nil {
		return nil, err
	}
	remove := users.remove(found.ID)
	remove.Was = found.Version
	if err := r.apply(ctx, append(changes, remove)...); err != nil {
		return nil, err
	}
	r.endConnections(found.ID, held)
	c.Note(newUser(found, held), nil)
	return nil, nil //nolint:nilnil // there is nothing to say
}

func (r *Room) resetUser(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	found, err := r.user(ctx, c)
	if err != nil {
		return nil, err
	}
	held, err := r.holdings(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	answer := contract.AddedUser{User: newUser(found, held)}
	return answer, r.addLink(ctx, found.ID, &answer)
}

// apply makes changes of what was read before.
func (r *Room) apply(ctx context.Context, changes ...ledger.Change) error {
	err := r.ledger.Apply(ctx, changes...)
	if errors.Is(err, ledger.ErrConflict) {
		return meanwhile
	}
	return err
}

// signsIn reports whether an account can administer gpuwhy.
func (r *Room) signsIn(ctx context.Context, u *row[User]) (bool, error) {
	if u == nil || u.Value.Role != Administrator || u.Value.Disabled || u.Value.Scope != "" || u.Value.Sees != "" {
		return false, nil
	}
	if u.Value.Password != "" || u.Value.Provider != "" {
		return true, nil
	}
	keys, err := passkeys.list(ctx, r.ledger, u.ID)
	return len(keys) > 0, err
}

// guardKind is the kind of the one item that every change has whose result may be that nobody can administer gpuwhy. Two such changes at
// the same time conflict.
const guardKind, guardID = "guard", "administrators"

// keepingOne returns a refusal if nobody could administer gpuwhy after a change of an account, nil for one that is removed, and else the
// changes that make sure of it.
func (r *Room) keepingOne(ctx context.Context, c *action.Call, before, after *row[User]) ([]ledger.Change, error) {
	was, err := r.signsIn(ctx, before)
	if err != nil || !was || localOwner(&c.Principal) {
		return nil, err
	}
	if still, err := r.signsIn(ctx, after); err != nil || still {
		return nil, err
	}
	guard := ledger.Change{Item: ledger.Item{Kind: guardKind, ID: guardID, Doc: json.RawMessage("{}")}}
	item, err := r.ledger.Get(ctx, guardKind, guardID)
	if err != nil {
		return nil, err
	}
	if item != nil {
		guard.Was = item.Version
	}
	all, err := users.list(ctx, r.ledger, "")
	for _, u := range all {
		if u.ID == before.ID {
			continue
		}
		if can, err := r.signsIn(ctx, u); err != nil || can {
			return []ledger.Change{guard}, err
		}
	}
	return nil, cmp.Or[error](err, lastOne)
}

// holdings are what an account has.
type holdings struct {
	sessions, passkeys int
	tokens             map[string]bool // by ID
}

func (r *Room) holdings(ctx context.Context, id string) (h holdings, err error) {
	began, err := sessions.list(ctx, r.ledger, id)
	if err != nil {
		return h, err
	}
	keys, err := passkeys.list(ctx, r.ledger, id)
	if err != nil {
		return h, err
	}
	made, err := tokens.list(ctx, r.ledger, id)
	h = holdings{sessions: len(began), passkeys: len(keys), tokens: map[string]bool{}}
	for _, t := range made {
		h.tokens[t.ID] = true
	}
	return h, err
}

// endConnections ends the open connections of an account and of its tokens. Whoever may still connect does so again.
func (r *Room) endConnections(id string, held holdings) {
	r.cfg.Revoke(func(p auth.Principal) bool {
		return p.Account() == id || p.Key != "" && held.tokens[p.Key]
	})
}

func (r *Room) endAllSessions(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	found, err := users.named(ctx, r.ledger, nameOf(c.Target))
	if err != nil {
		return nil, err
	}
	if found == nil || found.ID != c.Principal.Account() {
		if err := administers(&c.Principal); err != nil {
			return nil, err
		}
		if found == nil {
			return nil, noUser
		}
	}
	ended, err := r.endings(ctx, found.ID, "")
	if err != nil {
		return nil, err
	}
	if err := r.apply(ctx, ended...); err != nil {
		return nil, err
	}
	r.cfg.Revoke(func(p auth.Principal) bool { return p.Account() == found.ID })
	return nil, nil //nolint:nilnil // there is nothing to say
}

func (r *Room) endOneSession(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	found, err := sessions.get(ctx, r.ledger, c.Target)
	if err != nil {
		return nil, err
	}
	if found == nil || !isOwn(c, found.Owner) {
		if err := administers(&c.Principal); err != nil {
			return nil, err
		}
		if found == nil {
			return nil, noSession
		}
	}
	if err := r.apply(ctx, sessions.remove(found.ID)); err != nil {
		return nil, err
	}
	r.revokeKeys(found.ID)
	return nil, nil //nolint:nilnil // there is nothing to say
}

// isOwn reports whether what an account owns is the caller's.
func isOwn(c *action.Call, account string) bool {
	return account != "" && account == c.Principal.Account()
}

func (r *Room) addToken(ctx context.Context, c *action.Call, ask contract.TokenRequest) (any, error) {
	token, err := r.asked(c, &ask)
	if err != nil {
		return nil, err
	}
	account, err := r.accountOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if account == "" || isGuest(account) {
		if err := administers(&c.Principal); err != nil {
			return nil, err
		}
	}
	more, err := r.outside(ctx, c, account, &ask, token)
	if err != nil {
		return nil, err
	}
	all, err := tokens.list(ctx, r.ledger, "")
	if err != nil {
		return nil, err
	}
	own := 0
	for _, t := range all {
		if t.Owner == account {
			own++
		}
	}
	if len(all) >= mostTokens || account != "" && own >= mostOwnTokens {
		return nil, tooManyTokens
	}
	value := newTokenValue()
	token.Value.Hash = hashOf(value)
	token.ID, token.Owner, token.Name = tokenID(token.Value.Hash), account, account+"/"+nameOf(token.Value.Title)
	put, err := tokens.put(token)
	if err != nil {
		return nil, err
	}
	switch err := r.ledger.Apply(ctx, append(more, put)...); {
	case errors.Is(err, ledger.ErrConflict):
		return nil, titleTaken
	case err != nil:
		return nil, err
	}
	name := ""
	if account != "" && !isGuest(account) {
		name = c.Principal.Name
	}
	answer := contract.AddedToken{Token: newToken(token, name), Value: value}
	c.Note(nil, answer.Token)
	answer.Warning = r.unmatched("", token.Value.Scope)
	return answer, nil
}

// outside limits a token whose owner's rights somebody else decides. It returns the change that makes the owner known, if that is a guest
// who has no token yet.
func (r *Room) outside(ctx context.Context, c *action.Call, owner string, ask *contract.TokenRequest, token *row[Token]) (more []ledger.Change, err error) {
	held, err := r.holder(ctx, owner)
	if err != nil {
		return nil, err
	}
	if held == nil && isGuest(owner) && c.Principal.ID == owner {
		guest := &row[Guest]{Item: ledger.Item{ID: owner}, Value: Guest{Name: c.Principal.Name, Rights: rightsOf(&c.Principal)}}
		put, err := guests.put(guest)
		if err != nil {
			return nil, err
		}
		more, held = append(more, put), guest.Value.holder()
	}
	if held == nil || !held.outside {
		return more, nil
	}
	latest := token.Value.Made.Add(longestOutside)
	switch days := int(longestOutside.Hours() / 24); {
	case ask.Never:
		return nil, action.Invalid("never_expires", fmt.Sprintf("is not possible: a proxy or a provider decides what you may do, so a token of yours ends after %d days at most", days))
	case ask.Days > days:
		return nil, action.Invalid("expires_in_days", fmt.Sprintf("must be from 1 to %d: a proxy or a provider decides what you may do, and gpuwhy does not learn if that ends", days))
	case token.Expires.After(latest):
		token.Expires = latest
	}
	return more, nil
}

// asked returns the token that a request asks for, if whoever asks has that much.
func (r *Room) asked(c *action.Call, ask *contract.TokenRequest) (*row[Token], error) {
	now := r.cfg.Clock.Now().UTC()
	t := &row[Token]{Value: Token{Title: strings.TrimSpace(ask.Title), By: c.Principal.Name, Made: now}}
	if n := utf8.RuneCountInString(t.Value.Title); n < 1 || n > 100 || strings.ContainsFunc(t.Value.Title, unicode.IsControl) {
		return nil, action.Invalid("title", "must have 1 to 100 characters, all printable")
	}
	if _ = t.Value.Access.UnmarshalText([]byte(cmp.Or(ask.Access, auth.Read.String()))); t.Value.Access <= 0 {
		return nil, action.Invalid("access", "must be one of metrics, read, operate and administer")
	}
	scope, err := parsedScope("scope", ask.Scope) // an account's token without one is for the machines of the account
	if err != nil {
		return nil, err
	}
	t.Value.Scope = scope
	if t.Value.Path, err = picturePath(ask.Path); err != nil {
		return nil, err
	}
	switch days := cmp.Or(ask.Days, defaultDays); {
	case t.Value.Path != "" && t.Value.Access != auth.Read:
		return nil, action.Invalid("access", "must be read for the address of a picture")
	case ask.Never && t.Value.Path != "":
		return nil, action.Invalid("never_expires", "is not possible for the address of a picture, which others see")
	case ask.Never && ask.Days != 0:
		return nil, action.Invalid("never_expires", "contradicts expires_in_days")
	case days < 1 || days > 730:
		return nil, action.Invalid("expires_in_days", "must be from 1 to 730")
	case !ask.Never:
		t.Expires = now.AddDate(0, 0, days)
	}
	sees, _ := c.Principal.Audience.Machines()
	if !c.Principal.May(t.Value.Access) || scope != "" && (!scope.Within(c.Principal.Scope) || !scope.Within(sees)) {
		refusal := *tooMuch
		refusal.What += ": you have the access " + strconv.Quote(c.Principal.Access.String())
		if c.Principal.Scope != "" {
			refusal.What += " on " + string(c.Principal.Scope)
		}
		if sees != "" {
			refusal.What += ", and see " + string(sees)
		}
		return nil, &refusal
	}
	return t, nil
}

// picturePath returns an address that a token may be for, in the form in which requests have it.
func picturePath(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	bad := action.Invalid("path", "must be the address of a picture or a card below the base path, such as /picture.svg?gpu=0 or /embed/gpu/GPU-4090")
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(text, "/") || strings.Contains(text, "..") || !pictured(u.Path) {
		return "", bad
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || query.Has("token") {
		return "", bad
	}
	return address(u.EscapedPath(), query), nil
}

// accountOf returns the account or the guest that a token belongs to which a principal makes: its own, or for a token that of the token.
// Empty: none.
func (r *Room) accountOf(ctx context.Context, c *action.Call) (string, error) {
	switch c.Principal.Way {
	case auth.Proxy:
		return c.Principal.ID, nil
	case auth.Token:
	default:
		return c.Principal.Account(), nil
	}
	own, err := tokens.get(ctx, r.ledger, c.Principal.Key)
	if err == nil && own == nil {
		err = action.Lacks(&c.Principal, auth.Administer)
	}
	if err != nil {
		return "", err
	}
	return own.Owner, nil
}

func (r *Room) removeToken(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	found, err := tokens.get(ctx, r.ledger, c.Target)
	if err != nil {
		return nil, err
	}
	if found == nil || !isOwn(c, found.Owner) {
		if err := administers(&c.Principal); err != nil {
			return nil, err
		}
		if found == nil {
			return nil, noToken
		}
	}
	if err := r.apply(ctx, tokens.remove(found.ID)); err != nil {
		return nil, err
	}
	r.revokeKeys(found.ID)
	c.Note(newToken(found, ""), nil)
	return nil, nil //nolint:nilnil // there is nothing to say
}

// newUser is an account for clients.
func newUser(u *row[User], h holdings) contract.User {
	v := &u.Value
	out := contract.User{
		Name: v.Name, Role: cmp.Or(string(v.Role), "none"), Scope: string(v.Scope), Sees: string(v.Sees), Unix: v.Unix, Disabled: v.Disabled, Ways: []string{},
		Sessions: h.sessions, Tokens: len(h.tokens), Created: contract.Timestamp(v.Created), LastSeen: contract.OptionalTime(v.Seen),
	}
	for _, way := range []struct {
		name string
		has  bool
	}{{"password", v.Password != ""}, {"passkey", h.passkeys > 0}, {"provider", v.Provider != ""}} {
		if way.has {
			out.Ways = append(out.Ways, way.name)
		}
	}
	return out
}

// newToken is a token for clients, which belongs to the account with a name.
func newToken(t *row[Token], account string) contract.Token {
	v := &t.Value
	return contract.Token{
		ID: t.ID, Title: v.Title, Access: v.Access.String(), Scope: string(v.Scope), Path: v.Path, User: account, By: v.By,
		Made: contract.Timestamp(v.Made), Expires: contract.OptionalTime(t.Expires), LastUsed: contract.OptionalTime(v.Used),
	}
}

// Users returns all accounts, by name.
func (r *Room) Users(ctx context.Context) (contract.Users, error) {
	all, err := users.list(ctx, r.ledger, "")
	if err != nil {
		return contract.Users{}, err
	}
	held := map[string]*holdings{}
	for _, u := range all {
		held[u.ID] = &holdings{tokens: map[string]bool{}}
	}
	count := func(kind string, add func(h *holdings, id string)) {
		if err != nil {
			return
		}
		var items []ledger.Item
		items, err = r.ledger.List(ctx, kind, "")
		for i := range items {
			if h := held[items[i].Owner]; h != nil {
				add(h, items[i].ID)
			}
		}
	}
	count(sessions.kind, func(h *holdings, _ string) { h.sessions++ })
	count(passkeys.kind, func(h *holdings, _ string) { h.passkeys++ })
	count(tokens.kind, func(h *holdings, id string) { h.tokens[id] = true })
	out := contract.Users{Users: []contract.User{}}
	for _, u := range all {
		out.Users = append(out.Users, newUser(u, *held[u.ID]))
	}
	slices.SortFunc(out.Users, func(a, b contract.User) int { return cmp.Compare(nameOf(a.Name), nameOf(b.Name)) })
	return out, err
}

// listed returns the items of a kind that a principal may see: all, their own, or none. names has the names of their owners.
func listed[T any](ctx context.Context, l ledger.Ledger, t table[T], who *auth.Principal) (all []*row[T], names map[string]string, err error) {
	account := who.Account()
	if administers(who) == nil {
		account = ""
	} else if account == "" {
		return nil, nil, nil
	}
	if all, err = t.list(ctx, l, account); err != nil {
		return nil, nil, err
	}
	accounts, err := users.list(ctx, l, "")
	names = map[string]string{}
	for _, u := range accounts {
		names[u.ID] = u.Value.Name
	}
	return all, names, err
}

// Tokens returns the tokens that a principal may see, the newest first.
func (r *Room) Tokens(ctx context.Context, who *auth.Principal) (contract.Tokens, error) {
	all, names, err := listed(ctx, r.ledger, tokens, who)
	slices.SortStableFunc(all, func(a, b *row[Token]) int { return b.Value.Made.Compare(a.Value.Made) })
	out := contract.Tokens{Tokens: []contract.Token{}}
	for _, t := range all {
		if !ended(t.Expires, r.cfg.Clock.Now()) {
			out.Tokens = append(out.Tokens, newToken(t, names[t.Owner]))
		}
	}
	return out, err
}

// Sessions returns the sessions that a principal may see, the one that was used last first.
func (r *Room) Sessions(ctx context.Context, who *auth.Principal) (contract.Sessions, error) {
	all, names, err := listed(ctx, r.ledger, sessions, who)
	slices.SortStableFunc(all, func(a, b *row[Session]) int { return b.Value.Seen.Compare(a.Value.Seen) })
	out := contract.Sessions{Sessions: []contract.Session{}}
	for _, s := range all {
		v := &s.Value
		out.Sessions = append(out.Sessions, contract.Session{
			ID: s.ID, User: names[s.Owner], Way: string(v.Way), Began: contract.Timestamp(v.Began), Seen: contract.Timestamp(v.Seen),
			Address: v.Address, Agent: v.Agent, Current: s.ID == who.Key,
		})
	}
	return out, err
}

// newAccount says who makes a request.
func newAccount(who *auth.Principal) contract.Account {
	sees, _ := who.Audience.Machines()
	return contract.Account{Name: who.Name, ID: who.ID, Way: string(who.Way), Access: who.Access.String(), Scope: string(who.Scope), Sees: string(sees)}
}
