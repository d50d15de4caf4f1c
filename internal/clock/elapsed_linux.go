package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is the time since the machine started (CLOCK_BOOTTIME). Go's own
// monotonic clock stands still while the machine sleeps.
func elapsed() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every kernel since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
