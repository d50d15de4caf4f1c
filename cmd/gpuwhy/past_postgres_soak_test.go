//go:build !race && soak

package main

import (
	"testing"
	"time"
)

// A PostgreSQL outage of five minutes loses nothing of the past.
func TestSoakThePastOnAServer(t *testing.T) { serverAway(t, 5*time.Minute) }
