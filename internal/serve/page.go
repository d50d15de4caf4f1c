package serve

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// Pages are the pages that belong to no room, and the files of all pages. Many goroutines call them at the same time.
type Pages interface {
	// Error is what a browser sees instead of problem+json.
	Error(status int, title string, advice gpu.Advice) templ.Component
	// Docs is the interactive documentation, Reference the OpenAPI document as a page to read, Events the WebSocket protocol. Each is
	// rendered once.
	Docs() templ.Component
	Reference(*apidoc.Document) templ.Component
	Events(*apidoc.Events) templ.Component
	// Asset finds a file that is served under /static/. "icon.svg" is the page's icon.
	Asset(path string) (Asset, bool)
}

// An Asset is a file of the page.
type Asset struct {
	Body        []byte
	ContentType string
	// Immutable says that the path has a hash of the content, so that browsers may
	// keep it forever. They ask again for other assets.
	Immutable bool
}

// Redirect leads to a page about what the request is about, at a path below [Kit.Base] with the same query, for this time alone.
func (k *Kit) Redirect(w http.ResponseWriter, r *http.Request, path string) error {
	w.Header()["Cache-Control"] = cacheNever
	http.Redirect(w, r, k.Base(r)+path+query(r), http.StatusTemporaryRedirect)
	return nil
}

// Embeddable lets pages of the origins that are named have the answer in a frame, and as an image.
func (k *Kit) Embeddable(w http.ResponseWriter, r *http.Request) {
	if len(k.AllowEmbed) == 0 {
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Replace(policy("'self'"), "frame-ancestors 'none'", "frame-ancestors "+strings.Join(k.AllowEmbed, " "), 1))
	h.Del("X-Frame-Options") // it can't name origins
	// The header about images can't name origins either, but the browser names the embedding page in the request.
	addVary(h, byReferer)
	if page, err := url.Parse(r.Referer()); err == nil && k.AllowEmbed.Allow(page.Scheme+"://"+page.Host) {
		h["Cross-Origin-Resource-Policy"] = anyOrigin
	}
}

var (
	byReferer = []string{"Referer"}
	anyOrigin = []string{"cross-origin"}
)

// query is that of the request with its question mark, or empty.
func query(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

// asset makes each file ready when it is first asked for, and keeps it: there are a few dozen.
func (s *Server) asset(pathOf func(*http.Request) string) Handler {
	var made lazy.Map[string, *body]
	return func(w http.ResponseWriter, r *http.Request) error {
		path := pathOf(r)
		asset, ok := s.cfg.Pages.Asset(path)
		if !ok {
			return ErrNothing
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
const robots = "User-agent: *\nDisallow: /\n"

// toBase redirects from the base path to the page, whose address ends with a slash.
func (s *Server) toBase(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, s.kit.Root()+query(r), http.StatusTemporaryRedirect)
	return nil
}

// socket lets a viewer in, which counts until its connection is closed.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.crowd.enter(r)
	if err != nil {
		return err
	}
	in, returned := &entering{ResponseWriter: w, leave: leave}, false
	defer func() {
		if !in.handedOver || !returned { // after a panic nobody has the connection
			leave()
		}
	}()
	s.kit.Hub.Serve(in, r, Node(r))
	returned = true
	return nil
}
