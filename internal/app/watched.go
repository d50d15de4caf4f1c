package app

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// watched reports whether somebody is looking: a viewer is connected, or a request came within the last two intervals,
// so that a program that asks once per interval keeps the interval.
func (a *App) watched() bool {
	if a.Hub.Stats().Viewers > 0 || a.uplink != nil { // the whole fleet looks
		return true
	}
	asked := time.Duration(a.asked.Load())
	return asked > 0 && a.opt.Clock.Elapsed()-asked <= 2*a.opt.Interval
}

// noticing returns the nodes to the usual interval when somebody asks for something other than gpuwhy's health
// or static files.
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

// longestWait is how long the first request after a pause waits for a reading.
const longestWait = time.Second

// afterRest waits for a reading if the newest is from a time when nobody looked. Otherwise somebody who
// asks seldom would always get an old one.
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
