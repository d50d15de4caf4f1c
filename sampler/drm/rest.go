package drm

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	calmReadings = 3
	calmTime     = 10 * time.Second
	firstPause   = 20 * time.Second // longer than a driver needs to power down an idle card
	longestPause = 2 * time.Minute
)

// A Rest decides when a card is not read, so that it can fall asleep: each reading restarts the driver's countdown. A pause begins after
// some idle readings. If the card did not fall asleep in a pause, the next pause is twice as long.
type Rest struct {
	calm  int // idle readings in a row
	since time.Time
	until time.Time // the end of the pause
	pause time.Duration
}

// Pausing reports whether to leave the card alone now. A card that was asleep and is now awake is read at once: call Awake for it.
func (r *Rest) Pausing(now time.Time) bool { return now.Before(r.until) }

// Awake ends a pause, and forgets earlier ones.
func (r *Rest) Awake() { *r = Rest{} }

// Note records a reading of a card that may fall asleep; idle means that nothing needs it.
func (r *Rest) Note(now time.Time, idle bool) {
	if !idle {
		r.Awake()
		return
	}
	if r.calm == 0 {
		r.since = now
	}
	r.calm++
	if r.pause == 0 && (r.calm < calmReadings || now.Sub(r.since) < calmTime) {
		return
	}
	r.pause = min(max(firstPause, 2*r.pause), longestPause)
	r.until, r.calm = now.Add(r.pause), 0
}

// LeftAlone is why an awake card has no new readings during a pause.
var LeftAlone = gpu.Advice{
	What: "the device is idle, and gpuwhy leaves it alone so that it can go to sleep",
	Try:  "no action needed: gpuwhy reads it again soon",
}
