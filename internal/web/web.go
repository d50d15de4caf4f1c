// Package web makes the pages that browsers see: it fills the view models of
// package views from what the program knows, and renders them.
package web

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
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
	Alerts   server.Alerts
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

// Serve has a server show these pages.
func (p *Pages) Serve(on *server.Config) {
	on.Page, on.DevicePage, on.AlertsPage, on.ErrorPage = p.dashboard, p.device, p.alerts, p.Problem
	on.DocsPage, on.ReferencePage, on.EventsPage = p.docs, p.reference, p.events
	on.Assets = p.Asset
}

func (p *Pages) dashboard(ctx context.Context, w io.Writer, f *insight.Fleet, node string) error {
	in := p.input(f, node)
	in.Why, in.Causes = f.Answer().Sentence, f.Answer().Main()
	return views.NewPage(in).Render(ctx, w)
}

func (p *Pages) device(ctx context.Context, w io.Writer, of insight.Part) error {
	in := p.input(of.Alone(), "")
	in.Causes = of.Why.Causes
	return views.NewDevicePage(in, of.Device).Render(ctx, w)
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
		BasePath:       p.cfg.BasePath,
		Asset:          p.URL,
		Now:            time.Now(),
		Attribution: func(d *gpu.Device) *attribute.Attribution {
			part, _ := f.Device(d.Node, d.UUID)
			return part.Attribution
		},
		Kept: p.kept,
	}
	for _, a := range p.cfg.Alerts.Standing() {
		if node != "" && a.Device.Node != node {
			continue
		}
		in.Alerts = append(in.Alerts, a)
	}
	return in
}

// kept says whether the recent past has a reading of that metric, of those
// devices or, without any, of all.
func (p *Pages) kept(metric string, of []*gpu.Device) bool {
	if of == nil {
		return p.cfg.Recent.Has(metric, nil)
	}
	return p.cfg.Recent.Has(metric, func(node, uuid string) bool {
		return slices.ContainsFunc(of, func(d *gpu.Device) bool { return d.Node == node && d.UUID == uuid })
	})
}

// alerts writes the page of alerts.
func (p *Pages) alerts(ctx context.Context, w io.Writer, from int) error {
	f := p.cfg.Newest()
	in := views.AlertsInput{
		Input: p.input(f, ""), From: from,
		Past: p.cfg.Alerts.Past(), Silences: p.cfg.Alerts.Silences(), Rules: p.cfg.Alerts.Rules(),
	}
	in.Explain = func(a *alert.Alert) (why, advice string) {
		of, ok := f.Device(a.Device.Node, a.Device.UUID)
		if !ok {
			return "", ""
		}
		if len(of.Why.Causes) > 0 {
			advice = of.Why.Causes[0].Advice
		}
		return of.Why.Sentence, advice
	}
	for _, t := range p.cfg.Targets() {
		in.Targets = append(in.Targets, views.Target{
			Name: t.Name, Service: t.Service, Severity: t.Severity, Queued: t.Queued,
			LastSuccess: t.LastSuccess, LastError: t.LastError, FailingSince: t.FailingSince,
		})
	}
	return views.NewAlertsPage(in).Render(ctx, w)
}

// Problem writes what a browser sees instead of an error.
func (p *Pages) Problem(ctx context.Context, w io.Writer, status int, title string, advice gpu.Advice) error {
	page := views.ErrorPage{Code: status, Title: title, What: advice.What, Try: advice.Try, BasePath: p.cfg.BasePath, Asset: p.URL}
	return page.Render(ctx, w)
}

// URL is the address of a file of the page.
func (p *Pages) URL(name string) string { return p.assets.URL(p.cfg.BasePath, name) }

// Asset finds a file under the hash of all files, and the icon under its plain
// name too, for browsers that ask for /favicon.ico.
func (p *Pages) Asset(path string) (server.Asset, bool) {
	immutable := true
	if path == "icon.svg" {
		path, immutable = strings.TrimPrefix(p.assets.URL("/", path), "/static/"), false
	}
	file, ok := p.assets.Open(path)
	return server.Asset{Body: file.Bytes, Gzip: file.Gzip, ContentType: file.ContentType, Immutable: immutable}, ok
}
