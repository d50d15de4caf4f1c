package history

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// ErrBusy says that too many queries are running to accept another. It comes with advice.
var ErrBusy = store.ErrBusy

// much is how many values a history has that few may ask for at once.
const much = 100_000

// patience is how long a question waits for room.
const patience = 2 * time.Second

// A room has places for queries that take much memory or time. The zero value has two.
type room struct {
	once   sync.Once
	places chan struct{}
}

// enter waits for a place, which is to be left once.
func (r *room) enter(ctx context.Context) (leave func(), err error) {
	r.once.Do(func() { r.places = make(chan struct{}, 2) })
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r.places <- struct{}{}:
		return func() { <-r.places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, &gpu.Advice{What: "too many history queries right now", Try: "try again in a few seconds", Err: ErrBusy}
	}
}

// lengthy is the shortest span of which two questions are answered at once, and most how long the answer about one may take: whoever
// asked may wait for no longer.
const lengthy, most = 7 * 24 * time.Hour, 20 * time.Second

// errSlow says that an answer took too long.
var errSlow = &gpu.Advice{
	What: "the query over such a long time took more than " + most.String(),
	Try:  "ask for a shorter time, or try again when this machine is less busy", Err: ErrBusy,
}

// lengthy waits until a question about a span may be answered, and bounds how long that may take. Done is to be called once, with the
// error of the answer, and returns the one to tell. Where there is no place in time the error is [ErrBusy].
func (p *Past) lengthy(ctx context.Context, q store.Query) (within context.Context, done func(error) error, err error) {
	if !q.To.IsZero() && q.To.Sub(q.From) < lengthy {
		return ctx, func(err error) error { return err }, nil
	}
	leave, err := p.stories.enter(ctx)
	if err != nil {
		return ctx, nil, err
	}
	within, cancel := context.WithTimeoutCause(ctx, most, errSlow)
	return within, func(err error) error {
		if err != nil && ctx.Err() == nil && within.Err() != nil {
			err = errSlow
		}
		cancel()
		leave()
		return err
	}, nil
}

// Room waits until a history of so many values may be read and answered: two large ones at once. The place is to be left once. Where
// there is none in time the error is [ErrBusy].
func (p *Past) Room(ctx context.Context, values int) (leave func(), err error) {
	if values <= much {
		return func() {}, nil
	}
	return p.histories.enter(ctx)
}
