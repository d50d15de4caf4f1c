package app

import (
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
)

// wireExport makes what sends series elsewhere.
func (a *App) wireExport(of *metrics.Exporter) {
	if len(a.opt.Export) == 0 {
		return
	}
	a.pusher = export.New(export.Config{
		Destinations: a.opt.Export, Metrics: of, Interval: a.opt.Interval, Node: a.monitor.Node, Version: a.opt.Version, Clock: a.opt.Clock, Log: a.log,
	})
}

// exporting returns the state of sending series. It has failed while a destination accepts none.
func (a *App) exporting() contract.Part {
	var last time.Time
	var failing []export.State
	for _, s := range a.pusher.States() {
		if s.LastSent.After(last) {
			last = s.LastSent
		}
		if s.Err != nil {
			failing = append(failing, s)
		}
	}
	part := contract.NewPart("ok", last)
	if len(failing) == 0 {
		return part
	}
	s := failing[0]
	advice := gpu.AsAdvice(s.Err)
	advice.What = fmt.Sprintf("%s; samples waiting: %d, dropped: %d", advice.What, s.Waiting, s.Failed+s.Dropped)
	if more := len(failing) - 1; more > 0 {
		advice.What += fmt.Sprintf("; other failing destinations: %d", more)
	}
	return part.Failed(&advice, s.Since)
}

// exportSelf returns what gpuwhy reports about sending series on /metrics.
func (a *App) exportSelf() (all []metrics.Export) {
	if a.pusher == nil {
		return nil
	}
	for _, s := range a.pusher.States() {
		all = append(all, metrics.Export{
			Name: s.Name, Sent: s.Sent, Failed: s.Failed, Dropped: s.Dropped, Waiting: s.Waiting, WaitingBytes: s.WaitingBytes,
			LastSent: s.LastSent, Failing: s.Err != nil,
		})
	}
	return all
}
