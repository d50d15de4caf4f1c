// Package testkit has helpers that tests of several packages share. [Until], [Receive] and [Clock] wait for other goroutines
// and processes, [FreePorts] reserves ports, [WriteProgram] writes programs to start, and [RunTests] finds leaked goroutines.
// Package fixture has made-up machines, package browser a real Chromium. It is not part of the product.
//
// Tests pass on a machine that is busy or stops for seconds, since they wait for the event itself, never for a number of
// milliseconds. The limit of a wait says nothing about how long the program takes: it only ends a test whose event never
// happens.
package testkit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Patience ends a wait for an event that never happens. It is far longer than any machine needs, even a busy one that stops
// several times meanwhile.
const Patience = 3 * time.Minute

const (
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
)

// Until waits until holds returns true. It asks at once, then ever less often, down to every 50 ms. If that does not happen
// within [Patience], the test fails and prints what it waited for and the state at the end: values, or functions without
// arguments that Until calls then.
//
// Use it if the event can only be polled, such as the answer of another process. If a channel reports the event, use
// [Receive].
func Until(tb testing.TB, what string, holds func() bool, state ...any) {
	tb.Helper()
	pause := firstPause
	for end := time.Now().Add(Patience); !holds(); {
		if time.Now().After(end) {
			tb.Fatalf("after %v still not: %s%s", Patience, what, describe(state))
		}
		time.Sleep(pause)
		pause = min(pause*2, lastPause)
	}
}

// Receive returns the next value of the channel, or the zero value if it is closed. If none arrives within [Patience],
// the test fails as in [Until].
func Receive[T any](tb testing.TB, what string, ch <-chan T, state ...any) T {
	tb.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-ch:
		return v
	case <-late.C:
		tb.Fatalf("after %v still not: %s%s", Patience, what, describe(state))
		panic("not reached")
	}
}

func describe(state []any) string {
	var out strings.Builder
	for _, s := range state {
		switch s := s.(type) {
		case func() string:
			fmt.Fprintf(&out, "\n%s", s())
		case func() any:
			fmt.Fprintf(&out, "\n%+v", s())
		default:
			fmt.Fprintf(&out, "\n%+v", s)
		}
	}
	return out.String()
}
