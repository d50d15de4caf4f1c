package store

import (
	"context"
	"time"
)

// A Caller calls a store that may hang, one call at a time. One that hangs past its time is left alone, and there is none after it
// before it has ended: the disk has it, and would have each of them.
type Caller struct {
	under chan struct{} // closed when the call ends that has not ended in time; nil: there is none
}

// graceful is how long a call has to see that its time has passed.
const graceful = time.Second

// Call calls f, with a context that ends after so long. It returns what f does, or [ErrSlow] where that hangs. It is not called
// twice at the same time.
func (c *Caller) Call(ctx context.Context, atMost time.Duration, f func(context.Context) error) error {
	if c.under != nil {
		select {
		case <-c.under:
			c.under = nil
		default:
			return ErrSlow
		}
	}
	ctx, cancel := context.WithTimeout(Own(ctx), atMost)
	ended := make(chan struct{})
	var err error
	go func() {
		defer cancel()
		defer close(ended)
		err = f(ctx)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(graceful)
	defer late.Stop()
	select {
	case <-ended:
		return err
	case <-late.C:
		c.under = ended
		return ErrSlow
	}
}
