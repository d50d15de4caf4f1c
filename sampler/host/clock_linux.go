package host

import "golang.org/x/sys/unix"

// unsynchronized is the kernel's mark for a clock that nothing keeps right (STA_UNSYNC).
const unsynchronized = 0x0040

// synchronized asks the kernel whether something keeps the wall clock right.
func synchronized() (right, known bool) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil { // a sandbox may forbid to ask
		return false, false
	}
	return t.Status&unsynchronized == 0, true
}
