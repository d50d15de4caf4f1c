//go:build darwin && !cgo

package host

// gopsutil asks for the times of the CPU and the traffic of disks in C.
const countsCPU, countsDisks = false, false
