// Package recording defines how a capture lies on disk, as a folder of plain files. A person can
// read them, and send them with a bug report. docs/captures.md describes them:
//
//	capture.yaml          what it is, see [Manifest]
//	readings.jsonl        a snapshot a line, as [gpu.MarshalRecord] writes them
//	raw/sysfs.txt         files of the kernel, see [Tree]
//	raw/proc.txt          the same of /proc
//	raw/nvidia-smi/       what nvidia-smi printed
//
// A capture made by hand may have only raw files. The files come from people, so
// nothing in them is trusted: sizes are bounded, and a line that can't be read is skipped.
package recording
