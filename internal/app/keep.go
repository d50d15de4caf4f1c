package app

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// wireKeeper lists what the program keeps over a restart, in the order in which
// it is written: a program that is killed after writing what targets are to be
// told, and before writing the alerts, repeats a message and loses none.
func (a *App) wireKeeper() {
	k := a.keeper
	k.Dir, k.Origin, k.Log, k.Hold = a.opt.StateDir, a.nodes[0].Origin, a.log, a.Alerts.Hold
	if k.Dir == "" {
		return
	}
	k.Documents = []keep.Document{
		keep.Of("notifications", "messages that wait to be sent", keep.Promptly, a.notifier),
		keep.Of("alerts", "alerts and silences", keep.Promptly, a.Alerts.Engine),
		keep.Of("floors", "what devices draw at rest", keep.Regularly, a.stage.Floors),
		keep.Of("baselines", "how devices are at work and after it", keep.Regularly, a.stage.History),
		keep.Of("recent", "the last minutes", keep.AtEnd, a.Recent),
	}
}

// keeping is how the writing of what is kept does.
func (a *App) keeping() contract.PartState {
	s := a.keeper.State()
	part := contract.PartState{State: "ok", LastSuccess: s.Written}
	if s.Err != nil {
		part.State, part.LastErrorAt = "failed", s.Since
		part.LastError = &gpu.Advice{
			What: "what a restart must not lose can't be written", Try: "look into the log, and at the space in the state directory", Err: s.Err,
		}
	}
	return part
}
