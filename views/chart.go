package views

import "github.com/gpuwhy/gpuwhy/gpu"

// A Chart is one of the pictures of the last minutes; scripts draw it.
type Chart struct {
	Metric, Label, Unit string
	// Hidden is set where no device that is charted has such a reading, now or
	// in the recent past: a server's cards have no fan.
	Hidden bool
}

// chartList names the charts by the metrics that the recent past is kept of,
// with whether a device has such a reading now.
var chartList = []struct {
	metric, label, unit string
	read                func(*gpu.Device) bool
}{
	{"utilization_percent", "Utilization", "%", func(d *gpu.Device) bool { return d.Utilization.GPU.Present() }},
	{"memory_percent", "Memory", "%", func(d *gpu.Device) bool { return d.Memory.Utilization().Present() }},
	{"temperature_celsius", "Temperature", "°C", func(d *gpu.Device) bool { return d.Thermal.GPU.Present() }},
	{"power_watts", "Power", "W", func(d *gpu.Device) bool { return d.Power.Draw.Present() }},
	{"fan_percent", "Fan", "%", func(d *gpu.Device) bool { return d.Fans.Commanded().Present() }},
	{"sm_clock_mhz", "Clock", "MHz", func(d *gpu.Device) bool { return d.Clocks.SM.Present() }},
	{"memory_bandwidth_percent", "Bandwidth", "%", func(d *gpu.Device) bool { return d.Activity.MemoryBandwidth.Present() }},
}

// mostCharted is how many devices are charted where there are too many for a
// card each: those that stand out.
const mostCharted = 8

// newCharts are all charts, of which those are hidden that would be empty.
func newCharts(in Input, devices []*gpu.Device) []Chart {
	var only []*gpu.Device
	if len(in.devices()) > mostCards {
		devices = devices[:mostCharted]
		only = devices
	}
	charts := make([]Chart, len(chartList))
	for i, c := range chartList {
		shown := in.Kept != nil && in.Kept(c.metric, only)
		for _, d := range devices {
			shown = shown || c.read(d)
		}
		charts[i] = Chart{c.metric, c.label, c.unit, !shown}
	}
	return charts
}
