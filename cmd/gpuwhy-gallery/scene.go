package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A scene is a machine in some state. Only its readings are made up.
type scene struct {
	example string                          // of [fixture.Examples]
	past    time.Duration                   // for which it was read before, up and down; zero: charts begin empty
	away    bool                            // nothing was read for a minute of the past
	still   time.Duration                   // the age of its only reading; zero: it is read again and again
	change  func(*gpu.Snapshot, moment)     // of the example; may be nil
	rules   func() []alert.Rule             // nil: the default rules
	begun   func(*app.App) error            // does what a person would have done, such as silencing an alert; may be nil
	behave  func(http.Handler) http.Handler // makes the server behave badly; nil: it works
}

// A moment is a time at which a scene is read.
type moment struct {
	born, at time.Time
	beat     int  // readings since born; negative in the past
	page     bool // whether the reading is what a page begins with
}

// madeUp is the source of the readings of scenes.
const madeUp = "made up"

// A playing is a scene that runs.
type playing struct {
	*scene
	*app.App
	opt  app.Options
	born time.Time
	base *gpu.Snapshot // nil: there is never a reading

	mu    sync.Mutex // locked while a reading is made and published
	seq   uint64
	shown moment // what the newest reading is of
}

// perform begins a scene with its past.
func perform(of *scene, opt app.Options, log *slog.Logger) (*playing, error) {
	p := &playing{scene: of, opt: opt, born: time.Now().UTC()}
	p.base = fixture.Named(of.example, p.born).Snapshot
	in := &app.Inputs{Node: madeUp, Sources: []sampler.Source{p}, Refresh: p.Read}
	var err error
	if p.App, err = app.New(opt, []*app.Inputs{in}, log); err != nil {
		return nil, err
	}
	if of.rules != nil {
		p.Alerts.SetRules(of.rules(), p.born)
	}
	for ago := of.past; ago > 0 && p.base != nil; ago -= opt.Interval {
		if !of.away || ago < 9*time.Minute || ago > 10*time.Minute {
			p.show(p.born.Add(-ago), false)
		}
	}
	p.show(p.born.Add(-of.still), false)
	if of.begun != nil {
		if err := of.begun(p.App); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Name implements [sampler.Source].
func (p *playing) Name() string { return madeUp }

// Close implements [sampler.Source].
func (p *playing) Close() error { return nil }

// Read is the machine as it is now.
func (p *playing) Read(context.Context) (*gpu.Snapshot, error) {
	if p.base == nil || p.still > 0 {
		return nil, errors.New("this machine of the gallery is read no more")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot(time.Now().UTC(), false), nil
}

// show reads the machine and publishes the reading. A request for anything but a
// page uses the last reading if that is recent.
func (p *playing) show(at time.Time, page bool) {
	if p.base == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !page && !p.shown.page && at.Sub(p.shown.at) < p.opt.Interval/2 {
		return
	}
	snap := p.snapshot(at, page)
	p.Publish(snap)
}

// snapshot is the machine at a moment. The caller holds mu.
func (p *playing) snapshot(at time.Time, page bool) *gpu.Snapshot {
	p.shown = moment{p.born, at, int(math.Floor(at.Sub(p.born).Seconds() / p.opt.Interval.Seconds())), page}
	s := *p.base
	p.seq++
	s.Seq, s.Time, s.Devices = p.seq, at, slices.Clone(s.Devices)
	if s.Kind() == gpu.Live {
		s.Source = madeUp
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.State != gpu.StateOK {
			continue
		}
		d.SampledAt = at
		if p.past > 0 {
			sway(d, at)
		}
	}
	if p.change != nil {
		p.change(&s, p.shown)
	}
	return &s
}

// sway makes readings of a device go up and down, as work does.
func sway(d *gpu.Device, at time.Time) {
	wave := 0.75 + 0.25*math.Sin(float64(at.UnixMilli())/1000/float64(29+7*(d.Index%7))+float64(d.Index))
	d.Utilization.GPU = gpu.Map(d.Utilization.GPU, func(v gpu.Percent) gpu.Percent { return v * gpu.Percent(wave) })
	d.Thermal.GPU = gpu.Map(d.Thermal.GPU, func(v gpu.Celsius) gpu.Celsius { return v - 9 + gpu.Celsius(9*wave) })
	d.Power.Draw = gpu.Map(d.Power.Draw, func(v gpu.Watts) gpu.Watts { return v * gpu.Watts(wave) })
	d.Clocks.SM = gpu.Map(d.Clocks.SM, func(v gpu.Megahertz) gpu.Megahertz { return v * gpu.Megahertz(wave) })
}

// run reads the machine for open pages, until ctx ends.
func (p *playing) run(ctx context.Context) error {
	tick := time.NewTicker(p.opt.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return p.Shutdown(context.WithoutCancel(ctx))
		case <-tick.C:
			if p.still == 0 && p.Hub.Stats().Viewers > 0 {
				p.show(time.Now().UTC(), false)
			}
		}
	}
}

// ServeHTTP reads the machine and answers the request.
func (p *playing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, p.opt.BasePath)
	page := path == "" || path == "alerts" || strings.HasPrefix(path, "gpu/GPU-")
	if p.still == 0 && !strings.HasPrefix(path, "static/") {
		p.show(time.Now().UTC(), page)
	}
	h := p.Handler()
	if p.behave != nil {
		h = p.behave(h)
	}
	h.ServeHTTP(w, r)
}

// refusing answers requests whose path ends like this as a broken server does.
func refusing(ends ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) }) {
				http.Error(w, "this state of the gallery refuses it", http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// mute accepts WebSockets, and sends nothing.
func mute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/ws") {
			next.ServeHTTP(w, r)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it has been answered
		}
		defer conn.CloseNow()
		for err == nil {
			_, _, err = conn.Read(r.Context())
		}
	})
}

// forgetful does not know the alerts that a request names.
func forgetful(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before, after, ok := strings.Cut(r.URL.Path, "/api/alerts/"); ok && r.Method == http.MethodPost {
			_, what, _ := strings.Cut(after, "/")
			r.URL.Path = before + "/api/alerts/forgotten/" + what
		}
		next.ServeHTTP(w, r)
	})
}

// scriptless lets browsers run no script.
func scriptless(next http.Handler) http.Handler {
	const sandbox = "; sandbox allow-same-origin"
	return amend(func(h http.Header) { h.Set(policyHeader, strings.TrimSuffix(h.Get(policyHeader), sandbox)+sandbox) }, next)
}
