package testkit

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// A Clock is a fake clock that knows who waits for it. So a test can let time pass when the program has nothing else to
// wait for, and never sooner, however slow the machine is.
type Clock struct {
	*clockwork.FakeClock
	mu     sync.Mutex
	timers map[*timer]bool // that were not stopped, and whose functions have not returned
}

// NewClock returns a clock that stands still at the time of the system.
func NewClock() *Clock {
	return &Clock{FakeClock: clockwork.NewFakeClock(), timers: map[*timer]bool{}}
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.FakeClock.Advance(d)
}

// timer is a timer of the fake clock, with what the fake clock does not tell of it.
type timer struct {
	clockwork.Timer
	clock *Clock
	due   time.Time
	calls bool // a function, when it is due
}

// NewTimer returns a timer on whose channel somebody waits until it is stopped.
func (c *Clock) NewTimer(d time.Duration) clockwork.Timer {
	t := &timer{clock: c}
	t.began(d, func() { t.Timer = c.FakeClock.NewTimer(d) })
	return t
}

// AfterFunc calls a function on a goroutine of its own when the time has come.
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

// Reset begins the timer anew.
func (t *timer) Reset(d time.Duration) (ran bool) {
	t.began(d, func() { ran = t.Timer.Reset(d) })
	return ran
}

// Stop ends the timer before its time, and reports whether it did.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	return t.Timer.Stop()
}

// Waited reports whether somebody waits for the clock with a timer that is not due.
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

// Settled reports whether all functions have returned that were due.
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
