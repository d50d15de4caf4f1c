//go:build !race

package story

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/amd"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/host"
	"github.com/gpuwhy/gpuwhy/sampler/intel"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A silent listener gets no connection: stories ask the program itself.
type silent chan struct{}

func (s silent) Accept() (net.Conn, error) { <-s; return nil, net.ErrClosed }
func (s silent) Close() error              { close(s); return nil }
func (s silent) Addr() net.Addr            { return &net.UnixAddr{Name: "silent", Net: "unix"} }

// cardless is the source of a machine that has no card.
type cardless struct{}

func (cardless) Name() string { return gpu.SourceNVML }
func (cardless) Close() error { return nil }
func (cardless) Read(context.Context) (*gpu.Snapshot, error) {
	return nil, &gpu.Advice{What: "there is no GPU in this machine", Try: "no action needed", Err: gpu.ErrNoCard}
}

// A program is gpuwhy as it serves, reading a story's machine.
type program struct {
	*app.App
	stop func() error
	feed chan *insight.Moment
}

func (m *machine) start(dir string, every time.Duration) (*program, error) {
	log := slog.New(slog.DiscardHandler)
	reader := host.NewAt(m.root, host.ShowNames, log)
	in := &reading.Inputs{Node: "box", Origin: "auto", Host: reader, Sources: m.sources(every, log)}
	if len(m.story.GPUs) == 0 {
		in.Sources = []sampler.Source{cardless{}}
	}
	a, err := app.New(app.Options{
		Version: "story", Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, MaxViewers: 1,
		Interval: every, Deadline: 2 * time.Second, AlertUtilization: 50, StateDir: dir, Clock: m.clock.clock(),
	}, []*reading.Inputs{in}, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{App: a, feed: make(chan *insight.Moment)}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, make(silent), nil) }()
	go func() {
		defer close(p.feed)
		for moment := range a.Hub.Feed(ctx) {
			select {
			case p.feed <- moment:
			case <-ctx.Done():
			}
		}
	}()
	p.stop = func() error {
		cancel()
		err := <-ended
		for range p.feed { // until it is closed
		}
		return err
	}
	return p, nil
}

// sources are those of the vendors whose cards the machine has.
func (m *machine) sources(every time.Duration, log *slog.Logger) (all []sampler.Source) {
	add := func(s sampler.Source) { all = append(all, &setSource{s, m.clock}) }
	shows := func(vendor string) bool {
		return slices.ContainsFunc(m.story.GPUs, func(p Product) bool { return p.Vendor == vendor })
	}
	if m.fake != nil {
		add(nvml.New(nvml.Config{
			LibraryPath: m.library.Path(), SysfsRoot: m.fake.SysfsRoot, ProcRoot: m.fake.ProcRoot,
			Deadline: deadline, Window: max(every, 2*time.Second), Log: log,
		}))
	}
	sysfs, proc := m.drm.Sysfs, m.drm.Proc
	holders := drm.NewHolders(proc, sysfs)
	if shows("amd") {
		add(amd.New(amd.Config{SysfsRoot: sysfs, ProcRoot: proc, Deadline: deadline, Holders: holders, Log: log}))
	}
	if shows("intel") {
		add(intel.New(intel.Config{SysfsRoot: sysfs, ProcRoot: proc, Deadline: deadline, Holders: holders, Log: log}))
	}
	return all
}

// A seer is called for each reading of a story.
type seer func(scene int, elapsed time.Duration, m *machine, moment *insight.Moment)

// play plays a story, and calls see for each reading. Time is that of a bubble, which
// takes none, unless the story is of the kind that takes its time.
func play(t *testing.T, lib *fakenvml.Library, s *Story, see seer) {
	t.Helper()
	if s.RealTime {
		playNow(t, lib, s, see)
		return
	}
	synctest.Test(t, func(t *testing.T) { playNow(t, lib, s, see) })
}

// deadline is how long a driver's call may take.
const deadline = 2 * time.Second

// recovery is how long a story in real time is not judged after a reading that comes late: the machine stood still then, so calls
// of a healthy driver may have missed their deadline.
const recovery = 3 * deadline

func playNow(t *testing.T, lib *fakenvml.Library, s *Story, see seer) {
	every := s.Every.Duration
	before := 10 * time.Millisecond // a reading
	if s.RealTime {
		before = every / 5
	}
	m := newMachine(t, lib, s, time.Now().Add(s.Before.Duration+every))
	var p *program
	stop := func() {
		if p != nil {
			if err := p.stop(); err != nil {
				t.Error(err)
			}
		}
		p = nil
	}
	defer stop()
	dir := t.TempDir()
	elapsed, steady := -s.Before.Duration, -s.Before.Duration
	for i, sc := range s.Scenes {
		if sc.Gpuwhy != "" {
			stop()
		}
		if sc.Gpuwhy == "starts without state" {
			dir = t.TempDir()
		}
		if err := m.enter(i); err != nil {
			t.Fatal(err)
		}
		end := s.sceneStart[i] + sc.For
		for ; elapsed < end; elapsed += every {
			time.Sleep(time.Until(m.epoch.Add(elapsed - before)))
			m.show(elapsed)
			if p == nil {
				time.Sleep(time.Until(m.epoch.Add(elapsed)))
				var err error
				if p, err = m.start(dir, every); err != nil {
					t.Fatal(err)
				}
			}
			late := -time.Hour
			for slack := min(every, time.Second) / 2; late < -slack; { // those before were late
				moment, ok := <-p.feed
				if !ok {
					t.Fatal("the program ended")
				}
				late = m.clock.back(moment.Snapshot.Time).Sub(m.epoch.Add(elapsed))
				if s.RealTime && time.Since(m.epoch.Add(elapsed)) > slack {
					steady = elapsed + max(late, 0) + recovery
				}
				if late > slack {
					if !s.RealTime {
						t.Fatalf("at %v a reading came that is %v late", elapsed, late)
					}
					elapsed += late.Round(every) // the machine was busy, and readings were left out
				}
				if late >= -slack && elapsed < end && elapsed >= steady {
					see(i, elapsed, m, moment)
				}
			}
		}
	}
}
