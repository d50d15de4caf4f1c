//go:build linux && cgo

package nvml

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// A machine is let go when it was idle for so many readings, over so
	// long a time.
	calmReadings = 3
	calmTime     = 10 * time.Second
	// firstPause is longer than drivers take to power an idle card down.
	firstPause   = 20 * time.Second
	longestPause = 2 * time.Minute
)

// rest decides when a machine whose cards may fall asleep is left alone, so
// that they do. It has no clock.
type rest struct {
	calm      int // idle readings in a row
	calmSince time.Time
	until     time.Time     // left alone until then
	pause     time.Duration // how long the last pause was
	slept     []string      // addresses of cards seen asleep in this pause
}

// note takes in a reading, and reports whether to let the cards go now. A
// machine that is not idle begins anew.
func (r *rest) note(now time.Time, idle bool) (letGo bool) {
	if !idle {
		*r = rest{}
		return false
	}
	if r.calm == 0 {
		r.calmSince = now
	}
	r.calm++
	// After a pause in which no card fell asleep, one look is enough.
	if r.pause == 0 && (r.calm < calmReadings || now.Sub(r.calmSince) < calmTime) {
		return false
	}
	r.pause = min(max(firstPause, 2*r.pause), longestPause)
	r.until, r.calm, r.slept = now.Add(r.pause), 0, nil
	return true
}

// resting reports whether the cards are to be left alone now. The pause ends
// early when one that had fallen asleep is awake: somebody uses it.
func (r *rest) resting(now time.Time, cards []card) bool {
	if !now.Before(r.until) {
		return false
	}
	for _, c := range cards {
		switch was := slices.Contains(r.slept, c.address); {
		case c.asleep() && !was:
			r.slept = append(r.slept, c.address)
		case !c.asleep() && was:
			*r = rest{}
			return false
		}
	}
	return true
}

// idle reports whether nothing seems to need the device: no work, and no
// process but such as only draw, on no display.
func idle(d *gpu.Device) bool {
	if d.State == gpu.StateAsleep {
		return true
	}
	busy, ok := d.Utilization.GPU.Get()
	processes, listed := d.Processes.Get()
	return d.State == gpu.StateOK && ok && busy == 0 && listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics })
}

// leftAlone is why a device that is awake has no readings for a while.
var leftAlone = gpu.Advice{
	What: "the device is idle, and left alone so that it can fall asleep",
	Try:  "nothing needs to be done: it is read again soon",
}
