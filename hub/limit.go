package hub

import (
	"time"

	"golang.org/x/time/rate"
)

// limits are how fast one viewer may send.
type limits struct {
	requests *rate.Limiter // request_gpu_update
	others   *rate.Limiter // all other messages
	// patience is for messages that are refused. If a viewer goes on anyway, its
	// connection ends.
	patience *rate.Limiter
}

func newLimits() limits {
	return limits{requests: rate.NewLimiter(2, 5), others: rate.NewLimiter(20, 50), patience: rate.NewLimiter(10, 500)}
}

// A verdict says what happens to a message.
type verdict int

const (
	served verdict = iota
	limited
	storm // the connection ends
)

func (l *limits) judge(event string, now time.Time) verdict {
	of := l.others
	if event == eventRequest {
		of = l.requests
	}
	switch {
	case of.AllowN(now, 1):
		return served
	case l.patience.AllowN(now, 1):
		return limited
	default:
		return storm
	}
}
