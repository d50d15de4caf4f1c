// Package alert decides when people need a message. Rules look at each snapshot. An alert fires
// once the value that a rule watches has been beyond its threshold for the hold time, and is over
// once the value has been back for the clear time. A value that hovers around a threshold does not
// fire again; a missing value ends nothing.
//
// [Engine] announces changes. Its caller passes them on (package notify sends them to people,
// package contract to viewers) and stores what must survive a restart.
//
// Alerts identify a device by its node and UUID.
package alert
