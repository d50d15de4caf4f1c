// Package app wires the parts of gpuwhy to a program and runs it: what reads,
// what remembers, what answers. It knows no flags; a command makes the inputs
// and the options from its own.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// goodbye bounds how long viewers and answers under way have at the end.
const goodbye = time.Second

// Options are the settings of the program that serves. The caller has checked
// those that cmd/gpuwhy documents as flags.
type Options struct {
	Version string

	Listen       string // the address of the listener that Run is given
	Hostname     string // the machine's own name; empty where it has none
	BasePath     string // begins and ends with a slash
	AllowOrigins auth.Origins
	AllowHosts   []string
	MaxViewers   int

	Interval time.Duration
	Deadline time.Duration

	// AlertRules is the file of the rules of alerts; empty for the default
	// rules, of which high_gpu_usage_alert fires above AlertUtilization.
	AlertRules       string
	AlertUtilization float64

	MetricsFamilies []string // all where there are none
	// StateDir is where small state is kept over a restart; empty for nowhere.
	StateDir string
}

// App is the program that serves. Its parts can be used before and while it
// runs: a gallery or a test drives them itself instead of calling Run.
type App struct {
	Hub    *hub.Hub
	Recent *recent.Store
	Alerts *alert.Service

	*pipeline
	opt      Options
	log      *slog.Logger
	started  time.Time
	notifier *notify.Notifier
	keeper   *keep.Keeper
	server   *http.Server

	encoders chan struct{} // holds one for each encoding under way
	ending   chan struct{} // closed when the end begins
}

var errEnding = errors.New("gpuwhy is shutting down")

// New wires everything and starts nothing. Its errors say which option is
// wrong; the inputs are closed then.
func New(opt Options, in *Inputs, log *slog.Logger) (*App, error) {
	a := &App{opt: opt, log: log, started: time.Now().UTC(), Recent: recent.New(), keeper: keep.New()}
	a.encoders, a.ending = make(chan struct{}, runtime.GOMAXPROCS(0)), make(chan struct{})
	a.pipeline = newPipeline(in, opt.Interval, opt.Deadline, log, func(s *gpu.Snapshot) { a.Hub.Publish(s) })
	a.Hub = hub.New(hub.Config{
		Encode:     a.encodeUpdate,
		Status:     a.encodeStatus,
		Refresh:    a.refresh,
		Origins:    opt.AllowOrigins,
		MaxViewers: opt.MaxViewers,
		Log:        log.With("part", "hub"),
	})
	if err := a.wireAlerts(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	a.wireKeeper()
	if err := a.wireServer(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return a, nil
}

// Handler answers all requests.
func (a *App) Handler() http.Handler { return a.server.Handler }

// Publish hands a reading on that was made elsewhere, as if the sampler had made
// it. Who gets the reading gets the answer with it.
func (a *App) Publish(s *gpu.Snapshot) { a.Hub.Publish(a.take(s)) }

// Close lets go of the inputs of an App that was never run.
func (a *App) Close() error { return a.inputs.Close() }

func (a *App) newest() *gpu.Snapshot {
	if frame := a.Hub.Newest(); frame != nil {
		return frame.Snapshot
	}
	return nil
}

// encodeUpdate is the one place where snapshots become JSON. Many filters on a
// large fleet ask for many encodings at once: as many run at a time as there are
// processors, and none begins once the program ends.
func (a *App) encodeUpdate(s *gpu.Snapshot) ([]byte, error) {
	select {
	case a.encoders <- struct{}{}:
		defer func() { <-a.encoders }()
	case <-a.ending:
		return nil, errEnding
	}
	answer := a.history.Explain(s)
	update := contract.NewUpdate(s, answer.Sentence)
	update.Explain(s, &answer)
	return json.Marshal(update)
}

func (a *App) encodeStatus(newest *gpu.Snapshot, encoded []byte) ([]byte, error) {
	return json.Marshal(contract.NewGPUStatus(a.monitor(), newest, encoded))
}

// Run reads and serves until ctx ends. It does not wait for a driver. It reads
// the rules of alerts again at each signal from reload.
func (a *App) Run(ctx context.Context, ln net.Listener, reload <-chan os.Signal) error {
	a.keeper.Restore()
	g, ctx := errgroup.WithContext(ctx)
	start := func(part func(context.Context)) {
		g.Go(func() error { part(ctx); return nil })
	}
	g.Go(func() error { return a.sampler.Run(ctx) })
	g.Go(func() error { return a.notifier.Run(ctx) })
	start(func(ctx context.Context) { a.each(ctx, a.Recent.Add) })
	start(func(ctx context.Context) { a.each(ctx, a.Alerts.Observe) })
	start(func(ctx context.Context) { a.reloadOn(ctx, reload) })
	start(a.keeper.Run)
	start(a.keepNotifications)
	start(a.announceStart)
	g.Go(func() error {
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return a.Shutdown(context.WithoutCancel(ctx))
	})
	return errors.Join(g.Wait(), a.inputs.closeHost(), a.keeper.Close())
}

// each calls f with each newer snapshot, until ctx ends.
func (a *App) each(ctx context.Context, f func(*gpu.Snapshot)) {
	for snap := range a.Hub.Feed(ctx) {
		f(snap)
	}
}

// Shutdown says goodbye to viewers and lets answers under way end. It is called
// once; Run does so itself.
func (a *App) Shutdown(ctx context.Context) error {
	close(a.ending)
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		if err := a.Hub.Shutdown(ctx, "gpuwhy is shutting down"); err != nil {
			a.log.Debug("viewers were cut off", "err", err)
		}
		a.Hub.Wait()
		return nil
	})
	g.Go(func() error {
		if err := a.server.Shutdown(ctx); err != nil {
			a.log.Debug("answers were cut off", "err", err)
			return a.server.Close()
		}
		return nil
	})
	return g.Wait()
}

// announceStart logs in one line what is read. A source says itself what it
// can't read, and what to do.
func (a *App) announceStart(ctx context.Context) {
	for snap := range a.Hub.Feed(ctx) {
		if len(snap.Devices) == 0 {
			continue
		}
		attrs := []any{"source", snap.Source, "gpus", len(snap.Devices)}
		for _, d := range snap.Drivers {
			attrs = append(attrs, "driver", d.Version.String())
		}
		a.log.Info("reading", attrs...)
		return
	}
}
