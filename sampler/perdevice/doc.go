// Package perdevice reads devices one by one where a driver call can hang and
// can't be canceled: each device has at most one call under way, on a
// goroutine of its own, and a deadline. A device that hangs holds up neither
// the others nor the reader.
//
// It knows no driver: a source hands in functions that read a device, and that
// tell whether the system has powered it down. It decides what a device's
// state is and which readings may still be shown.
package perdevice
