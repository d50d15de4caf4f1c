package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/access/provider"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// A Provider is an OpenID Connect provider that vouches for users, with what they may do.
type Provider struct {
	provider.Config
	// Roles give roles to groups and people at each sign-in. None: the role is that of the account.
	Roles []Grant
	// Others is the role of people without a grant; empty: they are refused. Without Roles, it is that of new accounts.
	Others Role
	// Create says that people get an account when they first sign in.
	Create bool
}

// attemptLife is how long somebody may take to sign in at a provider.
const attemptLife = 10 * time.Minute

// An attempt is a sign-in at a provider that has begun. Its ID is the hash of the state. Whatever else is secret is derived from the
// browser's cookie, so that the ledger knows none of it.
type attempt struct {
	Provider string `json:"provider"`
	Browser  string `json:"browser"` // the hash of the cookie
	Redirect string `json:"redirect"`
	To       string `json:"to"` // where the browser goes at last
}

var begunAttempts = table[attempt]{"attempt"}

// attemptCookie ties an attempt to the browser that began it.
const attemptCookie = "-provider"

// derived are the secrets of an attempt.
func derived(state, browser, redirect string) *provider.Attempt {
	secret := func(what string) string {
		mac := hmac.New(sha256.New, []byte(browser))
		mac.Write([]byte(what + "\n" + state))
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	return &provider.Attempt{State: state, Nonce: secret("nonce"), Verifier: secret("verifier"), Redirect: redirect}
}

// A voucher is a provider with its client.
type voucher struct {
	*Provider
	client *provider.Client
}

func (r *Room) newVouchers(all []Provider) (vouchers []*voucher) {
	for i := range all {
		vouchers = append(vouchers, &voucher{&all[i], provider.New(all[i].Config, r.cfg.Clock.Now, r.log)})
	}
	return vouchers
}

// runVouchers asks the providers for their addresses until ctx ends.
func (r *Room) runVouchers(ctx context.Context) {
	var all sync.WaitGroup
	for _, v := range r.vouchers {
		all.Go(func() { v.client.Run(ctx) })
	}
	all.Wait()
}

// voucher returns the provider in a request's path; nil if there is none.
func (r *Room) voucher(name string) *voucher {
	for _, v := range r.vouchers {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// pathOfVoucher is where people sign in with a provider, below the base path.
func pathOfVoucher(name string) string { return SignInPath + "/with/" + name }

// vouchingRoutes are those of sign-in with a provider.
func (s *Site) vouchingRoutes() []serve.Route {
	route := func(path string, h func(http.ResponseWriter, *http.Request, *voucher) error) serve.Route {
		return openRoute(http.MethodGet, SignInPath+"/with/{provider}"+path, func(w http.ResponseWriter, request *http.Request) error {
			w.Header().Set("Cache-Control", "no-store")
			v := s.Room.voucher(request.PathValue("provider"))
			if v == nil {
				return serve.ErrNothing
			}
			err := h(w, request, v)
			if err == nil {
				return nil
			}
			return refuse(w, request, s.Room.unreachable(err), func(t views.Trouble) templ.Component {
				p := s.signInView(request, false)
				p.Notice, p.Trouble = "", t
				return p
			})
		})
	}
	return []serve.Route{route("", s.leadToProvider), route("/callback", s.leadBack), route("/end", s.leadOut)}
}

// choices are the buttons of the page to sign in.
func (r *Room) choices(base string) (links []views.VouchingLink) {
	for _, v := range r.vouchers {
		links = append(links, views.VouchingLink{Link: views.Link{Path: base + pathOfVoucher(v.Name), Label: v.client.Label()}, Down: v.client.Down() != nil})
	}
	return links
}

// voucherOf is the parameter that names the provider by which a session began; empty if there was none.
func (r *Room) voucherOf(ctx context.Context, session *Session) string {
	if session.Way != auth.Provider {
		return ""
	}
	user, err := users.get(ctx, r.ledger, session.User)
	if err != nil || user == nil {
		return ""
	}
	return "&from=" + url.QueryEscape(user.Value.Provider)
}

// origin is where browsers reach this program, without the base path: at the public address if there is one, else as in the request, whose
// host is one of those that the program answers to.
func (r *Room) origin(request *http.Request) string {
	if r.cfg.PublicURL != "" {
		return r.cfg.PublicURL
	}
	if r.secure(request) {
		return "https://" + request.Host
	}
	return "http://" + request.Host
}

// leadToProvider begins a sign-in at a provider.
func (s *Site) leadToProvider(w http.ResponseWriter, request *http.Request, v *voucher) error {
	ctx, r := request.Context(), s.Room
	if !r.begun.allow(r.household(request)) {
		return r.refused(request, "signIn", serve.Refuse(http.StatusTooManyRequests, "too many people begin to sign in at this moment", "try again in a few seconds").RetryAfter("5"))
	}
	state, browser := newSecret(), newSecret()
	redirect := r.origin(request) + r.base + pathOfVoucher(v.Name) + "/callback"
	address, err := v.client.Begin(ctx, derived(state, browser, redirect))
	if err != nil {
		return vouchRefusal(err)
	}
	change, err := begunAttempts.put(&row[attempt]{
		Item:  ledger.Item{ID: hashOf(state), Expires: r.cfg.Clock.Now().Add(attemptLife)},
		Value: attempt{Provider: v.Name, Browser: hashOf(browser), Redirect: redirect, To: backTo(request.URL.Query().Get("to"))},
	})
	if err != nil {
		return err
	}
	if err := r.ledger.Apply(ctx, change); err != nil {
		return r.unreachable(err)
	}
	r.setCookie(w, request, attemptCookie, browser, attemptLife)
	http.Redirect(w, request, address, http.StatusSeeOther)
	return nil
}

// errAttempt refuses an answer that belongs to no attempt of this browser.
var errAttempt = serve.Refuse(http.StatusBadRequest, "this browser did not begin this sign-in, or it did more than 10 minutes ago, or it has used it already",
	"go to the page to sign in, and begin again")

// leadBack takes the browser back from a provider, and begins a session.
func (s *Site) leadBack(w http.ResponseWriter, request *http.Request, v *voucher) error {
	ctx, r := request.Context(), s.Room
	query, err := serve.ParseQuery(request)
	if err != nil {
		return err
	}
	for _, name := range []string{"state", "code", "error", "iss"} {
		if len(query[name]) > 1 {
			return errAttempt
		}
	}
	state, browser := query.Get("state"), ""
	if cookie, err := request.Cookie(r.cookie(request, attemptCookie)); err == nil {
		browser = cookie.Value
	}
	if state == "" || browser == "" {
		return errAttempt
	}
	begun, err := begunAttempts.get(ctx, r.ledger, hashOf(state))
	if err != nil {
		return r.unreachable(err)
	}
	if begun == nil || !r.cfg.Clock.Now().Before(begun.Expires) || begun.Value.Provider != v.Name || subtle.ConstantTimeCompare([]byte(begun.Value.Browser), []byte(hashOf(browser))) != 1 {
		return errAttempt
	}
	// It is used up before anything else, so that two answers with one state can't both be taken.
	err = r.ledger.Apply(ctx, ledger.Change{Item: ledger.Item{Kind: begunAttempts.kind, ID: begun.ID}, Was: begun.Version, Remove: true, Quiet: true})
	switch {
	case errors.Is(err, ledger.ErrConflict):
		return errAttempt
	case err != nil:
		return r.unreachable(err)
	}
	r.setCookie(w, request, attemptCookie, "", 0)
	e := r.entry(request, "signIn", "refused")
	e.Way, e.Target = string(auth.Provider), v.Name
	user, err := r.vouched(ctx, v, e, derived(state, browser, begun.Value.Redirect), query)
	if err != nil {
		r.log.Warn("a provider did not sign somebody in", "provider", v.Name, "name", e.Principal, "err", err)
		if e.Detail == "" {
			e.Detail = err.Error()
		}
		return errors.Join(vouchRefusal(err), r.cfg.Audit(ctx, e))
	}
	if err := r.beginSession(w, request, user, auth.Provider); err != nil {
		return err
	}
	return s.lead(w, request, begun.Value.To)
}

// vouched returns the ID of the user whom a provider's answer is about, and gives the account the role that the provider's groups give.
func (r *Room) vouched(ctx context.Context, v *voucher, e *ledger.Entry, a *provider.Attempt, query url.Values) (string, error) {
	if query.Has("error") {
		return "", &gpu.Advice{
			What: v.client.Label() + " did not sign you in", Try: "sign in again, or ask the person who runs it",
			Err: fmt.Errorf("%w: it says %.60q", provider.ErrNotAccepted, query.Get("error")),
		}
	}
	person, err := v.client.Redeem(ctx, a, provider.Answer{Code: query.Get("code"), Issuer: query.Get("iss")})
	if err != nil {
		return "", err
	}
	id := vouchedID(v.Issuer, person.Subject)
	if e.Identity, e.Principal = identityOf(id), person.Name; checkName(person.Name) != nil {
		e.Principal = serve.Quote(person.Name)
	}
	err = r.retrying(func() error { return r.admit(ctx, v, e, id, person) })
	return id, err
}

// vouchedID is the ID of the user with a subject at a provider. Neither a name nor an e-mail address is a part of it: both can change, and
// be somebody else's.
func vouchedID(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "\n" + subject))
	return "oidc-" + hex.EncodeToString(sum[:16])
}

// refusedPerson is the error for somebody whom a provider has signed in, and who may not come in here.
func (v *voucher) refusedPerson(why, try string) error {
	return &gpu.Advice{What: v.client.Label() + " signed you in, but " + why, Try: try, Err: fmt.Errorf("%w: %s", provider.ErrNotAccepted, why)}
}

const tryOwner = "ask the person who runs gpuwhy"

// admit gives a person an account, or the account its role.
func (r *Room) admit(ctx context.Context, v *voucher, e *ledger.Entry, id string, person *provider.Person) error {
	user, err := users.get(ctx, r.ledger, id)
	if err != nil {
		return r.unreachable(err)
	}
	rights, ok := granted(v.Roles, v.Others, person.Subject, person.Groups)
	if user != nil && len(v.Roles) == 0 { // the account says it
		rights, ok = user.Value.rights(), true
	}
	switch {
	case !ok:
		if user != nil {
			if err := r.shutOut(ctx, e, user); err != nil {
				return err
			}
		}
		return v.refusedPerson("none of your groups may use this gpuwhy", tryOwner+" which groups may")
	case user == nil && !v.Create:
		return v.refusedPerson("you have no account here", tryOwner+" for one")
	case user == nil:
		return r.addVouched(ctx, v, id, rights, person)
	case user.Value.Subject != person.Subject:
		return fmt.Errorf("the account %s is of another subject", id)
	case user.Value.Disabled:
		return v.refusedPerson("your account here is disabled", tryOwner)
	}
	return r.regrant(ctx, e, user, rights)
}

// regrant gives an account other rights. The open sockets of its user end, since they have the old ones, and so do tokens that give more.
func (r *Room) regrant(ctx context.Context, e *ledger.Entry, user *row[User], rights Rights, more ...ledger.Change) error {
	e.Principal = user.Value.Name
	if user.Value.rights() == rights && len(more) == 0 {
		return nil
	}
	beyond, err := r.beyond(ctx, user.ID, rights)
	if err != nil {
		return err
	}
	more = append(more, beyond...)
	changed := *e
	changed.Action, changed.Result, changed.Target = "changeRole", "done", user.Value.Name
	changed.Before, changed.After = user.Value.rights().text(), rights.text()
	if err := r.cfg.Audit(ctx, &changed); err != nil {
		return err
	}
	user.Value.Role, user.Value.Scope, user.Value.Sees = rights.Role, rights.Scope, rights.Sees
	change, err := users.put(user)
	if err != nil {
		return err
	}
	if err := r.ledger.Apply(ctx, append(more, change)...); err != nil {
		return err
	}
	r.cfg.Revoke(func(p auth.Principal) bool { return p.ID == identityOf(user.ID) })
	return nil
}

// addVouched makes an account for somebody new. Whoever has an account of that name, such as one with a password, keeps it.
func (r *Room) addVouched(ctx context.Context, v *voucher, id string, rights Rights, person *provider.Person) error {
	if err := checkName(person.Name); err != nil {
		return v.refusedPerson("the name "+serve.Quote(person.Name)+" can't be that of an account here", tryOwner)
	}
	taken, err := users.named(ctx, r.ledger, nameOf(person.Name))
	if err != nil {
		return r.unreachable(err)
	}
	if taken != nil {
		return v.refusedPerson("another account here has the name "+serve.Quote(person.Name), "if it is yours, sign in to it as you did before; else "+tryOwner)
	}
	user := &row[User]{
		Item: ledger.Item{ID: id, Name: nameOf(person.Name)},
		Value: User{
			Name: person.Name, Role: rights.Role, Scope: rights.Scope, Sees: rights.Sees, Provider: v.Name, Subject: person.Subject, Created: r.cfg.Clock.Now().UTC(),
		},
	}
	change, err := users.put(user)
	if err != nil {
		return err
	}
	return r.ledger.Apply(ctx, change)
}

// shutOut ends the sessions of somebody who has lost all groups that may come in, and takes the role, without which API tokens of the
// account can do nothing either.
func (r *Room) shutOut(ctx context.Context, e *ledger.Entry, user *row[User]) error {
	ended, err := r.endings(ctx, user.ID, "")
	if err != nil {
		return err
	}
	return r.regrant(ctx, e, user, Rights{}, ended...)
}

// leadOut leads to where people sign out of a provider too.
func (s *Site) leadOut(w http.ResponseWriter, request *http.Request, v *voucher) error {
	r := s.Room
	page := r.base + SignInPath
	to := v.client.End(request.Context(), r.origin(request)+page)
	if to == "" {
		to = page
	}
	http.Redirect(w, request, to, http.StatusSeeOther)
	return nil
}

// vouchRefusal is what a browser is told of a provider's error.
func vouchRefusal(err error) error {
	advice, is := errors.AsType[*gpu.Advice](err)
	switch {
	case !is:
		return err
	case errors.Is(err, provider.ErrUnreachable):
		return serve.Refuse(http.StatusServiceUnavailable, advice.What, advice.Try).RetryAfter("5")
	default:
		return serve.Refuse(http.StatusForbidden, advice.What, advice.Try)
	}
}
