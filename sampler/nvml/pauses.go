//go:build linux && cgo

package nvml

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// A pause begins when the machine was idle for so many readings, over so
	// long a time.
	calmReadings = 3
	calmTime     = 10 * time.Second
	// firstPause is longer than a driver takes to power an idle card down.
	firstPause   = 20 * time.Second
	longestPause = 2 * time.Minute
)

// pauses decides when a machine is not read, so that its cards can fall asleep. Each
// pause in which no card did is twice as long as the one before.
type pauses struct {
	calm      int // idle readings in a row
	calmSince time.Time
	until     time.Time     // the end of the pause
	pause     time.Duration // how long the last pause was
	slept     []string      // addresses of cards that slept in this pause
}

// note records a reading, and reports whether a pause begins now.
func (r *pauses) note(now time.Time, idle bool) (letGo bool) {
	if !idle {
		*r = pauses{}
		return false
	}
	if r.calm == 0 {
		r.calmSince = now
	}
	r.calm++
	// After a pause in which no card fell asleep, one idle reading is enough.
	if r.pause == 0 && (r.calm < calmReadings || now.Sub(r.calmSince) < calmTime) {
		return false
	}
	r.pause = min(max(firstPause, 2*r.pause), longestPause)
	r.until, r.calm, r.slept = now.Add(r.pause), 0, nil
	return true
}

// pausing reports whether there is a pause, which ends when a sleeping card wakes.
func (r *pauses) pausing(now time.Time, cards []card) bool {
	if !now.Before(r.until) {
		return false
	}
	for _, c := range cards {
		switch was := slices.Contains(r.slept, c.address); {
		case c.asleep() && !was:
			r.slept = append(r.slept, c.address)
		case !c.asleep() && was:
			*r = pauses{}
			return false
		}
	}
	return true
}

// idle reports whether nothing seems to need the device.
func idle(d *gpu.Device) bool {
	if d.State == gpu.StateAsleep {
		return true
	}
	busy, ok := d.Utilization.GPU.Get()
	processes, listed := d.Processes.Get()
	return d.State == gpu.StateOK && ok && busy == 0 && listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics })
}

// leftAlone is why a device that is awake has no readings in a pause.
var leftAlone = gpu.Advice{
	What: "the device is idle, and left alone so that it can fall asleep",
	Try:  "nothing needs to be done: it is read again soon",
}
