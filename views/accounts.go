package views

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// An AccountsInput is what the pages of accounts, tokens and sessions are made from.
type AccountsInput struct {
	Input
	Most string // the most access that the reader can give a token
}

// An AccountsPage is the frame of the pages of accounts, tokens and sessions.
type AccountsPage struct {
	in    *AccountsInput
	Title string
}

func newAccountsPage(in *AccountsInput, title string) AccountsPage {
	in.keep()
	return AccountsPage{in: in, Title: title}
}

func (p AccountsPage) head() head { return p.in.head(p.Title+" · gpuwhy", "") }

// roles are the roles with what each may do, in order.
var roles = []Choice{
	{Value: "viewer", Label: "Viewer: sees machines, and changes nothing"},
	{Value: "operator", Label: "Operator: also acknowledges and silences alerts"},
	{Value: "administrator", Label: "Administrator: also changes accounts and gpuwhy itself"},
}

// accesses are the levels of access of tokens with what each may do, in order.
var accesses = []Choice{
	{Value: "metrics", Label: "Metrics: reads /metrics alone"},
	{Value: "read", Label: "Read: sees machines, and changes nothing"},
	{Value: "operate", Label: "Operate: also acknowledges and silences alerts"},
	{Value: "administer", Label: "Administer: also changes accounts and gpuwhy itself"},
}

// givable are the levels up to the most that the reader can give.
func (in *AccountsInput) givable() []Choice {
	for i, c := range accesses {
		if c.Value == in.Most {
			return accesses[:i+1]
		}
	}
	return nil
}

// A UsersPage is the view model of /users.
type UsersPage struct {
	AccountsPage
	Rows []AccountRow
}

// A AccountRow is one account.
type AccountRow struct {
	contract.User
	ID    string // of its form
	Where string // the machines on which the role holds, in words
	Sight string // the machines that they see, in words
	Ways  string // how they sign in
	State string // "Disabled"; empty: they may sign in
	Path  string // of its actions, with a slash at its end
}

// NewUsersPage makes the view model of /users.
func NewUsersPage(in AccountsInput, users *contract.Users) UsersPage {
	p := UsersPage{AccountsPage: newAccountsPage(&in, "Users")}
	for i := range users.Users {
		u := &users.Users[i]
		p.Rows = append(p.Rows, AccountRow{
			User: *u, ID: "user-" + strconv.Itoa(i), Where: in.machines(u.Scope), Sight: in.machines(u.Sees), Ways: strings.Join(u.Ways, ", "),
			State: either(u.Disabled, "Disabled", ""), Path: in.BasePath + "api/users/" + escaped(u.Name),
		})
	}
	return p
}

// Render writes the whole page as HTML.
func (p UsersPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.head(), usersBody(p)).Render(ctx, w)
}

// A TokensPage is the view model of /tokens.
type TokensPage struct {
	AccountsPage
	Rows []TokenRow
}

// A TokenRow is one API token.
type TokenRow struct {
	contract.Token
	Where         string    // the machines that it is for, in words; of a picture its address
	Expires, Used time.Time // zero: never
	Path          string    // of its actions
}

// NewTokensPage makes the view model of /tokens.
func NewTokensPage(in AccountsInput, tokens *contract.Tokens) TokensPage {
	p := TokensPage{AccountsPage: newAccountsPage(&in, "Tokens")}
	for i := range tokens.Tokens {
		t := &tokens.Tokens[i]
		where := in.machines(t.Scope)
		if t.Scope == "" && t.User != "" { // which may see some only
			where = "all machines of the account"
		}
		p.Rows = append(p.Rows, TokenRow{
			Token: *t, Where: cmp.Or(clean(t.Path, longestName), where), Expires: instant(t.Expires), Used: instant(t.LastUsed),
			Path: in.BasePath + "api/tokens/" + escaped(t.ID),
		})
	}
	return p
}

// Render writes the whole page as HTML.
func (p TokensPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.head(), tokensBody(p)).Render(ctx, w)
}

// A SessionsPage is the view model of /sessions.
type SessionsPage struct {
	AccountsPage
	Rows  []SessionRow
	Users []SessionUser // those with sessions, whose sessions can all be ended at once
}

// A SessionRow is one session.
type SessionRow struct {
	contract.Session
	Began, Seen time.Time
	Path        string // of its actions
}

// A SessionUser is somebody with several sessions.
type SessionUser struct {
	Name  string
	Count int
	Path  string
}

// NewSessionsPage makes the view model of /sessions.
func NewSessionsPage(in AccountsInput, sessions *contract.Sessions) SessionsPage {
	p := SessionsPage{AccountsPage: newAccountsPage(&in, "Sessions")}
	counts, order := map[string]int{}, []string(nil)
	for i := range sessions.Sessions {
		s := &sessions.Sessions[i]
		p.Rows = append(p.Rows, SessionRow{Session: *s, Began: instant(&s.Began), Seen: instant(&s.Seen), Path: in.BasePath + "api/sessions/" + escaped(s.ID)})
		if counts[s.User]++; counts[s.User] == 2 {
			order = append(order, s.User)
		}
	}
	for _, name := range order {
		p.Users = append(p.Users, SessionUser{name, counts[name], in.BasePath + "api/users/" + escaped(name) + "/sessions/end"})
	}
	return p
}

// Render writes the whole page as HTML.
func (p SessionsPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.head(), sessionsBody(p)).Render(ctx, w)
}

// A SecretPage shows a secret once, after it was made: a token, or the link with which somebody chooses a password.
type SecretPage struct {
	AccountsPage
	Headline, Says, Label, Secret string
	Until                         time.Time // when it ends; zero: never
	Back                          string    // where the reader goes on
}

// NewTokenMade shows a token.
func NewTokenMade(in AccountsInput, made *contract.AddedToken) SecretPage {
	p := SecretPage{
		AccountsPage: newAccountsPage(&in, "Tokens"), Headline: "The token “" + clean(made.Title, longestName) + "” is made",
		Says:  "Copy it now: gpuwhy keeps no copy, and nothing shows it again. Programs send it as “Authorization: Bearer TOKEN”, and gpuwhy’s commands read it from GPUWHY_TOKEN or --token-file.",
		Label: "Token", Secret: made.Value, Until: instant(made.Expires), Back: in.BasePath + "tokens",
	}
	if made.Path != "" {
		p.Says, p.Label = "Copy it now: nothing shows it again. Whoever has the address sees the picture, and nothing else, until it ends.", "Address"
		p.Secret = strings.TrimSuffix(in.BasePath, "/") + made.Path + either(strings.Contains(made.Path, "?"), "&", "?") + "token=" + made.Value
	}
	return p
}

// NewLinkMade shows the link with which somebody chooses a password, and the account that it is for.
func NewLinkMade(in AccountsInput, made *contract.AddedUser, link string) SecretPage {
	return SecretPage{
		AccountsPage: newAccountsPage(&in, "Users"), Headline: "A link for " + clean(made.Name, longestName),
		Says:  "Send it to them by a way that only they read. Whoever opens it first chooses the password. Nothing shows it again.",
		Label: "Link", Secret: link, Until: instant(made.LinkExpires), Back: in.BasePath + "users",
	}
}

// Render writes the whole page as HTML.
func (p SecretPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.head(), secretBody(p)).Render(ctx, w)
}

// machines are those of a scope in words, and whether none of them is known now.
func (in *Input) machines(scope string) string {
	if scope == "" {
		return "all machines"
	}
	return scopeText(scope) + either(len(in.Fleet.Moments()) > 0 && !in.Fleet.Has(auth.Scope(scope)), " (none is known now)", "")
}

// scopeText is a scope in words; empty for all machines.
func scopeText(scope string) string { return clean(auth.Scope(scope).Words(), longestSentence) }

// instant is a time of an answer; zero if there is none.
func instant(timestamp *string) time.Time {
	if timestamp == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339, *timestamp) // gpuwhy has written it
	return t
}
