//go:build linux && cgo

package nvml

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// processLists are the driver's lists of processes, each with its functions
// from the newest to the oldest.
var processLists = []struct {
	kind    gpu.ProcessType
	symbols []string
}{
	{gpu.TypeCompute, []string{
		"nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2",
		"nvmlDeviceGetComputeRunningProcesses",
	}},
	{gpu.TypeGraphics, []string{
		"nvmlDeviceGetGraphicsRunningProcesses_v3",
		"nvmlDeviceGetGraphicsRunningProcesses_v2",
		"nvmlDeviceGetGraphicsRunningProcesses",
	}},
	{gpu.TypeMPS, []string{
		"nvmlDeviceGetMPSComputeRunningProcesses_v3",
		"nvmlDeviceGetMPSComputeRunningProcesses_v2",
		"nvmlDeviceGetMPSComputeRunningProcesses",
	}},
}

func (d *device) readProcesses() {
	r := &d.readings
	table := processTable{}
	c := table.ask(&d.handle)
	if c == noPermission { // an instance may still be permitted
		for _, in := range d.instances {
			if table.ask(&in.handle) == success {
				c = success
			}
		}
	}
	if c != success {
		r.Processes = gpu.Absent[[]gpu.Process](c.quality())
		return
	}
	supported := d.takeSamples(time.Now())
	r.Processes = gpu.Of(table.processes(r.Memory.Total, func(p *gpu.Process) {
		d.samples.fill(p, supported)
	}))
}

// takeSamples asks what processes used since the last question. The quality is Good,
// or says why there are no samples.
func (d *device) takeSamples(now time.Time) gpu.Quality {
	since := d.samples.since(now)
	rows, c := askRaw(&d.handle, "nvmlDeviceGetProcessUtilization", func(function, device unsafe.Pointer) ([]rawSample, code) {
		return rawSamples(function, device, since)
	})
	switch c {
	case success, notFound: // not found: no process used anything
		d.samples.add(now, rows)
		return gpu.Good
	default:
		return c.quality()
	}
}

// listOf asks the newest function for a list that the driver has.
func listOf(h *handle, symbols []string) (rows []rawProcess, c code) {
	for _, symbol := range symbols {
		rows, c = askRaw(h, symbol, rawProcesses)
		if !c.older() {
			break
		}
	}
	return rows, c
}

// processTable has the rows of all lists by process and MIG instance.
type processTable map[processKey]processRow

type processKey struct{ pid, gpuInstance, computeInstance uint32 }

type processRow struct {
	kind   gpu.ProcessType
	memory gpu.Reading[gpu.Bytes]
}

// ask adds the rows of every list. The code is success if one of them was there,
// otherwise that of the first.
func (t processTable) ask(h *handle) (result code) {
	for i, list := range processLists {
		rows, c := listOf(h, list.symbols)
		t.add(list.kind, rows)
		if i == 0 || c == success {
			result = c
		}
	}
	return result
}

// add adds the rows of a list, without rows that can't be right. Several lists repeat
// the memory of a process, they don't split it.
func (t processTable) add(kind gpu.ProcessType, rows []rawProcess) {
	const mostPID = 1 << 22 // the largest that the kernel gives
	for _, raw := range rows {
		if raw.pid == 0 || raw.pid > mostPID {
			continue
		}
		key := processKey{raw.pid, raw.gpuInstance, raw.computeInstance}
		row := processRow{kind, plain[gpu.Bytes](raw.memory)}
		if old, listed := t[key]; listed {
			row.kind = combine(old.kind, kind)
			if v, ok := old.memory.Get(); ok && v > row.memory.Or(0) {
				row.memory = old.memory
			}
		}
		t[key] = row
	}
}

func combine(a, b gpu.ProcessType) gpu.ProcessType {
	switch {
	case a == b:
		return a
	case a == gpu.TypeMPS || b == gpu.TypeMPS:
		return gpu.TypeMPS
	default:
		return gpu.TypeComputeGraphics
	}
}

// processes are those of the table, busiest first. Fill adds what each one uses.
func (t processTable) processes(total gpu.Reading[gpu.Bytes], fill func(*gpu.Process)) []gpu.Process {
	out := make([]gpu.Process, 0, len(t))
	for k, row := range t {
		p := gpu.Process{
			PID:             int(k.pid),
			Type:            row.kind,
			Memory:          within(row.memory, total),
			GPUInstance:     plain[int](k.gpuInstance),
			ComputeInstance: plain[int](k.computeInstance),
		}
		fill(&p)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b gpu.Process) int {
		return cmp.Or(
			cmp.Compare(trusted(b.SM), trusted(a.SM)),
			cmp.Compare(trusted(b.Memory), trusted(a.Memory)),
			cmp.Compare(a.PID, b.PID),
			cmp.Compare(a.GPUInstance.Or(-1), b.GPUInstance.Or(-1)),
			cmp.Compare(a.ComputeInstance.Or(-1), b.ComputeInstance.Or(-1)),
		)
	})
	return out
}

// trusted is the value of a reading for sorting: a doubtful one sorts last.
func trusted[T gpu.Percent | gpu.Bytes](r gpu.Reading[T]) T {
	if r.Quality() != gpu.Good {
		return 0
	}
	return r.Or(0)
}
