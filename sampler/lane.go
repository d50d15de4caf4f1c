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
	if l.running != nil {
		select {
		case <-l.running:
		default:
			return result, false
		}
	}
	done := make(chan T, 1)
	l.running = done
	go func() { done <- f() }()
	select {
	case result = <-done:
		l.running = nil
		return result, true
	case <-ctx.Done():
	}
	// Both may have been ready.
	select {
	case result = <-done:
		l.running = nil
		return result, true
	default:
		return result, false
	}
}
