// Package gpu is gpuwhy's vocabulary: what a machine's GPUs, its host and the
// processes on them report at one moment, in the words the field uses.
//
// Everything is keyed by node and UUID; an index is for people. What a device
// can't report is absent, never zero: see [Reading]. The package knows no
// driver, no wire format and no clock, and imports the standard library alone.
//
// A published [Snapshot] never changes: whoever wants another one makes a copy.
package gpu
