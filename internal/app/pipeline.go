package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// A pipeline is what all wirings have in common: it reads the inputs, adds what
// is known beside a reading, and explains it.
type pipeline struct {
	inputs  *Inputs
	sampler *sampler.Sampler
	history *explain.History
	floors  attribute.Floors // the power draw of each device without work
}

// newPipeline makes a pipeline that hands each periodic reading to publish.
func newPipeline(in *Inputs, interval, deadline time.Duration, log *slog.Logger, publish func(*gpu.Snapshot)) *pipeline {
	p := &pipeline{inputs: in, history: explain.NewHistory()}
	p.sampler = sampler.New(sampler.Config{
		Node:     in.Node,
		Interval: interval,
		Deadline: deadline,
		Sources:  in.Sources,
		Host:     in.Host,
		Notes:    in.Notes,
		Publish:  func(s *gpu.Snapshot) { publish(p.take(s)) },
		Log:      log.With("part", "sampler"),
	})
	return p
}

// take returns a periodic reading with what is known beside it. The reading is
// explained when take returns.
func (p *pipeline) take(s *gpu.Snapshot) *gpu.Snapshot {
	s = p.note(s)
	p.history.Add(s)
	return s
}

// refresh reads on demand.
func (p *pipeline) refresh(ctx context.Context) (*gpu.Snapshot, error) {
	read := p.sampler.Refresh
	if p.inputs.Refresh != nil {
		read = p.inputs.Refresh
	}
	s, err := read(ctx)
	if err != nil {
		return nil, err
	}
	return p.note(s), nil
}

// note returns a copy of a reading with what is known beside it: the power draw
// of devices without work, and for whom they are reserved.
func (p *pipeline) note(s *gpu.Snapshot) *gpu.Snapshot {
	s = p.floors.Note(s)
	p.inputs.reserve(s)
	return s
}

// A Reader reads the inputs for one command, without a server.
type Reader struct {
	*pipeline
	read  chan *gpu.Snapshot
	ended chan error
	stop  context.CancelFunc
}

// NewReader begins to read, until ctx ends or Close is called. The inputs are
// the Reader's from then on.
func NewReader(ctx context.Context, in *Inputs, interval, deadline time.Duration, log *slog.Logger) *Reader {
	ctx, stop := context.WithCancel(ctx)
	r := &Reader{read: make(chan *gpu.Snapshot), ended: make(chan error, 1), stop: stop}
	r.pipeline = newPipeline(in, interval, deadline, log, func(s *gpu.Snapshot) {
		select {
		case r.read <- s:
		case <-ctx.Done():
		}
	})
	go func() { r.ended <- r.sampler.Run(ctx) }()
	return r
}

// Next waits for a reading, and says why the machine is as it is.
func (r *Reader) Next(ctx context.Context) (*gpu.Snapshot, explain.Answer, error) {
	select {
	case s := <-r.read:
		return s, r.history.Explain(s), nil
	case err := <-r.ended:
		r.ended <- err
		if err == nil {
			err = context.Cause(ctx)
		}
		return nil, explain.Answer{}, err
	}
}

// Close ends the reading. It does not wait for a driver that hangs.
func (r *Reader) Close() error {
	r.stop()
	return errors.Join(<-r.ended, r.inputs.closeHost())
}

// ReadOnce reads every device once.
func ReadOnce(ctx context.Context, in *Inputs, deadline time.Duration, log *slog.Logger) (*gpu.Snapshot, error) {
	r := NewReader(ctx, in, time.Hour, deadline, log)
	s, _, err := r.Next(ctx)
	if err == nil {
		in.settle(ctx, s)
	}
	return s, errors.Join(err, r.Close())
}
