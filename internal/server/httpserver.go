package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// readTimeout is how long a whole request may take to come.
const readTimeout = 15 * time.Second

// HTTPServer returns a server that slow clients can't block: headers, bodies
// and answers have deadlines, and headers a limit. The deadlines end when a
// connection is handed over, as for a WebSocket. The server's own messages are
// logged as warnings.
func HTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return identify(context.Background()) },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.With("part", "http").Handler(), slog.LevelWarn),
	}
}
