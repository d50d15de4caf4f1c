// Package alert decides when a machine is worth a message: rules look at each
// snapshot, and an alert fires once when what a rule watches has been beyond its
// threshold for a while, once more each time that nobody has cared for hours,
// and is over when it has been back for a while. A value that hovers at a
// threshold says nothing; a value that is missing ends nothing.
//
// The package keeps no clock, sends nothing and reads no file: whoever calls it
// hands on the changes (package notify to people, package contract to viewers),
// and keeps what is to be remembered over a restart.
package alert
