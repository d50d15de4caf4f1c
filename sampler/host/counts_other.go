//go:build !darwin || cgo

package host

const countsCPU, countsDisks = true, true
