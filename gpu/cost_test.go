package gpu_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m gpu.Meter
		var wg sync.WaitGroup
		for _, took := range []time.Duration{30 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 0} {
			wg.Go(func() {
				began := gpu.Clock()
				time.Sleep(took)
				m.Since(began)
			})
		}
		wg.Wait()
		want := gpu.Cost{Source: "nvml", Call: "f", Count: 4, Total: 100 * time.Millisecond, Longest: 50 * time.Millisecond}
		if got := m.Cost("nvml", "f"); got != want {
			t.Errorf("measured %+v, want %+v", got, want)
		}
	})
}

func TestMeterAllocatesNothing(t *testing.T) {
	var m gpu.Meter
	if n := testing.AllocsPerRun(100, func() { m.Since(gpu.Clock()) }); n > 0 {
		t.Errorf("measuring a call allocates %v times", n)
	}
}
