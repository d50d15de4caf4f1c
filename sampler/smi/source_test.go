package smi

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// Every machine is read as a whole, and keeps the promises of a device.
func TestMachines(t *testing.T) {
	for _, name := range fakesmi.Names() {
		t.Run(name, func(t *testing.T) {
			snap := whole(t, source(t, machine(t, name)))
			for i := range snap.Devices {
				d := &snap.Devices[i]
				for _, problem := range sourcetest.Check(d) {
					t.Error(problem)
				}
				if d.PCI == "" || d.UUID[:4] != "GPU-" || !d.Thermal.GPU.Present() || !d.Memory.Total.Present() ||
					!d.Clocks.SM.Present() ||
					!d.Clocks.MaxVideo.Present() || !d.Clocks.EventReasons.Present() || !d.Clocks.PerformanceState.Present() {
					t.Errorf("%+v", d)
				}
			}
			if snap.Source != gpu.SourceNvidiaSMI || len(snap.Drivers) != 1 || !snap.Drivers[0].Version.Present() {
				t.Errorf("source %q, drivers %+v", snap.Source, snap.Drivers)
			}
		})
	}
}
