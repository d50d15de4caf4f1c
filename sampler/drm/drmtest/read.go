package drmtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A Source reads a machine's cards, with a clock that the test moves.
type Source interface {
	Read(ctx context.Context) (*gpu.Snapshot, error)
}

// Read reads once, and waits for all cards.
func Read(tb testing.TB, s Source) (*gpu.Snapshot, error) {
	tb.Helper()
	return readWith(tb.Context(), tb, s)
}

func readWith(ctx context.Context, tb testing.TB, s Source) (snap *gpu.Snapshot, err error) {
	tb.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		snap, err = s.Read(ctx)
	}()
	testkit.Receive(tb, "Read to come back", done)
	return snap, err
}

// Live waits for a reading with the current time in which all cards are ok, except the card at index but, which may hang.
func Live(tb testing.TB, s Source, clock *clockwork.FakeClock, but int) (snap *gpu.Snapshot) {
	tb.Helper()
	clock.Advance(time.Millisecond)
	now := clock.Now()
	canceled, cancel := context.WithCancel(tb.Context())
	cancel() // so that Read waits for no card
	var err error
	testkit.Until(tb, "all other cards are read", func() bool {
		snap, err = readWith(canceled, tb, s)
		if err != nil {
			return false
		}
		others := slices.Delete(slices.Clone(snap.Devices), but, but+1)
		return !slices.ContainsFunc(others, func(d gpu.Device) bool { return d.State != gpu.StateOK || d.SampledAt.Before(now) })
	}, func() any { return err }, func() any { return snap })
	return snap
}

// Hangs waits until the card at an index is not answering, which is two deadlines after it began to hang. The other cards stay live.
func Hangs(tb testing.TB, s Source, clock *clockwork.FakeClock, deadline time.Duration, place int) *gpu.Snapshot {
	tb.Helper()
	const steps = 16 // per deadline
	for range 2*steps + 2 {
		if snap := Live(tb, s, clock, place); snap.Devices[place].State == gpu.StateNotAnswering {
			return snap
		}
		clock.Advance(deadline / steps)
	}
	tb.Fatalf("the card at place %d hangs for more than two deadlines of %v, and answers", place, deadline)
	return nil
}

// Answers waits until all cards are ok, which takes some readings after a card has hung.
func Answers(tb testing.TB, s Source) (snap *gpu.Snapshot) {
	tb.Helper()
	var err error
	testkit.Until(tb, "all cards answer", func() bool {
		snap, err = Read(tb, s)
		return err == nil && !slices.ContainsFunc(snap.Devices, func(d gpu.Device) bool { return d.State != gpu.StateOK })
	}, func() any { return err }, func() any { return snap })
	return snap
}
