package sampler

import "context"

// A lane runs one call at a time on a goroutine of its own, so that a call that
// hangs blocks nothing else. One goroutine uses a lane.
type lane[T any] struct {
	running chan T // nil once the result was taken
}

// do starts f and returns its result, or false if ctx ended before. While an
// earlier call still runs, do starts none; the late result of that call is too old
// and is dropped.
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
		result = <-done
	}
	l.running = nil
	return result, true
}
