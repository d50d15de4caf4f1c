//go:build !race

package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A stage is the whole program but for its sampler: pages, routes, hub and
// memory are the real ones, and a test puts on what they show.
type stage struct {
	*app.App
	t        testing.TB
	url      string // ends with a slash
	interval time.Duration
}

// newStage serves on a free port until the test ends. Its machines are those of a simulation. A page takes
// an hour as the time between readings, or the interval given.
func newStage(t testing.TB, profile string, interval ...time.Duration) *stage {
	t.Helper()
	nodes, err := sim.Nodes(profile, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, interval: append(interval, time.Hour)[0]}
	opt := app.Options{
		Version: "v1.0.0", Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, MaxViewers: 1000,
		Interval: s.interval, Deadline: 2 * time.Second, AlertUtilization: 50, Node: profile,
	}
	var inputs []*reading.Inputs
	for _, node := range nodes {
		inputs = append(inputs, &reading.Inputs{Node: node.Node(), Sources: []sampler.Source{node}})
	}
	if s.App, err = app.New(opt, inputs, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(s.Handler())
	s.url = served.URL + "/"
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		served.Close()
	})
	return s
}

// A player is an actor in a test.
type player struct {
	*actor
	t testing.TB
}

// next is what its machines are like a while later.
func (p *player) next(later time.Duration) []*gpu.Snapshot {
	p.t.Helper()
	all, err := p.actor.next(later)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// newPlayer begins a play at a moment, as if that were this one of ours.
func newPlayer(t testing.TB, profile string, moment, ours time.Time) *player {
	t.Helper()
	a, err := newActor(profile, moment, ours)
	if err != nil {
		t.Fatal(err)
	}
	return &player{a, t}
}

// playPast publishes what simulated machines were like until now: the moment of
// their play, and the span before it.
func (s *stage) playPast(profile string, moment time.Time, span time.Duration) *player {
	s.t.Helper()
	p := newPlayer(s.t, profile, moment.Add(-span), time.Now().Add(-span))
	for range span / s.interval {
		s.publish(p.next(s.interval))
	}
	return p
}

// publish publishes readings of several machines.
func (s *stage) publish(all []*gpu.Snapshot) {
	for _, snap := range all {
		s.Publish(snap)
	}
}
