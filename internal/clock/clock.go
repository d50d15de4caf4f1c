// Package clock tells the time in two ways, since one can be set: people and NTP set
// the wall clock forward and back.
package clock

import "time"

// A Clock is what the program knows the time by. The zero is the machine's clock.
type Clock struct {
	wall    func() time.Time
	elapsed func() time.Duration
}

// Of makes a clock of both ways to tell the time, for tests.
func Of(wall func() time.Time, elapsed func() time.Duration) Clock { return Clock{wall, elapsed} }

// Program is a clock whose Elapsed stands still while the machine sleeps.
func Program() Clock {
	started := time.Now()
	return Of(time.Now, func() time.Duration { return time.Since(started) })
}

// Now is the wall clock. It names moments.
func (c Clock) Now() time.Time {
	if c.wall == nil {
		return time.Now()
	}
	return c.wall()
}

// Elapsed decides durations: it grows evenly, also in sleep, and nobody can set it.
func (c Clock) Elapsed() time.Duration {
	if c.elapsed == nil {
		return elapsed()
	}
	return c.elapsed()
}

// slack is by how much the two ways may differ between two looks: NTP makes the
// wall clock a little faster or slower where it does not set it.
func slack(took time.Duration) time.Duration { return 2*time.Second + took/10 }

// A Watch looks at a clock from time to time. One goroutine at a time may use it.
//
// If the wall clock and the elapsed time disagree, or a look comes much too late, that is a break. Snapshots count breaks, and nothing
// is summed across one. If only the clock was set and the machine went on, known times move with the clock: those of alerts, causes and
// sessions.
type Watch struct {
	Clock
	// Longest is how far two looks that follow each other may be apart.
	Longest time.Duration

	looked  bool
	wall    time.Time
	elapsed time.Duration
	breaks  int
	set     time.Duration
}

// Look returns the time, how often the machine slept or its clock was set between two
// looks so far, and by how much it was set forward in all; less than 0: back.
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
