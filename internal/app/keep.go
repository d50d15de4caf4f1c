package app

import (
	"context"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// wireKeeper lists the documents that survive a restart, in the order in which they
// are written. The queues of messages come before the alerts: if the program is
// killed between the two, it repeats a message, and loses none.
func (a *App) wireKeeper() {
	k := a.keeper
	k.Dir, k.Log, k.Hold = a.opt.StateDir, a.log, a.Alerts.Hold
	if k.Dir == "" {
		return
	}
	origin, node := a.nodes[0].Origin, a.name()
	k.Documents = []keep.Document{
		{
			Name: "recent.json", What: "the last minutes", When: keep.AtEnd,
			Keep:    func() ([]byte, error) { return a.Recent.Keep(origin) },
			Restore: func(text []byte, now time.Time) error { return a.Recent.Restore(text, origin, now) },
		},
		{Name: "floors.json", What: "what devices draw at rest", When: keep.Hourly, Keep: a.stage.Floors.Keep, Restore: a.stage.Floors.Restore},
		{Name: "baselines.json", What: "how devices are at work and after it", When: keep.Hourly, Keep: a.stage.History.Keep, Restore: a.stage.History.Restore},
		{
			Name: "notifications.json", What: "what targets are still to be told", When: keep.Promptly,
			Keep:    a.notifier.Keep,
			Restore: func(text []byte, _ time.Time) error { return a.notifier.Restore(text) },
		},
		{
			Name: "alerts.json", What: "alerts and silences", When: keep.Promptly,
			Keep:    func() ([]byte, error) { return a.Alerts.Keep(origin, node) },
			Restore: func(text []byte, now time.Time) error { return a.Alerts.Restore(text, origin, node, now) },
		},
	}
	// A simulation must not overwrite what is known of real devices.
	if strings.HasPrefix(origin, "simulate:") {
		for i := range k.Documents {
			k.Documents[i].Name = "simulated-" + k.Documents[i].Name
		}
	}
}

// keepNotifications tells the keeper when the queues of messages change.
func (a *App) keepNotifications(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.notifier.Changed():
			a.keeper.Soon()
		}
	}
}
