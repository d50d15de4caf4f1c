// Package web makes the pages that browsers see. It fills the view models of package
// views from Moments, alerts and the recent past, and renders them. It also serves the
// files of package static.
package web

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// Pages renders the pages of a server.
type Pages struct {
	cfg     *server.Config
	monitor func() contract.Monitor
	targets func() []notify.Status
	assets  *static.Assets
	hues    *Hues
}

// Hues are the colors of people's work.
type Hues = views.Hues

// New adds the pages to a server's configuration. Everything else in it must be set, and
// its base path must end with a slash. Monitor returns the state of gpuwhy, targets the
// notification targets; both are called concurrently. All pages use the same hues.
func New(on *server.Config, hues *Hues, monitor func() contract.Monitor, targets func() []notify.Status) *Pages {
	if on.Latest == nil {
		on.Latest = on.Newest
	}
	p := &Pages{on, monitor, targets, static.New(), hues}
	on.Page, on.DevicePage, on.AlertsPage, on.PastPage, on.Picture = p.dashboard, p.device, p.alerts, p.past, p.image
	on.ErrorPage, on.Assets = p.problem, p.Asset
	on.OtherPages = map[string]func(*insight.Fleet, string, url.Values) templ.Component{
		"processes": other(p, "processes", views.NewProcessesPage),
		"nodes":     ofAll(other(p, "nodes", views.NewNodesPage)),
		"about":     other(p, "about", p.about),
		"find":      other(p, "find", views.NewFindPage),
	}
	on.EmbedPage, on.Manifest = p.embed, p.manifest()
	on.DocsPage = views.DocsPage(p.site())
	on.ReferencePage = func(of *apidoc.Document) templ.Component { return views.ReferencePage(of, p.site()) }
	on.EventsPage = func(of *apidoc.Events) templ.Component { return views.EventsPage(of, p.site()) }
	return p
}

func (p *Pages) dashboard(f *insight.Fleet, node string, asked url.Values) templ.Component {
	return views.NewPage(p.all(f, node, asked))
}

// all returns the input of the page about all Moments of a fleet.
func (p *Pages) all(f *insight.Fleet, node string, asked url.Values) views.Input {
	in := p.input(f, node)
	in.Choices = views.Choices{Path: in.BasePath, Asked: asked}
	a := f.Answer()
	in.Layers, in.Past, in.Ways, in.Why, in.Causes = contract.NewLayers(a), a.Past, a.Ways, a.Sentence, a.Main()
	return in
}

func (p *Pages) device(of insight.Part, asked url.Values) templ.Component {
	in := p.input(of.Alone(), "")
	in.Choices = views.Choices{Path: in.BasePath + "gpu/" + url.PathEscape(of.Device.UUID), Asked: asked}
	in.Layers, in.Past, in.Ways, in.Causes = contract.NewLayersOfOne(of.Why), of.Why.Past, of.Why.Ways, of.Why.Causes
	in.Forecasts = p.forecasts(of.Alone(), []insight.Part{of}, in.Now)
	if of.Silent() {
		of, _ = of.Last().Alone().Device("", of.Device.UUID)
	}
	return views.NewDevicePage(in, of.Device)
}

// other returns a page about everything in a fleet, at a path.
func other[Page templ.Component](p *Pages, path string, page func(views.Input) Page) func(*insight.Fleet, string, url.Values) templ.Component {
	return func(f *insight.Fleet, node string, asked url.Values) templ.Component {
		in := p.input(f, node)
		in.Choices = views.Choices{Path: in.BasePath + path, Asked: asked}
		a := f.Answer()
		in.Layers, in.Causes = contract.NewLayers(a), a.Main()
		return page(in)
	}
}

// ofAll returns a page that exists only for the whole fleet, not for a single node.
func ofAll(page func(*insight.Fleet, string, url.Values) templ.Component) func(*insight.Fleet, string, url.Values) templ.Component {
	return func(f *insight.Fleet, node string, asked url.Values) templ.Component {
		if node != "" {
			return nil
		}
		return page(f, node, asked)
	}
}

func (p *Pages) embed(of insight.Part, asked url.Values) templ.Component {
	in := p.input(of.Alone(), "")
	in.Choices = views.Choices{Path: in.BasePath + "embed/gpu/" + url.PathEscape(of.Device.UUID), Asked: asked}
	in.Causes = of.Why.Causes
	return views.NewEmbedPage(in, of.Device)
}

// manifest returns the web app manifest, with which browsers install the page.
func (p *Pages) manifest() []byte {
	type icon struct {
		Src     string `json:"src"`
		Sizes   string `json:"sizes"`
		Type    string `json:"type"`
		Purpose string `json:"purpose"`
	}
	type shortcut struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	}
	base := p.cfg.BasePath
	out, err := json.Marshal(struct {
		Name       string     `json:"name"`
		ShortName  string     `json:"short_name"`
		ID         string     `json:"id"`
		Start      string     `json:"start_url"`
		Scope      string     `json:"scope"`
		Display    string     `json:"display"`
		Background string     `json:"background_color"`
		Theme      string     `json:"theme_color"`
		Icons      []icon     `json:"icons"`
		Shortcuts  []shortcut `json:"shortcuts"`
	}{
		"gpuwhy on " + p.cfg.Monitor.Node, "gpuwhy", base, base, base, "standalone", "#0b0d0e", "#0b0d0e",
		[]icon{
			{p.URL("icon.svg"), "any", "image/svg+xml", "any"},
			{p.URL("icon-192.png"), "192x192", "image/png", "any maskable"},
			{p.URL("icon-512.png"), "512x512", "image/png", "any maskable"},
		},
		[]shortcut{{"Past", base + "past"}, {"Processes", base + "processes"}, {"Alerts", base + "alerts"}},
	})
	if err != nil {
		panic("web: the manifest can't be encoded: " + err.Error())
	}
	return out
}

// base returns the base path of a node's addresses; an empty name means all nodes.
func (p *Pages) base(node string) string {
	if node == "" {
		return p.cfg.BasePath
	}
	return p.cfg.BasePath + "node/" + url.PathEscape(node) + "/"
}

// input returns the input of pages about those Moments, except the answer.
func (p *Pages) input(f *insight.Fleet, node string) views.Input {
	all := f
	if moments := f.Moments(); len(moments) == 1 && moments[0].Silent() { // its page shows its last data
		f = moments[0].Last().Alone()
	}
	find := f.Finder()
	return views.Input{
		Monitor:  p.monitor(),
		Fleet:    all,
		Nodes:    f.Nodes(),
		BasePath: p.base(node),
		Root:     p.cfg.BasePath,
		Hues:     p.hues,
		Health:   p.cfg.BasePath + "api/health",
		Asset:    p.URL,
		Now:      p.cfg.Clock.Now(),
		Attribution: func(d *gpu.Device) *attribute.Attribution {
			of, _ := find(d)
			return of.Attribution
		},
		Recent:     p.recent(all, node),
		HasPast:    p.cfg.Past != nil,
		Alerts:     alert.OfNode(p.cfg.Alerts.Standing(), node),
		PastAlerts: alert.OfNode(p.cfg.Alerts.Past(), node),
		Footprint:  p.cfg.Sizes.Last(),
		Said: func(d *gpu.Device) *explain.DeviceAnswer {
			of, _ := find(d)
			return of.Why
		},
		Next: func(d *gpu.Device) []explain.Prospect {
			of, found := find(d)
			if !found {
				return nil
			}
			return of.Why.Next
		},
	}
}

// forecasts returns the forecasts of parts of a fleet, in the time zone of now; none if forecasting is off.
func (p *Pages) forecasts(f *insight.Fleet, parts []insight.Part, now time.Time) []contract.GPUForecast {
	if p.cfg.Forecast == nil {
		return nil
	}
	return contract.NewForecasts(p.cfg.Monitor, f, parts, p.cfg.Forecast, now).GPUs
}

func (p *Pages) alerts(from int, node string, asked url.Values) templ.Component {
	f := p.cfg.Latest()
	if m, ok := f.Node(node); ok {
		f = m.Alone()
	}
	in := p.input(f, node)
	in.Choices = views.Choices{Path: in.BasePath + "alerts", Asked: asked}
	return views.NewAlertsPage(views.AlertsInput{
		Input: in,
		From:  from,
		AnswerOf: func(a *alert.Alert) *explain.DeviceAnswer {
			of, _ := f.Device(a.Device.Node, a.Device.UUID)
			return of.Why
		},
		Past:      alert.OfNode(p.cfg.Alerts.Past(), node),
		Ended:     p.cfg.Alerts.EndedSince(node, in.Now.Add(-24*time.Hour)),
		Silences:  alert.OfNode(p.cfg.Alerts.Silences(p.cfg.Clock.Now()), node),
		Rules:     p.cfg.Alerts.Rules(),
		Targets:   p.targets(),
		Unwritten: p.cfg.Parts()["state"].State == "failed",
	})
}

func (p *Pages) problem(status int, title string, advice gpu.Advice) templ.Component {
	return views.ErrorPage(status, title, advice, p.site())
}

func (p *Pages) site() views.Site {
	return views.Site{Base: p.cfg.BasePath, Asset: p.URL, Kind: gpu.KindOf(p.cfg.Monitor.Source)}
}

// URL returns the address of a static file.
func (p *Pages) URL(name string) string { return p.assets.URL(p.cfg.BasePath, name) }

// Asset finds a file by its path, which has the hash of all files. It also finds
// the icon by its plain name, for browsers that ask for /favicon.ico.
func (p *Pages) Asset(path string) (_ server.Asset, ok bool) {
	of := server.Asset{Immutable: path != "icon.svg"}
	if !of.Immutable {
		path = strings.TrimPrefix(p.assets.URL("", path), "static/")
	}
	of.Body, of.ContentType, ok = p.assets.Open(path)
	return of, ok
}

func (p *Pages) about(in views.Input) views.AboutPage {
	if p.cfg.Costs != nil {
		in.Costs = p.cfg.Costs()
	}
	if p.cfg.Member != nil {
		in.Member = p.cfg.Member()
	}
	if p.cfg.Parts != nil {
		in.Parts = p.cfg.Parts()
	}
	return views.NewAboutPage(in)
}
