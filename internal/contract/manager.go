package contract

import (
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Devices answers GET /api/gpu/devices.
type Devices struct {
	Devices []ManagedDevice `json:"devices"` // every GPU, by index
	Count   int             `json:"count"`   // the number of rows
	// Time of the snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
	Source    string `json:"source" enum:"source"` // the source of the readings
}

// ManagedDevice is one device of [Devices]. Metrics are null if the device does not report them or
// does not answer.
type ManagedDevice struct {
	Index       int     `json:"index"`                        // place by PCI address
	Name        string  `json:"name"`                         // product name
	TotalMemory Int     `json:"total_memory_mb"`              // total memory
	FreeMemory  Int     `json:"free_memory_mb"`               // free memory
	UsedMemory  Int     `json:"used_memory_mb"`               // memory that programs hold
	Utilization Int     `json:"utilization_percent"`          // share of the time in which a kernel ran
	Temperature Int     `json:"temperature_c" unit:"celsius"` // of the die
	Available   bool    `json:"is_available"`                 // whether it answers
	Error       *string `json:"error_message"`                // Why it does not answer, and what to do. Null while it answers.

	UUID   string `json:"uuid"`                 // the GPU's key
	Node   string `json:"node"`                 // name of its machine
	Source string `json:"source" enum:"source"` // the source of its readings
}

// NewDevices makes it.
func NewDevices(m Monitor, f *insight.Fleet) Devices {
	out := Devices{Devices: []ManagedDevice{}}
	out.Timestamp, out.Source = m.head(f)
	for d := range f.Nodes().Devices() {
		out.Devices = append(out.Devices, newManagedDevice(d))
	}
	out.Count = len(out.Devices)
	return out
}

func newManagedDevice(d *gpu.Device) ManagedDevice {
	m := ManagedDevice{
		Index:       d.Index,
		Name:        d.Name,
		TotalMemory: mibInteger(d.Memory.Total),
		FreeMemory:  mibInteger(d.Memory.Free),
		UsedMemory:  mibInteger(d.Memory.Used),
		Utilization: integer(d.Utilization.GPU),
		Temperature: integer(d.Thermal.GPU),
		Available:   d.State == gpu.StateOK,
		UUID:        d.UUID,
		Node:        d.Node,
		Source:      d.Source,
	}
	if !m.Available {
		m.Error = new(stateText(d))
	}
	return m
}

// stateText says why a device is unavailable, even if no reason is known.
func stateText(d *gpu.Device) string {
	if text := d.Reason.Text(); text != "" {
		return text
	}
	switch d.State {
	case gpu.StateLost:
		return "the device is lost"
	case gpu.StateAsleep:
		return "the device is asleep and was not woken"
	default:
		return "the device is not answering"
	}
}

// DriverInfo answers GET /api/gpu/driver; null if no driver answers.
type DriverInfo struct {
	DriverVersion Text `json:"driver_version"` // version of the kernel driver. Null if no driver answers
	// Newest CUDA version that the driver supports, not the toolkit's version. Null if no driver
	// answers.
	CUDADriverVersion Text `json:"cuda_driver_version"`
	NVMLVersion       Text `json:"nvml_version"` // version of the management library. Null if no driver answers
	// Time of the snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
	Source    string `json:"source" enum:"source"` // the source of the readings
}

// NewDriverInfo makes it from the first driver that answers.
func NewDriverInfo(m Monitor, f *insight.Fleet) DriverInfo {
	var out DriverInfo
	out.Timestamp, out.Source = m.head(f)
	if drivers := f.Nodes().Drivers(); len(drivers) > 0 {
		d := drivers[0]
		out.DriverVersion, out.CUDADriverVersion, out.NVMLVersion = d.Version, d.CUDA, d.Library
	}
	return out
}
