package server

import (
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

// home answers with the dashboard; to a program, with name and version.
func (s *Server) home() handler {
	service := s.derived(func(f *insight.Fleet) any { return contract.NewService(s.cfg.Monitor, f) })
	return func(w http.ResponseWriter, r *http.Request) error {
		addVary(w.Header(), "Accept")
		if negotiate.Type(r.Header, typeJSON, typeHTML) == typeJSON {
			return service(w, r)
		}
		return servePage(w, r, func(page io.Writer) error { return s.cfg.Page(r.Context(), page, s.fleet(r), nodeOf(r)) })
	}
}

// devicePage answers with the page of one device. The page's address has the UUID;
// an index is redirected there.
func (s *Server) devicePage(w http.ResponseWriter, r *http.Request) error {
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return err
	}
	f := s.fleet(r)
	if err := s.readable(f); err != nil {
		return err
	}
	p, err := id.find(f)
	if err != nil {
		return err
	}
	if p.Device.UUID != id.text {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, s.base(r)+"/gpu/"+url.PathEscape(p.Device.UUID)+query(r), http.StatusTemporaryRedirect)
		return nil
	}
	return servePage(w, r, func(page io.Writer) error { return s.cfg.DevicePage(r.Context(), page, p) })
}

// query is that of the request with its question mark, or empty.
func query(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

// asset answers with the asset of a path; it lists nothing. Each is made ready
// when it is first asked for, and kept: there are a few dozen.
func (s *Server) asset(pathOf func(*http.Request) string) handler {
	var made sync.Map // path to *body
	return func(w http.ResponseWriter, r *http.Request) error {
		path := pathOf(r)
		asset, ok := s.cfg.Assets(path)
		if !ok {
			return s.notFound(w, r)
		}
		b, ok := made.Load(path)
		if !ok {
			b, _ = made.LoadOrStore(path, asset.body())
		}
		cache := cacheRevalidate
		if asset.Immutable {
			cache = cacheForEver
		}
		return b.(*body).serve(w, r, cache)
	}
}

func (a Asset) body() *body {
	b := &body{plain: encode(a.ContentType, a.Body, "")}
	if a.Gzip != nil {
		zipped := encode(a.ContentType, a.Gzip, "gzip")
		b.zipped = func() encoded { return zipped }
	}
	return b
}

var robotsBody = newBody(typeText, []byte("User-agent: *\nDisallow: /\n"))

// robots tells crawlers to read nothing.
func robots(w http.ResponseWriter, r *http.Request) error {
	return robotsBody.serve(w, r, cacheRevalidate)
}

// toBase redirects from the base path to the page, whose address ends with a slash.
func (s *Server) toBase(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, s.cfg.BasePath+"/"+query(r), http.StatusTemporaryRedirect)
	return nil
}
