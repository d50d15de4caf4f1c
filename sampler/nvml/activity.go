//go:build linux && cgo

package nvml

import (
	"math"
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
	_, c := ask(&d.handle, "nvmlGpmSampleGet", func(dev nvml.Device) (struct{}, nvml.Return) {
		return struct{}{}, dev.GpmSampleGet(a.next)
	})
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
			*buffer, c = d.newSample()
		}
	}
	return c
}

func (d *device) newSample() (nvml.GpmSample, code) {
	return ask(&d.handle, "nvmlGpmSampleAlloc", func(nvml.Device) (nvml.GpmSample, nvml.Return) {
		sample, ret := d.lib.api.GpmSampleAlloc()
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		return sample, ret
	})
}

// stopComparing gives the buffers back. The next reading is a first one.
func (d *device) stopComparing() {
	a := &d.activity
	for _, buffer := range []*nvml.GpmSample{&a.last, &a.next} {
		if *buffer == nil {
			continue
		}
		_, c := invoke(d.lib, "nvmlGpmSampleFree", d.lib.api, func(api nvml.Interface) (struct{}, nvml.Return) {
			return struct{}{}, api.GpmSampleFree(*buffer)
		})
		if c != success {
			d.log.Debug("a sample of counters was not freed", "err", c)
		}
		*buffer = nil
	}
	a.taken, a.result = time.Time{}, gpu.Activity{}
}

// metrics are what is asked of two samples.
var metrics = [...]struct {
	id  nvml.GpmMetricId
	set func(a *gpu.Activity, v float64, c code)
}{
	{nvml.GPM_METRIC_GRAPHICS_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.Engine })},
	{nvml.GPM_METRIC_SM_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.SM })},
	{nvml.GPM_METRIC_SM_OCCUPANCY, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.Occupancy })},
	{nvml.GPM_METRIC_ANY_TENSOR_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.Tensor })},
	{nvml.GPM_METRIC_FP64_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.FP64 })},
	{nvml.GPM_METRIC_FP32_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.FP32 })},
	{nvml.GPM_METRIC_FP16_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.FP16 })},
	{nvml.GPM_METRIC_INTEGER_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.Integer })},
	{nvml.GPM_METRIC_DRAM_BW_UTIL, activePart(func(a *gpu.Activity) *gpu.Reading[gpu.Percent] { return &a.MemoryBandwidth })},
	{nvml.GPM_METRIC_PCIE_TX_PER_SEC, traffic(func(a *gpu.Activity) *gpu.Reading[gpu.BytesPerSecond] { return &a.PCIeSent })},
	{nvml.GPM_METRIC_PCIE_RX_PER_SEC, traffic(func(a *gpu.Activity) *gpu.Reading[gpu.BytesPerSecond] { return &a.PCIeReceived })},
	{nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, traffic(func(a *gpu.Activity) *gpu.Reading[gpu.BytesPerSecond] { return &a.NVLinkSent })},
	{nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, traffic(func(a *gpu.Activity) *gpu.Reading[gpu.BytesPerSecond] { return &a.NVLinkReceived })},
}

// compare asks what lies between two samples.
func compare(h *handle, before, after nvml.GpmSample) gpu.Activity {
	get := nvml.GpmMetricsGetType{NumMetrics: uint32(len(metrics)), Sample1: before, Sample2: after}
	for i, m := range metrics {
		get.Metrics[i].MetricId = uint32(m.id)
	}
	_, c := ask(h, "nvmlGpmMetricsGet", func(nvml.Device) (struct{}, nvml.Return) {
		return struct{}{}, h.lib.api.GpmMetricsGet(&get)
	})
	if c != success {
		return gpu.AbsentActivity(c.quality())
	}
	var out gpu.Activity
	for i, m := range metrics {
		m.set(&out, get.Metrics[i].Value, code(get.Metrics[i].NvmlReturn))
	}
	return out
}

// activePart is a share in percent. A little more than all of it is the counters'
// grain.
func activePart(at func(*gpu.Activity) *gpu.Reading[gpu.Percent]) func(*gpu.Activity, float64, code) {
	const most, grain = 100, 1
	return func(a *gpu.Activity, v float64, c code) {
		*at(a) = converted(v, c, func(v float64) gpu.Reading[gpu.Percent] {
			switch {
			case !counted(v):
				return gpu.Absent[gpu.Percent](gpu.NotReported)
			case v > most+grain:
				return gpu.DoubtfulOf[gpu.Percent](most)
			default:
				return gpu.Of(gpu.Percent(min(v, most)))
			}
		})
	}
}

// traffic is given in MiB a second.
func traffic(at func(*gpu.Activity) *gpu.Reading[gpu.BytesPerSecond]) func(*gpu.Activity, float64, code) {
	return func(a *gpu.Activity, v float64, c code) {
		*at(a) = converted(v, c, func(v float64) gpu.Reading[gpu.BytesPerSecond] {
			if !counted(v) {
				return gpu.Absent[gpu.BytesPerSecond](gpu.NotReported)
			}
			return within(gpu.Of(gpu.BytesPerSecond(v*(1<<20))), gpu.Of(fastestLink))
		})
	}
}

// counted reports whether a number can come of counters.
func counted(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
