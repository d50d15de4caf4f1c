package app

import (
	"log/slog"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// serving is what the server answers with.
func (a *App) serving(opt *Options, exporter *metrics.Exporter, log *slog.Logger) *serve.Config {
	cfg := serve.Config{
		Monitor: a.viewers.current(),
		Newest:  a.Hub.Newest,
		Latest:  a.Hub.Latest,
		Live:    a.viewers.live,
		Changes: a.Hub.Changes,
		Update:  a.Hub.Update,
		WS:      a.Hub.Serve,
		Recent:  Find[*past.Minutes](a).Store,
		Then:    a.nodes.Then,
		Alerts:  Find[*alerts.Room](a).Book,
		Actions: a.desk,
		Metrics: exporter,
		Parts:   a.health,
		Costs:   a.nodes.Costs,
		Address: opt.Address, MaxViewers: opt.MaxViewers,
		Flush:   a.keeper.Flush,
		Noticed: a.nodes.Noticed,
		Clock:   opt.Clock,
		Log:     log,
	}
	if kept := Find[*past.Room](a); kept != nil {
		cfg.Past, cfg.Sizes, cfg.Price = kept.Past, kept.Sizes, kept.Price
	}
	if of := Find[*forecast.Room](a); of != nil {
		cfg.Forecast = of.About
	}
	if of := Find[*fleet.Room](a); of != nil {
		cfg.Member = of.Member
	}
	if opt.Clusters != nil {
		cfg.Clusters = opt.Clusters.IDs
	}
	return &cfg
}

// route makes the server, with the pages.
func (v *viewers) route(cfg *serve.Config, hues *now.Hues, targets func() []notify.Status) error {
	now.New(cfg, hues, v.current, targets)
	s, err := serve.New(*cfg)
	if err != nil {
		return err
	}
	v.routes, v.server = s, s.HTTPServer()
	return nil
}

// pages is the part that has the pages.
type pages struct {
	hues now.Hues
}

// Name implements [part.Part].
func (*pages) Name() string { return "pages" }

// Documents has the colors of people's work, which are the same on all pages.
func (p *pages) Documents() []state.Document {
	return []state.Document{state.Of("hues", "the colors of people", state.Regularly, &p.hues)}
}

// MonitorOf returns which nodes answers are about, and their name: the one node's, or, with
// several nodes, the program's.
func MonitorOf(inputs []*reading.Inputs, program string) contract.Monitor {
	return monitorOf(inputs, program, len(inputs) > 1)
}

func monitorOf(inputs []*reading.Inputs, program string, several bool) contract.Monitor {
	m := contract.Monitor{Node: program, Several: several, Source: gpu.SourceMixed}
	if len(inputs) > 0 {
		m.Source = inputs[0].Sources[0].Name()
	}
	if !several {
		m.Node = inputs[0].Node
	}
	return m
}
