package smi

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// processList has each process of a device once: a process that computes and draws may be listed twice.
type processList struct {
	list   []gpu.Process
	places map[[3]int]int
}

func (l *processList) add(p gpu.Process) {
	if l.places == nil {
		l.places = map[[3]int]int{}
	}
	id := [3]int{p.PID, p.GPUInstance.Or(-1), p.ComputeInstance.Or(-1)}
	i, listed := l.places[id]
	if !listed {
		l.places[id] = len(l.list)
		l.list = append(l.list, p)
		return
	}
	old := &l.list[i]
	old.Type = nvidia.Combine(old.Type, p.Type)
	if v, ok := old.Memory.Get(); !ok || v < p.Memory.Or(0) {
		old.Memory = p.Memory
	}
}

// sorted returns the list, busiest first, and never nil.
func (l *processList) sorted() []gpu.Process {
	slices.SortFunc(l.list, nvidia.Busiest)
	return append([]gpu.Process{}, l.list...)
}
