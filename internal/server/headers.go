package server

import (
	"maps"
	"net/http"
)

// policy is a Content-Security-Policy: a page may load what it is made of from
// here, and nothing else from anywhere; 'self' covers the socket too.
func policy(style string) string {
	return "default-src 'none'; script-src 'self'; style-src " + style + "; img-src 'self' data:; " +
		"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// Answers are for pages of this origin.
var fixedHeaders = map[string]string{
	"Content-Security-Policy":      policy("'self'"),
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "same-origin", // without, forms would not say where they come from
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// securityHeaders sets what every answer has.
func securityHeaders(next http.Handler) http.Handler {
	fixed := http.Header{} // its values are shared, and never changed
	for name, value := range fixedHeaders {
		fixed.Set(name, value)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), fixed)
		next.ServeHTTP(w, r)
	})
}
