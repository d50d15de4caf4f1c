package reading

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// watched reports whether somebody looks, or has asked within the last two intervals, so that a program that asks once each
// interval keeps it.
func (r *Room) watched() bool {
	if r.Watched() {
		return true
	}
	asked := time.Duration(r.asked.Load())
	return asked > 0 && r.Clock.Elapsed()-asked <= 2*r.Interval
}

// Noticed has the nodes read at the usual interval again as soon as somebody asks, but for those who ask only
// or static files.
func (r *Room) Noticed(request *http.Request) {
	path := "/" + strings.TrimPrefix(request.URL.Path, r.BasePath)
	if r.Idle == 0 || strings.HasPrefix(path, "/health") || strings.HasSuffix(path, "/api/health") || strings.HasPrefix(path, "/static/") {
		return
	}
	r.asked.Store(int64(r.Clock.Elapsed()))
	for _, n := range r.all() {
		n.sampler.Watch()
	}
	r.afterRest(request.Context(), auth.FromRequest(request))
}

// longestWait is how long the first request after a pause waits for a reading.
const longestWait = time.Second

// afterRest waits for a reading if the newest is from a time when nobody looked. Otherwise somebody who
// asks seldom would always get an old one.
func (r *Room) afterRest(ctx context.Context, asker auth.Principal) {
	newest := r.Hub.Newest().Nodes()
	if len(newest) == 0 || r.Clock.Now().Sub(newest.Time()) <= 2*r.Interval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	if _, err := r.Do(ctx, action.Call{Action: refresh, Principal: asker}); err != nil {
		r.Log.Debug("no reading arrived in time for the first request after a pause", "err", err)
	}
}
