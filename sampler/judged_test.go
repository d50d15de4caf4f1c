package sampler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Reports of all sources are judged once, with each device's earlier reports, and a source's own lists stay as they are.
func TestReadingsAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fans := []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](44), RPM: gpu.Of[gpu.RPM](65535)}}
		reads := func(name gpu.Vendor, temps ...gpu.Celsius) *fakeSource {
			n := 0
			return &fakeSource{name: string(name), answer: func(ctx context.Context) (*gpu.Snapshot, error) {
				d := device(string(name), "")
				d.Vendor, d.SampledAt, d.Fans.Fans = name, time.Now(), fans
				d.Thermal.GPU = gpu.Of(temps[min(n, len(temps)-1)])
				d.Clocks.EventReasons = gpu.Of(gpu.ReasonThermalSlowdown)
				n++
				return answers(d)(ctx)
			}}
		}
		_, out := start(t, nil, reads(gpu.AMD, 41, 41), reads(gpu.Intel, 45, 118, 46))
		time.Sleep(6 * time.Second)
		for i, d := range out.last().Devices {
			if d.Fans.Fans[0].RPM.Quality() != gpu.Implausible || d.Clocks.EventReasons.Or(1) != 0 {
				t.Errorf("%s: %v, %v", d.UUID, d.Fans.Fans[0].RPM, d.Clocks.EventReasons)
			}
			if want := []gpu.Quality{gpu.Good, gpu.Doubtful}[i]; d.Thermal.GPU.Quality() != want {
				t.Errorf("%s: %v", d.UUID, d.Thermal.GPU)
			}
		}
		if fans[0].RPM != gpu.Of[gpu.RPM](65535) {
			t.Errorf("the source's fan is %v", fans[0].RPM)
		}
		time.Sleep(5 * time.Second)
		if d := out.last().Devices[1]; d.Thermal.GPU != gpu.Of[gpu.Celsius](46) {
			t.Errorf("after the jump: %v", d.Thermal.GPU)
		}
	})
}
