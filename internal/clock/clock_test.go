package clock_test

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/clock"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var run time.Duration
	w := clock.Watch{Clock: clock.Of(func() time.Time { return start }, func() time.Duration { return run }), Longest: 25 * time.Second}
	breaks, set := 0, time.Duration(0)
	for _, step := range []struct {
		what         string
		passes, sets time.Duration
		breaks       int
	}{
		{"the first look", 0, 0, 0},
		{"a reading", 5 * time.Second, 0, 0},
		{"NTP slows the clock", 5 * time.Second, -400 * time.Millisecond, 0},
		{"the clock is set back", 5 * time.Second, -time.Hour, 1},
		{"a reading after that", 5 * time.Second, 0, 0},
		{"it is set forward", 5 * time.Second, 8 * time.Hour, 1},
		{"the machine sleeps", 8 * time.Hour, 0, 1},
		{"it sleeps, and the clock is set right", time.Hour, time.Hour, 1},
	} {
		run += step.passes
		start = start.Add(step.passes + step.sets)
		breaks += step.breaks
		if step.breaks > 0 {
			set += step.sets
		}
		now, haveBreaks, haveSet := w.Look()
		if !now.Equal(start) || haveBreaks != breaks || haveSet != set {
			t.Errorf("%s: %v, %d breaks, set by %v; want %v, %d, %v", step.what, now, haveBreaks, haveSet, start, breaks, set)
		}
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	var c clock.Clock
	before, elapsed := time.Now(), c.Elapsed()
	for c.Elapsed() == elapsed { // until it has gone on
	}
	if passed := c.Elapsed() - elapsed; passed <= 0 || passed > time.Since(before)+time.Second {
		t.Errorf("%v have elapsed in at most %v", passed, time.Since(before))
	}
	if now := c.Now(); now.Before(before) {
		t.Errorf("now is %v, after %v", now, before)
	}
}
