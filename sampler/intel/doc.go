// Package intel reads Intel GPUs through the files of the kernel's drivers i915 and xe. These are
// sysfs, hwmon and fdinfo. It needs none of Intel's libraries. docs/intel.md lists which file has
// which reading, on which kernel, and what is not offered.
//
// # Two drivers, two kinds of GPU
//
// A GPU is part of a processor (integrated) or a card (Arc, Data Center GPU Flex and Max).
// An integrated one has no memory, fan or link of its own: it uses the machine's memory,
// and its power is a part of the processor's. i915 serves what is older than Lunar Lake
// and Battlemage, xe what is newer, and either some of both.
//
// # Utilization
//
// No file has it. It is the time that all clients used of the busiest kind of engine
// (render, compute, copy, video), from their fdinfo: complete only if gpuwhy is allowed to read every
// process. Otherwise the only known value is how long the GPU was not in its idle
// state, see [idling]. That is an upper bound, far above the work of a desktop, and
// counts as a utilization only if it is close to zero.
//
// # Counters
//
// Power is the energy used since the previous reading. The kernel counts the turns of a fan since
// somebody last read it, so the first speed after a while is left out: it would be a mean
// over minutes.
//
// # Sleep
//
// Reading any file of these drivers wakes a sleeping card or keeps it awake, including the
// fdinfo of xe. So the package checks power/runtime_status first, and leaves an idle card that may
// sleep alone for a while, see [drm.Rest].
//
// The drivers' performance counters (perf_event_open) are not used. They need the same
// rights as fdinfo, and an open event of xe keeps its card awake.
package intel
