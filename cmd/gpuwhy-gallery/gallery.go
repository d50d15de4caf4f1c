package main

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// A gallery serves one page with the real pages of made-up machines in iframes.
type gallery struct {
	ctx       context.Context
	opt       app.Options // of every scene, except the path
	log       *slog.Logger
	front     http.Handler
	plays     map[string]func() (*playing, error)     // by the scene's name
	stills    map[string]func() (http.Handler, error) // scenes in which nothing moves
	beginning sync.Mutex                              // locked while a scene begins
	running   sync.WaitGroup                          // those that have begun
}

// wait returns when all scenes have ended. Call it after ctx has ended.
func (g *gallery) wait() {
	g.beginning.Lock() // a request that was under way may be about to begin one
	defer g.beginning.Unlock()
	g.running.Wait()
}

//go:embed gallery.js
var galleryScript []byte

// newGallery makes a gallery whose scenes start on demand and end with ctx.
func newGallery(ctx context.Context, opt app.Options, log *slog.Logger) (*gallery, error) {
	g := &gallery{ctx: ctx, opt: opt, log: log, plays: map[string]func() (*playing, error){}, stills: map[string]func() (http.Handler, error){}}
	for name, gpus := range pastScenes {
		g.stills[name] = sync.OnceValues(func() (http.Handler, error) { return g.newPast(name, gpus) })
	}
	g.stills[accountScene] = sync.OnceValues(g.newAccounts)
	for name, record := range auditScenes {
		g.stills[name] = sync.OnceValues(func() (http.Handler, error) { return g.newAudit(name, record) })
	}
	for name, scene := range scenes() {
		g.plays[name] = sync.OnceValues(func() (*playing, error) { return g.begin(name, scene) })
	}
	front, err := g.newFront()
	if err != nil {
		return nil, err
	}
	g.front = front
	return g, nil
}

// begin plays a scene until the gallery ends.
func (g *gallery) begin(name string, scene *scene) (*playing, error) {
	g.beginning.Lock()
	defer g.beginning.Unlock()
	if err := g.ctx.Err(); err != nil {
		return nil, fmt.Errorf("scene %s: %w", name, err)
	}
	opt := g.opt
	opt.BasePath += "state/" + name + "/"
	p, err := perform(scene, opt, g.log)
	if err != nil {
		return nil, fmt.Errorf("scene %s: %w", name, err)
	}
	g.running.Go(func() {
		if err := p.run(g.ctx); err != nil {
			g.log.Warn("a scene ended with an error", "scene", name, "err", err)
		}
	})
	return p, nil
}

// ServeHTTP serves a scene, or the page with all of them.
func (g *gallery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	amend(inFrames, g.find(r.URL.Path)).ServeHTTP(w, r)
}

// find returns the handler of a path.
func (g *gallery) find(path string) http.Handler {
	rest, ok := strings.CutPrefix(path, g.opt.BasePath+"state/")
	name, _, _ := strings.Cut(rest, "/")
	begin, show := g.plays[name], g.stills[name]
	var p http.Handler
	var err error
	switch {
	case ok && begin != nil:
		p, err = begin()
	case ok && show != nil:
		p, err = show()
	default:
		return g.front
	}
	if err != nil {
		g.log.Error("can't start a scene", "err", err)
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this scene can't start", http.StatusInternalServerError)
		})
	}
	return p
}

// newFront is the server with its headers and assets, without a machine.
func (g *gallery) newFront() (http.Handler, error) {
	kit := serve.NewKit(serve.Settings{
		Monitor: contract.Monitor{Node: "gallery", Source: gpu.SourceSimulated, Version: g.opt.Version, Interval: g.opt.Interval},
		Hub:     serve.Still{}, Address: serve.Address{BasePath: g.opt.BasePath, Listen: g.opt.Listen}, Log: g.log,
	})
	pages := frontPages{&now.Site{Kit: kit, Assets: static.New()}}
	front := serve.Page("/{$}", func(w http.ResponseWriter, r *http.Request) error {
		return serve.HTML(w, r, views.Gallery(states(g.opt.BasePath+"state/"), pages.URL, g.opt.BasePath+"static/gallery.js"))
	})
	s, err := serve.New(kit, serve.Config{Pages: pages}, front)
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

// frontPages have the front's script, too.
type frontPages struct{ *now.Site }

// Asset implements [serve.Pages].
func (p frontPages) Asset(path string) (serve.Asset, bool) {
	if path == "gallery.js" {
		return serve.Asset{Body: galleryScript, ContentType: "text/javascript; charset=utf-8"}, true
	}
	return p.Site.Asset(path)
}

// amend changes the headers of answers before they are sent, maybe several times.
func amend(change func(http.Header), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(amended{w, change}, r)
		change(w.Header()) // of an answer without a body
	})
}

type amended struct {
	http.ResponseWriter
	change func(http.Header)
}

// WriteHeader changes the headers, and sends them.
func (a amended) WriteHeader(status int) {
	a.change(a.Header())
	a.ResponseWriter.WriteHeader(status)
}

// Write changes the headers first, which it may send.
func (a amended) Write(p []byte) (int, error) {
	a.change(a.Header())
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (a amended) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ancestors matches the rule which sites may frame a page; cards have another one than all other pages.
var ancestors = regexp.MustCompile(`(?:frame-src 'self'; )?frame-ancestors [^;]*`)

const policyHeader = "Content-Security-Policy"

// inFrames lets the gallery's pages frame one another, unlike the product's.
func inFrames(h http.Header) {
	h.Set(policyHeader, ancestors.ReplaceAllLiteralString(h.Get(policyHeader), "frame-src 'self'; frame-ancestors 'self'"))
	h.Set("X-Frame-Options", "SAMEORIGIN")
}
