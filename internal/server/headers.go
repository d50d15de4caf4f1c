package server

import "net/http"

// The page may load what it is made of from here, and nothing else from
// anywhere; 'self' covers the socket too. Answers are for pages of this origin.
var fixedHeaders = []struct{ name, value string }{
	{"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
}

// securityHeaders sets what every answer has.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, header := range fixedHeaders {
			h.Set(header.name, header.value)
		}
		next.ServeHTTP(w, r)
	})
}
