package nvidia

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// When a machine is left alone.
const (
	// A pause begins after this many idle readings in a row, over at least this time.
	CalmReadings = 3
	CalmTime     = 10 * time.Second
	// FirstPause is longer than a driver needs to power down an idle card.
	FirstPause   = 20 * time.Second
	LongestPause = 2 * time.Minute
)

// Pauses decides when a machine is not read, so that its cards can fall asleep. If no card fell asleep in a pause, the next pause is twice
// as long.
type Pauses struct {
	calm      int // idle readings in a row
	calmSince time.Time
	until     time.Time     // the end of the pause
	pause     time.Duration // how long the last pause was
	slept     []string      // addresses of cards that slept in this pause
}

// Note records a reading, and reports whether a pause begins now.
func (r *Pauses) Note(now time.Time, idle bool) (letGo bool) {
	if !idle {
		*r = Pauses{}
		return false
	}
	if r.calm == 0 {
		r.calmSince = now
	}
	r.calm++
	// After a pause in which no card fell asleep, one idle reading is enough.
	if r.pause == 0 && (r.calm < CalmReadings || now.Sub(r.calmSince) < CalmTime) {
		return false
	}
	r.pause = min(max(FirstPause, 2*r.pause), LongestPause)
	r.until, r.calm, r.slept = now.Add(r.pause), 0, nil
	return true
}

// Pausing reports whether a pause is running. A sleeping card that wakes ends the pause.
func (r *Pauses) Pausing(now time.Time, cards []Card) bool {
	if !now.Before(r.until) {
		return false
	}
	for _, c := range cards {
		switch was := slices.Contains(r.slept, c.Address); {
		case c.Asleep() && !was:
			r.slept = append(r.slept, c.Address)
		case !c.Asleep() && was:
			*r = Pauses{}
			return false
		}
	}
	return true
}

// Idle reports whether nothing seems to need the device.
func Idle(d *gpu.Device) bool {
	if d.State == gpu.StateAsleep {
		return true
	}
	if len(d.Health.Standing()) > 0 {
		return false // people must be able to see that it is over
	}
	busy, ok := d.Utilization.GPU.Get()
	processes, listed := d.Processes.Get()
	return d.State == gpu.StateOK && ok && busy == 0 && listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics })
}

// LeftAlone is why an awake device has no readings during a pause.
var LeftAlone = gpu.Advice{
	What: "the device is idle, and gpuwhy leaves it alone so that it can go to sleep",
	Try:  "no action needed: gpuwhy reads it again soon",
}
