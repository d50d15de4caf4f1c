package server

import "net/http"

// maxBody is more than any request needs.
const maxBody = 64 << 10

// limitBody ends reading a body that is longer. It is the outermost middleware
// since it tells the connection, which it knows by the first writer alone.
func limitBody(next http.Handler) http.Handler {
	limited := http.MaxBytesHandler(next, maxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		limited.ServeHTTP(w, r)
	})
}
