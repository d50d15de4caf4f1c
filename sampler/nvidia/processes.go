package nvidia

import (
	"cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Combine returns the type of a process that appears in the lists of both types.
func Combine(a, b gpu.ProcessType) gpu.ProcessType {
	switch {
	case a == b:
		return a
	case a == gpu.TypeMPS || b == gpu.TypeMPS:
		return gpu.TypeMPS
	default:
		return gpu.TypeComputeGraphics
	}
}

// Busiest orders a device's processes by their share of its time, then by memory.
func Busiest(a, b gpu.Process) int {
	return cmp.Or(
		cmp.Compare(trusted(b.SM), trusted(a.SM)),
		cmp.Compare(trusted(b.Memory), trusted(a.Memory)),
		cmp.Compare(a.PID, b.PID),
		cmp.Compare(a.GPUInstance.Or(-1), b.GPUInstance.Or(-1)),
		cmp.Compare(a.ComputeInstance.Or(-1), b.ComputeInstance.Or(-1)),
	)
}

// trusted is the value to sort by: doubtful readings sort last.
func trusted[T gpu.Percent | gpu.Bytes](r gpu.Reading[T]) T {
	v, ok := r.Trusted()
	if !ok {
		return 0
	}
	return v
}
