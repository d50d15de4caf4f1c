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

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A scene is one or more machines in some state. Only its readings are made up.
type scene struct {
	example  string                          // of [fixture.Examples]
	plays    string                          // a simulation, in place of an example
	nodes    int                             // so many of [fixture.Nodes], in place of an example
	wrong    bool                            // something is wrong with some of those
	begins   time.Time                       // of its day, at which the scene is born
	past     time.Duration                   // for which it was read before; an example goes up and down. Zero: charts begin empty
	steady   bool                            // an example does not go up and down: change makes its past
	recorded bool                            // it is a recording
	away     bool                            // nothing was read for a minute of the past
	still    time.Duration                   // the age of its only reading; zero: it is read again and again
	change   func(*gpu.Snapshot, moment)     // of each machine; may be nil
	rules    func() []alert.Rule             // nil: the default rules
	begun    func(*app.App) error            // does what a person would have done, such as silencing an alert; may be nil
	behave   func(http.Handler) http.Handler // makes the server behave badly; nil: it works
}

// A moment is a time at which a scene is read.
type moment struct {
	born, now time.Time
	beat      int  // readings since born; negative in the past
	page      bool // whether the reading is what a page begins with
}

// ago is how long before the scene's birth that was; negative later on.
func (m moment) ago() time.Duration { return m.born.Sub(m.now) }

// madeUp is the source of the readings of scenes.
const madeUp = "made up"

// A playing is a running scene.
type playing struct {
	*scene
	*app.App
	opt   app.Options
	born  time.Time
	base  *gpu.Snapshot  // nil: there is never a reading
	actor *actor         // in place of base
	fleet []fixture.Node // in place of base

	mu    sync.Mutex // locked while a reading is made and published
	seq   uint64
	shown moment // what the newest reading is of
}

// perform begins a scene with its past.
func perform(scene *scene, opt app.Options, log *slog.Logger) (*playing, error) {
	p := &playing{scene: scene, opt: opt, born: opt.Clock.Now().UTC()}
	nodes := []string{madeUp}
	var err error
	if scene.nodes > 0 {
		p.fleet, nodes = fixture.Nodes(p.born, scene.nodes, scene.wrong), nil
		for i := range p.fleet {
			nodes = append(nodes, p.fleet[i].Node)
		}
	} else if scene.plays == "" {
		p.base = fixture.Named(scene.example, p.born).Snapshot
	} else {
		begin := scene.past + opt.Interval
		if p.actor, err = newActor(scene.plays, scene.begins.Add(-begin), p.born.Add(-begin)); err != nil {
			return nil, err
		}
		nodes = nil
		for _, node := range p.actor.nodes {
			nodes = append(nodes, node.Node())
		}
	}
	var inputs []*reading.Inputs
	for i, node := range nodes {
		src := source{p, node}
		var place insight.Place
		if p.fleet != nil {
			place = insight.Place{Cluster: p.fleet[i].Cluster, Labels: p.fleet[i].Labels}
		}
		inputs = append(inputs, &reading.Inputs{Node: node, Place: place, Sources: []sampler.Source{src}, Refresh: src.Read})
	}
	if p.App, err = app.New(opt, inputs, log); err != nil {
		return nil, err
	}
	if scene.rules != nil {
		app.Find[*alerts.Room](p.App).Book.SetRules(scene.rules(), p.born)
	}
	for ago := scene.past; ago > 0; ago -= opt.Interval {
		if !scene.away || ago < 9*time.Minute || ago > 10*time.Minute {
			if err := p.show(p.born.Add(-ago), false); err != nil {
				return nil, err
			}
		}
	}
	if err := p.show(p.born.Add(-scene.still), false); err != nil {
		return nil, err
	}
	if scene.begun != nil {
		if err := scene.begun(p.App); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// A source reads a machine of a scene.
type source struct {
	*playing
	node string
}

// Name implements [sampler.Source].
func (s source) Name() string {
	switch {
	case s.actor != nil, s.fleet != nil:
		return gpu.SourceSimulated
	case s.recorded:
		return gpu.SourceRecorded
	}
	return madeUp
}

// Close implements [sampler.Source].
func (source) Close() error { return nil }

// Read is the machine as it is now.
func (s source) Read(context.Context) (*gpu.Snapshot, error) {
	if s.empty() || s.still > 0 {
		return nil, errors.New("this gallery machine is no longer read")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.snapshots(s.now(), false)
	if err != nil {
		return nil, err
	}
	return all[max(slices.IndexFunc(all, func(snap *gpu.Snapshot) bool { return snap.Node == s.node }), 0)], nil
}

func (p *playing) now() time.Time { return p.opt.Clock.Now().UTC() }

// empty reports whether there is never a reading.
func (p *playing) empty() bool { return p.actor == nil && p.base == nil && p.fleet == nil }

// show reads the machines and publishes the readings. A request for anything but a
// page reuses the last reading if it is recent.
func (p *playing) show(now time.Time, page bool) error {
	if p.empty() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	page = page && p.actor == nil
	if !page && !p.shown.page && now.Sub(p.shown.now) < p.opt.Interval/2 {
		return nil
	}
	all, err := p.snapshots(now, page)
	for _, snap := range all {
		m := p.Publish(snap)
		if i := slices.IndexFunc(p.fleet, func(n fixture.Node) bool { return n.Node == snap.Node }); i >= 0 {
			if n := &p.fleet[i]; !n.Silent.IsZero() || n.Notes != nil {
				p.Hub.Publish(m.At(m.Place, insight.Link{Remote: true, Silent: n.Silent, Why: n.Why, Notes: n.Notes}))
			}
		}
	}
	return err
}

// snapshots are the machines at a moment. The caller holds mu.
func (p *playing) snapshots(now time.Time, page bool) ([]*gpu.Snapshot, error) {
	p.shown = moment{p.born, now, int(math.Floor(now.Sub(p.born).Seconds() / p.opt.Interval.Seconds())), page}
	var all []*gpu.Snapshot
	if p.actor != nil {
		var err error
		if all, err = p.actor.next(now.Sub(p.actor.now.Add(p.actor.ahead))); err != nil {
			return nil, err
		}
	} else if p.fleet != nil {
		p.seq++
		for i := range p.fleet {
			n := &p.fleet[i]
			if n.Silent.IsZero() {
				all = append(all, p.snapshot(n.Snapshot, now))
			} else if p.seq == 1 { // what was last heard of it
				all = append(all, p.snapshot(n.Snapshot, n.Silent))
			}
		}
	} else {
		p.seq++
		all = []*gpu.Snapshot{p.snapshot(p.base, now)}
	}
	if p.change != nil {
		for _, s := range all {
			p.change(s, p.shown)
		}
	}
	return all, nil
}

// snapshot is an example at a time. The caller holds mu.
func (p *playing) snapshot(original *gpu.Snapshot, now time.Time) *gpu.Snapshot {
	s := *original
	s.Seq, s.Time, s.Devices = p.seq, now, slices.Clone(s.Devices)
	if s.Kind() == gpu.Live {
		s.Source = madeUp
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.State != gpu.StateOK {
			continue
		}
		d.SampledAt = now
		if p.past > 0 && !p.steady {
			sway(d, now)
		}
	}
	return &s
}

// sway makes readings of a device go up and down, as work does.
func sway(d *gpu.Device, now time.Time) {
	wave := 0.75 + 0.25*math.Sin(float64(now.UnixMilli())/1000/float64(29+7*(d.Index%7))+float64(d.Index))
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
			if p.still > 0 || p.Hub.Stats().Viewers == 0 {
				continue
			}
			if err := p.show(p.now(), false); err != nil {
				return errors.Join(err, p.Shutdown(context.WithoutCancel(ctx)))
			}
		}
	}
}

// ServeHTTP reads the machine and answers the request.
func (p *playing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, p.opt.BasePath)
	if p.still == 0 && !strings.HasPrefix(path, "static/") {
		page := path != "ws" && !strings.HasPrefix(path, "api/")
		if err := p.show(p.now(), page); err != nil {
			http.Error(w, "this scene can't continue", http.StatusInternalServerError)
			return
		}
	}
	h := p.Handler()
	if p.behave != nil {
		h = p.behave(h)
	}
	h.ServeHTTP(w, r)
}

// refusing answers like a broken server: it refuses sockets, or pages that scripts request.
func refusing(sockets, pages bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			socket, asked := strings.HasSuffix(r.URL.Path, "/ws"), r.Header.Get("Sec-Fetch-Dest") == "empty" // by a script
			if sockets && socket || pages && asked && !socket {
				http.Error(w, "this gallery state refuses the request", http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// mute does not answer requests for a socket.
func mute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/ws") {
			next.ServeHTTP(w, r)
			return
		}
		<-r.Context().Done() // the client has left
	})
}

// forgetful doesn't know the alert that a request names.
func forgetful(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before, after, ok := strings.Cut(r.URL.Path, "/api/alerts/"); ok && r.Method == http.MethodPost {
			_, what, _ := strings.Cut(after, "/")
			r.URL.Path = before + "/api/alerts/forgotten/" + what
		}
		next.ServeHTTP(w, r)
	})
}

// scriptless keeps browsers from running scripts.
func scriptless(next http.Handler) http.Handler {
	const sandbox = "; sandbox allow-same-origin"
	return amend(func(h http.Header) { h.Set(policyHeader, strings.TrimSuffix(h.Get(policyHeader), sandbox)+sandbox) }, next)
}
