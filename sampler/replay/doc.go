// Package replay plays a capture as if its machine were here. It is for tests, and to examine a
// capture that somebody sent. It must be asked for by name, and every device has
// [gpu.SourceRecorded]; [gpu.Identity.RecordedFrom] names the source that read it.
//
// Readings are played at the pace at which they were recorded, with all times moved to now.
// After the last one the recording starts over, which is a break ([gpu.Snapshot.Breaks]):
// nothing measured over time reaches across it. Counters continue from where they were.
//
// The sources themselves read a capture that has only raw files: package smi
// asks the recording instead of the program, and packages amd and intel
// read its files instead of /sys and /proc. Such readings never change.
package replay
