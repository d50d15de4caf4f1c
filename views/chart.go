package views

import "github.com/gpuwhy/gpuwhy/gpu"

// A Chart shows the last minutes; scripts draw it.
type Chart struct {
	Metric, Label, Unit string
	// Hidden: no device in the chart has such a reading, now or in the recent
	// past. A server's GPUs have no fan.
	Hidden bool
}

// chartList names the charts by the metrics of the recent past, with whether a
// device has such a reading now.
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

// mostCharted is how many devices the charts have where there are too many for
// a tile each: those that stand out.
const mostCharted = 8

// newCharts are all charts. A chart that would be empty is hidden.
func newCharts(in Input, devices []*gpu.Device) []Chart {
	var among []*gpu.Device // nil: all
	if len(in.devices()) > mostTiles {
		devices = devices[:mostCharted]
		among = devices
	}
	if in.only != nil {
		among = devices
	}
	charts := make([]Chart, len(chartList))
	for i, c := range chartList {
		shown := in.Kept != nil && in.Kept(c.metric, among)
		for _, d := range devices {
			shown = shown || c.read(d)
		}
		charts[i] = Chart{c.metric, c.label, c.unit, !shown}
	}
	return charts
}
