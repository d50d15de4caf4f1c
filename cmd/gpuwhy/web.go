package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// newServer wires the routes to what they show.
func (a *app) newServer() (*http.Server, error) {
	pages := &pages{app: a, assets: static.New()}
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
		AlertsPage:   pages.alerts,
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
			out[i].Evidence = append(out[i].Evidence, views.Evidence{Name: e.Name, Text: e.Text, At: e.At, Moment: e.Moment})
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
		Kept:           p.kept,
	}
	for _, a := range p.app.alerts.Standing() {
		in.Alerts = append(in.Alerts, newViewAlert(&a))
	}
	return in
}

// kept says whether the recent past has a reading of that metric, of those
// devices or, without any, of all.
func (p *pages) kept(metric string, of []*gpu.Device) bool {
	if of == nil {
		return p.app.recent.Has(metric, nil)
	}
	return p.app.recent.Has(metric, func(node, uuid string) bool {
		return slices.ContainsFunc(of, func(d *gpu.Device) bool { return d.Node == node && d.UUID == uuid })
	})
}

func newViewAlert(a *alert.Alert) views.Alert {
	out := views.Alert{
		ID: a.ID, Rule: a.Rule, Severity: string(a.Severity), State: string(a.State),
		GPU: a.Device.Index, Node: a.Device.Node, UUID: a.Device.UUID, Message: a.Message, Advice: a.Advice,
		Since: a.Since, At: a.Time, SilencedUntil: a.SilencedUntil,
	}
	if by := a.Acknowledged; by != nil {
		out.Acknowledged = &views.Note{By: by.By, Comment: by.Comment}
	}
	return out
}

// alerts writes the page of alerts.
func (p *pages) alerts(ctx context.Context, w io.Writer, from int) error {
	snap, _ := p.app.newest()
	answer := p.app.history.Explain(snap)
	in := views.AlertsInput{Input: p.input(snap), From: from}
	in.Explain = func(a *views.Alert) {
		of := answer.Of(a.Node, a.UUID)
		if of == nil {
			return
		}
		a.Why = of.Sentence
		if a.Advice == "" && len(of.Causes) > 0 {
			a.Advice = of.Causes[0].Advice
		}
	}
	for _, a := range p.app.alerts.Past() {
		in.Past = append(in.Past, newViewAlert(&a))
	}
	for _, x := range p.app.alerts.Silences() {
		in.Silences = append(in.Silences, views.Silence{
			ID: x.ID, Rule: x.Rule, Node: x.Node, GPU: x.GPU, Note: views.Note{By: x.By, Comment: x.Comment}, Until: x.Until,
		})
	}
	for _, r := range p.app.alerts.Rules() {
		in.Rules = append(in.Rules, newViewRule(&r))
	}
	for _, t := range p.app.alerts.notifier.Status() {
		in.Targets = append(in.Targets, views.Target{
			Name: t.Name, Service: t.Service, Severity: string(t.Severity), Queued: t.Queued,
			LastSuccess: t.LastSuccess, LastError: t.LastError, FailingSince: t.FailingSince,
		})
	}
	return views.NewAlertsPage(in).Render(ctx, w)
}

func newViewRule(r *alert.Rule) views.Rule {
	out := views.Rule{
		Name: r.Name, Watch: string(r.Watch), Severity: string(r.Severity), Enabled: r.Enabled,
		Unit: r.Watch.Unit(), Below: r.Watch.Below(), Margin: r.Margin,
		Hold: r.Hold, Clear: r.Clear, Cooldown: r.Cooldown, Repeat: r.Repeat, Targets: r.Targets,
	}
	if !r.Watch.Condition() {
		out.Threshold = gpu.Of(r.Threshold)
	}
	for _, of := range []struct {
		what string
		list []string
	}{
		{"machine ", r.Scope.Nodes}, {"GPU ", r.Scope.GPUs}, {"user ", r.Scope.Users}, {"process ", r.Scope.Processes},
		{"XID ", numerals(r.Codes)}, {"all XIDs but ", numerals(r.IgnoreCodes)},
	} {
		if len(of.list) > 0 {
			out.Scope = append(out.Scope, of.what+strings.Join(of.list, " or "))
		}
	}
	return out
}

func numerals(numbers []int) []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = strconv.Itoa(n)
	}
	return out
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
