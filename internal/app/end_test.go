package app

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// slowServer is a fleet's server that takes that long to close.
type slowServer time.Duration

func (slowServer) Trouble() (*gpu.Advice, time.Time) { return nil, time.Time{} }

func (s slowServer) Close() error { time.Sleep(time.Duration(s)); return errors.New("it was slow") }

// At the end, the program waits for a disk as long as it has time, and at least a second. The error says what to do.
func TestTheEndIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			takes, left, waits time.Duration
			advice             bool
		}{
			{time.Second - 1, -time.Hour, time.Second - 1, false}, {5 * time.Second, 8 * time.Second, 5 * time.Second, false},
			{time.Hour, 8 * time.Second, 8 * time.Second, true}, {time.Hour, 2 * time.Second, 2 * time.Second, true}, {time.Hour, -time.Hour, time.Second, true},
		} {
			a := &App{
				opt:    Options{Fleet: &Fleet{Server: slowServer(tt.takes)}},
				keeper: &state.Keeper{Hold: func(f func()) { f() }, Log: slog.New(slog.DiscardHandler)},
			}
			begun := time.Now()
			err := a.closeWithin(tt.left)
			if _, ok := errors.AsType[*gpu.Advice](err); ok != tt.advice || err == nil || time.Since(begun) != tt.waits {
				t.Errorf("%v, of which %v are left, ends after %v with %v", tt.takes, tt.left, time.Since(begun), err)
			}
		}
		time.Sleep(2 * time.Hour) // the last of them ends
	})
}
