package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/alerts/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Rules reads an alert rules file, or returns the default rules if name is empty.
// Their high_gpu_usage_alert fires above the given utilization, in percent.
func Rules(name string, utilization float64) (*rulefile.File, error) {
	rules := alert.Defaults()
	for i := range rules {
		if rules[i].Name == alert.HighGPUUsage {
			rules[i].Threshold = utilization
		}
	}
	if name == "" {
		return &rulefile.File{Rules: rules, Notify: notify.Defaults()}, nil
	}
	return rulefile.Load(name, rules)
}

// ErrorLines returns the errors in a rules file, or the text of any other error.
func ErrorLines(err error) []string {
	all, ok := errors.AsType[rulefile.Errors](err)
	if !ok {
		return []string{err.Error()}
	}
	lines := make([]string, len(all))
	for i := range all {
		lines[i] = all[i].Error()
	}
	return lines
}

func (a *App) wireAlerts() error {
	file, err := Rules(a.opt.AlertRules, a.opt.AlertUtilization)
	if err != nil {
		return err
	}
	if a.notifier, err = notify.New(file.Notify, a.keeper.Soon, a.log); err != nil {
		return err
	}
	a.Alerts = alert.New(file.Rules)
	a.Alerts.Node = cmp.Or(a.local.only(), a.monitor.Node)
	a.Alerts.Announce, a.Alerts.Log = a.announceAlerts, a.log.With("part", "alerts")
	a.alerting.Book = alert.Share(a.Alerts)
	return nil
}

// alertThreshold is the utilization above which high_gpu_usage_alert fires.
func (a *App) alertThreshold() gpu.Percent {
	for _, r := range a.Alerts.Rules() {
		if r.Name == alert.HighGPUUsage {
			return gpu.Percent(r.Threshold)
		}
	}
	return gpu.Percent(a.opt.AlertUtilization)
}

// announceAlerts sends changes to viewers and to targets, and has them kept. The hub keeps the
// standing alerts encoded for new viewers. Alerts of nodes without changes are not encoded again.
func (a *App) announceAlerts(nodes []string, changes []alert.Change, standing []alert.Alert) {
	now := a.Hub.Newest()
	a.notifier.Notify(changes, func(of *alert.Alert) *notify.Answer {
		if p, ok := now.Device(of.Device.Node, of.Device.UUID); ok {
			return p.Why
		}
		return nil
	})
	var news []hub.Event
	for i := range changes {
		c := &changes[i]
		a.remember(c)
		if c.News != alert.Repeated {
			news = a.appendEvent(news, contract.NameOf(c.Rule, c.News), &c.Alert, now)
		}
	}
	anew := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		anew[node] = true
	}
	known := make(map[string]func() []hub.Event, len(standing))
	stand := make([]func() []hub.Event, len(standing))
	for i, of := range standing {
		event := a.standing[of.ID]
		if event == nil || nodes == nil || anew[of.Device.Node] {
			about := now
			if m, ok := now.Node(of.Device.Node); ok {
				about = m.Alone() // so that no Moment of another node is held
			}
			event = sync.OnceValue(func() []hub.Event { return a.appendEvent(nil, contract.NameOf(of.Rule, alert.Fired), &of, about) })
		}
		known[of.ID], stand[i] = event, event
	}
	a.standing, a.stand = known, stand
	a.announce(news)
	if a.uplink != nil {
		a.uplink.Announce(slices.DeleteFunc(changes, func(c alert.Change) bool { return !a.local.has(c.Device.Node) }))
	}
	if nodes == nil { // not while a Moment is observed
		a.Hub.Turn()
	}
	if nodes == nil || len(changes) > 0 { // a silence of nothing that fires is a change as well
		a.keeper.Soon()
	}
}

// announce sends news to viewers, and gives new viewers what stands now. The caller holds the alerts.
func (a *App) announce(news []hub.Event) {
	stand := a.stand
	a.Hub.Announce(news, func() (all []hub.Event) {
		for _, event := range stand {
			all = append(all, event()...)
		}
		now := a.Hub.Newest()
		for _, of := range a.alerting.Book.Others() {
			all = a.appendEvent(all, contract.NameOf(of.Rule, alert.Fired), &of, now)
		}
		return all
	})
}

func (a *App) appendEvent(events []hub.Event, name string, of *alert.Alert, now *insight.Fleet) []hub.Event {
	data, err := json.Marshal(contract.NewAlert(of, now))
	if err != nil {
		a.log.Error("can't encode an alert", "part", "alerts", "alert", of.ID, "err", err)
		return events
	}
	return append(events, hub.Event{Name: name, Node: of.Device.Node, UUID: of.Device.UUID, Index: of.Device.Index, Data: data})
}

// reloadOn rereads the rules at each signal, until ctx ends.
func (a *App) reloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			a.reload()
		}
	}
}

// reload rereads the rules. A file with an error changes nothing.
func (a *App) reload() {
	log := a.log.With("part", "alerts")
	if a.opt.AlertRules == "" {
		log.Info("no alert rules to read again: --alert-rules is not set")
		return
	}
	file, err := Rules(a.opt.AlertRules, a.opt.AlertUtilization)
	if err == nil {
		err = a.notifier.Reload(file.Notify)
	}
	if err != nil {
		for _, line := range ErrorLines(err) {
			log.Error("the alert rules stay as they were", "err", line)
		}
		return
	}
	a.Alerts.SetRules(file.Rules, a.opt.Clock.Now().UTC())
	if a.Hub.Newest().Nodes().Totals().Devices > 0 {
		a.warnUncovered()
	}
	log.Info("read the alert rules again", "file", a.opt.AlertRules, "rules", len(file.Rules))
}

// warnUncovered logs the rules that can't fire because their scope covers nothing here.
func (a *App) warnUncovered() {
	for _, r := range a.Alerts.Uncovered(a.Hub.Newest().Nodes(), a.opt.Fleet != nil) {
		a.log.With("part", "alerts").Warn("an alert rule covers nothing here and can't fire", "rule", r.Name, "nodes", r.Scope.Nodes, "gpus", r.Scope.GPUs,
			"try", "name GPUs by UUID, name or index as 'gpuwhy snapshot' lists them, and machines as the page names them")
	}
}
