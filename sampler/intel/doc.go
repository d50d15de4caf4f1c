// Package intel reads Intel GPUs through the files of the kernel's drivers i915 and xe: sysfs, hwmon and fdinfo. It asks the driver only
// for the size of a card's memory. It needs no Intel library. docs/intel.md says which file has which reading, on which kernel, and what is
// not available.
//
// # Two drivers, two kinds of GPU
//
// A GPU is part of a processor (integrated) or a card (Arc, Data Center GPU Flex and Max). An integrated GPU has no memory, fan or link of
// its own: it uses the machine's memory, and its power is part of the processor's. i915 serves products older than Lunar Lake and
// Battlemage, xe newer ones, and each serves some of the others.
//
// # Utilization
//
// No file has it. It is the share of time that all clients used of the busiest kind of engine (render, compute, copy, video), from their
// fdinfo, which is complete only if every process may be read. If some may not, all that is known is how long the GPU was not in its idle
// state, see [idling]. That is an upper bound. It is far above the work of a desktop, and counts as utilization only if it is close to
// zero.
//
// # Counters
//
// Power is computed from the energy since the previous reading. The kernel counts a fan's turns since its last read by anybody, so the
// first speed after a while is left out: it would be an average over minutes.
//
// # Sleep
//
// Every file of these drivers, including the fdinfo of xe, wakes a sleeping card or keeps an awake one awake. So the package first checks
// power/runtime_status, and leaves an idle card that may sleep alone for a while, see [drm.Rest].
//
// The drivers' performance counters (perf_event_open) are not used. They need the same rights as fdinfo, and an open event of xe keeps its
// card awake.
package intel
