package app

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// watched reports whether somebody looks: a viewer is connected, or somebody has asked within the last two intervals,
// so that a program that asks once each interval keeps it.
func (a *App) watched() bool {
	if a.Hub.Stats().Viewers > 0 || a.uplink != nil { // the whole fleet looks
		return true
	}
	asked := time.Duration(a.asked.Load())
	return asked > 0 && a.opt.Clock.Elapsed()-asked <= 2*a.opt.Interval
}

// noticing has the nodes read at the usual interval again as soon as somebody asks, but for those who ask only
// whether gpuwhy is well, and for files that are always the same.
func (a *App) noticing(r *http.Request) {
	path := "/" + strings.TrimPrefix(r.URL.Path, a.opt.BasePath)
	if a.opt.IdleInterval == 0 || strings.HasPrefix(path, "/health") || strings.HasSuffix(path, "/api/health") || strings.HasPrefix(path, "/static/") {
		return
	}
	a.asked.Store(int64(a.opt.Clock.Elapsed()))
	for _, n := range a.local.all() {
		n.sampler.Watch()
	}
	a.afterRest(r.Context(), auth.FromRequest(r))
}

// longestWait is how long the first who asks waits for a reading.
const longestWait = time.Second

// afterRest waits for a reading where the newest is of a time when nobody looked: who asks seldom
// would get one of that time each time.
func (a *App) afterRest(ctx context.Context, asker auth.Principal) {
	newest := a.Hub.Newest().Nodes()
	if len(newest) == 0 || a.opt.Clock.Now().Sub(newest.Time()) <= 2*a.opt.Interval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	if _, err := a.desk.Run(ctx, action.Call{Action: refresh, Principal: asker}); err != nil {
		a.log.Debug("no reading arrived in time for the first request after a pause", "err", err)
	}
}

// longest is the longest time between two readings.
func (o *Options) longest() time.Duration { return max(o.Interval, o.IdleInterval) }
