package sampler

import "context"

// A lane runs one call at a time on a goroutine of its own, so that a call
// that hangs holds nobody up but itself. It belongs to one goroutine.
type lane[T any] struct {
	running chan T // non-nil while a call has not been collected
}

// do starts f and returns its result, or false if ctx ended before. While a
// call that was left behind is still out, no other is started; what it returns
// in the end is too old and dropped.
func (l *lane[T]) do(ctx context.Context, f func() T) (result T, ok bool) {
	if l.running != nil && len(l.running) == 0 {
		return result, false
	}
	done := make(chan T, 1)
	l.running = done
	go func() { done <- f() }()
	select {
	case result = <-done:
	case <-ctx.Done():
		if len(done) == 0 {
			return result, false
		}
		result = <-done // both were ready
	}
	l.running = nil
	return result, true
}
