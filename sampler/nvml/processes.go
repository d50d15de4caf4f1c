//go:build linux && cgo

package nvml

import (
	"slices"
	"time"
	"unsafe"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// processLists are the driver's process lists, each with its newest function first.
var processLists = []struct {
	kind    gpu.ProcessType
	symbols [3]string
}{
	{gpu.TypeCompute, newestFirst("nvmlDeviceGetComputeRunningProcesses")},
	{gpu.TypeGraphics, newestFirst("nvmlDeviceGetGraphicsRunningProcesses")},
	{gpu.TypeMPS, newestFirst("nvmlDeviceGetMPSComputeRunningProcesses")},
}

func newestFirst(symbol string) [3]string { return [3]string{symbol + "_v3", symbol + "_v2", symbol} }

func (d *device) readProcesses() {
	r := &d.readings
	table := &d.table
	table.begin()
	c := table.ask(&d.handle)
	partial := c == noPermission
	if partial { // an instance may still be permitted
		for _, in := range d.instances {
			if table.ask(&in.handle) == success {
				c = success
			}
		}
	}
	if c != success {
		r.Processes, r.ProcessesPartial = gpu.Absent[[]gpu.Process](c.quality()), gpu.Absent[bool](c.quality())
		return
	}
	supported := d.takeSamples(d.cfg.Clock.Now())
	for i := range table.list {
		p := &table.list[i]
		p.Memory = nvidia.Within(p.Memory, r.Memory.Total)
		d.samples.fill(p, supported)
	}
	slices.SortFunc(table.list, nvidia.Busiest)
	r.Processes, r.ProcessesPartial = gpu.Of(table.list), gpu.Of(partial)
}

// takeSamples reads what processes used since the last call, or says why no sample came.
func (d *device) takeSamples(now time.Time) gpu.Quality {
	since := d.samples.since(now)
	rows, c := askRaw(&d.handle, "nvmlDeviceGetProcessUtilization", func(function, device unsafe.Pointer) ([]rawSample, code) {
		return d.table.usage(function, device, since)
	})
	switch c {
	case success, notFound: // not found: no process used anything
		d.samples.add(now, rows)
		return gpu.Good
	default:
		return c.quality()
	}
}

// mostPID is the largest pid that the kernel assigns.
const mostPID = 1 << 22

// processTable holds each listed process once.
type processTable struct {
	buffers
	list   []gpu.Process      // not nil; readings keep it, so it is never reused
	places map[rawProcess]int // index in list, by the row without its memory
}

// begin starts a new list, likely as long as the last one.
func (t *processTable) begin() {
	t.list = make([]gpu.Process, 0, len(t.list))
	if t.places == nil {
		t.places = map[rawProcess]int{}
	}
	clear(t.places)
}

// ask adds the rows of every list, with the newest function that the driver has. The code is success if one of the lists succeeded,
// otherwise the first list's code.
func (t *processTable) ask(h *handle) (result code) {
	for i, list := range processLists {
		rows, c := []rawProcess(nil), functionNotFound
		for _, symbol := range list.symbols {
			if c.older() {
				rows, c = askRaw(h, symbol, t.processes)
			}
		}
		t.add(list.kind, rows)
		if i == 0 || c == success {
			result = c
		}
	}
	return result
}

// add adds the rows of a list, except impossible ones. Several lists repeat the memory of a process; they don't split it.
func (t *processTable) add(kind gpu.ProcessType, rows []rawProcess) {
	for _, row := range rows {
		if row.pid == 0 || row.pid > mostPID {
			continue
		}
		memory := plain[gpu.Bytes](row.memory)
		row.memory = 0
		i, listed := t.places[row]
		if !listed {
			t.places[row] = len(t.list)
			t.list = append(t.list, gpu.Process{
				PID:             int(row.pid),
				Type:            kind,
				Memory:          memory,
				GPUInstance:     plain[int](row.gpuInstance),
				ComputeInstance: plain[int](row.computeInstance),
				Video:           gpu.Absent[gpu.Percent](gpu.NotSupported),
			})
			continue
		}
		p := &t.list[i]
		p.Type = nvidia.Combine(p.Type, kind)
		if v, ok := p.Memory.Get(); !ok || v <= memory.Or(0) {
			p.Memory = memory
		}
	}
}
