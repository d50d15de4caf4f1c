//go:build !race && linux && soak

package main

// everyFault: the tests make all faults, which takes minutes, or some of each kind.
const everyFault = true
