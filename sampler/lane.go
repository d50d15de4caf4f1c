package sampler

import (
	"context"
	"errors"
)

// A lane runs one call at a time on its own goroutine, so that a hanging call
// blocks nothing else. One goroutine uses a lane.
type lane[T any] struct {
	running chan result[T] // nil once the result was taken
}

type result[T any] struct {
	value T
	err   error
}

// errSlow is why a lane has no result.
var errSlow = errors.New("the call takes too long")

// do starts f and returns its result, or errSlow if ctx ended before. While an
// earlier call still runs, do starts none; the late result of that call is too old
// and is dropped.
func (l *lane[T]) do(ctx context.Context, f func() (T, error)) (T, error) {
	r := result[T]{err: errSlow}
	if l.running != nil && len(l.running) == 0 {
		return r.value, r.err
	}
	done := make(chan result[T], 1)
	l.running = done
	go func() {
		v, err := f()
		done <- result[T]{v, err}
	}()
	select {
	case r = <-done:
	case <-ctx.Done():
		if len(done) == 0 {
			return r.value, r.err
		}
		r = <-done
	}
	l.running = nil
	return r.value, r.err
}
