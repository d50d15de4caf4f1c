//go:build soak

package main

import "testing"

func TestSoakTenThousandUpdates(t *testing.T) { growth(t, 1000, 10_000) }
