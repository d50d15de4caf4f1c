// Package explain answers "why is my GPU fan running?". It finds the causes for
// each device and for the machine and ranks them. Each cause has a sentence,
// the figures that support it, a confidence, and advice on what would end it.
//
// The rules are pure functions of a snapshot and of what a [History] remembers
// of each device: when work began and ended and who did it, how much power the
// device draws at rest, how long earlier cool-downs took, how hot the device
// runs at a power. The package knows no clock, no driver and no wire format:
// the snapshots carry the time. docs/why.md describes every cause for users.
package explain
