// Package gpu is gpuwhy's vocabulary: types for what the GPUs of one node, its host
// and its processes report at one time.
//
// Everything is keyed by node and UUID; an index is for people. What a device
// can't report is absent, never zero: see [Reading]. The package knows no
// driver, no wire format and no clock, and imports the standard library alone.
//
// A published [Snapshot] never changes: whoever wants another one makes a copy.
package gpu
