package app

import (
	"net/http"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/audit"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/forecast"
	"github.com/gpuwhy/gpuwhy/internal/guide"
	"github.com/gpuwhy/gpuwhy/internal/now"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/static"
)

// sites are the parts that answer requests, in the order of the documents: of the capabilities that there are, and of those that are
// not configured, which say so.
func (a *App) sites(kit *serve.Kit, opt *Options, exporter http.Handler) []part.Part {
	alerting := Find[*alerts.Room](a)
	shown := &now.Site{
		Kit: kit, Assets: static.New(), Hues: &now.Hues{}, Monitor: a.viewers.current, Recent: Find[*past.Minutes](a).Store, Alerts: alerting.Book,
		Parts: a.health, Costs: a.nodes.Costs, Metrics: exporter, OpenMetrics: opt.OpenMetrics,
	}
	foreseen := &forecast.Site{Kit: kit}
	kept := &past.Site{Kit: kit, Shell: shown, Forecasts: foreseen, Then: a.nodes.Then, Writing: func() contract.Part { return a.health()["history"] }}
	machines := &fleet.Site{Kit: kit, Shell: shown}
	alerted := &alerts.Site{
		Kit: kit, Book: alerting.Book, Shell: shown, Targets: alerting.Targets, State: func() contract.Part { return a.health()["state"] },
	}
	shown.Past, shown.Forecasts = kept, foreseen
	if room := Find[*past.Room](a); room != nil {
		kept.Past, kept.Sizes, kept.Price, foreseen.Kept = room.Past, room.Sizes, room.Price, true
	}
	if room := Find[*forecast.Room](a); room != nil {
		foreseen.Forecaster = room
	}
	if room := Find[*access.Room](a); room != nil {
		shown.Notices = room.Notices
	}
	if room := Find[*fleet.Room](a); room != nil {
		shown.Member = room.Member
	}
	recorded := &audit.Site{Kit: kit, Shell: shown}
	if room := Find[*audit.Room](a); room != nil {
		recorded.Record, recorded.Looked = opt.Access.Ledger, room.Looked
	}
	if opt.Clusters != nil {
		machines.Clusters = opt.Clusters.IDs
	}
	all := []part.Part{shown, kept, foreseen, machines, alerted, recorded, &guide.Site{Kit: kit, Asset: shown.URL}}
	if room := Find[*access.Room](a); room != nil {
		shown.SignIn, shown.Accounts = room.HasAccounts, true
		all = append(all, &access.Site{Kit: kit, Room: room, Shell: shown}, &access.AdminSite{Kit: kit, Shell: shown, Room: room})
	}
	return all
}

// serve makes the server of all parts that answer requests.
func (a *App) serve(kit *serve.Kit, most int) error {
	var routes []serve.Route
	for p := range offers[part.Server](a) {
		routes = append(routes, p.Routes()...)
	}
	cfg := serve.Config{Pages: Find[*now.Site](a), Actions: a.desk, Keeper: a.keeper, Watch: a.nodes, MaxViewers: most}
	if room := Find[*access.Room](a); room != nil {
		cfg.Identifier, cfg.SignIn = room, access.SignInPath
	}
	secure := Find[*certs.Room](a)
	if secure != nil {
		cfg.Proven, cfg.HSTS = secure.Proven, secure.HSTS()
	}
	s, err := serve.New(kit, cfg, routes...)
	if err != nil {
		return err
	}
	a.viewers.routes, a.viewers.server, a.viewers.secure, a.viewers.plain = s, s.HTTPServer(), secure, serve.HTTPServer(nil, kit.Log)
	if secure != nil {
		a.viewers.server.TLSConfig = secure.TLS()
	}
	a.viewers.server.ConnContext = peer.NewContext
	return nil
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
