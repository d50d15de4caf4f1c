// Package gpu has the types for what a node's GPUs, host and processes report at one time.
//
// Everything is keyed by node and UUID; an index is for people. A value that a
// device can't report is absent, never zero: see [Reading]. The package knows no
// driver, wire format or clock, and imports only the standard library.
//
// A published [Snapshot] never changes: to change one, make a copy.
package gpu
