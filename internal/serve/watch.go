package serve

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

// watch logs each request at level debug, if that level is on, and turns a panic
// into an error for the client; the log has the details. If the answer has begun,
// or the connection was handed over, it cuts the connection: half an answer must
// not look like a whole one.
func (s *Server) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &watched{ResponseWriter: w}
		if s.log.Enabled(r.Context(), slog.LevelDebug) {
			begin := time.Now()
			defer func() {
				s.log.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr,
					"status", seen.status, "bytes", seen.bytes, "took", time.Since(begin))
			}()
		}
		defer func() {
			if cause := recover(); cause != nil {
				s.panicked(seen, r, cause)
			}
		}()
		next.ServeHTTP(seen, r)
	})
}

func (s *Server) panicked(w *watched, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		w.cut()
	}
	s.log.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if w.status != 0 || w.conn != nil {
		w.cut()
	}
	for _, name := range aboutContent {
		w.Header().Del(name)
	}
	s.writeProblem(w, r, asStatusError(nil))
}

// aboutContent are headers of the content that was not sent.
var aboutContent = []string{"Content-Encoding", "Content-Length", "Content-Type", "Etag", "Cache-Control"}

// watched is a ResponseWriter that knows what was written to it.
type watched struct {
	http.ResponseWriter
	status int // 0 until an answer begins
	bytes  int64
	conn   net.Conn // non-nil once it was handed over
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *watched) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Hijack implements [http.Hijacker], where the writer below does.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.conn = conn
	return conn, buffered, err
}

// cut ends the connection. It does not return.
func (w *watched) cut() {
	if w.conn != nil {
		_ = w.conn.Close() // it may be closed already
	}
	panic(http.ErrAbortHandler)
}
