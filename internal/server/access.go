package server

import (
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// identify puts who makes a request into its context. It is the one place that
// decides it: without a sign-in, everybody is the local owner.
func identify(next http.Handler) http.Handler {
	owner := auth.LocalOwner()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &owner)))
	})
}

// needs lets through only who has the access.
func (s *Server) needs(access auth.Access, next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		if auth.FromRequest(r).Access < access {
			return refuse(http.StatusForbidden, "you may not do this here", "ask whoever runs gpuwhy")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}
