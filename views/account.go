package views

import (
	"context"
	"io"
	"strconv"
	"time"
)

// A Trouble is why something was not done, and what to do. The zero value is no trouble.
type Trouble struct{ What, Try string }

// text is the trouble in sentences.
func (t Trouble) text() string {
	if t.Try == "" {
		return asSentence(t.What)
	}
	return asSentence(t.What) + " " + asSentence(t.Try)
}

// A VouchingLink leads to a provider that can sign people in.
type VouchingLink struct {
	Link
	Down bool // it did not answer when it was last asked
}

// A SignInPage is the page to sign in.
type SignInPage struct {
	Site
	To       string // where it leads: a path below the base path, such as "/alerts"; empty for the start page
	Name     string // as it was typed
	Code     bool   // with a recovery code in place of the password
	Passkeys bool   // the browser may offer passkeys
	// Providers are who else can vouch for people.
	Providers []VouchingLink
	Out       Link   // where people sign out of a provider too; without a path, nowhere
	Notice    string // what has happened, such as a session that has ended
	Trouble   Trouble
}

// address returns the address of a path of the page, which leads to the same page.
func (p *SignInPage) address(path string) string {
	return p.Base + path + toParameter(p.To)
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p SignInPage) Render(ctx context.Context, w io.Writer) error {
	h := head{Title: "Sign in · gpuwhy", asset: p.Asset, Styles: []string{"app.css"}}
	if p.Passkeys && !p.Code {
		h.Script = p.Asset("passkey.js")
	}
	return document(h, signInBody(p)).Render(ctx, w)
}

// A PasswordPage lets whoever has a link choose a password: the first administrator, or a user who has lost it.
type PasswordPage struct {
	Site
	Secret  string // of the link; empty if it does not work any more
	First   bool   // it makes the first administrator, who also chooses a name
	Name    string // the name of the user; or as it was typed
	Least   int    // characters that a password must have
	Trouble Trouble
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p PasswordPage) Render(ctx context.Context, w io.Writer) error {
	return document(head{Title: p.title() + " · gpuwhy", asset: p.Asset, Styles: []string{"app.css"}}, passwordBody(p)).Render(ctx, w)
}

func (p *PasswordPage) title() string {
	if p.First {
		return "Make the first administrator"
	}
	return "Choose a new password"
}

// An AccountPage is what a user sees of the own account.
type AccountPage struct {
	Input
	Name, Role string
	Way        string // how the user has signed in
	Provider   string // which vouches for the user, who has no password or passkey here; empty: none does
	SignedIn   bool   // else the user has no account: the machine or a proxy says who it is
	Password   bool   // the user has one
	NeedsOld   bool   // to change it
	Young      bool   // the session is new enough to change how the user signs in
	Least      int    // characters that a password must have
	Offered    bool   // passkeys work at this address
	Passkeys   []AccountPasskey
	Codes      []string // recovery codes that were just made
	CodesLeft  int      // recovery codes that were not used
	Sessions   []AccountSession
	Notice     string
	Trouble    Trouble
}

// An AccountPasskey is one of a user's passkeys.
type AccountPasskey struct {
	ID, Title, Host string
	Made, Used      time.Time // Used is zero if it never was
}

// An AccountSession is a browser with which a user has signed in.
type AccountSession struct {
	ID, Agent, Address, Way string
	Began, Seen             time.Time
	Here                    bool // the one that shows the page
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p AccountPage) Render(ctx context.Context, w io.Writer) error {
	h := p.head("Account · gpuwhy", "")
	return document(h, accountBody(p)).Render(ctx, w)
}

// agentText names a browser in a few words, from what it says of itself.
func agentText(agent string) string {
	if agent == "" {
		return "An unnamed program"
	}
	return clean(Browser(agent), longestName)
}

func leastText(n int) string {
	return "At least " + strconv.Itoa(n) + " characters. A few words are easy to remember."
}

func codesText(n int) string {
	switch n {
	case 0:
		return "You have none."
	case 1:
		return "One is left."
	default:
		return strconv.Itoa(n) + " are left."
	}
}
