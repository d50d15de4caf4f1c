package serve

import (
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// What tests of all rooms look at.
const (
	MaxBody      = maxBody
	WorthZipping = worthZipping
)

// Routes are all.
func (s *Server) Routes() []Route { return s.routes }

// Document is that of the API.
func (s *Server) Document() *apidoc.Document { return s.document() }

// Events are those of the socket.
func (s *Server) Events() *apidoc.Events { return s.events() }

// Wrap puts the middleware in front of a handler.
func (s *Server) Wrap(h http.Handler) http.Handler { return s.wrap(h) }

// Handle answers with the errors of a handler, too.
func (s *Server) Handle(h Handler) http.Handler { return s.handle(h) }

// Needs lets through who has the access.
func (s *Server) Needs(access auth.Access, next http.Handler) http.Handler {
	return s.needs(access, "a test", next)
}

// Mux has the routes without any middleware.
func (s *Server) Mux() *http.ServeMux { return s.mux }

// Kit is what the routes are made with.
func (s *Server) Kit() *Kit { return s.kit }

// Viewers is how many addresses have viewers.
func (s *Server) Viewers() int {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	return len(s.crowd.viewers)
}

// Policy is that of pages.
func Policy() string { return policy("'self'") }

// FixedHeaders are those of every answer.
func FixedHeaders() map[string][]string {
	out := map[string][]string{}
	for _, h := range fixedHeaders {
		out[h.name] = h.value
	}
	return out
}
