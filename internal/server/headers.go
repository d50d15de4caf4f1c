package server

import "net/http"

// policy is a Content-Security-Policy: a page may load its parts from this server,
// and nothing from elsewhere. 'self' covers the socket too.
func policy(style string) string {
	return "default-src 'none'; script-src 'self'; style-src " + style + "; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// fixedHeaders are the headers of every answer: answers are for pages of this
// origin. All answers share the values, and nobody changes them.
var fixedHeaders = []struct {
	name  string
	value []string
}{
	{"Content-Security-Policy", []string{policy("'self'")}},
	{"Cross-Origin-Opener-Policy", []string{"same-origin"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Referrer-Policy", []string{"same-origin"}}, // without it forms would have no origin
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"X-Frame-Options", []string{"DENY"}},
}

// securityHeaders sets them.
func securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, fixed := range fixedHeaders {
			h[fixed.name] = fixed.value
		}
		next.ServeHTTP(w, r)
	})
}
