// Package now shows the newest Moments: over the API, and on the pages that people look at first. It also fills in what the pages of all
// rooms show, has their files, and the pages that belong to no room.
package now

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// Hues are the colors of people's work.
type Hues = views.Hues

// A Past knows about the time before the last minutes.
type Past interface {
	Kept() bool // there is one
	// Footprint is how much is kept; nil where that is not known.
	Footprint() *history.Footprint
	// Why answers why the fans ran in the span that a request names, and WhyParts are what the documents say of that.
	Why(w http.ResponseWriter, r *http.Request) error
	WhyParts() apidoc.Parts
}

// Forecasts says what comes next.
type Forecasts interface {
	// Forecast is of parts of a fleet, in the time zone of now; none where none are made.
	Forecast(f *insight.Fleet, parts []insight.Part, now time.Time) []contract.GPUForecast
}

// A Site shows the current state. It implements [serve.Pages], and fills in the parts that pages of other rooms share. Many goroutines call its
// functions at the same time.
type Site struct {
	Kit       *serve.Kit
	Assets    *static.Assets
	Hues      *Hues                   // the same on all pages
	Monitor   func() contract.Monitor // what pages say of gpuwhy
	Recent    *recent.Store
	Alerts    alert.Book
	Past      Past
	Forecasts Forecasts
	Parts     func() map[string]contract.Part    // how each part of the program does, by name
	Costs     func() []gpu.Cost                  // what calls to drivers took, the most in all first; it may be nil
	Notices   func(*auth.Principal) []gpu.Advice // what every page says to somebody of who may do what here; it may be nil
	Member    func() *contract.Member            // what the program has to do with a fleet, nil for nothing; it may be nil
	Metrics   http.Handler                       // answers /metrics
	SignIn    func() bool                        // whether people can sign in; it may be nil
	Accounts  bool                               // whether there are pages of accounts
	// OpenMetrics lets everybody read /metrics.
	OpenMetrics bool
}

// Name implements part.Part.
func (*Site) Name() string { return "now" }

// Documents has the colors of people's work.
func (s *Site) Documents() []state.Document {
	return []state.Document{state.Of("hues", "which colors people have", state.Regularly, s.Hues)}
}

// base returns the base path of a node's addresses; an empty name means all nodes.
func (s *Site) base(node string) string {
	if node == "" {
		return s.Kit.Root()
	}
	return s.Kit.Root() + "node/" + url.PathEscape(node) + "/"
}

// Input returns the data for the pages of a node, or of all nodes if the name is empty, except the explanation. f has the newest Moments
// of these nodes.
func (s *Site) Input(ctx context.Context, f *insight.Fleet, node string) views.Input {
	who, _ := auth.FromContext(ctx)
	all, alerts := f, s.alerts(ctx)
	if moments := f.Moments(); len(moments) == 1 && moments[0].Silent() { // its page shows its last data
		f = moments[0].Last().Alone()
	}
	find := f.Finder()
	in := views.Input{
		Sight:    who.Sight(),
		Monitor:  s.Kit.Known(who.Audience, s.Monitor()),
		Fleet:    all,
		Nodes:    f.Nodes(),
		BasePath: s.base(node),
		Root:     s.Kit.Root(),
		Hues:     s.Hues,
		Health:   s.Kit.Root() + "api/health",
		Asset:    s.URL,
		Now:      s.Kit.Clock.Now(),
		Notices:  s.notices(&who),
		Attribution: func(d *gpu.Device) *attribute.Attribution {
			p, _ := find(d)
			return p.Attribution
		},
		Recent:     s.recent(ctx, all, node),
		HasPast:    s.Past.Kept(),
		SignIn:     s.SignIn != nil && s.SignIn(),
		Accounts:   s.Accounts,
		Alerts:     alert.For(alert.OfNode(alerts.Standing(), node), who.Audience.Commands()),
		PastAlerts: alert.For(alert.OfNode(alerts.Past(), node), who.Audience.Commands()),
		Footprint:  s.Past.Footprint(),
		Said: func(d *gpu.Device) *explain.DeviceAnswer {
			p, _ := find(d)
			return p.Why
		},
		Next: func(d *gpu.Device) []explain.Prospect {
			p, found := find(d)
			if !found {
				return nil
			}
			return p.Why.Next
		},
	}
	if !who.Audience.SeesAll() {
		in.Footprint = nil // of all machines
	}
	return in
}

// alerts has the alerts that somebody sees who asks.
func (s *Site) alerts(ctx context.Context) alert.Book {
	if serve.SeesAll(ctx) {
		return s.Alerts
	}
	return alert.Seen(s.Alerts, serve.NodeNames(s.Kit.Fleet(ctx)))
}

func (s *Site) notices(who *auth.Principal) []gpu.Advice {
	if s.Notices == nil {
		return nil
	}
	return s.Notices(who)
}

// Listing is what a page at a path is made of that lists what the newest Moments have of what a request is about.
func (s *Site) Listing(r *http.Request, path string) views.Input {
	f := s.Kit.Latest(r)
	in := s.Input(r.Context(), f, serve.Node(r))
	in.Choices = views.Choices{Path: in.BasePath + path, Asked: r.URL.Query()}
	a := f.Answer()
	in.Layers, in.Causes = contract.NewLayers(a), a.Main()
	return in
}

// Error implements [serve.Pages].
func (s *Site) Error(status int, title string, advice gpu.Advice) templ.Component {
	return views.ErrorPage(status, title, advice, s.Plain())
}

// Docs implements [serve.Pages].
func (s *Site) Docs() templ.Component { return views.DocsPage(s.Plain()) }

// Reference implements [serve.Pages].
func (s *Site) Reference(doc *apidoc.Document) templ.Component {
	return views.ReferencePage(doc, s.Plain())
}

// Events implements [serve.Pages].
func (s *Site) Events(doc *apidoc.Events) templ.Component { return views.EventsPage(doc, s.Plain()) }

// Plain is what pages without a machine show.
func (s *Site) Plain() views.Site {
	return views.Site{Base: s.Kit.Root(), Asset: s.URL, Kind: gpu.KindOf(s.Kit.Monitor.Source)}
}

// URL returns the address of a static file.
func (s *Site) URL(name string) string { return s.Assets.URL(s.Kit.Root(), name) }

// Asset finds a file by its path, which has the hash of all files. It also finds
// the icon by its plain name, for browsers that ask for /favicon.ico.
func (s *Site) Asset(path string) (_ serve.Asset, ok bool) {
	asset := serve.Asset{Immutable: path != "icon.svg"}
	if !asset.Immutable {
		path = strings.TrimPrefix(s.Assets.URL("", path), "static/")
	}
	asset.Body, asset.ContentType, ok = s.Assets.Open(path)
	return asset, ok
}
