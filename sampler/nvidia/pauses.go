package nvidia

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// When a machine is left alone.
const (
	// A pause begins when the machine was idle for so many readings, over so
	// long a time.
	CalmReadings = 3
	CalmTime     = 10 * time.Second
	// FirstPause is longer than a driver takes to power an idle card down.
	FirstPause   = 20 * time.Second
	LongestPause = 2 * time.Minute
)

// Pauses decides when a machine is not read, so that its cards can fall asleep. Each
// pause in which no card did is twice as long as the one before.
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

// Pausing reports whether there is a pause, which ends when a sleeping card wakes.
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
		return false // whoever looks must be able to see that it is over
	}
	busy, ok := d.Utilization.GPU.Get()
	processes, listed := d.Processes.Get()
	return d.State == gpu.StateOK && ok && busy == 0 && listed && !d.Modes.DisplayActive.Or(false) &&
		!slices.ContainsFunc(processes, func(p gpu.Process) bool { return p.Type != gpu.TypeGraphics })
}

// LeftAlone is why a device that is awake has no readings in a pause.
var LeftAlone = gpu.Advice{
	What: "the device is idle, and gpuwhy leaves it alone so that it can go to sleep",
	Try:  "no action needed: gpuwhy reads it again soon",
}
