package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/alert/notify"
	"github.com/gpuwhy/gpuwhy/internal/alert/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// alerting is what becomes of alerts: rules from a file, news to viewers and to
// targets, what people say of them, and what is kept over a restart.
type alerting struct {
	*alert.Engine
	cfg      *Config
	log      *slog.Logger
	history  *explain.History
	hub      *hub.Hub
	notifier *notify.Notifier

	// order makes what viewers are told come in the order in which it happened.
	order sync.Mutex
	// changed says that there is something new to keep.
	changed chan struct{}
}

// loadRules reads the rules of the configuration.
func loadRules(cfg *Config) (*rulefile.File, error) {
	rules := alert.Defaults()
	for i := range rules {
		if rules[i].Name == alert.HighGPUUsage {
			rules[i].Threshold = cfg.AlertUtilization
		}
	}
	if cfg.AlertRules == "" {
		return &rulefile.File{Rules: rules, Notify: notify.Defaults()}, nil
	}
	return rulefile.Load(cfg.AlertRules, rules)
}

func newAlerting(cfg *Config, history *explain.History, log *slog.Logger) (*alerting, error) {
	file, err := loadRules(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	notifier, err := notify.New(file.Notify, log)
	if err != nil {
		return nil, usageError{err}
	}
	return &alerting{
		Engine: alert.New(file.Rules), cfg: cfg, log: log.With("part", "alerts"), history: history, notifier: notifier,
		changed: make(chan struct{}, 1),
	}, nil
}

// threshold is the utilization above which high_gpu_usage_alert fires.
func (a *alerting) threshold() gpu.Percent {
	for _, r := range a.Rules() {
		if r.Name == alert.HighGPUUsage {
			return gpu.Percent(r.Threshold)
		}
	}
	return gpu.Percent(a.cfg.AlertUtilization)
}

// watch looks at each snapshot.
func (a *alerting) watch(ctx context.Context) {
	for snap := range a.hub.Feed(ctx) {
		a.observe(snap)
	}
}

// observe looks at one snapshot, and tells what is new.
func (a *alerting) observe(snap *gpu.Snapshot) {
	answer := a.history.Explain(snap)
	a.order.Lock()
	defer a.order.Unlock()
	a.announce(a.Observe(snap, &answer), &answer)
}

// announce hands viewers and targets the changes, and viewers who come later
// what stands. The caller holds order.
func (a *alerting) announce(changes []alert.Change, answer *explain.Answer) {
	a.notifier.Notify(changes, func(of *alert.Alert) string {
		if d := answer.Of(of.Device.Node, of.Device.UUID); d != nil {
			return d.Sentence
		}
		return ""
	})
	var news, stand []hub.Event
	for i := range changes {
		if c := &changes[i]; c.News != alert.Repeated {
			news = a.appendEvent(news, contract.NameOf(c), &c.Alert, answer)
		}
	}
	for _, standing := range a.Standing() {
		stand = a.appendEvent(stand, contract.StandingNameOf(&standing), &standing, answer)
	}
	a.hub.Announce(news, stand)
	if len(changes) > 0 {
		a.keepSoon()
	}
}

func (a *alerting) appendEvent(events []hub.Event, name string, of *alert.Alert, answer *explain.Answer) []hub.Event {
	message := contract.NewAlert(of)
	message.Explain(answer.Of(of.Device.Node, of.Device.UUID))
	data, err := json.Marshal(message)
	if err != nil {
		a.log.Error("an alert can't be encoded", "alert", of.ID, "err", err)
		return events
	}
	return append(events, hub.Event{Name: name, Node: of.Device.Node, UUID: of.Device.UUID, Index: of.Device.Index, Data: data})
}

// newest is the answer about the newest snapshot.
func (a *alerting) newest() explain.Answer {
	if frame := a.hub.Newest(); frame != nil {
		return a.history.Explain(frame.Snapshot)
	}
	return explain.Answer{}
}

// Acknowledge implements [server.Alerts].
func (a *alerting) Acknowledge(id string, by *alert.Acknowledgment) (alert.Alert, error) {
	a.order.Lock()
	defer a.order.Unlock()
	change, err := a.Engine.Acknowledge(id, by)
	return a.said(change, err)
}

// Dismiss implements [server.Alerts].
func (a *alerting) Dismiss(id string) (alert.Alert, error) {
	a.order.Lock()
	defer a.order.Unlock()
	change, err := a.Engine.Dismiss(id, time.Now().UTC())
	return a.said(change, err)
}

// said tells of what somebody said of an alert.
func (a *alerting) said(change alert.Change, err error) (alert.Alert, error) {
	if err != nil {
		return alert.Alert{}, err
	}
	answer := a.newest()
	a.announce([]alert.Change{change}, &answer)
	return change.Alert, nil
}

// Silence implements [server.Alerts].
func (a *alerting) Silence(s alert.Silence, span time.Duration) (alert.Silence, error) {
	a.order.Lock()
	defer a.order.Unlock()
	now := time.Now().UTC()
	s.Until = now.Add(span)
	made, changes, err := a.Engine.Silence(s, now)
	if err != nil {
		return alert.Silence{}, err
	}
	answer := a.newest()
	a.announce(changes, &answer)
	a.keepSoon()
	return made, nil
}

// Silences implements [server.Alerts].
func (a *alerting) Silences() []alert.Silence { return a.Engine.Silences(time.Now()) }

// Unsilence implements [server.Alerts].
func (a *alerting) Unsilence(id string) error {
	a.order.Lock()
	defer a.order.Unlock()
	changes, err := a.Engine.Unsilence(id)
	if err != nil {
		return err
	}
	answer := a.newest()
	a.announce(changes, &answer)
	a.keepSoon()
	return nil
}

// reloadOn reads the rules again at each signal. A file that is not good changes
// nothing.
func (a *alerting) reloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			a.reload()
		}
	}
}

func (a *alerting) reload() {
	if a.cfg.AlertRules == "" {
		a.log.Info("there are no rules of alerts to read again: --alert-rules is not set")
		return
	}
	file, err := loadRules(a.cfg)
	if err != nil {
		for _, line := range errorLines(err) {
			a.log.Error("the rules of alerts stay as they were", "err", line)
		}
		return
	}
	if err := a.notifier.Reload(file.Notify); err != nil {
		a.log.Error("the rules of alerts stay as they were", "err", err)
		return
	}
	a.order.Lock()
	defer a.order.Unlock()
	answer := a.newest()
	a.announce(a.SetRules(file.Rules, time.Now().UTC()), &answer)
	a.log.Info("the rules of alerts were read again", "file", a.cfg.AlertRules, "rules", len(file.Rules))
}

// keepSoon has what changed written.
func (a *alerting) keepSoon() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
