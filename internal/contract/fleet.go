package contract

import (
	"strconv"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Fleet answers GET /api/v1/monitoring/gpu-metrics.
type Fleet struct {
	// Time of the snapshot; before the first reading, when the monitor started.
	Timestamp string     `json:"timestamp" format:"date-time"`
	GPUs      []FleetGPU `json:"gpus"`                 // All GPUs of the snapshot; empty if there are none.
	Source    string     `json:"source" enum:"source"` // The source of the readings.
}

// FleetGPU is one GPU in the fleet manager's format. A GPU that does not answer stays in the list
// with null readings.
type FleetGPU struct {
	// "gpu-" and the GPU's gpu_id; with several machines, its place in the list.
	ID          string      `json:"id"`
	Name        string      `json:"name"`                       // Product name.
	UUID        string      `json:"uuid"`                       // The GPU's key, unchanged by a restart.
	Utilization Int         `json:"utilization" unit:"percent"` // Share of the last sample period in which a kernel ran.
	Memory      FleetMemory `json:"memory"`                     // The GPU's own memory.
	Temperature Int         `json:"temperature" unit:"celsius"` // Of the die.
	PowerUsage  Watts       `json:"power_usage" unit:"watts"`   // Power draw.
	Clocks      FleetClocks `json:"clock_speeds"`               // Current clock frequencies.

	State  string `json:"state" enum:"state"`   // Whether gpuwhy can read the GPU.
	Node   string `json:"node"`                 // Name of the GPU's machine.
	Source string `json:"source" enum:"source"` // The source of the GPU's readings.
}

// FleetMemory is a GPU's memory.
type FleetMemory struct {
	Total Int `json:"total" unit:"mib"` // Total memory.
	Used  Int `json:"used" unit:"mib"`  // Memory that programs hold, without the driver's own reserve.
	Free  Int `json:"free" unit:"mib"`  // Free memory.
}

// FleetClocks are a GPU's clock frequencies.
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
