// Package serve answers HTTP requests. It has every route ([Server.routes] lists them, with the
// access that each needs and its text in the API's documents), the errors, and the middleware.
//
// It answers from the newest Moments. It does not know who reads the devices or how pages are made:
// its Config has functions for that. Package contract decides what answers look like. An answer is
// encoded and compressed once for each Moment or fleet, on its first request, and all clients share
// its bytes. Below /node/{node} the same routes answer about one node ([Server.ofNode]).
//
// Errors are application/problem+json, or a page for a browser. Their detail is the text of a
// [gpu.Advice]. Any other error is shown as "internal error" and goes to the log.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/serve/live"
)

// Config is what a server needs. All functions may be called concurrently.
type Config struct {
	Monitor contract.Monitor
	// Newest returns the newest Moment of each node; nil before the first
	// reading. It never goes back to an older one.
	Newest func() *insight.Fleet
	// Latest is Newest including readings on demand since then, for pages; nil: Newest.
	Latest func() *insight.Fleet
	// Update returns the bytes of a node's newest [contract.Update], as the viewers of an audience
	// get them; nil if there is none.
	Update func(node string, to auth.Audience) []byte
	// WS answers /ws for a node, or for all if the name is empty. It closes the connections that it
	// takes over, possibly after it has returned.
	WS func(w http.ResponseWriter, r *http.Request, node string)
	// Clusters are the names of the configured clusters, including those without any node so far. It may be nil.
	Clusters func() []string
	Recent   *recent.Store
	// Past answers about the past; nil if no history is kept. Price is the price of a kWh; 0:
	// unknown. Then makes a stage with what was learned about the devices, for answers about a past
	// time. Sizes says how much is kept.
	Past  *history.Past
	Sizes *history.Sizes
	Price float64
	Then  func() (*insight.Stage, error)
	// Forecast returns the forecasts for a device; nil if there are none yet. It may be nil.
	Forecast func(insight.Part) *outlook.Outlook
	Alerts   alert.Book
	// Actions are the actions that people can request; nil: none.
	Actions *action.Desk
	// Flush writes changes to disk, if they are to be kept. It may be nil.
	Flush func(context.Context) error
	// Noticed is called before each request of somebody with read access is answered. It may be
	// nil.
	Noticed func(*http.Request)
	Metrics http.Handler // answers /metrics
	// Parts returns the state of each part of the program, by name.
	Parts func() map[string]contract.Part
	// Costs are the times that calls to drivers took, highest total first. It may be nil.
	Costs func() []gpu.Cost
	// Member is the program's role in a fleet; it returns nil without one. It may be nil.
	Member func() *contract.Member

	// The pages. If one fails, nothing that it wrote is sent. Page is the dashboard of a fleet, or
	// of one node if it is named; AlertsPage skips the first from alerts; ErrorPage is what a
	// browser gets instead of problem+json. PastPage returns an error together with the page that
	// shows it.
	Page       func(f *insight.Fleet, node string, asked url.Values) templ.Component
	DevicePage func(of insight.Part, asked url.Values) templ.Component
	// OtherPages are more pages of a fleet or one node, by path, such as "processes"; nil if there are none. EmbedPage is the
	// card of a device, for frames in pages of AllowEmbed. Manifest is what browsers need to install the page.
	OtherPages map[string]func(f *insight.Fleet, node string, asked url.Values) templ.Component
	EmbedPage  func(of insight.Part, asked url.Values) templ.Component
	Manifest   []byte
	// Live keeps rendered pages for those who look at them; nil if pages do not update. Changes
	// counts changes of what pages show.
	Live    *live.Feed
	Changes func() uint64
	// Picture is what Page begins with as an image, in SVG.
	Picture    func(f *insight.Fleet, node string, asked url.Values) templ.Component
	AlertsPage func(from int, node string, asked url.Values) templ.Component
	PastPage   func(context.Context, *PastQuestion) (templ.Component, error)
	ErrorPage  func(status int, title string, advice gpu.Advice) templ.Component
	// DocsPage is the interactive documentation, ReferencePage the OpenAPI document
	// as a page to read, EventsPage the WebSocket protocol. Each is rendered once.
	DocsPage      templ.Component
	ReferencePage func(*apidoc.Document) templ.Component
	EventsPage    func(*apidoc.Events) templ.Component
	// Assets finds a file that is served under /static/. "icon.svg" is the page's
	// icon.
	Assets func(path string) (Asset, bool)

	Address
	MaxViewers int // in all, which WS sees to; 0: 1000
	Clock      clock.Clock
	Log        *slog.Logger
}

// An Address says where a server is reached, and by whom.
type Address struct {
	// BasePath is the prefix of all routes, such as "/gpu-3": a clean path of letters, digits and
	// "-._~/". A trailing slash does not matter; it may be empty.
	BasePath string
	// Listen is the address that the server listens on, "host:port". Requests may name its host. If
	// it is unspecified (":8080", "0.0.0.0:8080"), they may name any IP address, and Hostname.
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

// An Asset is a file of the page.
type Asset struct {
	Body        []byte
	ContentType string
	// Immutable says that the path has a hash of the content, so browsers may keep the file
	// forever. They ask again for other assets.
	Immutable bool
}

// A Server answers all routes.
type Server struct {
	cfg     Config
	log     *slog.Logger
	hosts   *hostRules
	cross   http.CrossOriginProtection
	started time.Duration // by the clock
	mux     *http.ServeMux
	pages   *http.ServeMux // the live pages alone
	crowd   *crowd

	mu      sync.Mutex
	answers map[view]*answers // the newest; requests name nodes that there are

	longs atomic.Int32 // long answers in progress
}

// New checks the configuration. Its errors say which flag is at fault.
func New(cfg Config) (*Server, error) {
	hosts, err := newHostRules(cfg.Listen, cfg.Hostname, cfg.AllowHosts)
	if err != nil {
		return nil, err
	}
	cfg.BasePath = strings.TrimRight(cfg.BasePath, "/")
	if cfg.Latest == nil {
		cfg.Latest = cfg.Newest
	}
	s := &Server{cfg: cfg, log: cfg.Log.With("part", "server"), hosts: hosts, answers: map[view]*answers{}, started: cfg.Clock.Elapsed()}
	s.crowd = newCrowd(cfg.MaxViewers, cfg.MaxViewersOfAddress, cfg.TrustedProxies)
	s.cross.SetDenyHandler(s.handle(crossOriginDenied))
	s.mux, s.pages = http.NewServeMux(), http.NewServeMux()
	s.route()
	return s, nil
}

// HTTPServer returns a server for the routes, see [HTTPServer], with limits on the number of connections.
func (s *Server) HTTPServer() *http.Server {
	srv := HTTPServer(s.Handler(), s.cfg.Log)
	srv.ConnState = s.crowd.changed
	return srv
}

// Handler returns all routes behind all middleware; [Server.routes] lists them.
func (s *Server) Handler() http.Handler { return s.wrap(s.mux) }

func (s *Server) route() {
	for _, r := range s.routes() {
		answer := s.needs(r.Needs, r.Answer)
		s.mux.Handle(r.Method+" "+s.cfg.BasePath+r.Path, answer)
		if r.Live {
			s.pages.Handle(r.Method+" "+s.cfg.BasePath+r.Path, answer)
		}
	}
	for _, mux := range []*http.ServeMux{s.mux, s.pages} {
		mux.Handle(s.cfg.BasePath+"/node/{node}/{path...}", s.needs(auth.Read, s.handle(s.ofNode(mux))))
	}
	// Without this, requests for it are redirected to /static/, where there is nothing.
	s.mux.Handle(s.cfg.BasePath+"/static", s.handle(s.notFound))
	s.mux.Handle("/", s.handle(s.otherwise(s.mux)))
}

// A handler answers a request, or writes nothing and returns the error to answer with. If the answer has begun, a [cutError]
// cuts the connection, so that nobody mistakes a part for the whole.
type handler func(http.ResponseWriter, *http.Request) error

// answering is a handler that answers with its errors, too.
type answering struct {
	handler
	server *Server
}

// ServeHTTP implements [http.Handler].
func (a answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := a.handler(w, r)
	if _, begun := errors.AsType[*cutError](err); begun {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		a.server.fail(w, r, err)
	}
}

func (s *Server) handle(h handler) http.Handler { return answering{h, s} }
