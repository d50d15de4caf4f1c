package app

import (
	"net/http"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/static"
)

// wireServer connects the routes to the parts whose state they show.
func (a *App) wireServer() error {
	exporter, err := metrics.New(metrics.Config{
		Newest:   a.Hub.Newest,
		Self:     a.self,
		Interval: a.opt.Interval,
		Longest:  a.opt.longest(),
		Families: a.opt.MetricsFamilies,
		Node:     a.monitor.Node,
		Version:  a.opt.Version,
		Log:      a.log.With("part", "metrics"),
	})
	if err != nil {
		return err
	}
	a.wireExport(exporter)
	kit := serve.NewKit(serve.Settings{
		Monitor: a.current(), Hub: a.Hub, Live: a.live, Address: a.opt.Address, Clock: a.opt.Clock, Log: a.log,
	})
	shown := &now.Site{
		Kit: kit, Assets: static.New(), Hues: &a.hues, Monitor: a.current, Recent: a.Recent, Alerts: a.alerting.Book,
		Parts: a.parts, Costs: a.costs, Member: a.member, Metrics: exporter,
	}
	foreseen := &forecast.Site{Kit: kit, Kept: a.past != nil}
	if a.forecast != nil {
		foreseen.Forecaster = a.forecast
	}
	kept := &past.Site{
		Kit: kit, Past: a.past, Sizes: a.sizes, Shell: shown, Forecasts: foreseen, Then: a.then,
		Writing: func() contract.Part { return a.parts()["history"] },
	}
	if a.opt.History != nil {
		kept.Price = a.opt.History.Price
	}
	shown.Past, shown.Forecasts = kept, foreseen
	machines := &fleet.Site{Kit: kit, Shell: shown, Clusters: a.clusterIDs}
	alerted := &alerts.Site{
		Kit: kit, Book: a.alerting.Book, Shell: shown, Targets: a.notifier.Status,
		State: func() contract.Part { return a.parts()["state"] },
	}
	var routes []serve.Route
	for _, site := range []part.Server{shown, kept, foreseen, machines, alerted} {
		routes = append(routes, site.Routes()...)
	}
	s, err := serve.New(kit, serve.Config{Pages: shown, Actions: a.desk, Keeper: a.keeper, Watch: watch{a}, MaxViewers: a.opt.MaxViewers}, routes...)
	if err != nil {
		return err
	}
	a.routes, a.server = s, s.HTTPServer()
	return nil
}

// A watch tells the program that somebody looks.
type watch struct{ *App }

// Noticed implements [serve.Watch].
func (w watch) Noticed(r *http.Request) { w.noticing(r) }

// MonitorOf says of which nodes answers are, and what their name is: that of the one node,
// or with several nodes that of the program.
func MonitorOf(inputs []*Inputs, program string) contract.Monitor {
	return monitorOf(inputs, program, len(inputs) > 1)
}

func monitorOf(inputs []*Inputs, program string, several bool) contract.Monitor {
	m := contract.Monitor{Node: program, Several: several, Source: gpu.SourceMixed}
	if len(inputs) > 0 {
		m.Source = inputs[0].Sources[0].Name()
	}
	if !several {
		m.Node = inputs[0].Node
	}
	return m
}

// current returns what answers say about the program now.
func (a *App) current() contract.Monitor {
	m := a.monitor
	m.AlertThreshold = a.alertThreshold()
	return m
}

// health sums up the health of all samplers. A source that fails on one node has failed.
func (a *App) health() sampler.Health {
	var all sampler.Health
	for _, n := range a.local.all() {
		h := n.sampler.Health()
		all.Took = max(all.Took, h.Took)
		if h.LastReading.After(all.LastReading) {
			all.LastReading = h.LastReading
		}
		for _, s := range h.Sources {
			i := slices.IndexFunc(all.Sources, func(known sampler.SourceHealth) bool { return known.Source == s.Source })
			switch {
			case i < 0:
				all.Sources = append(all.Sources, s)
			case all.Sources[i].Failure == nil && (s.Failure != nil || s.LastSuccess.After(all.Sources[i].LastSuccess)):
				all.Sources[i] = s
			}
		}
	}
	return all
}

// costs returns how long calls to the drivers took. Several nodes mean a simulation or a recording, without a driver here.
func (a *App) costs() []gpu.Cost {
	nodes := a.local.all()
	if len(nodes) != 1 {
		return nil
	}
	return nodes[0].sampler.Costs()
}

// parts returns the state of each part of the program.
func (a *App) parts() map[string]contract.Part {
	health, nodes := a.health(), a.local.all()
	parts := map[string]contract.Part{"hub": contract.NewPart("ok", a.Hub.Newest().Nodes().Time())}
	switch {
	case len(nodes) == 0: // all are read elsewhere
	case health.LastReading.IsZero():
		parts["sampler"] = contract.Part{State: "starting"}
	default:
		parts["sampler"] = contract.NewPart("ok", health.LastReading)
	}
	if a.opt.Fleet != nil {
		parts["fleet"] = a.fleeting()
	}
	a.partsOfClusters(parts)
	a.partsOfDelivery(parts)
	switch {
	case a.opt.NotKept != nil:
		parts["state"] = contract.NewPart("ok", time.Time{}).Failed(&gpu.Advice{
			What: "nothing is kept across a restart: " + a.opt.NotKept.Error(), Try: TryStateDir, Err: a.opt.NotKept,
		}, a.monitor.Started)
	case a.opt.StateDir != "":
		parts["state"] = a.keeping()
	}
	if a.recorder != nil {
		parts["history"] = a.recording()
	}
	if a.pusher != nil {
		parts["export"] = a.exporting()
	}
	if len(nodes) > 0 {
		for _, s := range nodes[0].Sources {
			parts[s.Name()] = contract.Part{State: "starting"}
		}
	}
	for _, s := range health.Sources {
		parts[s.Source] = contract.NewSourcePart(&s.Attempt, s.Failure, s.LastSuccess)
	}
	return parts
}

// keeping returns the state of writing what is kept.
func (a *App) keeping() contract.Part {
	s := a.keeper.State()
	part := contract.NewPart("ok", s.Written)
	if s.Err != nil {
		part = part.Failed(&gpu.Advice{
			What: "the state to keep across a restart can't be written", Try: "check the log, and the space in the state directory", Err: s.Err,
		}, s.Since)
	}
	return part
}

// self returns what gpuwhy reports about itself on /metrics.
func (a *App) self() metrics.Self {
	health, stats, crowd := a.health(), a.Hub.Stats(), a.routes.Crowd()
	self := metrics.Self{
		Took:          health.Took,
		Costs:         a.costs(),
		Viewers:       stats.Viewers,
		Refused:       stats.Refused + crowd.Refused,
		Connections:   crowd.Connections,
		Displaced:     crowd.Displaced,
		Ended:         stats.Ended,
		Published:     stats.Published,
		Encodings:     stats.Encodings,
		Messages:      stats.Messages,
		Bytes:         stats.Bytes,
		Skipped:       stats.Skipped,
		EncodingFails: stats.Err != nil,
		StateFails:    a.keeper.State().Err != nil,
		History:       a.historySelf(),
		Fleet:         a.fleetSelf(),
		Exports:       a.exportSelf(),
	}
	if a.opt.Helpers != nil {
		self.Helpers = a.opt.Helpers()
	}
	for _, s := range health.Sources {
		self.Sources = append(self.Sources, metrics.Source{Name: s.Source, Failing: s.Failure != nil, LastSuccess: s.LastSuccess})
	}
	firing := map[string]int{}
	for _, of := range a.Alerts.Standing() {
		firing[of.Rule]++
	}
	for _, r := range a.Alerts.Rules() {
		if r.Enabled {
			self.Rules = append(self.Rules, metrics.Rule{Name: r.Name, Severity: string(r.Severity), Firing: firing[r.Name]})
		}
	}
	for _, t := range a.notifier.Status() {
		self.Targets = append(self.Targets, metrics.Target{
			Name: t.Name, Sent: t.Sent, Failed: t.Failed, Dropped: t.Dropped, Queued: t.Queued, Failing: !t.FailingSince.IsZero(),
		})
	}
	return self
}
