package server

import (
	"net/http"

	"github.com/rs/cors"
)

// allowOrigins lets pages of the configured origins read answers (CORS), without
// credentials. Without any such origin it does nothing.
func (s *Server) allowOrigins(next http.Handler) http.Handler {
	if len(s.cfg.AllowOrigins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowOriginFunc: s.cfg.AllowOrigins.Allow,
		AllowedMethods:  []string{http.MethodGet, http.MethodHead},
		AllowedHeaders:  []string{"Content-Type", "If-None-Match"},
		ExposedHeaders:  []string{"ETag", "Retry-After"},
		MaxAge:          600, // seconds
	}).Handler(next)
}
