// Package perdevice reads devices whose driver calls can hang and can't be canceled. Each device
// has at most one call at a time, on a goroutine of its own, with a deadline. A device that hangs
// delays neither the others nor the reader.
//
// The package knows no driver: a source passes functions that read a device and
// that report whether the system has powered it down. The package decides the
// state of a device and which readings may still be shown.
package perdevice
