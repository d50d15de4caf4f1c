package access

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// SignInPath is the path of the page to sign in, below the base path.
const SignInPath = "/sign-in"

// A Shell fills in what every page shows.
type Shell interface {
	// Input is what a page of a node is made of, or of all if the name is empty.
	Input(ctx context.Context, f *insight.Fleet, node string) views.Input
	// Plain is what a page without readings is made of.
	Plain() views.Site
}

// A Site has the pages about accounts.
type Site struct {
	Kit   *serve.Kit
	Room  *Room
	Shell Shell
}

// Name implements part.Part.
func (*Site) Name() string { return "accounts" }

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	return slices.Concat(s.signInRoutes(), s.vouchingRoutes(), s.accountRoutes())
}

// signInRoutes are for people who have not signed in.
func (s *Site) signInRoutes() []serve.Route {
	return []serve.Route{
		openRoute("GET", SignInPath, s.signInPage(false)),
		openRoute("POST", SignInPath, s.signIn(false)),
		openRoute("GET", SignInPath+"/code", s.signInPage(true)),
		openRoute("POST", SignInPath+"/code", s.signIn(true)),
		openRoute("POST", SignInPath+"/passkey/begin", s.beginPasskeySignIn),
		openRoute("POST", SignInPath+"/passkey", s.passkeySignIn),
		openRoute("POST", "/sign-out", s.signOut),
		openRoute("GET", "/setup", s.linkPage(true)),
		openRoute("POST", "/setup", s.useLink(true)),
		openRoute("GET", "/reset", s.linkPage(false)),
		openRoute("POST", "/reset", s.useLink(false)),
	}
}

// openRoute is a route for people who may not have signed in. It is about the program, not about a node.
func openRoute(method, path string, h serve.Handler) serve.Route {
	return serve.Route{Method: method, Path: path, Needs: auth.Anyone, Answer: h, Whole: true}
}

// accountRoutes are for people who have signed in, about themselves: whoever may look may change them.
func (s *Site) accountRoutes() []serve.Route {
	own := func(method, path string, h serve.Handler) serve.Route {
		return serve.Route{Method: method, Path: path, Needs: auth.Read, Answer: h, Whole: true}
	}
	return []serve.Route{
		own("GET", "/account", s.accountPage),
		own("POST", "/account/password", s.changePassword),
		own("POST", "/account/passkeys/begin", s.beginPasskey),
		own("POST", "/account/passkeys", s.addPasskey),
		own("POST", "/account/passkeys/remove", s.removePasskey),
		own("POST", "/account/codes", s.makeCodes),
		own("POST", "/account/sessions/end", s.endSessions),
	}
}

// accountsStep is how often at most a program asks whether there are accounts.
const accountsStep = 10 * time.Second

// HasAccounts reports whether people can sign in: there is a user, or a provider vouches for people.
func (r *Room) HasAccounts() bool {
	if len(r.vouchers) > 0 {
		return true
	}
	now := r.cfg.Clock.Elapsed()
	r.accounts.Lock()
	defer r.accounts.Unlock()
	if r.accounts.asked == 0 || now-r.accounts.asked > accountsStep {
		if all, err := r.ledger.List(context.Background(), users.kind, ""); err == nil {
			r.accounts.any = len(all) > 0
		}
		r.accounts.asked = now
	}
	return r.accounts.any
}

// backTo is where a page to sign in leads: a path of ours below the base path, with its query; "/" for whatever else somebody has put there.
func backTo(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(to, "/") {
		return "/"
	}
	// Browsers take \ for /, leave out line feeds, and follow dots, escaped ones too.
	plain := u.Path
	for range 3 {
		if strings.ContainsFunc(plain, func(c rune) bool { return c == '\\' || c < ' ' || c == 0x7f }) || strings.Contains(plain, "//") || dotted(plain) {
			return "/"
		}
		again, err := url.PathUnescape(plain)
		if err != nil || again == plain {
			break
		}
		plain = again
	}
	if p := path.Clean(u.Path); p == SignInPath || strings.HasPrefix(p, SignInPath+"/") || p == "/sign-out" || p == "/ws" || strings.HasPrefix(p, "/api/") || strings.HasPrefix(p, "/account/") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// dotted reports whether a part of a path is . or ..
func dotted(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." })
}

// form reads a form.
func form(request *http.Request) (url.Values, error) {
	if err := request.ParseForm(); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, serve.Refuse(http.StatusRequestEntityTooLarge, "the form is too large", "send at most 256 KiB")
		}
		return nil, serve.Refuse(http.StatusBadRequest, "the form can't be read", "send it as a browser would")
	}
	return request.PostForm, nil
}

// lead answers a form with the page that comes after it.
func (s *Site) lead(w http.ResponseWriter, request *http.Request, to string) error {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, request, s.Kit.BasePath+to, http.StatusSeeOther)
	return nil
}

// refuse answers a form with its page and the reason, or a program with the reason alone.
func refuse(w http.ResponseWriter, request *http.Request, err error, page func(views.Trouble) templ.Component) error {
	if serve.PrefersJSON(w, request) {
		return err
	}
	_, advice := serve.AsRefusal(err)
	return serve.RefuseWith(w, request, err, page(views.Trouble{What: advice.What, Try: advice.Try}))
}

func (s *Site) signInView(request *http.Request, code bool) views.SignInPage {
	query := request.URL.Query()
	p := views.SignInPage{
		Site: s.Shell.Plain(), To: backTo(query.Get("to")), Code: code, Passkeys: s.Room.passkeyHost(request) != "", Providers: s.Room.choices(s.Kit.BasePath),
		Notice: map[string]string{"out": "You have signed out.", "ended": "Your session has ended."}[query.Get("why")],
	}
	if v := s.Room.voucher(query.Get("from")); v != nil && v.client.Ends() {
		p.Out = views.Link{Path: s.Kit.BasePath + pathOfVoucher(v.Name) + "/end", Label: v.client.Label()}
	}
	if err := s.Room.plainSignIn(request); err != nil {
		_, advice := serve.AsRefusal(err)
		p.Trouble = views.Trouble{What: advice.What, Try: advice.Try}
	}
	return p
}

func (s *Site) signInPage(code bool) serve.Handler {
	return func(w http.ResponseWriter, request *http.Request) error {
		return serve.FreshHTML(w, request, s.signInView(request, code))
	}
}

func (s *Site) signIn(code bool) serve.Handler {
	return func(w http.ResponseWriter, request *http.Request) error {
		to := backTo(request.URL.Query().Get("to"))
		fields, err := form(request)
		if err != nil {
			return err
		}
		name := fields.Get("name")
		user, err := (*row[User])(nil), s.Room.plainSignIn(request)
		switch {
		case err != nil:
		case code:
			user, err = s.Room.codeSignIn(request, name, fields.Get("code"))
			to = "/account?done=code"
		default:
			user, err = s.Room.signIn(request, name, fields.Get("password"))
		}
		if err == nil {
			err = s.Room.beginSession(w, request, user.ID, auth.Password)
		}
		if err != nil {
			return refuse(w, request, s.Room.unreachable(err), func(t views.Trouble) templ.Component {
				p := s.signInView(request, code)
				p.Name, p.Notice, p.Trouble = strings.ToValidUTF8(name[:min(len(name), longestName)], ""), "", t
				return p
			})
		}
		return s.lead(w, request, to)
	}
}

func (s *Site) beginPasskeySignIn(w http.ResponseWriter, request *http.Request) error {
	options, err := s.Room.beginPasskeySignIn(w, request)
	return s.options(w, request, options, err)
}

// options answers with what a script gives navigator.credentials.
func (s *Site) options(w http.ResponseWriter, request *http.Request, options any, err error) error {
	if err != nil {
		return s.Room.unreachable(err)
	}
	text, err := optionsOf(options)
	if err != nil {
		return err
	}
	return serve.FreshJSON(w, request, text)
}

// A destination is where a script goes on.
type destination struct {
	To string `json:"to"`
}

func (s *Site) passkeySignIn(w http.ResponseWriter, request *http.Request) error {
	answer, err := io.ReadAll(request.Body)
	if err != nil {
		return serve.Refuse(http.StatusBadRequest, "the body can't be read", "send the whole body")
	}
	user, err := s.Room.passkeySignIn(w, request, answer)
	if err == nil {
		err = s.Room.beginSession(w, request, user, auth.Passkey)
	}
	if err != nil {
		return s.Room.unreachable(err)
	}
	return serve.FreshJSON(w, request, destination{s.Kit.BasePath + backTo(request.URL.Query().Get("to"))})
}

// signOut ends the session of a browser.
func (s *Site) signOut(w http.ResponseWriter, request *http.Request) error {
	session, id, err := s.Room.session(request)
	if err != nil {
		return err
	}
	from := ""
	if session != nil {
		from = s.Room.voucherOf(request.Context(), session)
		if err := s.Room.record(request, "signOut", ""); err != nil {
			return s.Room.unreachable(err)
		}
		if err := s.Room.endSession(request.Context(), id); err != nil {
			return s.Room.unreachable(err)
		}
	}
	s.Room.setCookie(w, request, "", "", 0)
	return s.lead(w, request, SignInPath+"?why=out"+from)
}

// linkPage is the page of a link that somebody has got.
func (s *Site) linkPage(first bool) serve.Handler {
	return func(w http.ResponseWriter, request *http.Request) error {
		secret := request.URL.Query().Get("link")
		p, err := s.linkView(request, secret, first)
		if err != nil {
			return refuse(w, request, s.Room.unreachable(err), func(t views.Trouble) templ.Component {
				p.Secret, p.Trouble = "", t
				return p
			})
		}
		return serve.FreshHTML(w, request, p)
	}
}

func (s *Site) linkView(request *http.Request, secret string, first bool) (views.PasswordPage, error) {
	p := views.PasswordPage{Site: s.Shell.Plain(), Secret: secret, First: first, Least: leastPassword}
	found, err := s.Room.link(request.Context(), secret, first)
	if err != nil || first {
		return p, err
	}
	user, err := users.get(request.Context(), s.Room.ledger, found.Value.User)
	if err != nil {
		return p, err
	}
	if user == nil || user.Value.Disabled {
		return p, errUsed
	}
	p.Name = user.Value.Name
	return p, nil
}

// useLink chooses a password with a link, and signs in.
func (s *Site) useLink(first bool) serve.Handler {
	return func(w http.ResponseWriter, request *http.Request) error {
		fields, err := form(request)
		if err != nil {
			return err
		}
		secret, name := fields.Get("link"), strings.TrimSpace(fields.Get("name"))
		user, err := (*row[User])(nil), s.Room.plainSignIn(request)
		switch {
		case err != nil:
		case first:
			user, err = s.Room.setUp(request, secret, name, fields.Get("password"))
		default:
			user, err = s.Room.reset(request, secret, fields.Get("password"))
		}
		if err == nil {
			err = s.Room.beginSession(w, request, user.ID, auth.Password)
		}
		if err != nil {
			return refuse(w, request, s.Room.unreachable(err), func(t views.Trouble) templ.Component {
				p, gone := s.linkView(request, secret, first)
				if gone != nil {
					p.Secret = ""
				}
				p.Name, p.Trouble = cmp.Or(p.Name, name[:min(len(name), longestName)]), t
				return p
			})
		}
		return s.lead(w, request, "/account?done="+map[bool]string{true: "setup", false: "reset"}[first])
	}
}

// wayTexts says how a session began.
var wayTexts = map[auth.Way]string{
	auth.Password: "with a password", auth.Passkey: "with a passkey", auth.Provider: "with another account", auth.Local: "from this machine", auth.Proxy: "from a proxy",
	auth.Open: "as anyone", auth.Token: "by a token",
}

// notices are what the account page says was done.
var notices = map[string]string{
	"setup":    "The account is made, and you are signed in. Make recovery codes now, and add a passkey if your device has one.",
	"reset":    "The password is changed, and your other sessions have ended.",
	"password": "The password is changed, and your other sessions have ended.",
	"code":     "You have used up a recovery code. Choose a new password, or add a passkey.",
	"added":    "The passkey is added.",
	"removed":  "The passkey is removed.",
	"ended":    "The session has ended.",
}

// own is the account of whoever makes a request, with the session.
func (s *Site) own(request *http.Request) (user *row[User], session *row[Session], err error) {
	who := auth.FromRequest(request)
	if !who.SignedIn() {
		return nil, nil, errNoAccount
	}
	ctx := request.Context()
	session, err = sessions.get(ctx, s.Room.ledger, who.Key)
	if err != nil {
		return nil, nil, s.Room.unreachable(err)
	}
	if session == nil {
		return nil, nil, errNoAccount
	}
	user, err = users.get(ctx, s.Room.ledger, session.Value.User)
	if err == nil && user == nil {
		err = errNoAccount
	}
	return user, session, s.Room.unreachable(err)
}

// ownSecrets is own for a change of how the user signs in, which is not up to users for whom a provider vouches.
func (s *Site) ownSecrets(request *http.Request) (user *row[User], session *row[Session], err error) {
	user, session, err = s.own(request)
	if err == nil && user.Value.Provider != "" {
		err = errVouched
	}
	return user, session, err
}

var (
	errVouched   = &action.Refusal{Code: "vouched", Status: http.StatusForbidden, What: "the account signs in with a provider alone", Try: "change the password there"}
	errNoAccount = &action.Refusal{Code: "no_account", Status: http.StatusForbidden, What: "only people who have signed in have an account here", Try: "sign in first"}
	errOld       = &action.Refusal{Code: "old_session", Status: http.StatusForbidden, What: "you signed in more than ten minutes ago", Try: "sign in again to change how you sign in"}
)

// young reports whether a session may change how its user signs in: whoever finds a browser open must not be able to.
func (s *Site) young(session *row[Session]) bool {
	return s.Room.cfg.Clock.Now().Sub(session.Value.Began) < young
}

func (s *Site) accountView(request *http.Request) (views.AccountPage, error) {
	who, query := auth.FromRequest(request), request.URL.Query()
	p := views.AccountPage{Input: s.Shell.Input(request.Context(), s.Kit.Latest(request), ""), Name: who.Name, Way: wayTexts[who.Way], Least: leastPassword, Notice: notices[query.Get("done")]}
	p.Choices = views.Choices{Path: p.BasePath + "account", Asked: query}
	user, session, err := s.own(request)
	if errors.Is(err, errNoAccount) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p.SignedIn, p.Role, p.Password, p.Young = true, string(user.Value.Role), user.Value.Password != "", s.young(session)
	if p.Provider = user.Value.Provider; s.Room.voucher(p.Provider) != nil {
		p.Provider = s.Room.voucher(p.Provider).client.Label()
	}
	p.NeedsOld, p.Offered = p.Password && !p.Young, s.Room.passkeyHost(request) != ""
	return p, s.fill(request.Context(), &p, user, session)
}

// fill fills in what a user has.
func (s *Site) fill(ctx context.Context, p *views.AccountPage, user *row[User], here *row[Session]) error {
	keys, err := passkeys.list(ctx, s.Room.ledger, user.ID)
	if err != nil {
		return s.Room.unreachable(err)
	}
	for _, k := range keys {
		p.Passkeys = append(p.Passkeys, views.AccountPasskey{ID: k.ID, Title: k.Value.Title, Host: k.Value.Host, Made: k.Value.Made, Used: k.Value.Used})
	}
	slices.SortFunc(p.Passkeys, func(a, b views.AccountPasskey) int { return a.Made.Compare(b.Made) })
	if has, err := codes.get(ctx, s.Room.ledger, codesOf(user.ID)); err != nil {
		return s.Room.unreachable(err)
	} else if has != nil {
		p.CodesLeft = len(has.Value.Hashes)
	}
	all, err := sessions.list(ctx, s.Room.ledger, user.ID)
	if err != nil {
		return s.Room.unreachable(err)
	}
	for _, one := range all {
		v := &one.Value
		p.Sessions = append(p.Sessions, views.AccountSession{
			ID: one.ID, Agent: v.Agent, Address: v.Address, Way: wayTexts[v.Way], Began: v.Began, Seen: v.Seen, Here: one.ID == here.ID,
		})
	}
	slices.SortFunc(p.Sessions, func(a, b views.AccountSession) int { return b.Seen.Compare(a.Seen) })
	return nil
}

func (s *Site) accountPage(w http.ResponseWriter, request *http.Request) error {
	p, err := s.accountView(request)
	if err != nil {
		return err
	}
	return serve.FreshHTML(w, request, p)
}

// refuseOwn answers a form of the account page with the reason why it was not done.
func (s *Site) refuseOwn(w http.ResponseWriter, request *http.Request, err error) error {
	err = s.Room.unreachable(err)
	p, failed := s.accountView(request)
	if failed != nil {
		return err
	}
	return refuse(w, request, err, func(t views.Trouble) templ.Component {
		p.Notice, p.Trouble = "", t
		return p
	})
}

func (s *Site) changePassword(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.ownSecrets(request)
	if err != nil {
		return err
	}
	fields, err := form(request)
	if err == nil {
		err = s.Room.plainSignIn(request)
	}
	if err != nil {
		return err
	}
	if !s.young(session) {
		if user.Value.Password == "" {
			return s.refuseOwn(w, request, errOld)
		}
		if _, err := s.Room.signIn(request, user.Value.Name, fields.Get("old")); err != nil {
			if errors.Is(err, errWrong) {
				err = errOldPassword
			}
			return s.refuseOwn(w, request, err)
		}
	}
	changes, err := s.Room.passwordChanges(request.Context(), user, fields.Get("password"), session.ID)
	if err == nil {
		err = s.Room.recorded(request, "changePassword", user.Value.Name, changes...)
	}
	if err != nil {
		return s.refuseOwn(w, request, err)
	}
	s.Room.revoke(changes)
	return s.lead(w, request, "/account?done=password")
}

var errOldPassword = serve.Refuse(http.StatusForbidden, "the old password is wrong", "type it again, or sign out and ask an administrator for a link")

func (s *Site) beginPasskey(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.ownSecrets(request)
	if err == nil && !s.young(session) {
		err = errOld
	}
	if err != nil {
		return err
	}
	options, err := s.Room.beginPasskey(w, request, user)
	return s.options(w, request, options, err)
}

func (s *Site) addPasskey(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.ownSecrets(request)
	if err == nil && !s.young(session) {
		err = errOld
	}
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(request.Body)
	if err != nil {
		return serve.Refuse(http.StatusBadRequest, "the body can't be read", "send the whole body")
	}
	if err := s.Room.addPasskey(w, request, user, request.URL.Query().Get("title"), answer); err != nil {
		return s.Room.unreachable(err)
	}
	return serve.FreshJSON(w, request, destination{s.Kit.BasePath + "/account?done=added"})
}

func (s *Site) removePasskey(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.own(request)
	if err != nil {
		return err
	}
	fields, err := form(request)
	if err != nil {
		return err
	}
	key, err := passkeys.get(request.Context(), s.Room.ledger, fields.Get("id"))
	switch {
	case err != nil:
	case key == nil || key.Owner != user.ID:
		return s.lead(w, request, "/account")
	case !s.young(session):
		err = errOld
	default:
		err = s.Room.recorded(request, "removePasskey", key.Value.Title, passkeys.remove(key.ID))
	}
	if err != nil {
		return s.refuseOwn(w, request, err)
	}
	return s.lead(w, request, "/account?done=removed")
}

// makeCodes shows new recovery codes, this once.
func (s *Site) makeCodes(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.ownSecrets(request)
	if err != nil {
		return err
	}
	if !s.young(session) {
		return s.refuseOwn(w, request, errOld)
	}
	list, err := s.Room.newCodes(request, user.ID)
	if err != nil {
		return s.refuseOwn(w, request, err)
	}
	p, err := s.accountView(request)
	if err != nil {
		return err
	}
	p.Codes = list
	return serve.FreshHTML(w, request, p)
}

// endSessions ends one of a user's sessions, or all but the one that asks.
func (s *Site) endSessions(w http.ResponseWriter, request *http.Request) error {
	user, session, err := s.own(request)
	if err != nil {
		return err
	}
	fields, err := form(request)
	if err != nil {
		return err
	}
	changes, err := s.Room.endings(request.Context(), user.ID, session.ID)
	if id := fields.Get("id"); id != "" {
		changes = slices.DeleteFunc(changes, func(c ledger.Change) bool { return c.ID != id })
	}
	if err == nil {
		err = s.Room.recorded(request, "endSession", user.Value.Name, changes...)
	}
	if err != nil {
		return s.refuseOwn(w, request, err)
	}
	s.Room.revoke(changes)
	return s.lead(w, request, "/account?done=ended")
}
