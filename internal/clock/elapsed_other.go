//go:build !linux

package clock

// elapsed stands still while the machine sleeps, where the system does so.
var elapsed = Program().Elapsed
