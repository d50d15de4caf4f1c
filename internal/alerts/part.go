// Package alerts has the program's alerts, tells people about them, and lets people act on them. The alerts come from the
// program's rules and from other programs of its fleet. People acknowledge, dismiss and silence them, and end silences. What is
// said of an alert that another program has is carried out there. When alerts fire is for package alert, and how targets are told
// for package notify.
package alerts

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/alerts/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Config is what a Room needs.
type Config struct {
	part.Host
	Rules       string  // the file of the rules; empty for the default rules
	Utilization float64 // in percent; above it the default rule of high_gpu_usage_alert fires
	About       string  // the node that alerts without one are about
	Others      bool    // there are nodes that other programs read
	// Changed is told of changes of the alerts of this program, in order, after viewers and targets. It must not wait.
	Changed func([]alert.Change)
}

// A Listener is a part that [Config.Changed] tells.
type Listener interface {
	Changed([]alert.Change)
}

// A Room has the alerts. For actions alone its exported fields suffice.
type Room struct {
	Book   *alert.Shared         // its engine holds the alerts that change here
	Newest func() *insight.Fleet // for what alerts are about; nil before the first reading
	Now    func() time.Time

	cfg      Config
	read     atomic.Pointer[rulefile.File] // what is in force of the file of the rules
	notifier *notify.Notifier
	standing map[string]func() []hub.Event // one by alert ID; announce alone uses it
	stand    []func() []hub.Event          // the same, the worst first; used while no alert of this program changes
	told     time.Duration                 // when that of other programs was announced last, as elapsed time; Reported alone uses it
}

// New makes a Room. Its errors say what is wrong with the rules.
func New(cfg Config) (*Room, error) {
	file, err := Rules(cfg.Rules, cfg.Utilization)
	if err != nil {
		return nil, err
	}
	r := &Room{cfg: cfg, Newest: cfg.Hub.Newest, Now: cfg.Clock.Now}
	r.read.Store(file)
	if r.notifier, err = notify.New(file.Notify, cfg.Keeper.Soon, cfg.Log); err != nil {
		return nil, err
	}
	r.notifier.Flush = cfg.Keeper.Flush
	r.cfg.Log = cfg.Log.With("part", "alerts")
	engine := alert.New(file.Rules)
	engine.Node, engine.Announce, engine.Log = cfg.About, r.announceAll, r.cfg.Log
	r.Book = alert.Share(engine)
	return r, nil
}

// Name implements [part.Part].
func (r *Room) Name() string { return "alerts" }

// Observe has the rules look at Moments.
func (r *Room) Observe(moments []*insight.Moment) { r.Book.ObserveAll(moments) }

// Run tells targets until ctx ends.
func (r *Room) Run(ctx context.Context) error { return r.notifier.Run(ctx) }

// Started warns about rules that match none of the readings.
func (r *Room) Started() { r.warnUncovered() }

// Forget ends the alerts of a node, and forgets what another program said of it.
func (r *Room) Forget(node string) {
	r.Book.Take(node, nil)
	r.Book.Forget(node, r.Now())
}

// Hold calls f while no alert changes and none is announced.
func (r *Room) Hold(f func()) { r.Book.Hold(f) }

// Documents are what targets are to be told, and the alerts. They are written in that order: a program that is killed after
// writing what targets are to be told, and before writing the alerts, repeats a message and loses none.
func (r *Room) Documents() []state.Document {
	alerts := state.Of("alerts", "alerts and silences", state.Promptly, r.Book.Engine)
	alerts.KnowsNames = true
	return []state.Document{state.Of("notifications", "messages waiting to be sent", state.Promptly, r.notifier), alerts}
}

// Threshold is the utilization above which high_gpu_usage_alert fires.
func (r *Room) Threshold() gpu.Percent {
	for _, rule := range r.Book.Engine.Rules() {
		if rule.Name == alert.HighGPUUsage {
			return gpu.Percent(rule.Threshold)
		}
	}
	return gpu.Percent(r.cfg.Utilization)
}

// Targets say how telling each target does.
func (r *Room) Targets() []notify.Status { return r.notifier.Status() }

// Measure fills in which rules fire, and how telling targets does.
func (r *Room) Measure(self *metrics.Self) {
	standing := map[string]int{}
	for _, a := range r.Book.Engine.Standing() {
		standing[a.Rule]++
	}
	var firing []Firing
	for _, rule := range r.Book.Engine.Rules() {
		if rule.Enabled {
			firing = append(firing, Firing{rule.Name, string(rule.Severity), standing[rule.Name]})
		}
	}
	self.Parts = append(self.Parts, Metrics.Of(firing), TargetMetrics.Of(r.notifier.Status()))
}
