// Package alert decides when people need a message. Rules look at each snapshot.
// An alert fires once when what a rule watches has been beyond its threshold for
// a while, and is over when the value has been back for a while. A value that varies
// around a threshold fires nothing new; a value that is missing ends nothing.
//
// [Engine] announces what changes. Its caller sends that on (package notify to people,
// package contract to viewers), and stores what must survive a restart.
//
// Alerts go by the node and the UUID of a device.
package alert
