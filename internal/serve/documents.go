package serve

import (
	"context"
	_ "embed"
	"net/http"
	"strings"
	"sync"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

const typeYAML = "application/yaml"

// docsPolicy is that of /docs alone: its viewer styles its parts with style elements.
var docsPolicy = policy("'self' 'unsafe-inline'")

// Constant answers with content that stays as it is. Clients ask again whether it has changed.
func Constant(contentType string, content []byte) Handler {
	return once(func() (*body, error) { return newBody(contentType, content), nil })
}

// once answers with what build makes when it is first asked for. An error stays, since build has constants alone.
func once(build func() (*body, error)) Handler {
	made := sync.OnceValues(build)
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := made()
		return reply(w, r, cacheRevalidate, b, err)
	}
}

// Rendered answers with a page that stays as it is. It is rendered when somebody first asks for it.
func Rendered(page func() templ.Component) Handler {
	return once(func() (*body, error) { return pageBody(context.Background(), page()) })
}

func (s *Server) docsPage() Handler {
	answer := Rendered(func() templ.Component { return s.cfg.Pages.Docs() })
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Security-Policy", docsPolicy)
		return answer(w, r)
	}
}

func (s *Server) openAPI() (*body, error)  { return jsonBody(s.document()) }
func (s *Server) asyncAPI() (*body, error) { return jsonBody(s.events()) }

func (s *Server) openAPIYAML() (*body, error) {
	text, err := apidoc.YAML(s.document())
	return newBody(typeYAML, text), err
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
	return apidoc.AsyncAPI(s.kit.Monitor.Version, s.kit.BasePath+"/ws", acts...)
}

//go:embed introduction.md
var introduction string

// document makes the document of the routes.
func (s *Server) document() *apidoc.Document {
	var operations []apidoc.Operation
	for _, r := range s.routes {
		if r.Doc != nil {
			operations = append(operations, *r.Doc)
		}
	}
	var tags []apidoc.Tag
	for _, c := range contract.Clients {
		tags = append(tags, apidoc.Tag(c))
	}
	return apidoc.OpenAPI(apidoc.API{
		Description: strings.TrimSpace(introduction), Version: s.kit.Monitor.Version,
		Base: s.kit.BasePath, Problem: newProblem, OtherProblem: otherProblem, Tags: tags,
	}, operations)
}
