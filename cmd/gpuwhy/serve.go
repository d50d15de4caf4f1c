package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// goodbye bounds how long viewers and answers under way have at the end.
const goodbye = time.Second

type serveCommand struct{}

// Run serves until the context ends.
func (serveCommand) Run(env *environment) error {
	hangups := make(chan os.Signal, 1)
	if env.cfg.AlertRules != "" || !onTerminal() {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	if err := env.cfg.prepareStateDir(); err != nil {
		return usageError{err}
	}
	log := newLogger(env.stderr, env.cfg)
	a, err := newApp(env.cfg, log)
	if err != nil {
		return err
	}
	ln, err := listen(env.ctx, env.cfg.Listen)
	if err != nil {
		return errors.Join(err, a.closeSources())
	}
	fmt.Fprintf(env.stdout, "gpuwhy %s: %s\n", versionText(), ownURL(ln.Addr().String(), env.cfg.BasePath))
	return a.run(env.ctx, ln, hangups)
}

// onTerminal reports whether the program belongs to a terminal: without rules
// to read again, it ends with it.
func onTerminal() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	terminal.Close()
	return true
}

// listen opens the address, or says what is wrong with it.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &gpu.Advice{
			What: "another program listens on " + address,
			Try:  "end it, or choose another port with --listen (port 0 takes a free one)",
			Err:  err,
		}
	case errors.Is(err, syscall.EACCES):
		return nil, &gpu.Advice{What: "not permitted to listen on " + address, Try: "choose a port above 1023 with --listen", Err: err}
	default:
		return nil, &gpu.Advice{What: "can't listen on " + address, Try: "give --listen an address of this machine (" + err.Error() + ")", Err: err}
	}
}

// app is the running program: who reads, who remembers, who answers.
type app struct {
	cfg     *Config
	log     *slog.Logger
	started time.Time

	inputs  *inputs
	sampler *sampler.Sampler
	hub     *hub.Hub
	history *explain.History
	recent  *recent.Store
	floors  attribute.Floors // what each device draws without work
	alerts  *alerting
	server  *http.Server

	// reread reads on demand.
	reread func(context.Context) (*gpu.Snapshot, error)

	encoders chan struct{} // holds one for each encoding under way
	ending   chan struct{} // closed when the end begins
}

var errEnding = errors.New("gpuwhy is shutting down")

// newApp wires everything and starts nothing.
func newApp(cfg *Config, log *slog.Logger) (*app, error) {
	in, err := newInputs(cfg, log)
	if err != nil {
		return nil, err
	}
	return newAppOf(cfg, in, log)
}

// newAppOf is newApp with other inputs than the configuration names.
func newAppOf(cfg *Config, in *inputs, log *slog.Logger) (a *app, err error) {
	a = &app{cfg: cfg, log: log, started: time.Now().UTC(), inputs: in, history: explain.NewHistory(), recent: recent.New()}
	a.encoders, a.ending = make(chan struct{}, runtime.GOMAXPROCS(0)), make(chan struct{})
	if a.alerts, err = newAlerting(cfg, a.history, log); err != nil {
		return nil, errors.Join(err, a.closeSources())
	}
	a.hub = hub.New(hub.Config{
		Encode:     a.encodeUpdate,
		Status:     a.encodeStatus,
		Refresh:    a.refresh,
		Origins:    cfg.origins,
		MaxViewers: cfg.MaxViewers,
		Log:        log.With("part", "hub"),
	})
	a.alerts.hub = a.hub
	a.sampler = sampler.New(sampler.Config{
		Node:     in.node,
		Interval: cfg.Interval,
		Deadline: cfg.Deadline,
		Sources:  in.sources,
		Host:     in.host,
		Notes:    in.notes,
		Publish:  a.publish,
		Log:      log.With("part", "sampler"),
	})
	a.reread = a.sampler.Refresh
	if a.server, err = a.newServer(); err != nil {
		return nil, errors.Join(err, a.closeSources())
	}
	return a, nil
}

func (a *app) closeSources() error {
	var errs []error
	for _, s := range a.inputs.sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (a *app) monitor() contract.Monitor {
	return contract.Monitor{
		Node:           a.inputs.node,
		Source:         a.inputs.sources[0].Name(),
		Version:        versionText(),
		Interval:       a.cfg.Interval,
		AlertThreshold: a.alerts.threshold(),
		Started:        a.started,
	}
}

// encodeUpdate is the one place where snapshots become JSON. Many filters on a
// large fleet ask for many at once: as many as there are processors are made at
// a time, and none any more once the program ends.
func (a *app) encodeUpdate(s *gpu.Snapshot) ([]byte, error) {
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

func (a *app) encodeStatus(newest *gpu.Snapshot, encoded []byte) ([]byte, error) {
	return json.Marshal(contract.NewGPUStatus(a.monitor(), newest, encoded))
}

// publish hands a reading on, with what is known of its devices by now, and
// once it is explained: who gets it, gets the answer with it.
func (a *app) publish(s *gpu.Snapshot) {
	s = a.note(s)
	a.history.Add(s)
	a.hub.Publish(s)
}

func (a *app) refresh(ctx context.Context) (*gpu.Snapshot, error) {
	snap, err := a.reread(ctx)
	if err != nil {
		return nil, err
	}
	return a.note(snap), nil
}

// note returns a copy of a reading with what is known beside it: what devices
// draw at rest, and for whom they are kept.
func (a *app) note(s *gpu.Snapshot) *gpu.Snapshot {
	s = a.floors.Note(s)
	a.inputs.reserve(s)
	return s
}

// run reads and serves until ctx ends. It does not wait for a driver. At each
// hangup the rules of alerts are read again.
func (a *app) run(ctx context.Context, ln net.Listener, hangups <-chan os.Signal) error {
	kept := a.kept()
	kept.restore()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.sampler.Run(ctx) })
	g.Go(func() error { a.remember(ctx); return nil })
	g.Go(func() error { kept.keepOn(ctx); return nil })
	g.Go(func() error { a.alerts.watch(ctx); return nil })
	g.Go(func() error { return a.alerts.notifier.Run(ctx) })
	g.Go(func() error { a.alerts.reloadOn(ctx, hangups); return nil })
	g.Go(func() error { a.announceStart(ctx); return nil })
	g.Go(func() error {
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return a.shutdown(context.WithoutCancel(ctx))
	})
	return errors.Join(g.Wait(), a.inputs.close(), kept.write(atEnd))
}

// shutdown says goodbye to viewers and lets answers under way end.
func (a *app) shutdown(ctx context.Context) error {
	close(a.ending)
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		if err := a.hub.Shutdown(ctx, "gpuwhy is shutting down"); err != nil {
			a.log.Debug("viewers were cut off", "err", err)
		}
		a.hub.Wait()
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

// remember keeps each snapshot for the charts.
func (a *app) remember(ctx context.Context) {
	for snap := range a.hub.Feed(ctx) {
		a.recent.Add(snap)
	}
}

// announceStart says in one line what is read. What can't be read, its source
// has said, and what to do.
func (a *app) announceStart(ctx context.Context) {
	for snap := range a.hub.Feed(ctx) {
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
