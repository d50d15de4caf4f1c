package server

import (
	"context"
	"io"
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/apidoc"
)

const typeYAML = "application/yaml"

// docsPolicy is that of /docs alone: the viewer that it embeds styles its parts
// with style elements. Scripts are as restricted as everywhere.
var docsPolicy = policy("'self' 'unsafe-inline'")

// once answers with what build makes when it is first asked for.
func once(build func() (*body, error)) handler {
	return kept(func(*http.Request) struct{} { return struct{}{} }, func(struct{}) (*body, error) { return build() }, revalidate)
}

// events makes the AsyncAPI document of the socket.
func (s *Server) events() *apidoc.Events {
	return apidoc.AsyncAPI(s.cfg.Monitor.Version, s.cfg.BasePath+"/ws")
}

func (s *Server) openAPI() (*body, error)  { return jsonBody(s.document()) }
func (s *Server) asyncAPI() (*body, error) { return jsonBody(s.events()) }

func (s *Server) openAPIYAML() (*body, error) {
	text, err := apidoc.YAML(s.document())
	return newBody(typeYAML, text), err
}

// docsPage is the interactive documentation.
func (s *Server) docsPage() handler {
	answer := rendered(s.cfg.DocsPage)
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		return answer(w, r)
	}
}

// referencePage is the OpenAPI document as a page to read, eventsPage the
// AsyncAPI document.
func (s *Server) referencePage(ctx context.Context, w io.Writer) error {
	return s.cfg.ReferencePage(ctx, w, s.document())
}

func (s *Server) eventsPage(ctx context.Context, w io.Writer) error {
	return s.cfg.EventsPage(ctx, w, s.events())
}

// rendered answers with a page that is always the same.
func rendered(page func(context.Context, io.Writer) error) handler {
	return once(func() (*body, error) {
		return pageBody(func(w io.Writer) error { return page(context.Background(), w) })
	})
}
