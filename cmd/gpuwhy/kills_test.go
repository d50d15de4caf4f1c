//go:build !race && !soak

package main

import (
	"testing"
	"time"
)

// killLanes programs are killed at the same time, each so many times, after at most so many rounds of questions.
const (
	killLanes, killsPerLane = 3, 2
	mostRounds              = 40
)

// losses collects for how long readings were lost.
func losses(*testing.T) func(time.Duration) { return func(time.Duration) {} }
