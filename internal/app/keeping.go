package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// keep tells the keeper what the program keeps over a restart: the documents of the parts, the most urgent first, since a disk may
// be slow at the end.
func (a *App) keep(opt *Options, log *slog.Logger) {
	k := a.keeper
	k.Origin, k.Log, k.Hold = a.nodes.Origin(), log, a.hold
	files := opt.files()
	if files == nil {
		return
	}
	k.Node = a.nodes.Only()
	k.Shelf = files
	for p := range offers[part.Shelver](a) {
		k.Shelf = p.Shelf(files)
	}
	for p := range offers[part.Keeper](a) {
		k.Documents = append(k.Documents, p.Documents()...)
	}
	slices.SortStableFunc(k.Documents, func(x, y state.Document) int { return cmp.Compare(y.When, x.When) })
}

// hold calls f while nothing changes that is written promptly.
func (a *App) hold(f func()) {
	for p := range offers[part.Holder](a) {
		held := f
		f = func() { p.Hold(held) }
	}
	f()
}

// keeping is the part that writes what survives a restart.
type keeping struct {
	keeper *state.Keeper
	opt    *Options
	since  time.Time // the program runs
}

// Name implements [part.Part].
func (keeping) Name() string { return "state" }

// Run writes until ctx ends.
func (k keeping) Run(ctx context.Context) error {
	k.keeper.Run(ctx)
	return nil
}

// Health is how the writing does, where something is to be kept.
func (k keeping) Health() map[string]contract.Part {
	health := contract.NewPart("ok", time.Time{})
	switch s := k.keeper.State(); {
	case k.opt.NotKept != nil:
		health = health.Failed(&gpu.Advice{What: "nothing is kept across a restart: " + k.opt.NotKept.Error(), Try: TryStateDir, Err: k.opt.NotKept}, k.since)
	case k.opt.StateDir == "":
		return nil
	case s.Err != nil:
		health = contract.NewPart("ok", s.Written).Failed(&gpu.Advice{
			What: "the state to keep across a restart can't be written", Try: "check the log, and the space in the state directory", Err: s.Err,
		}, s.Since)
	default:
		health = contract.NewPart("ok", s.Written)
	}
	return map[string]contract.Part{"state": health}
}

// Measure says whether the writing fails.
func (k keeping) Measure(self *metrics.Self) { self.StateFails = k.keeper.State().Err != nil }

// helpers are the processes that belong to the program.
type helpers func() []metrics.Helper

// Name implements [part.Part].
func (helpers) Name() string { return "helpers" }

// Measure says what they cost.
func (h helpers) Measure(self *metrics.Self) { self.Helpers = h() }
