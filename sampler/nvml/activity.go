//go:build linux && cgo

package nvml

import (
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// activity compares a device's counters with those of the reading before. The
// driver fills buffers that it has made; there are two for each device that has
// such counters, and none for others.
type activity struct {
	window time.Duration // see Config.Window

	support code // of the last question whether the device has them

	last, next nvml.GpmSample // nil while there are none
	taken      time.Time      // when last was filled; zero where it was not
	result     gpu.Activity   // of the last comparison
}

const (
	// soonest is how far two samples have to be apart: the counters themselves
	// are renewed each 100 ms.
	soonest = 150 * time.Millisecond
	// fastestLink is more bytes a second than any link moves.
	fastestLink gpu.BytesPerSecond = 1e14
)

// readActivity takes a sample and compares it with the last. One that is too old
// is of no use: the mean of so long a time says nothing of the present.
func readActivity(d *device, r *gpu.Readings) {
	a := &d.activity
	if r.Modes.MIG.Or(false) { // the counters are the instances' then
		d.stopComparing()
		r.Activity = gpu.AbsentActivity(gpu.NotSupported)
		return
	}
	if c := d.compares(); c != success {
		d.stopComparing()
		r.Activity = gpu.AbsentActivity(c.quality())
		return
	}
	now := time.Now()
	age := now.Sub(a.taken)
	if !a.taken.IsZero() && age < soonest {
		r.Activity = a.result
		return
	}
	_, c := ask(&d.handle, "nvmlGpmSampleGet", alone(func(dev nvml.Device) nvml.Return { return dev.GpmSampleGet(a.next) }))
	fresh := !a.taken.IsZero() && age <= 2*a.window
	switch {
	case c != success:
		a.taken, a.result = time.Time{}, gpu.AbsentActivity(c.quality())
	case fresh:
		a.result = compare(&d.handle, a.last, a.next)
	default:
		a.result = gpu.Activity{}
	}
	if c == success {
		a.last, a.next, a.taken = a.next, a.last, now
	}
	r.Activity = a.result
}

// compares reports whether the device has the counters, which is asked once a
// minute, and sees that there are two buffers where it does.
func (d *device) compares() code {
	a := &d.activity
	if d.isDue("activity support", d.began) {
		d.due["activity support"] = d.began.Add(seldom)
		var supported nvml.GpmSupport
		supported, a.support = ask(&d.handle, "nvmlGpmQueryDeviceSupport", nvml.Device.GpmQueryDeviceSupport)
		if a.support == success && supported.IsSupportedDevice == 0 {
			a.support = notSupported
		}
	}
	c := a.support
	for _, buffer := range []*nvml.GpmSample{&a.last, &a.next} {
		if c == success && *buffer == nil {
			var sample nvml.GpmSample
			if sample, c = d.newSample(); c == success {
				*buffer = sample
			}
		}
	}
	return c
}

func (d *device) newSample() (nvml.GpmSample, code) {
	return ask(&d.handle, "nvmlGpmSampleAlloc", func(nvml.Device) (nvml.GpmSample, nvml.Return) {
		return d.lib.api.GpmSampleAlloc()
	})
}

// stopComparing gives the buffers back. The next reading is a first one.
func (d *device) stopComparing() {
	a := &d.activity
	for _, buffer := range []*nvml.GpmSample{&a.last, &a.next} {
		if *buffer == nil {
			continue
		}
		_, c := invoke(d.lib, "nvmlGpmSampleFree", d.lib.api, alone(func(api nvml.Interface) nvml.Return {
			return api.GpmSampleFree(*buffer)
		}))
		if c != success {
			d.log.Debug("a sample of counters was not freed", "err", c)
		}
		*buffer = nil
	}
	a.taken, a.result = time.Time{}, gpu.Activity{}
}

// The metrics that are asked of two samples, in the order of the readings that
// compare fills.
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

// compare asks what lies between two samples.
func compare(h *handle, before, after nvml.GpmSample) gpu.Activity {
	get := nvml.GpmMetricsGetType{NumMetrics: uint32(len(metrics)), Sample1: before, Sample2: after}
	for i, id := range metrics {
		get.Metrics[i].MetricId = uint32(id)
	}
	_, c := ask(h, "nvmlGpmMetricsGet", alone(func(nvml.Device) nvml.Return { return h.lib.api.GpmMetricsGet(&get) }))
	if c != success {
		return gpu.AbsentActivity(c.quality())
	}
	var a gpu.Activity
	parts := [len(partMetrics)]*gpu.Reading[gpu.Percent]{
		&a.Engine, &a.SM, &a.Occupancy, &a.Tensor, &a.FP64, &a.FP32, &a.FP16, &a.Integer, &a.MemoryBandwidth,
	}
	rates := [len(rateMetrics)]*gpu.Reading[gpu.BytesPerSecond]{&a.PCIeSent, &a.PCIeReceived, &a.NVLinkSent, &a.NVLinkReceived}
	for i, m := range get.Metrics[:len(parts)] {
		*parts[i] = converted(m.Value, code(m.NvmlReturn), activePart)
	}
	for i, m := range get.Metrics[len(parts):len(metrics)] {
		*rates[i] = converted(m.Value, code(m.NvmlReturn), traffic)
	}
	return a
}

// activePart is a share in percent. A little more than all of it is the counters'
// grain.
func activePart(v float64) gpu.Reading[gpu.Percent] {
	const most, grain = 100, 1
	if counted(v) && v > most+grain {
		return gpu.DoubtfulOf[gpu.Percent](most)
	}
	return reported(counted(v), gpu.Percent(min(v, most)))
}

// traffic is given in MiB a second.
func traffic(v float64) gpu.Reading[gpu.BytesPerSecond] {
	return within(reported(counted(v), gpu.BytesPerSecond(v*(1<<20))), gpu.Of(fastestLink))
}

// counted reports whether a number can come of counters.
func counted(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
