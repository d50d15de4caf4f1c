// Package intel reads Intel GPUs through the files of the kernel's drivers i915 and xe:
// sysfs, hwmon and fdinfo, and by one question for the size of a card's memory. It needs
// no library of Intel's. docs/intel.md says which file
// has which reading, on which kernel, and what is not offered.
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
// No file has it. It is the time that all clients had of the busiest kind of engine
// (render, compute, copy, video), from their fdinfo: whole only where every process may be
// read. Where some may not, all that is known is how long the GPU was not in its idle
// state, see [idling]. That is a bound. It is far above the work of a desktop, and taken
// for a utilization only where it is next to nothing.
//
// # Counters
//
// Power is the energy since the reading before. The kernel counts the turns of a fan since
// anybody read it last, so the first speed after a while is left out: it would be a mean
// of minutes.
//
// # Sleep
//
// Every file of these drivers wakes a card that sleeps, or keeps one awake, also the
// fdinfo of xe. So power/runtime_status is looked at first, and an idle card that may
// sleep is left alone for a while, see [drm.Rest].
//
// The drivers' performance counters (perf_event_open) are not used. They need the same
// rights as fdinfo, and an open event of xe keeps its card awake.
package intel
