// Package app wires the parts of gpuwhy to a program and runs it: the nodes that
// are read, the hub, alerts, what survives a restart, and the server. It knows no
// flags: a command makes the Options and the Inputs of each node. [App] serves; a
// [Reader] reads for a command that serves nothing.
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
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/foresight"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/live"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/internal/record"
	"github.com/gpuwhy/gpuwhy/internal/server"
)

// goodbye bounds how long viewers and answers under way have at the end.
const goodbye = time.Second

// Options are the settings of the program that serves. The caller has checked them.
type Options struct {
	Version string
	Node    string // the name of the program if it shows several nodes

	server.Address // the base path begins and ends with a slash
	MaxViewers     int

	Interval time.Duration
	// IdleInterval is the time between readings while nobody looks; 0: Interval, always.
	IdleInterval time.Duration
	Deadline     time.Duration

	AlertRules       string   // the file of the rules of alerts; empty for the default rules
	AlertUtilization float64  // above it the default rule of high_gpu_usage_alert fires
	MetricsFamilies  []string // empty for all
	StateDir         string   // the folder for state that survives a restart; empty for none
	NotKept          error    // why there is none, where there should be one
	History          *History // nil where no past is kept

	Export []export.Destination // where series are sent; none: nowhere

	Clock clock.Clock // the machine's, but in tests
}

// App is the program that serves. Its parts can be used before and while it
// runs: the gallery and tests use them and do not call Run.
type App struct {
	Hub    *hub.Hub
	Recent *recent.Store
	Alerts *alert.Engine

	nodes     []*node
	stage     *insight.Stage // all nodes share what it remembers
	opt       Options
	log       *slog.Logger
	monitor   contract.Monitor // without the threshold of alerts
	notifier  *notify.Notifier
	keeper    *keep.Keeper
	recorder  *record.Recorder // of the past; nil where none is kept, as are past and sizes
	past      *past.Past
	sizes     *past.Sizes
	foresight *foresight.Foresight          // nil where no past is kept
	standing  map[string]func() []hub.Event // one by alert ID; announceAlerts alone uses it
	live      *live.Feed
	pusher    *export.Pusher // nil where series are sent nowhere
	routes    *server.Server
	server    *http.Server

	asked atomic.Int64 // when somebody asked last, as time that has elapsed; 0: nobody has

	encoders chan struct{} // has one value for each encoding that runs
	ending   chan struct{} // closed when the program begins to end
}

var errEnding = errors.New("gpuwhy is shutting down")

// New wires everything and starts nothing. Each of the inputs is a node. Its
// errors say which option is wrong. After an error the inputs are closed.
func New(opt Options, inputs []*Inputs, log *slog.Logger) (*App, error) {
	a := &App{opt: opt, log: log, monitor: MonitorOf(inputs, opt.Node), Recent: recent.New(), keeper: keep.New()}
	a.monitor.Version, a.monitor.Interval, a.monitor.Idle, a.monitor.Started = opt.Version, opt.Interval, opt.IdleInterval, opt.Clock.Now().UTC()
	a.encoders, a.ending = make(chan struct{}, runtime.GOMAXPROCS(0)), make(chan struct{})
	a.stage = insight.NewStage()
	a.live = live.New(a.renderPage, opt.Clock, len(inputs) > 1)
	a.Hub = hub.New(hub.Config{
		Encode:     a.encodeUpdate,
		Status:     a.encodeStatus,
		Patch:      a.patch,
		Refresh:    a.refresh,
		Page:       a.page,
		Several:    len(inputs) > 1,
		Events:     []string{contract.HighGPUUsage, contract.AlertEvent},
		Origins:    opt.AllowOrigins,
		MaxViewers: opt.MaxViewers,
		Log:        log.With("part", "hub"),
	})
	a.wireForesight()
	for _, in := range inputs {
		a.nodes = append(a.nodes, newNode(in, *a.stage, pace{opt.Interval, opt.IdleInterval, a.watched}, opt.Deadline, opt.Clock, log, a.Hub.Publish, a.Hub.Hold))
	}
	a.wireHistory()
	if err := a.wireAlerts(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.wireKeeper()
	if err := a.wireServer(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// wireKeeper lists what the program keeps over a restart, in the order in which
// it is written: a program that is killed after writing what targets are to be
// told, and before writing the alerts, repeats a message and loses none.
func (a *App) wireKeeper() {
	k := a.keeper
	k.Origin, k.Log, k.Hold = a.nodes[0].Origin, a.log, a.Alerts.Hold
	if a.opt.StateDir == "" {
		return
	}
	k.Shelf = keep.Folder(a.opt.StateDir)
	if a.opt.History != nil {
		k.Shelf = &shelf{a.opt.History.Store, keep.Folder(a.opt.StateDir), a.monitor.Node}
	}
	a.notifier.Flush = k.Flush
	k.Documents = []keep.Document{
		keep.Of("notifications", "messages that wait to be sent", keep.Promptly, a.notifier),
		keep.Of("alerts", "alerts and silences", keep.Promptly, a.Alerts),
		keep.Of("floors", "what devices draw at rest", keep.Regularly, a.stage.Floors),
		keep.Of("baselines", "how devices are at work and after it", keep.Regularly, a.stage.History),
		keep.Of("recent", "the last minutes", keep.AtEnd, a.Recent),
	}
	if a.foresight != nil {
		k.Documents = append(k.Documents, keep.Of("cooldowns", "what was forecast of cool-downs", keep.Regularly, a.foresight))
	}
}

// Handler answers all requests.
func (a *App) Handler() http.Handler { return a.server.Handler }

// Publish publishes a snapshot from elsewhere as if the node's sampler had read it.
func (a *App) Publish(s *gpu.Snapshot) *insight.Moment {
	m := a.stage.Next(s)
	a.Hub.Publish(m)
	a.observe(m)
	return m
}

// Close closes the inputs of an App that was never run.
func (a *App) Close() (err error) {
	for _, n := range a.nodes {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, a.closeHistory())
}

// refresh reads the nodes that are wanted, all at once.
func (a *App) refresh(ctx context.Context, wanted func(node string) bool) (names []string, err error) {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range a.nodes {
		if wanted(n.Node) {
			names = append(names, n.Node)
			g.Go(func() error { return n.refresh(ctx, a.Hub.Hold) })
		}
	}
	return names, g.Wait()
}

// page makes what brings a page up to date.
func (a *App) page(address string, to auth.Audience, have string, changes uint64) (text []byte, version string, of uint64, err error) {
	f, err := a.live.Frame(context.Background(), address, to, have, changes)
	if errors.Is(err, server.ErrNotLive) {
		err = hub.ErrNoPage
	}
	return f.Message, f.Version, f.Changes, err
}

// renderPage makes a page anew.
func (a *App) renderPage(ctx context.Context, address string, to auth.Audience) ([]byte, error) {
	done, err := a.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return a.routes.Render(ctx, address, to)
}

// encodes waits for its turn. What it returns ends that.
func (a *App) encodes() (done func(), err error) {
	select {
	case a.encoders <- struct{}{}:
		return func() { <-a.encoders }, nil
	case <-a.ending:
		return nil, errEnding
	}
}

// encodeUpdate makes Moments JSON for viewers. Many filters on a large fleet need many
// encodings: at most one for each processor runs, and none begins when the program ends.
func (a *App) encodeUpdate(m *insight.Moment, _ auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
	done, err := a.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return json.Marshal(contract.NewUpdate(m, keep))
}

// patch compares two updates. With many filters that takes as long as encoding them.
func (a *App) patch(before, after []byte) ([]byte, error) {
	done, err := a.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return contract.Patch(before, after)
}

func (a *App) encodeStatus(newest *insight.Fleet, encoded []byte) ([]byte, error) {
	return json.Marshal(contract.NewGPUStatus(a.current().Of(newest), newest, encoded, a.opt.Clock.Now()))
}

// Run reads and serves until ctx ends. It does not wait for a driver. It reads
// the rules of alerts again at each signal from reload.
func (a *App) Run(ctx context.Context, ln net.Listener, reload <-chan os.Signal) error {
	a.keeper.Restore(a.opt.Clock.Now())
	g, ctx := errgroup.WithContext(ctx)
	start := func(part func(context.Context)) {
		g.Go(func() error { part(ctx); return nil })
	}
	for _, n := range a.nodes {
		g.Go(func() error { return n.run(ctx) })
	}
	g.Go(func() error { return a.notifier.Run(ctx) })
	start(func(ctx context.Context) { a.each(ctx, a.observe) })
	start(func(ctx context.Context) { a.reloadOn(ctx, reload) })
	if a.recorder != nil {
		start(func(ctx context.Context) { a.each(ctx, a.recorder.Observe) })
		start(a.recorder.Run)
		start(a.writeAnew)
		start(a.sizes.Run)
		start(func(ctx context.Context) { a.each(ctx, a.foresight.Observe) })
		start(a.foresight.Run)
	}
	if a.pusher != nil {
		start(func(ctx context.Context) { a.each(ctx, a.pusher.Observe) })
		start(a.pusher.Run)
	}
	start(a.keeper.Run)
	start(a.announceStart)
	g.Go(func() error {
		if err := a.server.Serve(server.Listen(ln)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return a.Shutdown(context.WithoutCancel(ctx))
	})
	return errors.Join(g.Wait(), a.keeper.Close(), a.closeHistory())
}

// each calls f with each newer Moment, until ctx ends.
func (a *App) each(ctx context.Context, f func(*insight.Moment)) {
	for m := range a.Hub.Feed(ctx) {
		f(m)
	}
}

// observe takes in a Moment for what pages show beside it, and then has them shown.
func (a *App) observe(m *insight.Moment) {
	a.Recent.Observe(m)
	a.Alerts.Observe(m)
	a.Hub.Turn()
}

// Shutdown says goodbye to viewers and waits for requests to end. Run calls it, once.
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

// announceStart logs what is read. A source itself logs what it can't read.
func (a *App) announceStart(ctx context.Context) {
	for m := range a.Hub.Feed(ctx) {
		s := m.Snapshot
		if len(s.Devices) == 0 {
			continue
		}
		attrs := []any{"source", s.Source, "gpus", len(s.Devices)}
		if len(a.nodes) > 1 {
			attrs = []any{"source", s.Source, "nodes", len(a.nodes)}
		}
		for _, d := range s.Drivers {
			attrs = append(attrs, "driver", d.Version.String())
		}
		a.log.Info("reading", attrs...)
		return
	}
}
