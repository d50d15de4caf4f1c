//go:build !race && soak

package main

import (
	"testing"
	"time"
)

// A PostgreSQL that is away for five minutes costs nothing of the past.
func TestSoakThePastOnAServer(t *testing.T) { serverAway(t, 5*time.Minute) }
