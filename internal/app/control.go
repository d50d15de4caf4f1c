package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/access/control"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// controlled is the part that answers commands of this machine over the control socket.
type controlled struct {
	ln      net.Listener
	base    string              // path
	handler func() http.Handler // once the program runs
	log     *slog.Logger
}

// Name implements [part.Part].
func (*controlled) Name() string { return "control" }

// Run answers until ctx ends.
func (c *controlled) Run(ctx context.Context) error {
	server := serve.HTTPServer(control.Handler(c.base, c.handler()), c.log)
	server.ConnContext = peer.NewContext
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toClose)
		defer cancel()
		ended <- errors.Join(server.Shutdown(ctx), server.Close())
	})
	if err := server.Serve(c.ln); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve the control socket: %w", err)
	}
	if err := <-ended; err != nil {
		c.log.Debug("commands were cut off", "err", err)
	}
	return nil
}

// Close closes the socket of a program that was not run.
func (c *controlled) Close() error {
	if err := c.ln.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
