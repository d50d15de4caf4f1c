package contract

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Fleet answers GET /api/v1/monitoring/gpu-metrics.
type Fleet struct {
	// Time of the snapshot; the monitor's start, before the first reading.
	Timestamp string     `json:"timestamp" format:"date-time"`
	GPUs      []FleetGPU `json:"gpus"`                 // Every GPU of the snapshot; empty where there is none.
	Source    string     `json:"source" enum:"source"` // Where the readings come from.
}

// FleetGPU is one GPU in the fleet manager's words. One that does not answer
// stays in the list with null readings.
type FleetGPU struct {
	// "gpu-" and the GPU's gpu_id; its place in the list, where there are several machines.
	ID          string      `json:"id"`
	Name        string      `json:"name"`                       // Product name.
	UUID        string      `json:"uuid"`                       // The GPU's key, the same after a restart.
	Utilization Int         `json:"utilization" unit:"percent"` // Share of the last sample period in which a kernel ran.
	Memory      FleetMemory `json:"memory"`                     // The GPU's own memory.
	Temperature Int         `json:"temperature" unit:"celsius"` // Of the die.
	PowerUsage  Watts       `json:"power_usage" unit:"watts"`   // Power drawn.
	Clocks      FleetClocks `json:"clock_speeds"`               // Frequencies now.

	State  string `json:"state" enum:"state"`   // Whether the GPU can be read.
	Node   string `json:"node"`                 // Name of the machine that the GPU is in.
	Source string `json:"source" enum:"source"` // Where the GPU's readings come from.
}

// FleetMemory is a GPU's memory.
type FleetMemory struct {
	Total Int `json:"total" unit:"mib"` // All of it.
	Used  Int `json:"used" unit:"mib"`  // What programs hold, without what the driver reserves for itself.
	Free  Int `json:"free" unit:"mib"`  // What is left.
}

// FleetClocks are a GPU's frequencies.
type FleetClocks struct {
	Graphics Int `json:"graphics" unit:"megahertz"` // Of the graphics engine.
	Memory   Int `json:"memory" unit:"megahertz"`   // Of the memory.
}

// NewFleet makes it. Its ids count over the whole list.
func NewFleet(m Monitor, f *insight.Fleet) Fleet {
	out := Fleet{GPUs: []FleetGPU{}}
	out.Timestamp, out.Source = m.head(f)
	for d := range f.Nodes().Devices() {
		id := d.Index
		if m.Several {
			id = len(out.GPUs)
		}
		out.GPUs = append(out.GPUs, newFleetGPU(id, d))
	}
	return out
}

func newFleetGPU(id int, d *gpu.Device) FleetGPU {
	return FleetGPU{
		ID:          "gpu-" + strconv.Itoa(id),
		Name:        d.Name,
		UUID:        d.UUID,
		Utilization: integer(d.Utilization.GPU),
		Memory:      FleetMemory{mibInteger(d.Memory.Total), mibInteger(d.Memory.Used), mibInteger(d.Memory.Free)},
		Temperature: integer(d.Thermal.GPU),
		PowerUsage:  d.Power.Draw,
		Clocks:      FleetClocks{integer(d.Clocks.Graphics), integer(d.Clocks.Memory)},
		State:       string(d.State),
		Node:        d.Node,
		Source:      d.Source,
	}
}
