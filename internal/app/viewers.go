package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/live"
)

var errEnding = errors.New("gpuwhy is shutting down")

// viewers is the part that has those who look: by sockets of the hub, by requests, and at pages that are kept up to date.
type viewers struct {
	hub     *hub.Hub
	live    *live.Feed
	routes  *serve.Server
	server  *http.Server
	secure  *certs.Room             // nil: without TLS
	plain   *http.Server            // leads to TLS, where there is a listener for it
	current func() contract.Monitor // what answers say of the program now
	known   func(auth.Audience, contract.Monitor) contract.Monitor
	clock   clock.Clock
	log     *slog.Logger
	goodbye time.Duration

	encoders chan struct{} // has one value for each encoding that runs
	ending   chan struct{} // closed when the program begins to end
}

func (a *App) newViewers(opt *Options, several bool, log *slog.Logger) *viewers {
	v := &viewers{
		clock: opt.Clock, log: log, goodbye: cmp.Or(opt.Goodbye, time.Second),
		encoders: make(chan struct{}, runtime.GOMAXPROCS(0)), ending: make(chan struct{}),
	}
	v.live = live.New(v.renderPage, opt.Clock, several)
	v.hub = hub.New(hub.Config{
		Encode:     v.encodeUpdate,
		Status:     v.encodeStatus,
		Patch:      v.patch,
		Page:       v.page,
		Several:    several,
		Events:     []string{contract.HighGPUUsage, contract.AlertEvent},
		Origins:    opt.AllowOrigins,
		MaxViewers: opt.MaxViewers,
		Log:        log.With("part", "hub"),
	})
	return v
}

// Name implements [part.Part].
func (v *viewers) Name() string { return "hub" }

// Watched reports whether a viewer is connected.
func (v *viewers) Watched() bool { return v.hub.Stats().Viewers > 0 }

// Health is when viewers were last told something.
func (v *viewers) Health() map[string]contract.Part {
	return map[string]contract.Part{"hub": contract.NewPart("ok", v.hub.Newest().Nodes().Time())}
}

// Measure says what viewers get, and what that costs.
func (v *viewers) Measure(self *metrics.Self) {
	stats, crowd := v.hub.Stats(), v.routes.Crowd()
	self.Viewers, self.Refused, self.Ended = stats.Viewers, stats.Refused+crowd.Refused, stats.Ended
	self.Connections, self.Displaced = crowd.Connections, crowd.Displaced
	self.Published, self.Encodings, self.Skipped, self.EncodingFails = stats.Published, stats.Encodings, stats.Skipped, stats.Err != nil
	self.Messages, self.Bytes = stats.Messages, stats.Bytes
}

// page returns the message that brings a page up to date.
func (v *viewers) page(address string, sight auth.Sight, have string, changes uint64) (text []byte, version string, current uint64, err error) {
	f, err := v.live.Frame(context.Background(), address, sight, have, changes)
	if errors.Is(err, serve.ErrNotLive) {
		err = hub.ErrNoPage
	}
	return f.Message, f.Version, f.Changes, err
}

// renderPage renders a whole page.
func (v *viewers) renderPage(ctx context.Context, address string, sight auth.Sight) ([]byte, error) {
	done, err := v.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return v.routes.Render(ctx, address, sight)
}

// encodes waits for a free encoder. Calling done frees it.
func (v *viewers) encodes() (done func(), err error) {
	select {
	case v.encoders <- struct{}{}:
		return func() { <-v.encoders }, nil
	case <-v.ending:
		return nil, errEnding
	}
}

// encodeUpdate encodes Moments as JSON for viewers. Many filters on a large fleet need many
// encodings: at most one per CPU runs at a time, and none begins once the program is ending.
func (v *viewers) encodeUpdate(m *insight.Moment, _ auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
	done, err := v.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return json.Marshal(contract.NewUpdate(m, keep))
}

// patch compares two updates. With many filters, that takes as long as encoding them.
func (v *viewers) patch(before, after []byte) ([]byte, error) {
	done, err := v.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return contract.Patch(before, after)
}

func (v *viewers) encodeStatus(audience auth.Audience, newest *insight.Fleet, encoded []byte) ([]byte, error) {
	return json.Marshal(contract.NewGPUStatus(v.known(audience, v.current()).Of(newest), newest, encoded, v.clock.Now()))
}

// serve answers those who connect, until shutdown.
func (v *viewers) serve(ln net.Listener) error {
	if v.secure == nil {
		return served(v.server.Serve(ln))
	}
	var g errgroup.Group
	g.Go(func() error { return served(v.server.ServeTLS(hub.Listen(ln), "", "")) })
	if plain := v.secure.Redirect(); plain != nil {
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		v.plain.Handler = v.secure.Plain(v.routes.Redirect(port))
		g.Go(func() error { return served(v.plain.Serve(plain)) })
	}
	return g.Wait()
}

// served is the error of a server that nobody has ended.
func served(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// shutdown says goodbye, and waits for requests to end.
func (v *viewers) shutdown(ctx context.Context) error {
	close(v.ending)
	ctx, cancel := context.WithTimeout(ctx, v.goodbye)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		if err := v.hub.Shutdown(ctx, "gpuwhy is shutting down"); err != nil {
			v.log.Debug("viewers were cut off", "err", err)
		}
		v.hub.Wait()
		return nil
	})
	for _, server := range []*http.Server{v.server, v.plain} {
		g.Go(func() error {
			if err := server.Shutdown(ctx); err != nil {
				v.log.Debug("answers were cut off", "err", err)
				return server.Close()
			}
			return nil
		})
	}
	return g.Wait()
}
