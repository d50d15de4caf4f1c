// Package app lists gpuwhy's parts, asks each what it offers, and runs them as one program. It knows no flags: a command makes the
// Options and the inputs of each node. A command that serves nothing reads with package reading.
package app

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/clusters"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/serve"
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
	OpenMetrics      bool     // whether everybody may read /metrics, without signing in
	// Installation is the installation of StateDir; nil without one.
	Installation *state.Installed
	StateDir     string // the folder for state that survives a restart; empty for none
	// Helpers returns what the program's helper processes cost now; nil: it has none.
	Helpers  func() []metrics.Helper
	Files    state.Files    // has the files of StateDir; nil: this program writes them itself
	NotKept  error          // why there is no StateDir although there should be one
	History  *past.Options  // nil where no past is kept. The App closes it
	Fleet    *fleet.Options // nil for a program on its own. The App closes it
	Clusters *kube.Clusters // whose nodes are read from here; nil for none
	// Access says who may do what. nil: everybody is the local owner, as in tests and in the gallery. The App closes its ledger.
	Access *access.Options
	// Audit says how who did what is recorded, in the ledger of Access.
	Audit audit.Options

	// TLS has the certificate of the page; nil: it is served without TLS. The App closes it.
	TLS *certs.Options

	Export []export.Destination // where series are sent; none: nowhere

	Goodbye time.Duration // how long viewers and unfinished answers have at the end, 1 s by default
	Clock   clock.Clock   // the machine's, except in tests
}

// App is the program that serves. It can be used before and while it runs: the
// gallery and tests use it and do not call Run.
type App struct {
	Hub     *hub.Hub
	nodes   *reading.Room // that this program reads
	parts   []part.Part   // all, in the order in which they observe
	desk    *action.Desk  // does what people and programs ask for
	keeper  *state.Keeper
	viewers *viewers
	clock   clock.Clock
}

// TryStateDir is the advice for when nothing can be kept across a restart.
const TryStateDir = "give gpuwhy its own folder with --state-dir, or set --state-dir none"

// New makes all parts and starts none. Each of the inputs is a node; there is at least one, or a fleet. Its
// errors say which option is wrong. After an error all that it was given is closed.
func New(opt Options, inputs []*reading.Inputs, log *slog.Logger) (_ *App, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, reading.CloseAll(inputs), opt.History.Close(), opt.Fleet.Close(), opt.Access.Close(), opt.TLS.Close())
		}
	}()
	a := &App{clock: opt.Clock, keeper: state.New()}
	several := opt.several(inputs)
	monitor := monitorOf(inputs, opt.Node, several)
	monitor.Version, monitor.Interval, monitor.Idle, monitor.Started = opt.Version, opt.Interval, opt.IdleInterval, opt.Clock.Now().UTC()
	a.viewers = a.newViewers(&opt, several, log)
	a.Hub = a.viewers.hub
	host := part.Host{
		Node: monitor.Node, Version: opt.Version, Hub: a.Hub, Keeper: a.keeper, Interval: opt.Interval, Idle: opt.IdleInterval,
		Own: func(node string) bool { return a.nodes.Has(node) }, Remove: a.Remove, Clock: opt.Clock, Log: log,
	}
	a.nodes = reading.New(reading.Config{
		Host: host, Deadline: opt.Deadline, BasePath: opt.BasePath, Watched: a.watched, Started: a.started, Foresee: a.foresee,
		Do: func(ctx context.Context, c action.Call) (any, error) { return a.desk.Run(ctx, c) },
	}, inputs)
	minutes := past.NewMinutes()
	alerting, err := alerts.New(alerts.Config{
		Host: host, Rules: opt.AlertRules, Utilization: opt.AlertUtilization, About: cmp.Or(a.nodes.Only(), host.Node),
		Others: opt.Fleet != nil, Changed: a.changed,
	})
	if err != nil {
		return nil, err
	}
	a.viewers.current = func() contract.Monitor {
		m := monitor
		m.AlertThreshold = alerting.Threshold()
		return m
	}

	a.parts = []part.Part{minutes, alerting}
	var carrier past.Carrier
	if f := opt.Fleet; f != nil {
		carrier = fleet.Carrier{Bus: f.Bus}
		a.parts = append(a.parts, fleet.New(fleet.Config{
			Host: host, Options: *f, Engine: alerting.Book.Engine, Alerts: alerting, Recent: minutes, Undelivered: opt.History.Undelivered,
			Act: func(ctx context.Context, node string, q *action.Question, asker auth.Principal) (any, error) {
				return a.desk.Answer(ctx, node, q, asker)
			},
		})...)
	}
	if h := opt.History; h != nil {
		kept, all := past.New(past.Config{
			Host: host, Options: *h, Carrier: carrier, Nodes: names(inputs), MayCome: a.mayCome, Installation: opt.Installation,
		})
		a.parts = append(a.parts, all...)
		if !h.ReadOnly { // who reads a node foretells of it
			a.parts = append(a.parts, forecast.New(host, kept.Past, h.Price))
		}
	}
	a.parts = append(a.parts, a.nodes)
	if opt.Clusters != nil {
		a.parts = append(a.parts, clusters.New(host, opt.Clusters, a.nodes))
	}
	a.parts = append(a.parts, a.viewers, keeping{a.keeper, &opt, monitor.Started})
	if opt.Helpers != nil {
		a.parts = append(a.parts, helpers(opt.Helpers))
	}
	exporter, err := metrics.New(metrics.Config{
		Newest: a.Hub.Newest, Self: a.measure, Interval: opt.Interval, Longest: host.Longest(), Families: opt.MetricsFamilies,
		Node: host.Node, Version: opt.Version, Log: log.With("part", "metrics"),
	})
	if err != nil {
		return nil, err
	}
	if len(opt.Export) > 0 {
		a.parts = append(a.parts, export.NewRoom(&host, opt.Export, exporter))
	}
	var record action.Audit = action.Log{Logger: log.With("part", "actions")}
	if opt.Access != nil {
		recorded := audit.New(audit.Config{Host: host, Options: opt.Audit, Ledger: opt.Access.Ledger, Read: a.settings})
		a.parts = append(a.parts, recorded, access.New(access.Config{
			Host: host, Options: *opt.Access, Address: opt.Address, Audit: recorded.Append, Refused: recorded.Refused, Revoke: a.Hub.Revoke, Reopen: a.Hub.Reopen, Known: a.known,
		}))
		if ln := opt.Access.Control; ln != nil {
			a.parts = append(a.parts, &controlled{ln, strings.TrimSuffix(opt.BasePath, "/"), a.Handler, log})
		}
		record = recorded
	}
	if opt.TLS != nil {
		secure, err := certs.New(certs.Config{Host: host, Options: *opt.TLS, Files: opt.files(), Names: opt.names()})
		if err != nil {
			return nil, err
		}
		opt.AllowHosts = append(slices.Clone(opt.AllowHosts), secure.Hosts()...)
		a.parts = append(a.parts, secure)
	}
	kit := serve.NewKit(serve.Settings{
		Monitor: a.viewers.current(), Hub: a.Hub, Live: a.viewers.live, Address: opt.Address, Clock: opt.Clock, Log: log,
	})
	a.viewers.known = kit.Known
	a.parts = append(a.parts, a.sites(kit, &opt, exporter)...)

	var actions []action.Action
	for p := range offers[part.Actor](a) {
		actions = append(actions, p.Actions()...)
	}
	a.desk = action.NewDesk(record, actions...)
	a.desk.Place(func(node string) auth.Machine { return a.Hub.Newest().Machine(node) })
	for f := range offers[action.Fleet](a) {
		a.desk.Join(f)
	}
	a.Hub.Accept(a.socketActs()...)
	a.keep(&opt, log)
	return a, a.serve(kit, opt.MaxViewers)
}

// files has the files of the state directory; nil without one.
func (o *Options) files() state.Files {
	switch {
	case o.StateDir == "":
		return nil
	case o.Files != nil:
		return o.Files
	default:
		return state.Folder(o.StateDir)
	}
}

// names are those of this machine that people know, as far as this program knows them.
func (o *Options) names() []string {
	var names []string
	if o.Hostname != "" {
		names = append(names, o.Hostname, o.Hostname+".local")
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil {
		names = append(names, host)
	}
	return append(names, o.AllowHosts...)
}

// several reports whether there may be more than one node.
func (o *Options) several(inputs []*reading.Inputs) bool {
	return len(inputs) != 1 || o.Fleet != nil && o.Fleet.Shows || o.Clusters != nil
}

func names(inputs []*reading.Inputs) (all []string) {
	for _, in := range inputs {
		all = append(all, in.Node)
	}
	return all
}

// offers yields the parts that implement an interface, in order.
func offers[T any](a *App) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, p := range a.parts {
			if offer, ok := p.(T); ok && !yield(offer) {
				return
			}
		}
	}
}

// Find returns the part of a type, such as *alerts.Room; nil where the program has none.
func Find[T part.Part](a *App) (found T) {
	for found = range offers[T](a) {
		return found
	}
	return found
}

// What parts learn of each other: each declares what it needs, and others offer it.

// changed tells parts of changes of alerts of this program.
func (a *App) changed(changes []alert.Change) {
	for p := range offers[alerts.Listener](a) {
		p.Changed(changes)
	}
}

// settings are what parts have read from files of settings.
func (a *App) settings() map[string]string {
	all := map[string]string{}
	for p := range offers[part.Configured](a) {
		maps.Copy(all, p.Settings())
	}
	return all
}

// foresee has parts fill in what comes next.
func (a *App) foresee(s *gpu.Snapshot, answer *explain.Answer) {
	for p := range offers[reading.Forecaster](a) {
		p.Foresee(s, answer)
	}
}

// mayCome reports whether a part may read a node later that the program is not given.
func (a *App) mayCome(node string) bool {
	for p := range offers[past.Source](a) {
		if p.MayCome(node) {
			return true
		}
	}
	return false
}

// watched reports whether somebody is looking at the readings.
func (a *App) watched() bool {
	for p := range offers[part.Watcher](a) {
		if p.Watched() {
			return true
		}
	}
	return false
}

// started tells parts that all that the program was given has been read.
func (a *App) started() {
	for p := range offers[part.Starter](a) {
		p.Started()
	}
}

// measure is what gpuwhy reports about itself on /metrics.
func (a *App) measure() (self metrics.Self) {
	for p := range offers[part.Measurer](a) {
		p.Measure(&self)
	}
	return self
}

// known reports whether a machine that is known now is in a scope, or none is known at all.
func (a *App) known(s auth.Scope) bool {
	f := a.Hub.Newest()
	return len(f.Moments()) == 0 || f.Has(s)
}

// health is the state of each part of the program.
func (a *App) health() map[string]contract.Part {
	all := map[string]contract.Part{}
	for p := range offers[part.Reporter](a) {
		maps.Copy(all, p.Health())
	}
	return all
}

// Handler returns the handler of all requests.
func (a *App) Handler() http.Handler { return a.viewers.server.Handler }

// Publish publishes a snapshot from elsewhere as if the node's sampler had read it.
func (a *App) Publish(s *gpu.Snapshot) *insight.Moment {
	m := a.nodes.Next(s)
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
	for p := range offers[part.Forgetter](a) {
		p.Forget(node)
	}
	a.Hub.Turn()
}

// observe has parts take in Moments for what pages show beside them, and then has them shown.
func (a *App) observe(moments []*insight.Moment) {
	for p := range offers[part.Observer](a) {
		p.Observe(moments)
	}
	a.Hub.Turn()
}

// Run reads and serves until ctx ends. It does not wait for a driver. Parts read
// again what people have changed at each signal from reload. Without a listener it serves nobody.
func (a *App) Run(ctx context.Context, ln net.Listener, reload <-chan os.Signal) error {
	a.keeper.Restore(a.clock.Now())
	a.relive()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for moments := range a.Hub.FeedAll(ctx) {
			a.observe(moments)
		}
		return nil
	})
	for p := range offers[part.Follower](a) {
		g.Go(func() error {
			for m := range a.Hub.Feed(ctx) {
				p.Follow(m)
			}
			return nil
		})
	}
	for p := range offers[part.Runner](a) {
		g.Go(func() error { return p.Run(ctx) })
	}
	g.Go(func() error { a.reloadOn(ctx, reload); return nil })
	g.Go(func() error {
		if ln == nil { // nobody is to look here
			return nil
		}
		return a.viewers.serve(ln)
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

// relive has parts take in what was read before the program began, as if it had run then. Nobody looks yet, so the hub is told nothing. After a
// restart the last minutes are known, and nothing is taken in twice.
func (a *App) relive() {
	first := true
	for m := range a.nodes.Earlier() {
		if first && len(Find[*past.Minutes](a).Kept().Times) > 0 {
			return
		}
		first = false
		for p := range offers[part.Observer](a) {
			p.Observe([]*insight.Moment{m})
		}
		for p := range offers[part.Follower](a) {
			p.Follow(m)
		}
	}
}

// reloadOn has parts read again at each signal what people have changed, until ctx ends.
func (a *App) reloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			for p := range offers[part.Reloader](a) {
				p.Reload()
			}
		}
	}
}

// Shutdown says goodbye to viewers and waits for requests to end. Run calls it once.
func (a *App) Shutdown(ctx context.Context) error { return a.viewers.shutdown(ctx) }

// toEnd is how long shutting down may take in all, whatever a disk does. toClose is the least of it that remains for what closes last.
const toEnd, toClose = 8 * time.Second, time.Second

// closeWithin writes the state, and closes everything that has a disk or a connection. It does not wait longer for a hanging disk.
func (a *App) closeWithin(left time.Duration) error {
	_, err := regular.Within(max(left, toClose), func() (none struct{}, err error) { return none, a.close(a.keeper.Close) })
	if err == regular.ErrSlow { //nolint:errorlint // not that of a part
		return &gpu.Advice{What: "the disk of the state directory did not answer while gpuwhy shut down", Try: store.TrySlow, Err: err}
	}
	return err
}

// Close closes the parts of an App that was never run.
func (a *App) Close() error { return a.close(func() error { return nil }) }

// close closes the parts beside each other, since each may wait for a disk; but what has the documents only after write, which writes
// them for the last time.
func (a *App) close(write func() error) error {
	errs := make([]error, 1+len(a.parts))
	written := make(chan struct{})
	var closing sync.WaitGroup
	for i, p := range a.parts {
		c, ok := p.(part.Closer)
		if !ok {
			continue
		}
		_, shelves := p.(part.Shelver)
		closing.Go(func() {
			if shelves {
				<-written
			}
			errs[1+i] = c.Close()
		})
	}
	errs[0] = write()
	close(written)
	closing.Wait()
	return errors.Join(errs...)
}
