//go:build !soak

package main

// killLanes programs are killed at once, each so many times.
const killLanes, killsPerLane = 3, 2
