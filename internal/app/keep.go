package app

import (
	"context"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// wireKeeper lists what the program keeps over a restart, in the order in which
// it is written: a program that is killed after writing what targets are to be
// told, and before writing the alerts, repeats a message and loses none.
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
	// A simulation writes over nothing that is known of real devices.
	if strings.HasPrefix(origin, "simulate:") {
		for i := range k.Documents {
			k.Documents[i].Name = "simulated-" + k.Documents[i].Name
		}
	}
}

// keepNotifications has a change of what targets are to be told written.
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
