//go:build linux && cgo

package nvml

import (
	"fmt"
	"maps"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// instance is a MIG instance. Its handle records its own failures.
type instance struct {
	handle
	facts gpu.Instance
}

// instancePrefix begins the names of functions called for an instance.
const instancePrefix = "MIG "

// listInstances lists the MIG instances, with everything that never changes.
func (d *device) listInstances() {
	d.instances = nil
	mig := d.readings.Modes.MIG
	d.readings.Modes.Instances = gpu.Map(mig, func(bool) int { return 0 })
	maps.DeleteFunc(d.failing, func(name string, _ failure) bool { return strings.HasPrefix(name, instancePrefix) })
	if !mig.Or(false) {
		return
	}
	most, refused := ask(&d.handle, "nvmlDeviceGetMaxMigDeviceCount", nvml.Device.GetMaxMigDeviceCount)
	for i := range most {
		dev, c := ask(&d.handle, "nvmlDeviceGetMigDeviceHandleByIndex", bind(i, nvml.Device.GetMigDeviceHandleByIndex))
		if c != success {
			if c != notFound && c != invalidArgument { // these mean that no instance has this index
				refused = c
			}
			continue
		}
		in := &instance{handle: handle{lib: d.lib, dev: dev, began: d.began, failing: d.failing, who: fmt.Sprint(instancePrefix, i, " ")}}
		if in.identify(d.identity.UUID) {
			d.instances = append(d.instances, in)
		}
	}
	d.readings.Modes.Instances = gpu.Of(len(d.instances))
	if refused != success && len(d.instances) == 0 { // none that we may see
		d.readings.Modes.Instances = gpu.Absent[int](refused.quality())
	}
}

// identify reads the instance's identity; false if it no longer exists.
func (in *instance) identify(device string) bool {
	h := &in.handle
	text, c := ask(h, "nvmlDeviceGetUUID", nvml.Device.GetUUID)
	if c != success {
		return false
	}
	uuid, usable := nvidia.UUID(text)
	name := textOf(ask(h, "nvmlDeviceGetName", nvml.Device.GetName))
	attributes, c := ask(h, "nvmlDeviceGetAttributes_v2", nvml.Device.GetAttributes)
	in.facts = gpu.Instance{
		UUID:              uuid,
		Name:              name.Or("MIG instance"),
		Profile:           nvidia.Profile(name),
		GPUInstance:       reading(h, "nvmlDeviceGetGpuInstanceId", nvml.Device.GetGpuInstanceId, plain[int]),
		ComputeInstance:   reading(h, "nvmlDeviceGetComputeInstanceId", nvml.Device.GetComputeInstanceId, plain[int]),
		Multiprocessors:   converted(attributes.MultiprocessorCount, c, plain[int]),
		MemorySlices:      converted(attributes.GpuInstanceSliceCount, c, plain[int]),
		ComputeSliceCount: converted(attributes.ComputeInstanceSliceCount, c, plain[int]),
	}
	if !usable { // as drivers before the 470 series named it
		in.facts.UUID = fmt.Sprintf("MIG-%s/%d/%d", device, in.facts.GPUInstance.Or(0), in.facts.ComputeInstance.Or(0))
	}
	return true
}

func (d *device) readInstances() {
	d.readings.Instances = nil
	means := d.compareInstances()
	for _, in := range d.instances {
		in.begin(d.began)
		readMemory(&in.handle, &in.facts.Memory)
		a := means(in.facts.GPUInstance)
		in.facts.Engine, in.facts.SM, in.facts.Tensor, in.facts.MemoryBandwidth = a.Engine, a.SM, a.Tensor, a.MemoryBandwidth
		d.readings.Instances = append(d.readings.Instances, in.facts)
	}
}

// compareInstances compares the counters of each GPU instance with those of the previous reading. Its compute instances share them.
func (d *device) compareInstances() func(instance gpu.Reading[int]) gpu.Activity {
	if len(d.instances) == 0 && len(d.activity.parts) == 0 {
		return nil // nobody asks
	}
	all := map[int]gpu.Activity{}
	support := notSupported
	if len(d.instances) > 0 {
		support = d.counts()
	}
	for _, in := range d.instances {
		id, ok := in.facts.GPUInstance.Get()
		if _, done := all[id]; done || !ok || support != success {
			continue
		}
		p := d.activity.parts[id]
		if p == nil {
			p = new(counters)
			if d.activity.parts == nil {
				d.activity.parts = map[int]*counters{}
			}
			d.activity.parts[id] = p
		}
		all[id] = d.compared(p, func(buffer nvml.GpmSample) code {
			_, c := ask(&d.handle, "nvmlGpmMigSampleGet", alone(func(dev nvml.Device) nvml.Return { return dev.GpmMigSampleGet(id, buffer) }))
			return c
		})
	}
	maps.DeleteFunc(d.activity.parts, func(id int, p *counters) bool {
		_, there := all[id]
		if !there {
			d.free(p)
		}
		return !there
	})
	return func(instance gpu.Reading[int]) gpu.Activity {
		id, ok := instance.Get()
		switch {
		case support != success:
			return gpu.AbsentActivity(support.quality())
		case !ok:
			return gpu.Activity{}
		}
		return all[id]
	}
}
