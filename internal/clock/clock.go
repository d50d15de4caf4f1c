// Package clock tells wall time, which people and NTP may set, and elapsed time, which nobody can
// set.
package clock

import "time"

// A Clock tells the program the time. The zero Clock is the machine's clock.
type Clock struct {
	wall    func() time.Time
	elapsed func() time.Duration
}

// Of makes a clock from two functions, for tests.
func Of(wall func() time.Time, elapsed func() time.Duration) Clock { return Clock{wall, elapsed} }

// Program returns a clock whose Elapsed stands still while the machine sleeps.
func Program() Clock {
	started := time.Now()
	return Of(time.Now, func() time.Duration { return time.Since(started) })
}

// Now returns the wall clock's time. Use it to name points in time.
func (c Clock) Now() time.Time {
	if c.wall == nil {
		return time.Now()
	}
	return c.wall()
}

// Elapsed measures durations: it grows evenly, even while the machine sleeps, and nobody can set it.
func (c Clock) Elapsed() time.Duration {
	if c.elapsed == nil {
		return elapsed()
	}
	return c.elapsed()
}

// slack is how much the two times may differ between two looks: when NTP does not set
// the wall clock, it makes it run a little faster or slower.
func slack(took time.Duration) time.Duration { return 2*time.Second + took/10 }

// A Watch looks at a clock from time to time. One goroutine at a time may use it.
//
// If the wall clock and the elapsed time disagree, or a look comes much too late, that is a break. Snapshots count breaks, and nothing
// is summed across one. If only the clock was set and the machine went on, known times move with the clock: those of alerts, causes and
// sessions.
type Watch struct {
	Clock
	// Longest is the most that two consecutive looks may be apart.
	Longest time.Duration

	looked  bool
	wall    time.Time
	elapsed time.Duration
	breaks  int
	set     time.Duration
}

// Look returns the time, how often so far the machine slept or its clock was set between
// two looks, and the sum by which the clock was set forward; negative: back.
func (w *Watch) Look() (now time.Time, breaks int, set time.Duration) {
	now, elapsed := w.Now(), w.Elapsed()
	took := elapsed - w.elapsed
	moved := now.Round(0).Sub(w.wall) - took
	switch {
	case !w.looked:
		w.looked = true
	case moved.Abs() > slack(took), now.Round(0).Before(w.wall):
		w.breaks++
		w.set += moved
	case took > w.Longest:
		w.breaks++
	}
	w.wall, w.elapsed = now.Round(0), elapsed
	return now, w.breaks, w.set
}
