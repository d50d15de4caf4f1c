// Package attribute says whose a device's memory, work and watts are, and how
// much of them nobody can be named for: pure functions from snapshots. It knows
// no driver, no clock and no wire format.
//
// # How the watts are split
//
// What a device draws at rest is nobody's: its idle floor, learned by [Floors],
// is a line of its own. The rest is split by the processes' shares of the
// multiprocessors (SM) over the last sample window. Where no process has such a
// share, since the driver takes no samples or nothing ran, it is split by the
// memory that living processes hold: a context keeps the clocks up. This is an
// estimate, and [Method] says which: two processes with the same share of the
// SMs may well draw differently.
//
// # What is left
//
// Where the processes' shares of the SMs don't add up to the device's
// utilization, that part of the watts is nobody's either. Nothing is spread
// over the processes that are known so that the sum looks right: it stands as
// a remainder, with the likeliest reason. Nothing is ever negative or more than
// the device reports, and where the device does not report something, neither
// is its split.
package attribute
