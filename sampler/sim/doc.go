// Package sim simulates machines with GPUs, for demonstrations, for tests and
// for working on gpuwhy without a GPU. Simulated machines are asked for by
// name, never put in place of a source that failed, and every device says
// [gpu.SourceSimulated].
//
// Everything is a function of the profile, the day on which [Nodes] was called
// and the clock that it was given: there are no goroutines and no state that
// a reading changes, so a test may set the clock to any moment and reads the
// same again when it comes back.
//
// # How it works
//
// Time is cut into cycles of half an hour. In each cycle a device plays one
// job of its roster, such as an evening's game or a training run. What the
// device's hardware makes of a job is worked out once, second by second, and
// kept as a tape: power follows work, temperature follows power, the fan
// follows temperature, clocks give way at the power and heat limits. All tapes
// of a roster begin and end alike (at rest, or in the middle of work that
// never ends), so they join in any order. A roster is shuffled for each round,
// and each of its jobs comes up exactly once a round; that is also why the
// energy of years is a multiplication and not a sum.
//
// What a device reports, and what it doesn't, is that of the real product: an
// H100 has no fan and no display, a GeForce no ECC and no memory temperature.
package sim
