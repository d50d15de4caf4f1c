//go:build !race

package story

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A storyClock is what a story's program knows the time by. It runs as Go's own clock
// does, which nobody can set in a test, and can be set and put to sleep.
type storyClock struct {
	mu      sync.Mutex
	begun   time.Time
	changes []change // in order
}

// A change is how far a clock was set, and how long the machine slept, in all.
type change struct {
	begin      time.Time // by Go's clock
	set, slept time.Duration
}

func newClock() *storyClock {
	now := time.Now()
	return &storyClock{begun: now, changes: []change{{begin: now.Add(-time.Hour)}}}
}

func (c *storyClock) clock() clock.Clock {
	wall := func() time.Time { return c.wall(time.Now()) }
	elapsed := func() time.Duration { return time.Since(c.begun) + c.last().slept }
	return clock.Of(wall, elapsed)
}

func (c *storyClock) change(set, slept time.Duration) {
	last := c.last()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, change{time.Now(), last.set + set, last.slept + slept})
}

func (c *storyClock) last() change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes[len(c.changes)-1]
}

// wall is what the machine's clock said at a time of Go's.
func (c *storyClock) wall(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.Backward(c.changes) {
		if !k.begin.After(t) {
			return t.Round(0).Add(k.set + k.slept)
		}
	}
	return t.Round(0)
}

// back is Go's time of what the program calls that time now: it moves the times that it
// knows when its clock is set.
func (c *storyClock) back(wall time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := c.changes[len(c.changes)-1].set
	for _, k := range slices.Backward(c.changes) {
		if t := wall.Add(-set - k.slept); !t.Before(k.begin) {
			return t
		}
	}
	return wall.Add(-set)
}

// A setSource is a source that stamps what it reads by the story's clock.
type setSource struct {
	sampler.Source
	clock *storyClock
}

func (s *setSource) Read(ctx context.Context) (*gpu.Snapshot, error) {
	snap, err := s.Source.Read(ctx)
	if snap == nil {
		return nil, err
	}
	move := func(t *time.Time) {
		if !t.IsZero() {
			*t = s.clock.wall(*t).UTC()
		}
	}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		move(&d.Since)
		move(&d.SampledAt)
		for j := range d.Health.XIDs.Or(nil) {
			move(&d.Health.XIDs.Or(nil)[j].Last)
		}
	}
	return snap, err
}

// What the program says a time is, by its clock of now, leads back to when it was.
func TestStoryClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		first, elapsed := time.Now(), c.clock().Elapsed()
		time.Sleep(time.Minute)
		c.change(0, 8*time.Hour)
		second := time.Now()
		time.Sleep(time.Minute)
		c.change(-3*time.Hour, 0)
		if now, want := c.clock().Now(), time.Now().Add(5*time.Hour); !now.Equal(want) {
			t.Errorf("it is %v, want %v", now, want)
		}
		if took := c.clock().Elapsed() - elapsed; took != 8*time.Hour+2*time.Minute {
			t.Errorf("%v have elapsed", took)
		}
		if was := c.wall(second); !was.Equal(second.Add(8 * time.Hour)) {
			t.Errorf("it was %v then", was)
		}
		// The program has moved both by the three hours.
		for _, tt := range []struct{ told, was time.Time }{{first.Add(-3 * time.Hour), first}, {second.Add(5 * time.Hour), second}} {
			if was := c.back(tt.told); !was.Equal(tt.was) {
				t.Errorf("%v was %v, want %v", tt.told, was, tt.was)
			}
		}
	})
}
