//go:build !race && soak

package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// killLanes programs are killed at the same time, each so many times, after at most so many rounds of questions.
const (
	killLanes, killsPerLane = 8, 25
	mostRounds              = 60
)

// mayLose is how much of the past a killed program may lose.
const mayLose = 5 * time.Second

// losses collects for how long readings were lost, and judges that at the end, considering how long this machine stood still.
func losses(t *testing.T) (add func(time.Duration)) {
	s := new(stalls)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go s.watch(ctx)
	var mu sync.Mutex
	var lost []time.Duration
	t.Cleanup(func() {
		cancel()
		if t.Failed() || len(lost) == 0 {
			return
		}
		slices.Sort(lost)
		stall := time.Duration(s.longest.Load())
		t.Logf("%d kills: of readings are lost %v in the median, and %v at most; this machine stood still for %v at most",
			len(lost), lost[len(lost)/2].Round(10*time.Millisecond), lost[len(lost)-1].Round(10*time.Millisecond), stall.Round(time.Millisecond))
		if most := lost[len(lost)-1]; most > mayLose+2*stall {
			t.Errorf("%v are lost", most)
		}
	})
	return func(loss time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, loss)
	}
}

// stalls is the longest time for which this machine stopped the tests. The program's threads fare no better.
type stalls struct{ longest atomic.Int64 }

func (s *stalls) watch(ctx context.Context) {
	const each = 20 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(each)
		now := time.Now()
		if stall := int64(now.Sub(last) - each); stall > s.longest.Load() {
			s.longest.Store(stall)
		}
		last = now
	}
}
