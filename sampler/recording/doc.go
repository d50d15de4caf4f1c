// Package recording knows how a capture lies on disk: a folder of plain files that a person
// can read, and send with a bug report. docs/captures.md describes them:
//
//	capture.yaml          what it is, see [Manifest]
//	readings.jsonl        a snapshot a line, as [gpu.MarshalRecord] writes them
//	raw/sysfs.txt         files of the kernel, see [Tree]
//	raw/proc.txt          the same of /proc
//	raw/nvidia-smi/       what nvidia-smi printed
//
// A capture that was made by hand may have raw files alone. The files come from people, so
// nothing in them is believed: sizes are bounded, and a line that can't be read costs itself.
package recording
