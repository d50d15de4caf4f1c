//go:build !linux

package clock

import "time"

var start = time.Now()

// elapsed stands still while the machine sleeps, where the system does so.
func elapsed() time.Duration { return time.Since(start) }
