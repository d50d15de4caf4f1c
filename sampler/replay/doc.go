// Package replay plays a capture as if its machine were here: to examine a capture that somebody sent, and for tests. It must be requested
// by name, and every device has the source [gpu.SourceRecorded]; [gpu.Identity.RecordedFrom] is the source that recorded it.
//
// Readings are played at their recorded pace, with all times moved to now. After the last one the recording starts over, which is a break
// ([gpu.Snapshot.Breaks]): nothing measured over time reaches across it. Counters continue from their last value.
//
// A capture with only raw files is read by the sources themselves: package smi runs on the recorded output instead of the program, and
// packages amd and intel read its files instead of /sys and /proc. Its readings never change.
package replay
