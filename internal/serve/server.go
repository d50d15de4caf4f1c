// Package serve answers HTTP. It knows no capability: each room of the program brings its [Route]s, with the access that each needs and
// its text in the API's documents. They are made with a [Kit]. Serve itself has the middleware, the errors, the socket, the files of
// the pages, the documents of all routes, and the routes of the actions that people and programs can ask for.
//
// An answer is encoded and compressed once for each Moment or fleet, when somebody first asks for it, and all clients share its bytes.
// Below /node/{node} the same routes answer about one node ([Server.ofNode]).
//
// Errors are application/problem+json, or a page for a browser. Their detail is the text of a
// [gpu.Advice]. Any other error is shown as "internal error" and goes to the log.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Config is what a server needs beside the kit and the routes.
type Config struct {
	Pages   Pages
	Actions *action.Desk // what people can do; nil: nothing
	Keeper  Keeper       // nil: nothing is kept
	Watch   Watch        // nil: nobody wants to know
	// Identifier decides who makes a request; nil: [Owner].
	Identifier Identifier
	// Proven reports whether everybody's browser accepts the certificate for a name; nil: for none.
	Proven func(host string) bool
	// HSTS is for how long browsers that were at a proven name, at the usual port of TLS, use nothing but TLS for it; 0: they forget that
	// they were told so.
	HSTS time.Duration
	// SignIn is the path of the page to sign in, below the base path, to which browsers are led that ask for more than anyone may see;
	// empty: there is none. It gets the path that was asked for as its parameter "to".
	SignIn string
	// MaxViewers is how many there may be in all, which the hub sees to; 0: 1000.
	MaxViewers int
}

// A Keeper writes changed state to disk, if state is kept.
type Keeper interface{ Flush(context.Context) error }

// A Watch is notified of each permitted request before it is answered. Many goroutines call it at the same time.
type Watch interface{ Noticed(*http.Request) }

// An Address is where a server is reached, and by whom.
type Address struct {
	// BasePath is the prefix of all routes, such as "/gpu-3": a clean path of letters, digits and
	// "-._~/". A trailing slash does not matter; it may be empty.
	BasePath string
	// Listen is the address that the server listens on, "host:port". Requests may name its host. If
	// it is unspecified (":8080", "0.0.0.0:8080"), they may name any IP address, and Hostname. Or it is a
	// Unix socket, "unix:PATH".
	Listen   string
	Hostname string // the machine's own name; empty where it has none
	// AllowHosts are more names and addresses that requests may name, such as "gpu.example.org", or
	// "*.example.org" for all its subdomains.
	AllowHosts   []string
	AllowOrigins auth.Origins // foreign origins whose pages may read answers
	AllowEmbed   auth.Frames  // foreign origins whose pages may show a device's card in a frame
	// TrustedProxies say in X-Forwarded-For who their clients are. The header is ignored from
	// others.
	TrustedProxies Proxies
	// MaxViewersOfAddress is how many viewers one address, or one IPv6 /64, may have; 0: 256, and
	// unlimited from this machine.
	MaxViewersOfAddress int
}

// A Server answers all routes.
type Server struct {
	kit    *Kit
	cfg    Config
	log    *slog.Logger
	hosts  *hostRules
	cross  http.CrossOriginProtection
	routes []Route  // in the order of the documents
	whole  []string // where the addresses begin that are not there for a node
	mux    *http.ServeMux
	pages  *http.ServeMux // the live pages alone
	crowd  *crowd
}

// New returns a server of those routes, of the actions, and of what belongs to no room. Documents have them in this order. Its errors
// say which flag is at fault.
func New(kit *Kit, cfg Config, routes ...Route) (*Server, error) {
	hosts, err := newHostRules(kit.Listen, kit.Hostname, kit.AllowHosts)
	if err != nil {
		return nil, err
	}
	s := &Server{kit: kit, cfg: cfg, log: kit.Log.With("part", "server"), hosts: hosts, whole: []string{"/node/"}}
	if cfg.Identifier == nil {
		s.cfg.Identifier = Owner{}
	}
	s.crowd = newCrowd(cfg.MaxViewers, kit.MaxViewersOfAddress, kit.TrustedProxies)
	s.cross.SetDenyHandler(s.handle(crossOriginDenied))
	s.routes = slices.Concat(routes, s.ownRoutes(), s.actionRoutes())
	s.mux, s.pages = http.NewServeMux(), http.NewServeMux()
	s.route()
	return s, nil
}

// HTTPServer returns a server for the routes, see [HTTPServer], with limits on the number of connections.
func (s *Server) HTTPServer() *http.Server {
	srv := HTTPServer(s.Handler(), s.kit.Log)
	srv.ConnState = s.crowd.changed
	return srv
}

// Handler returns all routes behind all middleware.
func (s *Server) Handler() http.Handler { return s.wrap(s.mux) }

// ownRoutes are those that belong to no room.
func (s *Server) ownRoutes() []Route {
	routes := []Route{
		OpenPage("/static/{path...}", s.asset(func(r *http.Request) string { return r.PathValue("path") })),
		OpenPage("/favicon.ico", s.asset(func(*http.Request) string { return "icon.svg" })), // browsers ask for it unasked
		OpenPage("/robots.txt", Constant(typeText, []byte(robots))),
		Page("/docs", s.docsPage()),
		Page("/docs/events", Rendered(func() templ.Component { return s.cfg.Pages.Events(s.events()) })),
		Page("/redoc", Rendered(func() templ.Component { return s.cfg.Pages.Reference(s.document()) })),
		{Method: http.MethodGet, Path: "/ws", Needs: auth.Read, Answer: s.socket}, // AsyncAPI describes it

		Read("/openapi.json", once(s.openAPI), contract.ClientDocuments, "getOpenAPI", "Get this document", Typed(typeJSON, "OpenAPI 3.1.")),
		Read("/openapi.yaml", once(s.openAPIYAML), contract.ClientDocuments, "getOpenAPIYAML", "Get this document as YAML", Typed(typeYAML, "OpenAPI 3.1.")),
		Read("/asyncapi.json", once(s.asyncAPI), contract.ClientDocuments, "getAsyncAPI", "Get the WebSocket protocol", Typed(typeJSON, "AsyncAPI 3.0.")),
	}
	if s.kit.BasePath != "" {
		routes = append(routes, Page("", s.toBase).Open())
	}
	return routes
}

func (s *Server) route() {
	for _, r := range s.routes {
		if r.Doc != nil {
			r.Doc.Path, r.Doc.Method = r.Path, r.Method
		}
		if r.Whole {
			s.whole = append(s.whole, r.Path)
		}
		if r.Live {
			r.Answer = s.counting(r.Answer)
		}
		answer, pattern := s.needs(r.Needs, r.name(), s.handle(r.Answer)), r.Method+" "+s.kit.BasePath+r.Path
		s.mux.Handle(pattern, answer)
		if r.Live {
			s.pages.Handle(pattern, answer)
		}
	}
	for _, mux := range []*http.ServeMux{s.mux, s.pages} {
		mux.Handle(s.kit.BasePath+"/node/{node}/{path...}", s.needs(auth.Read, "GET /node/{node}", s.handle(s.ofNode(mux))))
	}
	// Without this, whoever asks for it is led to /static/, where nothing is.
	s.mux.Handle(s.kit.BasePath+"/static", s.handle(func(http.ResponseWriter, *http.Request) error { return ErrNothing }))
	s.mux.Handle("/", s.handle(s.otherwise(s.mux)))
}

// handle answers with the errors of a handler, too.
func (s *Server) handle(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if _, begun := errors.AsType[*cutError](err); begun {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}
