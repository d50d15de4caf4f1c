package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A node is one machine that is read: the pipeline from its inputs to Moments.
type node struct {
	*Inputs
	sampler *sampler.Sampler
	stage   insight.Stage
}

// newNode makes a node. It passes each periodic Moment to publish, and each Moment
// that was read on demand to hold. Nodes share what the stage remembers.
func newNode(in *Inputs, stage insight.Stage, interval, deadline time.Duration, log *slog.Logger, publish, hold func(*insight.Moment)) *node {
	stage.Reserve = in.reserve
	n := &node{Inputs: in, stage: stage}
	n.sampler = sampler.New(sampler.Config{
		Node:     in.Node,
		Interval: interval,
		Deadline: deadline,
		Sources:  in.Sources,
		Host:     in.Host,
		Notes:    in.Notes,
		Publish:  func(s *gpu.Snapshot) { publish(n.stage.Next(s)) },
		Demanded: func(s *gpu.Snapshot) { hold(n.stage.Beside(s)) },
		Log:      log.With("part", "sampler"),
	})
	return n
}

// refresh reads on demand. When it returns, a Moment of a reading that began
// after the call was published or held.
func (n *node) refresh(ctx context.Context, hold func(*insight.Moment)) error {
	if n.Refresh == nil {
		_, err := n.sampler.Refresh(ctx)
		return err
	}
	s, err := n.Refresh(ctx)
	if err == nil {
		hold(n.stage.Beside(s))
	}
	return err
}

// A Reader reads nodes for one command, without a server.
type Reader struct {
	nodes []*readNode
	fleet *insight.Fleet
	ended chan error
	stop  context.CancelFunc
}

type readNode struct {
	*node
	read chan *insight.Moment
}

// NewReader begins to read, until ctx ends or Close is called. The Reader owns the
// inputs, and closes them.
func NewReader(ctx context.Context, inputs []*Inputs, interval, deadline time.Duration, log *slog.Logger) *Reader {
	ctx, stop := context.WithCancel(ctx)
	r := &Reader{ended: make(chan error, len(inputs)), stop: stop}
	stage := insight.NewStage()
	for _, in := range inputs {
		read := make(chan *insight.Moment)
		publish := func(m *insight.Moment) {
			select {
			case read <- m:
			case <-ctx.Done():
			}
		}
		n := newNode(in, *stage, interval, deadline, log, publish, publish)
		r.nodes = append(r.nodes, &readNode{n, read})
		go func() { r.ended <- n.sampler.Run(ctx) }()
	}
	return r
}

// Next waits for a reading of each node.
func (r *Reader) Next(ctx context.Context) (*insight.Fleet, error) {
	for _, n := range r.nodes {
		select {
		case m := <-n.read:
			r.fleet = r.fleet.With(m)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-r.ended:
			r.ended <- err
			if err == nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
	return r.fleet, nil
}

// Close ends the reading. It does not wait for a driver that hangs.
func (r *Reader) Close() error {
	r.stop()
	var errs []error
	for _, n := range r.nodes {
		errs = append(errs, <-r.ended, n.closeHost())
	}
	return errors.Join(errs...)
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
