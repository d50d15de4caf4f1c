package drm

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	calmReadings = 3
	calmTime     = 10 * time.Second
	firstPause   = 20 * time.Second // longer than a driver takes to power an idle card down
	longestPause = 2 * time.Minute
)

// A Rest decides when a card is not read, so that it can fall asleep: each reading starts
// the driver's wait for that anew. A pause begins when the card was idle for some readings.
// Each pause in which the card did not fall asleep is twice as long as the one before.
type Rest struct {
	calm  int // idle readings in a row
	since time.Time
	until time.Time // the end of the pause
	pause time.Duration
}

// Pausing reports whether the card is not to be read now. One that has slept and is awake
// is read at once: call Awake for it.
func (r *Rest) Pausing(now time.Time) bool { return now.Before(r.until) }

// Awake ends a pause, and forgets the ones before.
func (r *Rest) Awake() { *r = Rest{} }

// Note records a reading of a card that may fall asleep, and whether nothing needs it.
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

// LeftAlone is why a card that is awake has no new readings in a pause.
var LeftAlone = gpu.Advice{
	What: "the device is idle, and gpuwhy leaves it alone so that it can go to sleep",
	Try:  "no action needed: gpuwhy reads it again soon",
}
