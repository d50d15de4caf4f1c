package server

import (
	"log/slog"
	"net/http"
	"time"
)

// logRequests logs each request at level debug, where that is on.
func logRequests(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !log.Enabled(r.Context(), slog.LevelDebug) {
				next.ServeHTTP(w, r)
				return
			}
			begin := time.Now()
			seen := &watched{ResponseWriter: w}
			defer func() {
				log.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr,
					"status", seen.status, "bytes", seen.bytes, "took", time.Since(begin))
			}()
			next.ServeHTTP(seen, r)
		})
	}
}
