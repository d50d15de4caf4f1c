// Package web makes the pages that browsers see. It fills the view models of
// package views from Moments, alerts and the recent past, and renders them. It also
// has the files of package static for the server.
package web

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/static"
	"github.com/gpuwhy/gpuwhy/views"
)

// Config is what pages are made of. Many goroutines call its functions at the
// same time.
type Config struct {
	Monitor func() contract.Monitor
	// Newest returns the newest Moments; nil before the first.
	Newest   func() *insight.Fleet
	Recent   *recent.Store
	Alerts   *alert.Service
	Targets  func() []notify.Status
	BasePath string // begins and ends with a slash
}

// Pages renders the pages.
type Pages struct {
	cfg    Config
	assets *static.Assets
}

// New makes the pages. A caller that needs [Pages.Problem] and [Pages.Asset]
// alone sets BasePath alone.
func New(cfg Config) *Pages { return &Pages{cfg, static.New()} }

// Serve puts the pages into a server's configuration.
func (p *Pages) Serve(on *server.Config) {
	on.Page, on.DevicePage, on.AlertsPage, on.ErrorPage = p.dashboard, p.device, p.alerts, p.Problem
	on.DocsPage, on.ReferencePage, on.EventsPage = p.docs, p.reference, p.events
	on.Assets = p.Asset
}

func (p *Pages) dashboard(ctx context.Context, w io.Writer, f *insight.Fleet, node string) error {
	in := p.input(f, node)
	in.Why, in.Causes = f.Answer().Sentence, newCauses(f.Answer().Main())
	return views.NewPage(in).Render(ctx, w)
}

func (p *Pages) device(ctx context.Context, w io.Writer, of insight.Part) error {
	in := p.input(of.Alone(), "")
	in.Causes = newCauses(of.Why.Causes)
	return views.NewDevicePage(in, of.Device).Render(ctx, w)
}

// attribution says whose a device's memory, work and watts are.
func attribution(f *insight.Fleet) func(*gpu.Device) views.Attribution {
	return func(d *gpu.Device) views.Attribution {
		part, ok := f.Device(d.Node, d.UUID)
		if !ok {
			return views.Attribution{}
		}
		a := part.Attribution
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

// newCauses are the causes in the form that pages use.
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

// base is where a node has its addresses; an empty name stands for all.
func (p *Pages) base(node string) string {
	if node == "" {
		return p.cfg.BasePath
	}
	return p.cfg.BasePath + "node/" + url.PathEscape(node) + "/"
}

// input is what pages of those Moments are made of, but for why it is so.
func (p *Pages) input(f *insight.Fleet, node string) views.Input {
	monitor := p.cfg.Monitor()
	in := views.Input{
		Nodes:          f.Nodes(),
		Version:        monitor.Version,
		Node:           monitor.Node,
		Source:         monitor.Source,
		Interval:       monitor.Interval,
		AlertThreshold: monitor.AlertThreshold,
		BasePath:       p.base(node),
		Health:         p.cfg.BasePath + "api/health",
		Asset:          p.URL,
		Now:            time.Now(),
		Attribution:    attribution(f),
		Kept:           p.kept,
	}
	for _, a := range alert.OfNode(p.cfg.Alerts.Standing(), node) {
		in.Alerts = append(in.Alerts, newViewAlert(&a))
	}
	return in
}

// kept reports whether the recent past has a reading of that metric, for one of
// those devices or, with nil, for any device.
func (p *Pages) kept(metric string, of []*gpu.Device) bool {
	if of == nil {
		return p.cfg.Recent.Has(metric, nil)
	}
	return p.cfg.Recent.Has(metric, func(node, uuid string) bool {
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
func (p *Pages) alerts(ctx context.Context, w io.Writer, from int, node string) error {
	f := p.cfg.Newest()
	if m, ok := f.Node(node); ok {
		f = m.Alone()
	}
	in := views.AlertsInput{Input: p.input(f, node), From: from}
	in.Explain = func(a *views.Alert) {
		of, ok := f.Device(a.Node, a.UUID)
		if !ok {
			return
		}
		a.Why = of.Why.Sentence
		if a.Advice == "" && len(of.Why.Causes) > 0 {
			a.Advice = of.Why.Causes[0].Advice
		}
	}
	for _, a := range alert.OfNode(p.cfg.Alerts.Past(), node) {
		in.Past = append(in.Past, newViewAlert(&a))
	}
	for _, x := range alert.OfNode(p.cfg.Alerts.Silences(), node) {
		in.Silences = append(in.Silences, views.Silence{
			ID: x.ID, Rule: x.Rule, Node: x.Node, GPU: x.GPU, Note: views.Note{By: x.By, Comment: x.Comment}, Until: x.Until,
		})
	}
	for _, r := range p.cfg.Alerts.Rules() {
		in.Rules = append(in.Rules, newViewRule(&r))
	}
	for _, t := range p.cfg.Targets() {
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

// Problem writes the page that a browser gets for an error.
func (p *Pages) Problem(ctx context.Context, w io.Writer, status int, title string, advice gpu.Advice) error {
	page := views.ErrorPage{Code: status, Title: title, What: advice.What, Try: advice.Try, BasePath: p.cfg.BasePath, Asset: p.URL}
	return page.Render(ctx, w)
}

// URL is the address of a file of the page.
func (p *Pages) URL(name string) string { return p.assets.URL(p.cfg.BasePath, name) }

// Asset finds a file by its path, which has the hash of all files. It also finds
// the icon by its plain name, for browsers that ask for /favicon.ico.
func (p *Pages) Asset(path string) (server.Asset, bool) {
	immutable := true
	if path == "icon.svg" {
		path, immutable = strings.TrimPrefix(p.assets.URL("/", path), "/static/"), false
	}
	file, ok := p.assets.Open(path)
	return server.Asset{Body: file.Bytes, Gzip: file.Gzip, ContentType: file.ContentType, Immutable: immutable}, ok
}
