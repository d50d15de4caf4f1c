package guide

import (
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/docs"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/views"
)

// Path is where the guide is, below the base path.
const Path = "/guide"

// searchName is the name of the page that searches.
const searchName = "search"

// A Site has the pages of the guide. Everybody may read them, before signing in too: they are the same in every program of this version, and
// name nothing of the machine. A person who can't sign in may need them most.
type Site struct {
	Kit *serve.Kit
	// Asset returns the address of a file of package static.
	Asset func(name string) string

	made  lazy.Map[string, serve.Handler] // by the name of the page
	whole sync.Once
	book  *book
	err   error
}

// Name implements part.Part.
func (*Site) Name() string { return "guide" }

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	return []serve.Route{
		serve.OpenPage(Path, s.page).ProgramOnly(),
		serve.OpenPage(Path+"/{page...}", s.page).ProgramOnly(),
		serve.OpenPage(Path+"/"+searchName, s.search).ProgramOnly(),
	}
}

// open reads the guide when somebody first asks for it.
func (s *Site) open() (*book, error) {
	s.whole.Do(func() { s.book, s.err = newBook(docs.Files, docs.Sections, inProgram(s.Kit.BasePath+Path)) })
	return s.book, s.err
}

// page answers with a page or a picture, which is made once.
func (s *Site) page(w http.ResponseWriter, r *http.Request) error {
	b, err := s.open()
	if err != nil {
		return err
	}
	name := r.PathValue("page")
	if name != "" && b.byName[name] == nil && !b.hasPicture(name) {
		return serve.ErrNothing
	}
	answer, err := s.made.Get(name, func() (serve.Handler, error) {
		switch p := b.byName[name]; {
		case name == "":
			return serve.Rendered(func() templ.Component { return views.GuideHome(s.frame(b, "")) }), nil
		case p != nil:
			return serve.Rendered(func() templ.Component { return b.content(s.frame(b, name), p) }), nil
		default:
			picture, err := docs.Files.ReadFile(name)
			return serve.Constant("image/png", picture), err
		}
	})
	if err != nil {
		return err
	}
	return answer(w, r)
}

// search answers with what the guide says about some words.
func (s *Site) search(w http.ResponseWriter, r *http.Request) error {
	b, err := s.open()
	if err != nil {
		return err
	}
	asked := clip(r.URL.Query().Get("q"))
	found := &views.GuideResults{Guide: s.frame(b, searchName), Asked: asked}
	found.List, found.More = b.search(asked)
	return serve.HTML(w, r, views.GuideFound(found))
}

func (s *Site) frame(b *book, here string) *views.Guide {
	g := b.frame(here)
	g.Asset, g.Live = s.Asset, s.Kit.Root()
	g.Links = []views.Link{
		{Path: g.Live, Label: "The GPUs"}, {Path: g.Live + "docs", Label: "Try the API"}, {Path: g.Live + "redoc", Label: "API reference"}, {Path: g.Live + "docs/events", Label: "Events"},
	}
	return g
}

// inProgram is where a program has the guide: an address without a slash at its end.
type inProgram string

func (at inProgram) page(_, name string) string { return strings.TrimSuffix(string(at)+"/"+name, "/") }

func (at inProgram) picture(_, name string) string { return string(at) + "/" + name }

// hasPicture reports whether a name is one of a picture.
func (b *book) hasPicture(name string) bool {
	if path.Ext(name) != ".png" {
		return false
	}
	_, err := docs.Files.Open(name)
	return err == nil
}

// frame is what a page has around its content, and what each page has in common.
func (b *book) frame(here string) *views.Guide {
	g := &views.Guide{Home: b.place.page(here, ""), Search: b.place.page(here, searchName)}
	for _, s := range b.sections {
		section := views.GuideSection{Title: s.Title, Lead: s.Lead}
		for _, name := range s.Pages {
			p := b.byName[name]
			section.Pages = append(section.Pages, views.GuideLink{
				Link: views.Link{Path: b.place.page(here, name), Label: p.title}, Says: p.says, Here: name == here,
			})
		}
		g.Sections = append(g.Sections, section)
	}
	return g
}

// content is a page with its neighbors.
func (b *book) content(g *views.Guide, p *page) templ.Component {
	out := &views.GuidePage{Guide: g, Title: p.title, Body: p.html, Contents: p.contents()}
	for i, other := range b.pages {
		if other != p {
			continue
		}
		link := func(to *page) *views.Link {
			return &views.Link{Path: b.place.page(p.name, to.name), Label: to.title}
		}
		if i > 0 {
			out.Previous = link(b.pages[i-1])
		}
		if i+1 < len(b.pages) {
			out.Next = link(b.pages[i+1])
		}
	}
	return views.GuideContent(out)
}
