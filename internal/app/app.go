// Package app wires gpuwhy's parts into a program and runs it: the nodes that are
// read, the hub, alerts, the state that survives a restart, and the server. It knows
// no flags: a command makes the Options and the Inputs of each node. An [App] serves;
// a [Reader] reads for commands that don't serve.
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
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/fleet/downlink"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/live"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// Options are the settings of the serving program. The caller has checked them.
type Options struct {
	Version string
	Node    string // the program's name, if it shows several nodes

	serve.Address // the base path begins and ends with a slash
	MaxViewers    int

	Interval time.Duration
	// IdleInterval is the time between readings while nobody is looking; 0: always Interval.
	IdleInterval time.Duration
	Deadline     time.Duration

	AlertRules       string   // the alert rules file; empty for the default rules
	AlertUtilization float64  // the threshold of the default rule high_gpu_usage_alert, in percent
	MetricsFamilies  []string // empty for all
	// Installation is the installation of StateDir; nil without one.
	Installation *state.Installed
	StateDir     string // the folder for state that survives a restart; empty for none
	// Helpers returns what the program's helper processes cost now; nil: it has none.
	Helpers  func() []metrics.Helper
	Files    Files          // accesses the files of StateDir; nil: this program writes them itself
	NotKept  error          // why there is no StateDir although there should be one
	History  *History       // nil if no past is kept
	Fleet    *Fleet         // nil for a program on its own
	Clusters *kube.Clusters // whose nodes are read from here; nil for none

	Export []export.Destination // where series are sent; none: nowhere

	Goodbye time.Duration // how long viewers and unfinished answers have at the end, 1 s by default
	Clock   clock.Clock   // the machine's, except in tests
}

// App is the serving program. Its parts can be used before and while it runs: the
// gallery and tests use them without calling Run.
type App struct {
	Hub    *hub.Hub
	Recent *recent.Store
	Alerts *alert.Engine

	local     locals       // the nodes that this program reads
	several   bool         // there may be more than one node
	desk      *action.Desk // does what people and programs ask for
	alerting  *alerts.Room
	uplink    *uplink.Uplink     // nil where nothing is published, as are Options.Fleet and downlink where there is no fleet
	downlink  *downlink.Downlink // of what others publish
	stage     *insight.Stage     // all nodes share what it remembers
	opt       Options
	log       *slog.Logger
	monitor   contract.Monitor // without the threshold of alerts
	notifier  *notify.Notifier
	keeper    *state.Keeper
	hues      now.Hues
	recorded  chan struct{}    // closed when the recorder has written its last
	recorder  *record.Recorder // of the past; nil where none is kept, as are past and sizes
	past      *history.Past
	sizes     *history.Sizes
	forecast  *outlook.Forecaster           // nil if no past is kept
	standing  map[string]func() []hub.Event // one by alert ID; announceAlerts alone uses it
	stand     []func() []hub.Event          // the same, the worst first; used while no alert of this program changes
	told      time.Duration                 // when that of other programs was announced last, as elapsed time; reported alone uses it
	live      *live.Feed
	pusher    *export.Pusher     // nil where series are sent nowhere
	collector *deliver.Collector // of the past of others; nil where it is not written here
	routes    *serve.Server
	server    *http.Server

	asked atomic.Int64 // when somebody asked last, as time that has elapsed; 0: nobody has

	encoders chan struct{} // has one value for each encoding that runs
	ending   chan struct{} // closed when the program begins to end
}

// TryStateDir is the advice for when nothing can be kept across a restart.
const TryStateDir = "give gpuwhy its own folder with --state-dir, or set --state-dir none"

var errEnding = errors.New("gpuwhy is shutting down")

// New wires everything and starts nothing. Each input is a node; there is at least one, or a fleet. The error
// says which option is wrong. After an error, the inputs are closed.
func New(opt Options, inputs []*Inputs, log *slog.Logger) (*App, error) {
	a := &App{opt: opt, log: log, several: opt.several(inputs), Recent: recent.New(), keeper: state.New()}
	a.monitor = monitorOf(inputs, opt.Node, a.several)
	a.monitor.Version, a.monitor.Interval, a.monitor.Idle, a.monitor.Started = opt.Version, opt.Interval, opt.IdleInterval, opt.Clock.Now().UTC()
	a.encoders, a.ending, a.recorded = make(chan struct{}, runtime.GOMAXPROCS(0)), make(chan struct{}), make(chan struct{})
	a.stage = insight.NewStage()
	a.live = live.New(a.renderPage, opt.Clock, a.several)
	a.desk = action.NewDesk(action.Log{Logger: log.With("part", "actions")}, a.actions()...)
	a.Hub = hub.New(hub.Config{
		Encode:     a.encodeUpdate,
		Status:     a.encodeStatus,
		Patch:      a.patch,
		Acts:       a.socketActs(),
		Page:       a.page,
		Several:    a.several,
		Events:     []string{contract.HighGPUUsage, contract.AlertEvent},
		Origins:    opt.AllowOrigins,
		MaxViewers: opt.MaxViewers,
		Log:        log.With("part", "hub"),
	})
	a.wireForesight()
	for _, in := range inputs {
		a.local.add(a.newNode(in))
	}
	a.wireHistory()
	if err := a.wireAlerts(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.wireFleet()
	a.wireKeeper()
	if err := a.wireServer(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// wireKeeper lists what the program keeps across a restart, in writing order: a
// program that is killed after writing the waiting messages and before writing the
// alerts repeats a message, but loses none.
func (a *App) wireKeeper() {
	k := a.keeper
	k.Origin, k.Log, k.Hold = a.local.origin(), a.log, a.Alerts.Hold
	if a.opt.StateDir == "" {
		return
	}
	k.Node = a.local.only()
	var files Files = state.Folder(a.opt.StateDir)
	if a.opt.Files != nil {
		files = a.opt.Files
	}
	k.Shelf = files
	if a.opt.History != nil && !a.opt.History.ReadOnly {
		k.Shelf = &shelf{a.opt.History.Store, files, a.opt.Installation, a.monitor.Node}
	}
	a.notifier.Flush, a.stage.Floors.Learned = k.Flush, k.Soon
	k.Documents = []state.Document{
		state.Of("notifications", "messages waiting to be sent", state.Promptly, a.notifier),
		state.Of("alerts", "alerts and silences", state.Promptly, a.Alerts),
		state.Of("floors", "what devices draw at rest", state.Promptly, a.stage.Floors),
		state.Of("baselines", "how devices behave at work and after it", state.Regularly, a.stage.History),
		state.Of("recent", "the last minutes", state.AtEnd, a.Recent),
		state.Of("hues", "the colors of people", state.Regularly, &a.hues),
	}
	for i := range k.Documents {
		k.Documents[i].KnowsNames = k.Documents[i].Name == "alerts"
	}
	if a.forecast != nil {
		k.Documents = append(k.Documents, state.Of("cooldowns", "forecasts of cool-downs", state.Regularly, a.forecast))
	}
}

// Handler returns the handler of all requests.
func (a *App) Handler() http.Handler { return a.server.Handler }

// Publish publishes a snapshot from elsewhere as if the node's sampler had read it.
func (a *App) Publish(s *gpu.Snapshot) *insight.Moment {
	m := a.stage.Next(s)
	if n, ok := a.local.find(s.Node); ok {
		m = m.At(n.Place, insight.Link{})
	}
	a.Hub.Publish(m)
	a.observe([]*insight.Moment{m})
	return m
}

// Take publishes Moments that other programs have made.
func (a *App) Take(moments []*insight.Moment) {
	a.Hub.PublishAll(moments)
	a.observe(moments)
}

// Remove removes a node that no longer belongs to the fleet. Publishing one of its Moments later adds it again.
func (a *App) Remove(node string) {
	a.Hub.Remove(node)
	a.Recent.Forget(node)
	a.Alerts.Forget(node, a.opt.Clock.Now())
	a.Hub.Turn()
}

// Close closes the inputs of an App that was never run.
func (a *App) Close() (err error) {
	for _, n := range a.local.all() {
		err = errors.Join(err, n.Close())
	}
	return errors.Join(err, a.closeHistory(), a.closeFleet())
}

// newNode makes a node of this program.
func (a *App) newNode(in *Inputs) *node {
	every := pace{a.opt.Interval, a.opt.IdleInterval, a.watched}
	return newNode(in, *a.stage, every, a.opt.Deadline, a.opt.Clock, a.log, a.Hub.Publish, a.Hub.Hold)
}

// page returns the message that brings a page up to date.
func (a *App) page(address string, to auth.Sight, have string, changes uint64) (text []byte, version string, of uint64, err error) {
	f, err := a.live.Frame(context.Background(), address, to, have, changes)
	if errors.Is(err, serve.ErrNotLive) {
		err = hub.ErrNoPage
	}
	return f.Message, f.Version, f.Changes, err
}

// renderPage renders a whole page.
func (a *App) renderPage(ctx context.Context, address string, to auth.Sight) ([]byte, error) {
	done, err := a.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return a.routes.Render(ctx, address, to)
}

// encodes waits for a free encoder. Calling done frees it.
func (a *App) encodes() (done func(), err error) {
	select {
	case a.encoders <- struct{}{}:
		return func() { <-a.encoders }, nil
	case <-a.ending:
		return nil, errEnding
	}
}

// encodeUpdate encodes Moments as JSON for viewers. Many filters on a large fleet need many
// encodings: at most one per CPU runs at a time, and none begins once the program is ending.
func (a *App) encodeUpdate(m *insight.Moment, _ auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
	done, err := a.encodes()
	if err != nil {
		return nil, err
	}
	defer done()
	return json.Marshal(contract.NewUpdate(m, keep))
}

// patch compares two updates. With many filters, that takes as long as encoding them.
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

// Run reads and serves until ctx ends. It does not wait for a driver. It rereads the
// alert rules at each signal from reload. Without a listener, it does not serve.
func (a *App) Run(ctx context.Context, ln net.Listener, reload <-chan os.Signal) error {
	a.keeper.Restore(a.opt.Clock.Now())
	g, ctx := errgroup.WithContext(ctx)
	start := func(part func(context.Context)) {
		g.Go(func() error { part(ctx); return nil })
	}
	a.local.run(ctx, g)
	a.runClusters(ctx, g)
	g.Go(func() error { return a.notifier.Run(ctx) })
	start(func(ctx context.Context) {
		for moments := range a.Hub.FeedAll(ctx) {
			a.observe(moments)
		}
	})
	start(func(ctx context.Context) { a.reloadOn(ctx, reload) })
	if a.recorder != nil {
		start(func(ctx context.Context) { a.each(ctx, own(a.recorder.Observe)) })
		start(func(ctx context.Context) {
			defer close(a.recorded)
			a.recorder.Run(ctx)
		})
		start(a.writeAnew)
		start(a.sizes.Run)
		start(func(ctx context.Context) { a.each(ctx, own(a.forecast.Observe)) })
		start(a.forecast.Run)
	}
	a.runFleet(ctx, g)
	if a.pusher != nil {
		start(func(ctx context.Context) { a.each(ctx, a.pusher.Observe) })
		start(a.pusher.Run)
	}
	start(a.keeper.Run)
	start(a.announceStart)
	g.Go(func() error {
		if ln == nil { // nobody is to look here
			return nil
		}
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return a.Shutdown(context.WithoutCancel(ctx))
	})
	asked := make(chan time.Time, 1) // when this was to end
	context.AfterFunc(ctx, func() { asked <- time.Now() })
	err := g.Wait()
	return errors.Join(err, a.closeWithin(toEnd-time.Since(<-asked)))
}

// toEnd is how long shutting down may take in all, whatever a disk does. toClose is the least of it that remains for what closes last.
const toEnd, toClose = 8 * time.Second, time.Second

// closeWithin writes the state, and closes everything that has a disk or a connection. It does not wait longer for a hanging disk.
func (a *App) closeWithin(left time.Duration) error {
	_, err := regular.Within(max(left, toClose), func() (none struct{}, err error) {
		fleet := make(chan error, 1)
		go func() { fleet <- a.closeFleet() }() // beside the others: each may wait for a disk
		return none, errors.Join(a.keeper.Close(), a.closeHistory(), <-fleet)
	})
	if err == regular.ErrSlow { //nolint:errorlint // not that of a part
		return &gpu.Advice{What: "the disk of the state directory did not answer while gpuwhy shut down", Try: store.TrySlow, Err: err}
	}
	return err
}

// each calls f with each newer Moment, until ctx ends.
func (a *App) each(ctx context.Context, f func(*insight.Moment)) {
	for m := range a.Hub.Feed(ctx) {
		f(m)
	}
}

// observe updates what pages show in addition to Moments, and then shows them.
func (a *App) observe(moments []*insight.Moment) {
	for _, m := range moments {
		if m.Link.Silent.IsZero() {
			a.Recent.Observe(m)
		}
	}
	a.Alerts.ObserveAll(moments)
	if a.uplink != nil { // with what stands of their alerts now
		for _, m := range moments {
			own(a.uplink.Observe)(m)
		}
	}
	a.Hub.Turn()
}

// Shutdown says goodbye to viewers and waits for requests to end. Run calls it once.
func (a *App) Shutdown(ctx context.Context) error {
	close(a.ending)
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.opt.Goodbye, time.Second))
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

// announceStart logs what is read, and which rules cover none of it. Sources log themselves what they can't read.
func (a *App) announceStart(ctx context.Context) {
	seen := map[string]bool{} // nodes with devices
	for m := range a.Hub.Feed(ctx) {
		s := m.Snapshot
		if len(s.Devices) == 0 || m.Link.Remote || seen[s.Node] {
			continue
		}
		nodes := len(a.local.all())
		if len(seen) == 0 {
			attrs := []any{"source", s.Source, "gpus", len(s.Devices)}
			if nodes > 1 {
				attrs = []any{"source", s.Source, "nodes", nodes}
			}
			for _, d := range s.Drivers {
				attrs = append(attrs, "driver", d.Version.String())
			}
			a.log.Info("reading", attrs...)
		}
		if seen[s.Node] = true; len(seen) >= nodes {
			a.warnUncovered()
			return
		}
	}
}
