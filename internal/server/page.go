package server

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// home answers with the dashboard, or for a program with what this is.
func (s *Server) home() handler {
	service := s.derived(func(snap *gpu.Snapshot) any { return contract.NewService(s.cfg.Monitor, snap) })
	return func(w http.ResponseWriter, r *http.Request) error {
		addVary(w.Header(), "Accept")
		if preferred(r.Header, typeHTML, typeJSON) == typeJSON {
			return service(w, r)
		}
		var page bytes.Buffer
		if err := s.cfg.Page(r.Context(), &page); err != nil {
			return fmt.Errorf("render the page: %w", err)
		}
		return newBody(typeHTML, page.Bytes()).serve(w, r, cacheRevalidate)
	}
}

// static answers with an asset. It lists nothing.
func (s *Server) static() handler {
	assets := s.assetBodies()
	return func(w http.ResponseWriter, r *http.Request) error {
		return assets(w, r, r.PathValue("path"))
	}
}

// favicon answers what browsers ask for unasked.
func (s *Server) favicon() handler {
	assets := s.assetBodies()
	return func(w http.ResponseWriter, r *http.Request) error { return assets(w, r, faviconPath) }
}

// assetBodies returns what answers with the asset of a path. Each is made ready
// when it is first asked for, and kept: there are a few dozen.
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

// robots keeps crawlers out: nothing here is for them.
func robots(w http.ResponseWriter, r *http.Request) error {
	return robotsBody.serve(w, r, cacheRevalidate)
}

// toBase leads from the base path to the page, which has a slash at its end.
func (s *Server) toBase(w http.ResponseWriter, r *http.Request) error {
	to := s.cfg.BasePath + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	return nil
}
