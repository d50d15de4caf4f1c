package server

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// originRules are the patterns of the origins that may read answers.
type originRules []string

func newOriginRules(allow []string) (originRules, error) {
	rules := make(originRules, len(allow))
	for i, origin := range allow {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return nil, &gpu.Advice{
				What: quote(origin) + " is no origin",
				Try:  "give --allow-origin a scheme and a host, with the port if it is not the usual one, such as https://board.example.org",
				Err:  err,
			}
		}
		// In a pattern brackets, which IPv6 addresses have, are something else.
		rules[i] = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(strings.ToLower(origin))
	}
	return rules, nil
}

func (o originRules) allowed(origin string) bool {
	return slices.ContainsFunc(o, func(pattern string) bool {
		ok, err := path.Match(pattern, origin)
		return ok && err == nil
	})
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
		if !s.origins.allowed(origin) {
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
