// Package serve answers HTTP: it has every route ([Server.routes] lists them, with
// the access that each needs and its text in the API's documents), the errors, and
// the middleware.
//
// It answers from the newest Moments. It does not know who reads the devices or
// how pages are made: its Config has functions for that. Package contract decides
// what answers look like. An answer is encoded and compressed once for each Moment
// or fleet, when somebody first asks for it, and all clients share its bytes. Below
// /node/{node} the same routes answer about one node ([Server.ofNode]).
//
// Errors are application/problem+json, or a page for a browser. Their detail is
// the text of a [gpu.Advice]. Any other error is "internal error" to people, and
// goes to the log.
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

// Config is what a server needs. All functions are called by many goroutines
// at the same time.
type Config struct {
	Monitor contract.Monitor
	// Newest returns the newest Moment of each node; nil before the first
	// reading. It never goes back to an older one.
	Newest func() *insight.Fleet
	// Latest is Newest with what was read on demand since, for pages; nil: Newest.
	Latest func() *insight.Fleet
	// Update returns the bytes of a node's newest [contract.Update], as the
	// viewers of an audience get them; nil where there is none.
	Update func(node string, to auth.Audience) []byte
	// WS answers /ws for a node, or for all if the name is empty. It closes a connection that
	// it takes over, maybe after it has returned.
	WS func(w http.ResponseWriter, r *http.Request, node string)
	// Clusters are the names of the clusters that are to be read, also of those of which no node has been. It may be nil.
	Clusters func() []string
	Recent   *recent.Store
	// Past answers about what is older; nil where no past is kept. Price is that of a kWh; 0: not known.
	// Then makes a stage that knows what was learned of the devices, for answers about a past time.
	// Sizes says how much is kept.
	Past  *history.Past
	Sizes *history.Sizes
	Price float64
	Then  func() (*insight.Stage, error)
	// Forecast returns what is forecast of a device; nil where nothing is yet. It may be nil.
	Forecast func(insight.Part) *outlook.Outlook
	Alerts   alert.Book
	// Actions are what people can do; nil: nothing.
	Actions *action.Desk
	// Flush puts what was changed on disk, if it is to be kept. It may be nil.
	Flush func(context.Context) error
	// Noticed is told of each request of somebody who may look, before it is answered. It may be nil.
	Noticed func(*http.Request)
	Metrics http.Handler // answers /metrics
	// Parts says how each part of the program does, by name.
	Parts func() map[string]contract.Part
	// Costs are what calls to drivers took, the most in all first. It may be nil.
	Costs func() []gpu.Cost
	// Member is what the program has to do with a fleet; nil for nothing. It may be nil.
	Member func() *contract.Member

	// The pages. If one fails, nothing that it wrote is sent. Page is the dashboard
	// of a fleet, or of one node if it is named; AlertsPage leaves out the first
	// alerts up to from; ErrorPage is what a browser sees instead of problem+json.
	// PastPage returns an error beside the page that says it.
	Page       func(f *insight.Fleet, node string, asked url.Values) templ.Component
	DevicePage func(of insight.Part, asked url.Values) templ.Component
	// OtherPages are further pages of a fleet or one node, by their path, such as "processes"; nil where there is none. EmbedPage is the
	// card of a device, for frames of pages of AllowEmbed. Manifest is what browsers need to install the page.
	OtherPages map[string]func(f *insight.Fleet, node string, asked url.Values) templ.Component
	EmbedPage  func(of insight.Part, asked url.Values) templ.Component
	Manifest   []byte
	// Live keeps what is rendered, for those who look at it; nil where pages stay as they are.
	// Changes is how often something changed that pages show.
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

// An Address is where a server is reached, and by whom.
type Address struct {
	// BasePath is where all routes begin, such as "/gpu-3": a clean path of letters,
	// digits and "-._~/". A slash at its end does not matter; it may be empty.
	BasePath string
	// Listen is the address on which somebody listens, "host:port". Requests may
	// name its host. If it is unspecified (":8080", "0.0.0.0:8080"), they may name
	// every IP address, and Hostname.
	Listen   string
	Hostname string // the machine's own name; empty where it has none
	// AllowHosts are further names and addresses that requests may name, such
	// as "gpu.example.org", or "*.example.org" for all below it.
	AllowHosts   []string
	AllowOrigins auth.Origins // foreign origins whose pages may read answers
	AllowEmbed   auth.Frames  // foreign origins whose pages may show a device's card in a frame
	// TrustedProxies say in X-Forwarded-For who their clients are. Of others that header means nothing.
	TrustedProxies Proxies
	// MaxViewersOfAddress is how many viewers an address may have, of IPv6 a network of 64 bits; 0: 256, and
	// any number of this machine's own.
	MaxViewersOfAddress int
}

// An Asset is a file of the page.
type Asset struct {
	Body        []byte
	ContentType string
	// Immutable says that the path has a hash of the content, so that browsers may
	// keep it forever. They ask again for other assets.
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

	longs atomic.Int32 // long answers that are under way
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

// HTTPServer returns a server for the routes, see [HTTPServer], with bounds on how many connections there are.
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
	// Without this, whoever asks for it is led to /static/, where nothing is.
	s.mux.Handle(s.cfg.BasePath+"/static", s.handle(s.notFound))
	s.mux.Handle("/", s.handle(s.otherwise(s.mux)))
}

// A handler answers a request, or writes nothing and returns the error to answer with. Where the answer has begun, a [cutError]
// cuts the connection, so that nobody takes a part for the whole.
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
