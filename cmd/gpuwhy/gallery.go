package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

type galleryCommand struct{}

// Run serves, until the context ends, every component of the page in every
// state where the dashboard would be. Its values are made up: nothing is read.
func (galleryCommand) Run(env *environment) error {
	log := newLogger(env.stderr, env.cfg)
	handler, err := galleryHandler(env.cfg, log)
	if err != nil {
		return usageError{err}
	}
	ln, err := listen(env.ctx, env.cfg.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "gpuwhy gallery: %s\n", ownURL(ln.Addr().String(), env.cfg.BasePath))
	srv := server.HTTPServer(handler, log)
	defer context.AfterFunc(env.ctx, func() { srv.Close() })()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// galleryHandler is the server with its headers and assets, without a machine.
func galleryHandler(cfg *Config, log *slog.Logger) (http.Handler, error) {
	pages := &pages{app: &app{cfg: cfg}, assets: static.New(views.Words())}
	s, err := server.New(server.Config{
		Monitor:      contract.Monitor{Node: "gallery", Source: gpu.SourceSimulated, Version: versionText(), Interval: cfg.Interval},
		Newest:       func() (*gpu.Snapshot, []byte) { return nil, nil },
		WS:           http.NotFoundHandler(),
		Explain:      explain.Explain,
		Recent:       recent.New(),
		ActiveAlerts: func() int { return 0 },
		Metrics:      http.NotFoundHandler(),
		Parts:        func() map[string]contract.PartState { return nil },
		Page: func(ctx context.Context, w io.Writer) error {
			return views.Gallery(pages.url, time.Now()).Render(ctx, w)
		},
		ErrorPage:  pages.problem,
		Assets:     pages.asset,
		BasePath:   cfg.BasePath,
		Listen:     cfg.Listen,
		Hostname:   cfg.hostname,
		AllowHosts: cfg.AllowHost,
		Log:        log,
	})
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}
