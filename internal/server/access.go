package server

import (
	"context"
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// identify puts the principal into a context: of one request, or of all requests,
// as [HTTPServer] does, so that no request must be copied. Only this function
// decides who the principal is: without a sign-in, everybody is the local owner.
func identify(ctx context.Context) context.Context {
	return auth.NewContext(ctx, new(auth.LocalOwner()))
}

// needs lets through only principals that have the access.
func (s *Server) needs(access auth.Access, next http.Handler) http.Handler {
	return s.handle(func(w http.ResponseWriter, r *http.Request) error {
		p, ok := auth.FromContext(r.Context())
		if !ok {
			r = r.WithContext(identify(r.Context()))
			p = auth.FromRequest(r)
		}
		if p.Access < access {
			return refuse(http.StatusForbidden, "you may not do this here", "ask whoever runs gpuwhy")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}
