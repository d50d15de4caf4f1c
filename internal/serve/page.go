package serve

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// home answers with the dashboard; to a program, with name and version.
func (s *Server) home() handler {
	service := derived(s, contract.NewService)
	return func(w http.ResponseWriter, r *http.Request) error {
		addVary(w.Header(), byAccept)
		if negotiate.Type(r.Header, typeJSON, typeHTML) == typeJSON {
			return service(w, r)
		}
		return s.serveLive(w, r, s.cfg.Page(ofRequest(r, s.cfg.Latest()), nodeOf(r), r.URL.Query()))
	}
}

// devicePage has the UUID in its address; an index is redirected there.
func (s *Server) devicePage(w http.ResponseWriter, r *http.Request) error {
	p, err := s.named(ofRequest(r, s.cfg.Latest()), r)
	if err != nil {
		return err
	}
	if p.Device.UUID != r.PathValue("id") {
		w.Header()["Cache-Control"] = cacheNever
		http.Redirect(w, r, s.base(r)+"/gpu/"+url.PathEscape(p.Device.UUID)+query(r), http.StatusTemporaryRedirect)
		return nil
	}
	return s.serveLive(w, r, s.cfg.DevicePage(p, r.URL.Query()))
}

// otherPage is a page of the newest Moments. What a person finds can be asked for as a list alone, which does not change.
func (s *Server) otherPage(path string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		asked := r.URL.Query()
		page := s.cfg.OtherPages[path](ofRequest(r, s.cfg.Latest()), nodeOf(r), asked)
		if page == nil {
			return s.notFound(w, r)
		}
		if path == "find" && asked.Get("part") != "" {
			return servePage(w, r, page)
		}
		return s.serveLive(w, r, page)
	}
}

// embedPage is the card of a device, the one page that others may have in a frame, if they are named.
func (s *Server) embedPage(w http.ResponseWriter, r *http.Request) error {
	p, err := s.named(ofRequest(r, s.cfg.Latest()), r)
	if err != nil {
		return err
	}
	s.embeddable(w, r)
	return s.serveLive(w, r, s.cfg.EmbedPage(p, r.URL.Query()))
}

// embeddable lets pages of the origins that are named have the answer in a frame, and as an image.
func (s *Server) embeddable(w http.ResponseWriter, r *http.Request) {
	if len(s.cfg.AllowEmbed) == 0 {
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Replace(policy("'self'"), "frame-ancestors 'none'", "frame-ancestors "+strings.Join(s.cfg.AllowEmbed, " "), 1))
	h.Del("X-Frame-Options") // it can't name origins
	// Neither can what is about images: a browser says with the request which page wants to have one.
	addVary(h, byReferer)
	if page, err := url.Parse(r.Referer()); err == nil && s.cfg.AllowEmbed.Allow(page.Scheme+"://"+page.Host) {
		h["Cross-Origin-Resource-Policy"] = anyOrigin
	}
}

var (
	byReferer = []string{"Referer"}
	anyOrigin = []string{"cross-origin"}
)

func (s *Server) manifest() (*body, error) {
	return newBody("application/manifest+json", s.cfg.Manifest), nil
}

// query is that of the request with its question mark, or empty.
func query(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

// asset makes each file ready when it is first asked for, and keeps it: there are a few dozen.
func (s *Server) asset(pathOf func(*http.Request) string) handler {
	var made lazy.Map[string, *body]
	return func(w http.ResponseWriter, r *http.Request) error {
		path := pathOf(r)
		asset, ok := s.cfg.Assets(path)
		if !ok {
			return s.notFound(w, r)
		}
		cache := cacheRevalidate
		if asset.Immutable {
			cache = cacheForEver
		}
		b, err := made.Get(path, func() (*body, error) { return newBody(asset.ContentType, asset.Body), nil })
		return reply(w, r, cache, b, err)
	}
}

// robots tells crawlers to read nothing.
func robots() (*body, error) { return newBody(typeText, []byte("User-agent: *\nDisallow: /\n")), nil }

// toBase redirects from the base path to the page, whose address ends with a slash.
func (s *Server) toBase(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, s.cfg.BasePath+"/"+query(r), http.StatusTemporaryRedirect)
	return nil
}

const typeYAML = "application/yaml"

// docsPolicy is that of /docs alone: its viewer styles its parts with style elements.
var docsPolicy = policy("'self' 'unsafe-inline'")

// once answers with what build makes when it is first asked for. An error stays, since build has constants alone.
func once(build func() (*body, error)) handler {
	made := sync.OnceValues(build)
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := made()
		return reply(w, r, cacheRevalidate, b, err)
	}
}

// events makes the AsyncAPI document of the socket.
func (s *Server) events() *apidoc.Events {
	var acts []*apidoc.Event
	for a := range s.cfg.Actions.Actions() {
		if a.Event != nil {
			event := *a.Event
			if event.Args = a.Args; a.Target.Name != "" {
				event.Target = &a.Target.Param
			}
			acts = append(acts, &event)
		}
	}
	return apidoc.AsyncAPI(s.cfg.Monitor.Version, s.cfg.BasePath+"/ws", acts...)
}

func (s *Server) openAPI() (*body, error)  { return jsonBody(s.document()) }
func (s *Server) asyncAPI() (*body, error) { return jsonBody(s.events()) }

func (s *Server) openAPIYAML() (*body, error) {
	text, err := apidoc.YAML(s.document())
	return newBody(typeYAML, text), err
}

func (s *Server) docsPage() handler {
	answer := rendered(func() templ.Component { return s.cfg.DocsPage })
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		return answer(w, r)
	}
}

// rendered answers with a page that stays as it is.
func rendered(page func() templ.Component) handler {
	return once(func() (*body, error) { return pageBody(context.Background(), page()) })
}
