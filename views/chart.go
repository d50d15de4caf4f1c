package views

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A Chart shows the last minutes; scripts draw it.
type Chart struct {
	Metric, Label, Unit string
	// Hidden: no device in the chart has such a reading, now or in the recent
	// past. A server's GPUs have no fan.
	Hidden bool
}

// charted are the readings that have a chart each, with its title.
var charted = []struct{ reading, label string }{
	{"utilization.gpu", "Utilization"}, {"memory.share", "Memory"}, {"thermal.gpu", "Temperature"}, {"power.draw", "Power"},
	{"fans.commanded", "Fan"}, {"clocks.sm", "Clock"}, {"activity.memory_bandwidth", "Bandwidth"},
}

// mostCharted devices stand out in charts where there are too many for a tile each.
const mostCharted = 8

// newCharts are the charts of devices, and of a machine without one. A chart that would be empty is
// hidden.
func newCharts(in Input, devices []*gpu.Device) []Chart {
	var among []*gpu.Device // nil: all
	if len(in.devices()) > mostTiles {
		devices = devices[:mostCharted]
		among = devices
	}
	if in.only != nil {
		among = devices
	}
	var charts []Chart
	for _, c := range charted {
		of := catalog.Reading(c.reading)
		shown := in.Kept != nil && in.Kept(of.Kept, among) ||
			slices.ContainsFunc(devices, func(d *gpu.Device) bool { return of.At(d).Present() })
		charts = append(charts, Chart{of.Kept, c.label, of.Unit.String(), !shown})
	}
	if len(in.Nodes) > 1 || len(in.devices()) > 0 {
		return charts
	}
	for _, r := range catalog.OfHost {
		shown := in.Kept != nil && in.Kept(r.Kept, nil) ||
			len(in.Nodes) > 0 && in.Nodes[0].Host != nil && r.Number(in.Nodes[0].Host).Present()
		charts = append(charts, Chart{r.Kept, r.Label, r.Unit, !shown})
	}
	return charts
}
