// Package explain answers "why is my GPU fan running?": ranked causes for each
// device and for the machine, each with a sentence, the figures that it rests
// on, how sure it is, and what would stop it.
//
// The rules are pure functions of a snapshot and of what a [History] remembers
// of each device: when work began and ended and whose it was, what the card
// draws at rest, how long it took to cool down before, how hot it runs at a
// power. The package knows no clock, no driver and no wire format: time comes
// from the snapshots. docs/why.md has every cause as a person reads it.
package explain
