package server

import (
	"net/http"
	"net/url"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// newOrigins returns the origins that may read answers, and what keeps pages of
// all others from changing anything.
func newOrigins(allow []string) (map[string]bool, *http.CrossOriginProtection, error) {
	origins := make(map[string]bool, len(allow))
	protection := http.NewCrossOriginProtection()
	for _, origin := range allow {
		if err := checkOrigin(origin); err != nil {
			return nil, nil, err
		}
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, nil, badOrigin(origin, err)
		}
		origins[origin] = true
	}
	return origins, protection, nil
}

func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
		return badOrigin(origin, err)
	}
	return nil
}

func badOrigin(origin string, err error) error {
	return &gpu.Advice{
		What: quote(origin) + " is no origin",
		Try:  "give --allow-origin a scheme and a host, with the port if it is not the usual one, such as https://board.example.org",
		Err:  err,
	}
}

// The headers that pages of allowed origins may send and read, and for how long
// a browser may keep that in mind.
const (
	corsMethods = "GET, HEAD"
	corsHeaders = "Content-Type, If-None-Match"
	corsExposed = "ETag, Retry-After"
	corsMaxAge  = "600"
)

// allowOrigins lets pages of the configured origins read answers (CORS). Without
// any, it does nothing.
func (s *Server) allowOrigins(next http.Handler) http.Handler {
	if len(s.origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		addVary(h, "Origin")
		origin := r.Header.Get("Origin")
		if !s.origins[origin] {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			h.Set("Access-Control-Max-Age", corsMaxAge)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", corsExposed)
		next.ServeHTTP(w, r)
	})
}
