package past

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/store"
)

// ErrBusy says that others ask so much that there is no room for one more. It comes with what to do.
var ErrBusy = store.ErrBusy

// much is how many values a history has that few may ask for at once.
const much = 100_000

// patience is how long a question waits for room.
const patience = 2 * time.Second

// A room has places for questions that take much memory or time. The zero value has two.
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
		return nil, &gpu.Advice{What: "others ask much about the past at this moment", Try: "try again in a few seconds", Err: ErrBusy}
	}
}

// Room waits until a history of so many values may be read and answered: two large ones at once. The place is to be left once. Where
// there is none in time the error is [ErrBusy].
func (p *Past) Room(ctx context.Context, values int) (leave func(), err error) {
	if values <= much {
		return func() {}, nil
	}
	return p.histories.enter(ctx)
}
