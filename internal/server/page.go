package server

import (
	"bytes"
	"fmt"
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
		var page bytes.Buffer
		if err := s.cfg.Page(r.Context(), &page, s.fleet(r), nodeOf(r)); err != nil {
			return fmt.Errorf("render the page: %w", err)
		}
		return newBody(typeHTML, page.Bytes()).serve(w, r, cacheRevalidate)
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
		http.Redirect(w, r, s.cfg.BasePath+"/gpu/"+url.PathEscape(p.Device.UUID)+query(r), http.StatusTemporaryRedirect)
		return nil
	}
	var page bytes.Buffer
	if err := s.cfg.DevicePage(r.Context(), &page, p); err != nil {
		return fmt.Errorf("render the page of a device: %w", err)
	}
	return newBody(typeHTML, page.Bytes()).serve(w, r, cacheRevalidate)
}

// query is that of the request with its question mark, or empty.
func query(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

// static answers with an asset. It lists nothing.
func (s *Server) static() handler {
	assets := s.assetBodies()
	return func(w http.ResponseWriter, r *http.Request) error {
		return assets(w, r, r.PathValue("path"))
	}
}

// favicon answers with the icon that browsers ask for by themselves.
func (s *Server) favicon() handler {
	assets := s.assetBodies()
	return func(w http.ResponseWriter, r *http.Request) error { return assets(w, r, faviconPath) }
}

// assetBodies returns a function that answers with the asset of a path. It prepares
// an asset when somebody first asks for it, and keeps it: there are a few dozen.
func (s *Server) assetBodies() func(w http.ResponseWriter, r *http.Request, path string) error {
	var made sync.Map // path to *body
	return func(w http.ResponseWriter, r *http.Request, path string) error {
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
