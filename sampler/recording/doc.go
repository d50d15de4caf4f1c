// Package recording defines a capture's layout on disk: a folder of plain files that a person can read, and send with a bug report.
// docs/captures.md describes them:
//
//	capture.yaml          what it is, see [Manifest]
//	readings.jsonl        one snapshot per line, as [gpu.MarshalRecord] writes them
//	raw/sysfs.txt         files of the kernel, see [Tree]
//	raw/proc.txt          the same of /proc
//	raw/nvidia-smi/       the output of nvidia-smi
//
// A capture made by hand may have only raw files. The files come from people, so nothing in them is trusted: sizes are bounded, and an
// unreadable line costs only itself.
package recording
