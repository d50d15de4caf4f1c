// Package sim simulates machines with GPUs, for demonstrations, for tests and for
// working on gpuwhy without a GPU. Simulated machines must be asked for by name and
// never replace a source that failed, and every device says [gpu.SourceSimulated].
//
// Everything is a function of the profile, the day on which [Nodes] was called and the
// clock that it was given. There are no goroutines and no state that a reading changes,
// so a test may set the clock to any time, and reads the same again when it sets the
// clock back.
//
// # How it works
//
// Time is divided into cycles of half an hour. In each cycle a device plays one job of
// its roster. What the hardware makes of a job is calculated once, second by second, and
// kept as a tape: power follows work, temperature follows power, the fan follows
// temperature, and the power and heat limits reduce the clocks. All tapes of a roster
// begin and end alike, so they join in any order. Each round of a roster shuffles its jobs
// and plays each once; so the energy of years is a multiplication and not a sum.
//
// What the machines are made of, and their jobs, is in machines.yaml. A device reports
// what the real product reports: an H100 has no fan, a GeForce no ECC.
package sim
