// Package neterr tells network errors apart. Windows has its own numbers for errors that Go's
// package syscall names as on Unix.
package neterr

import (
	"errors"
	"slices"
	"syscall"
)

// InUse reports whether another program is using the address.
func InUse(err error) bool { return is(err, syscall.EADDRINUSE, 10048) }

// Forbidden reports whether the system denies us the address.
func Forbidden(err error) bool { return is(err, syscall.EACCES, 10013) }

// Refused reports whether nothing is listening there.
func Refused(err error) bool { return is(err, syscall.ECONNREFUSED, 10061) }

// NoNetwork reports whether the network of an address is unreachable.
func NoNetwork(err error) bool { return is(err, syscall.ENETUNREACH, 10051) }

// NoHost reports whether an address is unreachable in a reachable network.
func NoHost(err error) bool { return is(err, syscall.EHOSTUNREACH, 10065) }

// Cut reports whether the other side ended the connection.
func Cut(err error) bool {
	return is(err, syscall.ECONNRESET, 10053, 10054) || errors.Is(err, syscall.EPIPE)
}

// is reports whether an error is one of these system errors. No Unix uses the numbers that Windows
// has (from 10000).
func is(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}
