package hub

import "time"

// A bucket allows burst at once and rate a second after that.
type bucket struct {
	burst, rate float64
	used        float64 // of burst, as of last
	last        time.Time
}

func (b *bucket) take(now time.Time) bool {
	if !b.last.IsZero() {
		b.used = max(0, b.used-b.rate*now.Sub(b.last).Seconds())
	}
	b.last = now
	if b.used+1 > b.burst {
		return false
	}
	b.used++
	return true
}

// limits are how fast one viewer may send.
type limits struct {
	requests bucket // request_gpu_update
	others   bucket // all other messages
	// patience is for what is refused: a viewer that goes on regardless is
	// disconnected.
	patience bucket
}

func newLimits() limits {
	return limits{
		requests: bucket{burst: 5, rate: 2},
		others:   bucket{burst: 50, rate: 20},
		patience: bucket{burst: 500, rate: 10},
	}
}

// A verdict is what becomes of a message.
type verdict int

const (
	served verdict = iota
	limited
	storm // the connection ends
)

func (l *limits) judge(event string, now time.Time) verdict {
	b := &l.others
	if event == eventRequest {
		b = &l.requests
	}
	switch {
	case b.take(now):
		return served
	case l.patience.take(now):
		return limited
	default:
		return storm
	}
}
