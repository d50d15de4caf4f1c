package access

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/views"
)

// An AdminSite has the accounts, tokens and sessions, over the API and on pages, and what people do about them.
type AdminSite struct {
	Kit   *serve.Kit
	Shell Shell
	Room  *Room
}

// Name implements part.Part.
func (*AdminSite) Name() string { return "administration" }

// Routes implements part.Server.
func (s *AdminSite) Routes() []serve.Route {
	read := func(path string, needs auth.Access, list func(r *http.Request) (any, error), id, summary string, parts ...apidoc.Part) serve.Route {
		route := serve.Read(path, func(w http.ResponseWriter, r *http.Request) error {
			answer, err := list(r)
			if err != nil {
				return err
			}
			return serve.FreshJSON(w, r, answer)
		}, contract.ClientAccess, id, summary, parts...).ProgramOnly()
		route.Needs = needs
		return route
	}
	page := func(path string, needs auth.Access, h serve.Handler) serve.Route {
		route := serve.Page(path, h).ProgramOnly()
		route.Needs = needs
		return route
	}
	return []serve.Route{
		read("/api/account", auth.Metrics, s.account, "getAccount", "Say who makes the request",
			serve.Fresh("Who gpuwhy takes the caller for, and what they may do.", contract.Account{}, "")),
		read("/api/users", auth.Administer, s.users, "listUsers", "List accounts", serve.Fresh("The accounts.", contract.Users{}, "")),
		read("/api/tokens", auth.Read, s.tokens, "listTokens", "List API tokens",
			apidoc.Text("Administrators see all, others their own. Nothing shows the value of a token again."), serve.Fresh("The tokens.", contract.Tokens{}, "")),
		read("/api/sessions", auth.Read, s.sessions, "listSessionsOfPeople", "List sessions",
			apidoc.Text("Administrators see all, others their own."), serve.Fresh("The sessions.", contract.Sessions{}, "")),
		page("/users", auth.Administer, s.usersPage),
		page("/tokens", auth.Read, s.tokensPage),
		page("/sessions", auth.Read, s.sessionsPage),
	}
}

func (s *AdminSite) account(r *http.Request) (any, error) {
	who := auth.FromRequest(r)
	return newAccount(&who), nil
}

func (s *AdminSite) users(r *http.Request) (any, error) {
	who := auth.FromRequest(r)
	if err := administers(&who); err != nil {
		return nil, err
	}
	return s.Room.Users(r.Context())
}

func (s *AdminSite) tokens(r *http.Request) (any, error) {
	who := auth.FromRequest(r)
	return s.Room.Tokens(r.Context(), &who)
}

func (s *AdminSite) sessions(r *http.Request) (any, error) {
	who := auth.FromRequest(r)
	return s.Room.Sessions(r.Context(), &who)
}

// input is what a page for whoever asks is made of.
func (s *AdminSite) input(r *http.Request, path string) views.AccountsInput {
	who := auth.FromRequest(r)
	in := views.AccountsInput{Input: s.Shell.Input(r.Context(), s.Kit.Latest(r), "")}
	in.Choices = views.Choices{Path: in.BasePath + path, Asked: url.Values{}}
	if administers(&who) == nil || who.Account() != "" {
		in.Most = who.Access.String()
	}
	return in
}

func (s *AdminSite) usersPage(w http.ResponseWriter, r *http.Request) error {
	who := auth.FromRequest(r)
	if err := administers(&who); err != nil {
		return err
	}
	all, err := s.Room.Users(r.Context())
	if err != nil {
		return err
	}
	return serve.HTML(w, r, views.NewUsersPage(s.input(r, "users"), &all))
}

func (s *AdminSite) tokensPage(w http.ResponseWriter, r *http.Request) error {
	who := auth.FromRequest(r)
	all, err := s.Room.Tokens(r.Context(), &who)
	if err != nil {
		return err
	}
	return serve.HTML(w, r, views.NewTokensPage(s.input(r, "tokens"), &all))
}

func (s *AdminSite) sessionsPage(w http.ResponseWriter, r *http.Request) error {
	who := auth.FromRequest(r)
	all, err := s.Room.Sessions(r.Context(), &who)
	if err != nil {
		return err
	}
	return serve.HTML(w, r, views.NewSessionsPage(s.input(r, "sessions"), &all))
}

// showToken answers a form with the token that it has made.
func (s *AdminSite) showToken(w http.ResponseWriter, r *http.Request, answer any) error {
	made := answer.(contract.AddedToken) //nolint:forcetypeassert // the action's answer
	return serve.FreshHTML(w, r, views.NewTokenMade(s.input(r, "tokens"), &made))
}

// showUser answers a form with the link that it has made.
func (s *AdminSite) showUser(w http.ResponseWriter, r *http.Request, answer any) error {
	made := answer.(contract.AddedUser) //nolint:forcetypeassert // the action's answer
	if made.Link == nil {
		http.Redirect(w, r, s.Kit.Root()+"users", http.StatusSeeOther)
		return nil
	}
	link := *made.Link
	if strings.HasPrefix(link, "/") { // people get it as a whole address
		scheme := "http://"
		if s.Kit.TrustedProxies.Secure(r) {
			scheme = "https://"
		}
		link = scheme + r.Host + link
	}
	return serve.FreshHTML(w, r, views.NewLinkMade(s.input(r, "users"), &made, link))
}
