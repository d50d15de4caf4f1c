package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/attribute"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/explain"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// newServer wires the routes to what they show.
func (a *app) newServer() (*http.Server, error) {
	pages := &pages{app: a, assets: static.New(views.Words())}
	exporter, err := metrics.New(metrics.Config{
		Newest:   func() *gpu.Snapshot { snap, _ := a.newest(); return snap },
		Self:     a.self,
		Interval: a.cfg.Interval,
		Families: a.cfg.MetricsFamilies,
		Node:     a.inputs.node,
		Version:  versionText(),
		Log:      a.log.With("part", "metrics"),
	})
	if err != nil {
		return nil, usageError{err}
	}
	s, err := server.New(server.Config{
		Monitor:      a.monitor(),
		Newest:       a.newest,
		WS:           a.hub,
		Explain:      a.history.Explain,
		Recent:       a.recent,
		ActiveAlerts: a.alerts.Firing,
		Alerts:       a.alerts,
		Metrics:      exporter,
		Parts:        a.parts,
		Page:         pages.dashboard,
		DevicePage:   pages.device,
		ErrorPage:    pages.problem,

		DocsPage:      pages.docs,
		ReferencePage: pages.reference,
		EventsPage:    pages.events,

		Assets:       pages.asset,
		BasePath:     a.cfg.BasePath,
		Listen:       a.cfg.Listen,
		Hostname:     a.cfg.hostname,
		AllowHosts:   a.cfg.AllowHost,
		AllowOrigins: a.cfg.AllowOrigin,
		Log:          a.log,
	})
	if err != nil {
		return nil, usageError{err}
	}
	return server.HTTPServer(s.Handler(), a.log), nil
}

func (a *app) newest() (*gpu.Snapshot, []byte) {
	frame := a.hub.Newest()
	if frame == nil {
		return nil, nil
	}
	return frame.Snapshot, frame.Data()
}

// parts is how each part of the program does.
func (a *app) parts() map[string]contract.PartState {
	health := a.sampler.Health()
	parts := map[string]contract.PartState{
		"sampler": {State: "ok", LastSuccess: health.LastReading},
		"hub":     {State: "ok"},
	}
	if health.LastReading.IsZero() {
		parts["sampler"] = contract.PartState{State: "starting"}
	}
	if frame := a.hub.Newest(); frame != nil {
		parts["hub"] = contract.PartState{State: "ok", LastSuccess: frame.Snapshot.Time}
	}
	for _, s := range a.inputs.sources {
		parts[s.Name()] = contract.PartState{State: "starting"}
	}
	for _, s := range health.Sources {
		part := contract.PartState{State: "ok", LastSuccess: s.LastSuccess}
		if s.Failure != nil {
			part.State, part.LastError, part.LastErrorAt = "failed", &s.Failure.Advice, s.Failure.Since
		}
		parts[s.Name] = part
	}
	return parts
}

// self is what gpuwhy says of itself on /metrics.
func (a *app) self() metrics.Self {
	health, stats := a.sampler.Health(), a.hub.Stats()
	self := metrics.Self{
		Took:          health.Took,
		Viewers:       stats.Viewers,
		Refused:       stats.Refused,
		Ended:         map[string]uint64{},
		Published:     stats.Published,
		Encodings:     stats.Encodings,
		Messages:      stats.Messages,
		Bytes:         stats.Bytes,
		Skipped:       stats.Skipped,
		EncodingFails: stats.Err != nil,
	}
	for reason, n := range stats.Ended {
		self.Ended[string(reason)] = n
	}
	for _, s := range health.Sources {
		self.Sources = append(self.Sources, metrics.Source{Name: s.Name, Failing: s.Failure != nil, LastSuccess: s.LastSuccess})
	}
	for _, r := range a.alerts.Counts() {
		self.Rules = append(self.Rules, metrics.Rule{Name: r.Name, Severity: string(r.Severity), Firing: r.Firing})
	}
	for _, t := range a.alerts.notifier.Status() {
		self.Targets = append(self.Targets, metrics.Target{
			Name: t.Name, Sent: t.Sent, Failed: t.Failed, Dropped: t.Dropped, Queued: t.Queued, Failing: !t.FailingSince.IsZero(),
		})
	}
	return self
}

// pages renders what browsers see.
type pages struct {
	app    *app
	assets *static.Assets
}

func (p *pages) dashboard(ctx context.Context, w io.Writer) error {
	snap, _ := p.app.newest()
	answer := p.app.history.Explain(snap)
	in := p.input(snap)
	in.Why, in.Causes = answer.Sentence, newCauses(answer.Main())
	return views.NewPage(in).Render(ctx, w)
}

func (p *pages) device(ctx context.Context, w io.Writer, snap *gpu.Snapshot, d *gpu.Device) error {
	answer := p.app.history.Explain(snap)
	in := p.input(snap)
	if own := answer.Of(d.Node, d.UUID); own != nil {
		in.Causes = newCauses(own.Causes)
	}
	return views.NewDevicePage(in, d).Render(ctx, w)
}

// attribution says whose a device's memory, work and watts are; nothing before
// the first snapshot.
func attribution(snap *gpu.Snapshot) func(*gpu.Device) views.Attribution {
	if snap == nil {
		return nil
	}
	foreign := attribute.ForeignPIDs(snap)
	return func(d *gpu.Device) views.Attribution {
		a := attribute.Of(d, foreign)
		m, u, p := &a.Memory, &a.Utilization, &a.Power
		out := views.Attribution{
			Method:       string(p.Method),
			Memory:       views.Split[gpu.Bytes]{Processes: m.Processes, Orphans: m.Orphans, Rest: m.Remainder, Coverage: m.Coverage, Reason: inWords(m.Reason)},
			Utilization:  views.Split[gpu.Percent]{Processes: u.Processes, Rest: u.Remainder, Coverage: u.Coverage, Reason: inWords(u.Reason)},
			Power:        views.Split[gpu.Watts]{Idle: p.Idle, Processes: p.Processes, Rest: p.Remainder, Coverage: p.Coverage, Reason: inWords(p.Reason)},
			ProcessPower: make([]gpu.Reading[gpu.Watts], len(a.Shares)),
		}
		for i := range a.Shares {
			out.ProcessPower[i] = a.Shares[i].Power
		}
		return out
	}
}

func inWords(r attribute.Reason) string {
	advice := r.Advice()
	return advice.Text()
}

// newCauses are the causes as pages take them.
func newCauses(causes []explain.Cause) []views.Cause {
	out := make([]views.Cause, len(causes))
	for i := range causes {
		c := &causes[i]
		out[i] = views.Cause{ID: c.ID, Sentence: c.Sentence, Certainty: c.Confidence.String(), Since: c.Since, Advice: c.Advice}
		if c.Device != nil {
			out[i].Node, out[i].UUID = c.Device.Node, c.Device.UUID
		}
		for _, e := range c.Evidence {
			out[i].Evidence = append(out[i].Evidence, views.Evidence{Name: e.Name, Text: e.Text, At: e.At})
		}
	}
	return out
}

// input is what pages of that snapshot are made of, but for why it is so.
func (p *pages) input(snap *gpu.Snapshot) views.Input {
	monitor := p.app.monitor()
	in := views.Input{
		Snapshot:       snap,
		Version:        monitor.Version,
		Node:           monitor.Node,
		Source:         monitor.Source,
		Interval:       monitor.Interval,
		AlertThreshold: monitor.AlertThreshold,
		BasePath:       p.app.cfg.BasePath,
		Asset:          p.url,
		Now:            time.Now(),
		Attribution:    attribution(snap),
	}
	for _, alert := range p.app.alerts.Standing() {
		in.Alerts = append(in.Alerts, views.Alert{
			ID: alert.ID, Rule: alert.Rule, Severity: string(alert.Severity), State: string(alert.State),
			GPU: alert.Device.Index, Message: alert.Message, Since: alert.Since,
		})
	}
	return in
}

func (p *pages) problem(ctx context.Context, w io.Writer, status int, title string, advice gpu.Advice) error {
	page := views.ErrorPage{Code: status, Title: title, What: advice.What, Try: advice.Try, BasePath: p.app.cfg.BasePath, Asset: p.url}
	return page.Render(ctx, w)
}

func (p *pages) url(name string) string { return p.assets.URL(p.app.cfg.BasePath, name) }

// asset finds a file under the hash of all files, and the icon under its plain
// name too, for browsers that ask for /favicon.ico.
func (p *pages) asset(path string) (server.Asset, bool) {
	immutable := true
	if path == "icon.svg" {
		path, immutable = strings.TrimPrefix(p.assets.URL("/", path), "/static/"), false
	}
	file, ok := p.assets.Open(path)
	return server.Asset{Body: file.Bytes, Gzip: file.Gzip, ContentType: file.ContentType, Immutable: immutable}, ok
}
