package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
	"github.com/gpuwhy/gpuwhy/views"
)

// A stage is the whole program but for its sampler: pages, routes, hub and
// memory are the real ones, and a test puts on what they show.
type stage struct {
	*app
	t   testing.TB
	url string // ends with a slash
}

// newStage serves on a free port with the flags given, until the test ends.
func newStage(t testing.TB, args ...string) *stage {
	t.Helper()
	var cmd commands
	var says strings.Builder
	args = append([]string{"--listen=127.0.0.1:0", "--source=simulate:rtx-4090", "--interval=1h"}, args...)
	if parsed, _ := parse(&cmd, args, &says, &says); parsed == nil {
		t.Fatal(says.String())
	}
	if err := cmd.check(); err != nil {
		t.Fatal(err)
	}
	a, err := newApp(&cmd.Config, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", cmd.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.remember(ctx) })
	running.Go(func() {
		if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if err := a.shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
	})
	return &stage{app: a, t: t, url: ownURL(ln.Addr().String(), cmd.BasePath)}
}

// show publishes a made-up machine of package views, as of now.
func (s *stage) show(name string) {
	s.t.Helper()
	for _, e := range views.Examples(time.Now()) {
		if e.Name == name {
			if e.Snapshot != nil {
				s.hub.Publish(e.Snapshot)
			}
			return
		}
	}
	s.t.Fatalf("there is no example %q", name)
}

// An actor plays a simulated machine, one moment after the other.
type actor struct {
	source *sim.Source
	now    time.Time
	seq    uint64
}

func newActor(t testing.TB, profile string, begin time.Time) *actor {
	t.Helper()
	a := &actor{now: begin}
	source, err := sim.New(profile, func() time.Time { return a.now })
	if err != nil {
		t.Fatal(err)
	}
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
	snap.Seq, snap.Time, snap.Node, snap.Source = a.seq, a.now.UTC(), a.source.Node(), gpu.SourceSimulated
	return snap
}
