// Package replay plays a capture as if its machine were here: for looking at one that
// somebody has sent, and for tests. It must be asked for by name, and every device says
// [gpu.SourceRecorded]; who read it is [gpu.Identity.RecordedFrom].
//
// Readings are played at the pace at which they were recorded, with all times moved to now.
// After the last one the recording begins anew, which is a break ([gpu.Snapshot.Breaks]):
// nothing that is measured over time reaches across it. Counters go on from where they were.
//
// A capture that has raw files alone is read by the sources themselves: by package smi,
// which asks the recording in place of the program, and by packages amd and intel, which
// read its files in place of /sys and /proc. Its readings stay as they are.
package replay
