package now

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// pages are the addresses for people.
func (s *Site) pages() []serve.Route {
	return []serve.Route{
		serve.LivePage("/{$}", s.home()),
		serve.LivePage("/gpu/{id}", s.device),
		serve.LivePage("/embed/gpu/{id}", s.embed),
		serve.LivePage("/processes", s.processes),
		serve.LivePage("/about", s.about),
		serve.LivePage("/find", s.find),
		serve.OpenPage("/manifest.webmanifest", s.manifests()),
	}
}

// home answers with the dashboard; to a program, with name and version.
func (s *Site) home() serve.Handler {
	service := serve.Derived(s.Kit, contract.NewService)
	return func(w http.ResponseWriter, r *http.Request) error {
		if serve.PrefersJSON(w, r) {
			return service(w, r)
		}
		return s.Kit.LiveHTML(w, r, views.NewPage(s.all(r.Context(), s.Kit.Latest(r), serve.Node(r), r.URL.Query())))
	}
}

// all returns the input of the page about all Moments of a fleet.
func (s *Site) all(ctx context.Context, f *insight.Fleet, node string, asked url.Values) views.Input {
	in := s.Input(ctx, f, node)
	in.Choices = views.Choices{Path: in.BasePath, Asked: asked}
	a := f.Answer()
	in.Layers, in.Past, in.Ways, in.Why, in.Causes = contract.NewLayers(a), a.Past, a.Ways, a.Sentence, a.Main()
	return in
}

// device is the page of a device, which has the UUID in its address; an index is redirected there.
func (s *Site) device(w http.ResponseWriter, r *http.Request) error {
	p, err := s.Kit.Named(s.Kit.Latest(r), r)
	if err != nil {
		return err
	}
	path := "gpu/" + url.PathEscape(p.Device.UUID)
	if p.Device.UUID != r.PathValue("id") {
		return s.Kit.Redirect(w, r, "/"+path)
	}
	in := s.Input(r.Context(), p.Alone(), "")
	in.Choices = views.Choices{Path: in.BasePath + path, Asked: r.URL.Query()}
	in.Layers, in.Past, in.Ways, in.Causes = contract.NewLayersOfOne(p.Why), p.Why.Past, p.Why.Ways, p.Why.Causes
	in.Forecasts = s.Forecasts.Forecast(p.Alone(), []insight.Part{p}, in.Now)
	if p.Silent() {
		p, _ = p.Last().Alone().Device("", p.Device.UUID)
	}
	return s.Kit.LiveHTML(w, r, views.NewDevicePage(in, p.Device))
}

// embed is the card of a device, the one page that others may have in a frame, if they are named.
func (s *Site) embed(w http.ResponseWriter, r *http.Request) error {
	p, err := s.Kit.Named(s.Kit.Latest(r), r)
	if err != nil {
		return err
	}
	s.Kit.Embeddable(w, r)
	in := s.Input(r.Context(), p.Alone(), "")
	in.Choices = views.Choices{Path: in.BasePath + "embed/gpu/" + url.PathEscape(p.Device.UUID), Asked: r.URL.Query()}
	in.Causes = p.Why.Causes
	page := views.NewEmbedPage(in, p.Device)
	if auth.FromRequest(r).Way == auth.Picture { // its token is for this address, and opens no socket
		return serve.HTML(w, r, page.Reloading())
	}
	return s.Kit.LiveHTML(w, r, page)
}

func (s *Site) processes(w http.ResponseWriter, r *http.Request) error {
	return s.Kit.LiveHTML(w, r, views.NewProcessesPage(s.Listing(r, "processes")))
}

// find is what a person looks for. It can be asked for as a list alone, which does not change.
func (s *Site) find(w http.ResponseWriter, r *http.Request) error {
	page := views.NewFindPage(s.Listing(r, "find"))
	if r.URL.Query().Get("part") != "" {
		return serve.HTML(w, r, page)
	}
	return s.Kit.LiveHTML(w, r, page)
}

func (s *Site) about(w http.ResponseWriter, r *http.Request) error {
	in := s.Listing(r, "about")
	if !serve.SeesAll(r.Context()) { // how the program does may name any machine
		return s.Kit.LiveHTML(w, r, views.NewAboutPage(in))
	}
	if s.Costs != nil {
		in.Costs = s.Costs()
	}
	if s.Member != nil {
		in.Member = s.Member()
	}
	in.Parts = s.parts(r)
	return s.Kit.LiveHTML(w, r, views.NewAboutPage(in))
}

// manifests answers with the web app manifest, which names the machine only to those who see it: the page to sign in has it too.
func (s *Site) manifests() serve.Handler {
	named := serve.Constant(typeManifest, s.manifest("gpuwhy on "+s.Kit.Monitor.Node))
	plain := serve.Constant(typeManifest, s.manifest("gpuwhy"))
	return func(w http.ResponseWriter, r *http.Request) error {
		if auth.FromRequest(r).May(auth.Read) && s.Kit.Sees(r.Context(), s.Kit.Monitor.Node) {
			return named(w, r)
		}
		return plain(w, r)
	}
}

const typeManifest = "application/manifest+json"

// manifest returns the web app manifest, with which browsers install the page.
func (s *Site) manifest(name string) []byte {
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
	base := s.Kit.Root()
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
		name, "gpuwhy", base, base, base, "standalone", "#0b0d0e", "#0b0d0e",
		[]icon{
			{s.URL("icon.svg"), "any", "image/svg+xml", "any"},
			{s.URL("icon-192.png"), "192x192", "image/png", "any maskable"},
			{s.URL("icon-512.png"), "512x512", "image/png", "any maskable"},
		},
		[]shortcut{{"Past", base + "past"}, {"Processes", base + "processes"}, {"Alerts", base + "alerts"}},
	})
	if err != nil {
		panic("now: the manifest can't be encoded: " + err.Error())
	}
	return out
}
