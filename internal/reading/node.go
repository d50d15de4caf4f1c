// Package reading reads the program's nodes, and makes Moments of them. A [Room] is the part of the program that serves; a
// [Reader] reads for a command that serves nothing.
package reading

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// Inputs are where the readings of one node come from.
type Inputs struct {
	Node  string // the name of the machine
	Place insight.Place
	// Origin says where the readings come from, in files that survive a restart:
	// "auto" for the real machine, "simulate:PROFILE" or "replay:DIR".
	Origin string
	// Sources read the devices, which are listed in this order; at least one.
	Sources []sampler.Source
	Guessed bool // nobody named the sources, see [sampler.Config]
	// Host reads the machine itself; nil for a simulation or a recording, which has its own.
	Host Host
	// KernelLog is that of the machine; nil for a simulation or a recording.
	KernelLog sampler.KernelLog
	// Deadline is how long a source has at least, if the program gives it less.
	Deadline time.Duration
	// Pace is the time between readings now, where that is not as the program reads others; nil where it is.
	Pace  func() time.Duration
	Notes []gpu.Advice // go into each snapshot
	// Earlier yields readings at an interval from before the program began, the oldest first; nil: there are none. Only a simulation can
	// have them.
	Earlier func(every time.Duration) iter.Seq[*gpu.Snapshot]
	// Refresh reads the machine on demand; nil if the sampler does that.
	Refresh func(context.Context) (*gpu.Snapshot, error)
}

// A Host reads the machine that the devices are in.
type Host interface {
	sampler.Host
	// Reserve says for whom devices are reserved, in place.
	Reserve([]gpu.Device)
	// Settle waits until container runtimes and the kubelet have answered.
	Settle(context.Context) error
	Close() error
}

// Close closes all inputs. Nobody may read them at the same time.
func (in *Inputs) Close() error {
	err := in.closeHost()
	if in.KernelLog != nil {
		err = errors.Join(err, in.KernelLog.Close())
	}
	for _, s := range in.Sources {
		err = errors.Join(err, s.Close())
	}
	return err
}

// CloseAll closes the inputs of several nodes.
func CloseAll(all []*Inputs) (err error) {
	for _, in := range all {
		err = errors.Join(err, in.Close())
	}
	return err
}

// closeHost closes the host, which the sampler does not close.
func (in *Inputs) closeHost() error {
	if in.Host == nil {
		return nil
	}
	return in.Host.Close()
}

// settle waits up to a second for the names of containers and for reservations, and puts those
// that are known by then into a snapshot that nobody has seen yet.
func (in *Inputs) settle(ctx context.Context, snap *gpu.Snapshot) {
	if in.Host == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := in.Host.Settle(waiting); err != nil && ctx.Err() != nil {
		return
	}
	in.Host.Reserve(snap.Devices)
	for i := range snap.Devices {
		in.Host.Describe(ctx, snap.Devices[i].Processes.Or(nil))
	}
}

// A node is one machine that is read: the pipeline from its inputs to Moments.
type node struct {
	*Inputs
	sampler *sampler.Sampler
	stage   insight.Stage
}

// A pace is how often a node is read; see [sampler.Config].
type pace struct {
	interval, idle time.Duration
	watched        func() bool
}

// newNode makes a node. It passes each periodic Moment to publish, and each Moment
// that was read on demand to hold. Nodes share what the stage remembers.
func newNode(in *Inputs, stage insight.Stage, every pace, deadline time.Duration, clock clock.Clock, log *slog.Logger, publish, hold func(*insight.Moment)) *node {
	if in.Host != nil {
		stage.Reserve = in.Host.Reserve
	}
	n := &node{Inputs: in, stage: stage}
	n.sampler = sampler.New(sampler.Config{
		Node:      in.Node,
		Interval:  every.interval,
		Idle:      every.idle,
		Watched:   every.watched,
		Deadline:  max(deadline, in.Deadline),
		Sources:   in.Sources,
		Guessed:   in.Guessed,
		Host:      in.Host,
		KernelLog: in.KernelLog,
		Notes:     in.Notes,
		Publish:   func(s *gpu.Snapshot) { publish(n.stage.Next(s).At(in.Place, in.link())) },
		Clock:     clock,
		Demanded:  func(s *gpu.Snapshot) { hold(n.stage.Beside(s).At(in.Place, in.link())) },
		Log:       log.With("part", "sampler"),
	})
	return n
}

// link says how often the node is read, where that is another pace.
func (in *Inputs) link() (l insight.Link) {
	if in.Pace != nil {
		l.Every = in.Pace()
	}
	return l
}

// run reads until ctx ends, and closes the inputs: the sampler closes the sources.
func (n *node) run(ctx context.Context) error { return errors.Join(n.sampler.Run(ctx), n.closeHost()) }

// refresh returns after a Moment of a reading that began later was published or held.
func (n *node) refresh(ctx context.Context, hold func(*insight.Moment)) error {
	if n.Refresh == nil {
		_, err := n.sampler.Refresh(ctx)
		return err
	}
	s, err := n.Refresh(ctx)
	if err == nil {
		hold(n.stage.Beside(s).At(n.Place, insight.Link{}))
	}
	return err
}

// A Reader reads nodes for one command, without a server.
type Reader struct {
	nodes []*node
	read  []chan *insight.Moment // of each node
	fleet *insight.Fleet
	ended errgroup.Group
	stop  context.CancelFunc
}

// NewReader reads until ctx ends or Close is called. It owns the inputs, and closes them.
func NewReader(ctx context.Context, inputs []*Inputs, interval, deadline time.Duration, log *slog.Logger) *Reader {
	ctx, stop := context.WithCancel(ctx)
	r := &Reader{stop: stop}
	stage := insight.NewStage()
	for _, in := range inputs {
		read := make(chan *insight.Moment)
		publish := func(m *insight.Moment) {
			select {
			case read <- m:
			case <-ctx.Done():
			}
		}
		n := newNode(in, *stage, pace{interval: interval}, deadline, clock.Clock{}, log, publish, publish)
		r.nodes, r.read = append(r.nodes, n), append(r.read, read)
		r.ended.Go(func() error { return n.run(ctx) })
	}
	return r
}

// Next waits for a reading of each node.
func (r *Reader) Next(ctx context.Context) (*insight.Fleet, error) {
	for _, read := range r.read {
		select {
		case m := <-read:
			r.fleet = r.fleet.With(m)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return r.fleet, nil
}

// Close ends the reading. It does not wait for a driver that hangs.
func (r *Reader) Close() error {
	r.stop()
	return r.ended.Wait()
}

// ReadOnce reads every device once.
func ReadOnce(ctx context.Context, inputs []*Inputs, deadline time.Duration, log *slog.Logger) (*insight.Fleet, error) {
	r := NewReader(ctx, inputs, time.Hour, deadline, log)
	f, err := r.Next(ctx)
	if err == nil {
		for _, n := range r.nodes {
			if m, ok := f.Node(n.Node); ok {
				s := *m.Snapshot
				n.settle(ctx, &s)
				f = f.With(insight.Of(&s))
			}
		}
	}
	return f, errors.Join(err, r.Close())
}
