// Package attribute says whose a device's memory, work and watts are, and how
// much of them no process explains. It consists of pure functions of snapshots.
// It knows no driver, no clock and no wire format.
//
// # How the watts are split
//
// The power draw at rest belongs to nobody: it is the idle floor, which
// [Floors] learns, and has a line of its own. The remainder is split by the
// processes' shares of the multiprocessors (SM) over the last sample window.
// Where no process has such a share, since the driver takes no samples or
// nothing ran, it is split by the memory that living processes hold: a context
// keeps the clocks up. This is an estimate, and [Method] says which: two
// processes with the same share of the SMs may draw different power.
//
// # What no process explains
//
// Where the processes' shares of the SMs don't add up to the device's
// utilization, part of the watts belongs to nobody either. It is not spread
// over the known processes to make the sum look right: it stands as a
// remainder, with the likeliest reason. No part is negative or more than the
// device reports. What the device does not report is not split.
package attribute
