// Package alert decides when people need a message. Rules look at each snapshot.
// An alert fires once when what a rule watches has been beyond its threshold for
// a while, and is over when the value has been back for a while. A value that varies
// around a threshold fires nothing new; a value that is missing ends nothing.
//
// [Engine] announces what changes. Its caller sends that on (package notify to people,
// package contract to viewers), and stores what must survive a restart.
//
// Alerts go by the node and the UUID of a device.
//
// Everything that changes an alert (a Moment, a person, new rules) goes through the Engine, so it announces changes in the order in which
// they happened. Each machine evaluates its own alerts. A [Shared] book adds the alerts that other programs of a fleet report.
//
// At a break in a node's readings ([gpu.Snapshot]'s Breaks) the times of its rules start again. If only the clock was set, they move with the
// clock instead, and so do silences.
package alert
