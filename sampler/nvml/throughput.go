//go:build linux && cgo

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// fastestBus is more bytes a second than PCIe moves.
const fastestBus gpu.BytesPerSecond = 1e12

// throughput is the last measurement of a device's traffic over PCIe.
type throughput struct {
	wanted         bool // see Config.PCIeThroughput
	sent, received gpu.Reading[gpu.BytesPerSecond]
	at             gpu.Reading[time.Time]
}

// readTraffic measures the traffic over PCIe if that is wanted and the counters of
// readActivity don't give it. NVML blocks for 20 ms in each direction, so it measures
// at most every ten seconds; readings in between repeat the last values with their
// time. A device that failed is measured again when it works again.
func (d *device) readTraffic() {
	t, a := &d.traffic, &d.readings.Activity
	if !t.wanted || byCounters(a.PCIeSent) || byCounters(a.PCIeReceived) {
		return
	}
	if d.isDue("PCIe throughput", sometimes) {
		t.measure(&d.handle)
	}
	a.PCIeSent, a.PCIeReceived, a.PCIeMeasuredAt = t.sent, t.received, t.at
}

// byCounters reports whether the counters give a reading, or will at the next reading.
func byCounters(r gpu.Reading[gpu.BytesPerSecond]) bool {
	return r.Quality() != gpu.NotSupported && r.Quality() != gpu.NotPermitted
}

// measure asks for one direction after the other.
func (t *throughput) measure(h *handle) {
	now := time.Now().UTC()
	t.sent = reading(h, "nvmlDeviceGetPcieThroughput", at(nvml.PCIE_UTIL_TX_BYTES, nvml.Device.GetPcieThroughput), kilobytes)
	t.received = reading(h, "nvmlDeviceGetPcieThroughput", at(nvml.PCIE_UTIL_RX_BYTES, nvml.Device.GetPcieThroughput), kilobytes)
	if t.sent.Present() || t.received.Present() {
		t.at = gpu.Of(now)
	} else {
		t.at = gpu.Absent[time.Time](t.sent.Quality())
	}
}

// kilobytes is a rate in KB a second, of 1000 bytes each: NVML's documentation does
// not say, but writes KiB and MiB where it means powers of 2.
func kilobytes(v uint32) gpu.Reading[gpu.BytesPerSecond] {
	return within(reported(known(v), 1000*gpu.BytesPerSecond(v)), gpu.Of(fastestBus))
}
