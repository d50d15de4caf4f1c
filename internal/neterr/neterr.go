// Package neterr tells errors of the network apart. Windows has numbers of its own for those
// that Go's package syscall names as Unix does.
package neterr

import (
	"errors"
	"slices"
	"syscall"
)

// InUse reports whether another program has the address.
func InUse(err error) bool { return is(err, syscall.EADDRINUSE, 10048) }

// Forbidden reports whether the system does not let us have the address.
func Forbidden(err error) bool { return is(err, syscall.EACCES, 10013) }

// Refused reports whether nobody listens there.
func Refused(err error) bool { return is(err, syscall.ECONNREFUSED, 10061) }

// NoNetwork reports whether there is no way to the network of an address.
func NoNetwork(err error) bool { return is(err, syscall.ENETUNREACH, 10051) }

// NoHost reports whether there is no way to an address in a network that there is.
func NoHost(err error) bool { return is(err, syscall.EHOSTUNREACH, 10065) }

// Cut reports whether the other side ended the connection.
func Cut(err error) bool {
	return is(err, syscall.ECONNRESET, 10053, 10054) || errors.Is(err, syscall.EPIPE)
}

// is reports whether an error is one of the system's. No Unix has errors with the numbers
// that Windows has (from 10000).
func is(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}
