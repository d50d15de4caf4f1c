package testkit

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// A Clock is a fake clock that knows who is waiting for it. So a test can let time pass once the program waits for nothing
// else, and never sooner, however slow the machine is.
type Clock struct {
	*clockwork.FakeClock
	mu     sync.Mutex
	timers map[*timer]bool // that were not stopped, and whose functions have not returned
}

// NewClock returns a clock that stands still at the system's current time.
func NewClock() *Clock {
	return &Clock{FakeClock: clockwork.NewFakeClock(), timers: map[*timer]bool{}}
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.FakeClock.Advance(d)
}

// timer is a timer of the fake clock, with what the fake clock does not reveal about it.
type timer struct {
	clockwork.Timer
	clock *Clock
	due   time.Time
	calls bool // a function, when it is due
}

// NewTimer returns a timer whose channel counts as waited for until the timer is stopped.
func (c *Clock) NewTimer(d time.Duration) clockwork.Timer {
	t := &timer{clock: c}
	t.began(d, func() { t.Timer = c.FakeClock.NewTimer(d) })
	return t
}

// AfterFunc calls a function on its own goroutine when the time has come.
func (c *Clock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	t := &timer{clock: c, calls: true}
	t.began(d, func() {
		t.Timer = c.FakeClock.AfterFunc(d, func() {
			f()
			c.mu.Lock()
			defer c.mu.Unlock()
			if !t.due.After(c.Now()) { // it was not set again
				delete(c.timers, t)
			}
		})
	})
	return t
}

func (t *timer) began(d time.Duration, start func()) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.due = t.clock.Now().Add(d)
	t.clock.timers[t] = true
	start()
}

// Reset restarts the timer.
func (t *timer) Reset(d time.Duration) (ran bool) {
	t.began(d, func() { ran = t.Timer.Reset(d) })
	return ran
}

// Stop stops the timer, and reports whether it was still running.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	return t.Timer.Stop()
}

// Waited reports whether somebody is waiting for the clock with a timer that is not due.
func (c *Clock) Waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timers {
		if !t.calls && t.due.After(c.Now()) {
			return true
		}
	}
	return false
}

// Settled reports whether all due functions have returned.
func (c *Clock) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timers {
		if t.calls && !t.due.After(c.Now()) {
			return false
		}
	}
	return true
}
