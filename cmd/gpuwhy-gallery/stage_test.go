package main

import (
	"context"
	"log/slog"
	"math"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A stage is the whole program but for its sampler: pages, routes, hub and
// memory are the real ones, and a test puts on what they show.
type stage struct {
	*app.App
	t   testing.TB
	url string // ends with a slash
}

// newStage serves on a free port until the test ends. A page takes an hour as the
// time between readings, or the interval given.
func newStage(t testing.TB, interval ...time.Duration) *stage {
	t.Helper()
	nodes, err := sim.Nodes("rtx-4090", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	source := nodes[0]
	opt := app.Options{
		Version: "test", Address: server.Address{Listen: "127.0.0.1:0", BasePath: "/"}, MaxViewers: 1000,
		Interval: append(interval, time.Hour)[0], Deadline: 2 * time.Second, AlertUtilization: 50,
	}
	a, err := app.New(opt, []*app.Inputs{{Node: source.Node(), Sources: []sampler.Source{source}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(a.Handler())
	ctx, cancel := context.WithCancel(context.Background())
	var remembering sync.WaitGroup
	remembering.Go(func() {
		for snap := range a.Hub.Feed(ctx) {
			a.Recent.Add(snap.Snapshot)
		}
	})
	t.Cleanup(func() {
		if err := a.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		remembering.Wait()
		server.Close()
	})
	return &stage{App: a, t: t, url: server.URL + "/"}
}

// show publishes a made-up machine, as of now.
func (s *stage) show(name string) {
	s.t.Helper()
	if e := fixture.Named(name, time.Now()); e.Snapshot != nil {
		s.Publish(e.Snapshot)
	}
}

// An actor plays a simulated machine, one moment after the other. Its day may
// be another than ours: what it says is of our time.
type actor struct {
	source *sim.Source
	now    time.Time     // of its play
	ahead  time.Duration // our time less that of its play
	seq    uint64
}

// newActor begins its play at a moment, as if that were this one of ours.
func newActor(t testing.TB, profile string, moment, ours time.Time) *actor {
	t.Helper()
	a := &actor{now: moment, ahead: ours.Sub(moment)}
	nodes, err := sim.Nodes(profile, func() time.Time { return a.now })
	if err != nil {
		t.Fatal(err)
	}
	source := nodes[0]
	a.source = source
	return a
}

// next is what the machine is like a while later.
func (a *actor) next(t testing.TB, later time.Duration) *gpu.Snapshot {
	t.Helper()
	a.now = a.now.Add(later)
	snap, err := a.source.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.seq++
	snap.Seq, snap.Time, snap.Node, snap.Source = a.seq, a.now.Add(a.ahead).UTC(), a.source.Node(), gpu.SourceSimulated
	for i := range snap.Devices {
		d := &snap.Devices[i]
		d.Index, d.Node = i, snap.Node
		d.Since, d.SampledAt = a.moved(d.Since), a.moved(d.SampledAt)
		for j := range d.Processes.Or(nil) {
			facts := &d.Processes.Or(nil)[j].Facts
			facts.Started = gpu.Map(facts.Started, a.moved)
		}
	}
	return snap
}

// moved is a time of its play as one of ours.
func (a *actor) moved(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(a.ahead)
}

// playPast publishes what a simulated machine was like until now: the moment of
// its play, and the span before it.
func (s *stage) playPast(profile string, moment time.Time, span, interval time.Duration) *actor {
	s.t.Helper()
	a := newActor(s.t, profile, moment.Add(-span), time.Now().Add(-span))
	for range span / interval {
		snap := a.next(s.t, interval)
		s.Recent.Add(snap)
		s.Alerts.Observe(s.Publish(snap))
	}
	return a
}

// loudest returns the moment of a simulated day at which the machine is busiest
// and was quieter ten minutes before.
func loudest(t *testing.T, profile string) time.Time {
	t.Helper()
	day := time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)
	a := newActor(t, profile, day, day)
	const step = time.Minute
	var power []gpu.Watts
	var best time.Time
	most := gpu.Watts(math.Inf(-1))
	for range 12 * time.Hour / step {
		var sum gpu.Watts
		for _, d := range a.next(t, step).Devices {
			sum += d.Power.Draw.Or(0)
		}
		if power = append(power, sum); len(power) <= 10 {
			continue
		}
		if risen := sum - power[len(power)-11]/2; risen > most {
			most, best = risen, a.now
		}
	}
	return best
}
