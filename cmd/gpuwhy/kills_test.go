//go:build !race && !soak

package main

import (
	"testing"
	"time"
)

// killLanes programs are killed at once, each so many times, after so many rounds of questions at most.
const (
	killLanes, killsPerLane = 3, 2
	mostRounds              = 40
)

// losses takes of how long readings were lost.
func losses(*testing.T) func(time.Duration) { return func(time.Duration) {} }
