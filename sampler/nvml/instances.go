//go:build linux && cgo

package nvml

import (
	"fmt"
	"maps"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// instance is a MIG instance. It has a handle of its own, since its failures are not
// those of the device.
type instance struct {
	handle
	facts gpu.Instance
}

// instancePrefix begins the names of functions that are called for an instance.
const instancePrefix = "MIG "

// readInstances lists the MIG instances, with everything that never changes.
func readInstances(d *device, r *gpu.Readings) {
	d.instances, r.Instances = nil, nil
	maps.DeleteFunc(d.failing, func(name string, _ failure) bool { return strings.HasPrefix(name, instancePrefix) })
	if !r.Modes.MIG.Or(false) {
		return
	}
	most, c := ask(&d.handle, "nvmlDeviceGetMaxMigDeviceCount", nvml.Device.GetMaxMigDeviceCount)
	if c != success {
		return
	}
	for i := range most {
		dev, c := ask(&d.handle, "nvmlDeviceGetMigDeviceHandleByIndex", at(i, nvml.Device.GetMigDeviceHandleByIndex))
		if c != success { // not found: there is no instance of that index
			continue
		}
		in := &instance{handle: handle{lib: d.lib, dev: dev, began: d.began, failing: d.failing, who: fmt.Sprint(instancePrefix, i, " ")}}
		if in.identify() {
			d.instances = append(d.instances, in)
		}
	}
}

// identify reads who the instance is; false if it no longer exists.
func (in *instance) identify() bool {
	h := &in.handle
	uuid, c := ask(h, "nvmlDeviceGetUUID", nvml.Device.GetUUID)
	if c != success {
		return false
	}
	name := textOf(ask(h, "nvmlDeviceGetName", nvml.Device.GetName))
	attributes, c := ask(h, "nvmlDeviceGetAttributes_v2", nvml.Device.GetAttributes)
	in.facts = gpu.Instance{
		UUID:              uuid,
		Name:              name.Or("MIG instance"),
		GPUInstance:       reading(h, "nvmlDeviceGetGpuInstanceId", nvml.Device.GetGpuInstanceId, plain[int]),
		ComputeInstance:   reading(h, "nvmlDeviceGetComputeInstanceId", nvml.Device.GetComputeInstanceId, plain[int]),
		Multiprocessors:   converted(attributes.MultiprocessorCount, c, plain[int]),
		MemorySlices:      converted(attributes.GpuInstanceSliceCount, c, plain[int]),
		ComputeSliceCount: converted(attributes.ComputeInstanceSliceCount, c, plain[int]),
	}
	return true
}

func readInstanceMemory(d *device, r *gpu.Readings) {
	r.Instances = nil
	for _, in := range d.instances {
		in.begin(d.began)
		facts := in.facts
		facts.Memory = memoryOf(&in.handle)
		r.Instances = append(r.Instances, facts)
	}
}
