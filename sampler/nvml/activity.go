//go:build linux && cgo

package nvml

import (
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// activity compares a device's hardware counters with those of the previous reading.
type activity struct {
	support code                   // whether the device has counters, as of the last call
	metrics nvml.GpmMetricsGetType // for one comparison: 19 kB
	whole   counters               // of the device, outside MIG mode
	parts   map[int]*counters      // of each GPU instance, by its number
}

// counters are two samples of the counters of a device or a GPU instance, and the result of the last comparison.
type counters struct {
	buffers [2]nvml.GpmSample // of the driver, for the last sample and the next; nil if not allocated
	taken   time.Time         // the last sample; zero if none
	said    gpu.Activity
}

// soonest is the least time between two samples: the hardware updates its counters every 100 ms.
const soonest = 150 * time.Millisecond

// readActivity compares a new sample with the last one, unless the last one is too old.
func (d *device) readActivity() {
	r := &d.readings
	c := notSupported // with MIG, each instance has its own counters
	if !r.Modes.MIG.Or(false) {
		c = d.counts()
	}
	if c != success {
		d.free(&d.activity.whole)
		r.Activity = gpu.AbsentActivity(c.quality())
		return
	}
	r.Activity = d.compared(&d.activity.whole, func(buffer nvml.GpmSample) code {
		_, c := ask(&d.handle, "nvmlGpmSampleGet", alone(func(dev nvml.Device) nvml.Return { return dev.GpmSampleGet(buffer) }))
		return c
	})
}

// compared takes a sample and compares it with the last one.
func (d *device) compared(p *counters, take func(buffer nvml.GpmSample) code) gpu.Activity {
	c := d.allocate(p)
	if c != success {
		d.free(p)
		return gpu.AbsentActivity(c.quality())
	}
	last, next := p.buffers[0], p.buffers[1]
	now := d.cfg.Clock.Now()
	age := now.Sub(p.taken)
	if age < soonest { // the last result still holds
		return p.said
	}
	c = take(next)
	switch {
	case c != success:
		p.taken, p.said = time.Time{}, gpu.AbsentActivity(c.quality())
		return p.said
	case age <= 2*max(d.cfg.Window, d.cfg.Apart):
		p.said = d.activity.compare(&d.handle, last, next)
	default:
		p.said = gpu.Activity{}
	}
	p.buffers, p.taken = [2]nvml.GpmSample{next, last}, now
	return p.said
}

// counts reports whether the device has counters.
func (d *device) counts() code {
	a := &d.activity
	if d.isDue("activity support", seldom) {
		var supported nvml.GpmSupport
		supported, a.support = ask(&d.handle, "nvmlGpmQueryDeviceSupport", nvml.Device.GpmQueryDeviceSupport)
		if a.support == success && supported.IsSupportedDevice == 0 {
			a.support = notSupported
		}
	}
	return a.support
}

// allocate makes sure that two buffers exist.
func (d *device) allocate(p *counters) code {
	for i, buffer := range p.buffers {
		if buffer != nil {
			continue
		}
		sample, c := ask(&d.handle, "nvmlGpmSampleAlloc", func(nvml.Device) (nvml.GpmSample, nvml.Return) {
			return d.lib.api.GpmSampleAlloc()
		})
		if c != success {
			return c
		}
		p.buffers[i] = sample
	}
	return success
}

// stopComparing frees the buffers. The next reading then has nothing to compare with.
func (d *device) stopComparing() {
	d.free(&d.activity.whole)
	for _, p := range d.activity.parts {
		d.free(p)
	}
	clear(d.activity.parts)
}

func (d *device) free(p *counters) {
	for _, buffer := range p.buffers {
		if buffer == nil {
			continue
		}
		_, c := invoke(d.lib, "nvmlGpmSampleFree", d.lib.api, alone(func(api nvml.Interface) nvml.Return {
			return api.GpmSampleFree(buffer)
		}))
		if c != success {
			d.log.Debug("a sample of counters was not freed", "err", c)
		}
	}
	*p = counters{}
}

// The metrics in the order of the readings that compare fills.
var (
	partMetrics = [...]nvml.GpmMetricId{
		nvml.GPM_METRIC_GRAPHICS_UTIL, nvml.GPM_METRIC_SM_UTIL, nvml.GPM_METRIC_SM_OCCUPANCY,
		nvml.GPM_METRIC_ANY_TENSOR_UTIL, nvml.GPM_METRIC_FP64_UTIL, nvml.GPM_METRIC_FP32_UTIL,
		nvml.GPM_METRIC_FP16_UTIL, nvml.GPM_METRIC_INTEGER_UTIL, nvml.GPM_METRIC_DRAM_BW_UTIL,
	}
	rateMetrics = [...]nvml.GpmMetricId{
		nvml.GPM_METRIC_PCIE_TX_PER_SEC, nvml.GPM_METRIC_PCIE_RX_PER_SEC,
		nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
	}
	metrics = slices.Concat(partMetrics[:], rateMetrics[:])
)

func (a *activity) compare(h *handle, before, after nvml.GpmSample) gpu.Activity {
	get := &a.metrics
	*get = nvml.GpmMetricsGetType{NumMetrics: uint32(len(metrics)), Sample1: before, Sample2: after}
	for i, id := range metrics {
		get.Metrics[i].MetricId = uint32(id)
	}
	_, c := ask(h, "nvmlGpmMetricsGet", alone(func(nvml.Device) nvml.Return { return h.lib.api.GpmMetricsGet(get) }))
	if c != success {
		return gpu.AbsentActivity(c.quality())
	}
	var out gpu.Activity
	parts := [len(partMetrics)]*gpu.Reading[gpu.Percent]{
		&out.Engine, &out.SM, &out.Occupancy, &out.Tensor, &out.FP64, &out.FP32, &out.FP16, &out.Integer, &out.MemoryBandwidth,
	}
	rates := [len(rateMetrics)]*gpu.Reading[gpu.BytesPerSecond]{&out.PCIeSent, &out.PCIeReceived, &out.NVLinkSent, &out.NVLinkReceived}
	for i, m := range get.Metrics[:len(parts)] {
		*parts[i] = converted(m.Value, code(m.NvmlReturn), activePart)
	}
	for i, m := range get.Metrics[len(parts):len(metrics)] {
		*rates[i] = converted(m.Value, code(m.NvmlReturn), traffic)
	}
	return out
}

// activePart converts a share in percent, which may be slightly above 100.
func activePart(v float64) gpu.Reading[gpu.Percent] {
	const most, grain = 100, 1
	if counted(v) && v > most+grain {
		return gpu.DoubtfulOf[gpu.Percent](most)
	}
	return reported(counted(v), gpu.Percent(min(v, most)))
}

// traffic converts MiB per second.
func traffic(v float64) gpu.Reading[gpu.BytesPerSecond] {
	return nvidia.Within(reported(counted(v), gpu.BytesPerSecond(v*(1<<20))), gpu.Of(nvidia.FastestLink))
}

// counted reports whether a counter can have this value.
func counted(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// readTraffic measures the PCIe traffic if that is turned on and the counters don't report it. A measurement blocks for 20 ms in each
// direction, so readings in between repeat the last values with their time.
func (d *device) readTraffic() {
	t, a := &d.traffic, &d.readings.Activity
	if !d.cfg.PCIeThroughput || byCounters(a.PCIeSent) || byCounters(a.PCIeReceived) {
		return
	}
	if d.isDue("PCIe throughput", sometimes) {
		d.measureTraffic()
	}
	a.PCIeSent, a.PCIeReceived, a.PCIeMeasuredAt = t.PCIeSent, t.PCIeReceived, t.PCIeMeasuredAt
}

// byCounters reports whether the counters report a reading, now or from the next reading on.
func byCounters(r gpu.Reading[gpu.BytesPerSecond]) bool {
	return r.Quality() != gpu.NotSupported && r.Quality() != gpu.NotPermitted
}

func (d *device) measureTraffic() {
	t, now := &d.traffic, d.cfg.Clock.Now().UTC()
	rate := func(which nvml.PcieUtilCounter) gpu.Reading[gpu.BytesPerSecond] {
		return reading(&d.handle, "nvmlDeviceGetPcieThroughput", bind(which, nvml.Device.GetPcieThroughput), kilobytes)
	}
	t.PCIeSent = rate(nvml.PCIE_UTIL_TX_BYTES)
	t.PCIeReceived = rate(nvml.PCIE_UTIL_RX_BYTES)
	if t.PCIeSent.Present() || t.PCIeReceived.Present() {
		t.PCIeMeasuredAt = gpu.Of(now)
	} else {
		t.PCIeMeasuredAt = gpu.Absent[time.Time](t.PCIeSent.Quality())
	}
}

// kilobytes converts KB per second, taken as 1000 bytes each: NVML's documentation does not say, but writes KiB and MiB where it means
// powers of 2.
func kilobytes(v uint32) gpu.Reading[gpu.BytesPerSecond] {
	return nvidia.Within(reported(known(v), 1000*gpu.BytesPerSecond(v)), gpu.Of(nvidia.FastestBus))
}
