//go:build darwin && !cgo

package host

// gopsutil needs C for the CPU times and the disk traffic.
const countsCPU, countsDisks = false, false
