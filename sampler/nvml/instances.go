//go:build linux && cgo

package nvml

import (
	"fmt"
	"maps"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// instance is a MIG instance. Its handle has failures of its own.
type instance struct {
	handle
	facts gpu.Instance
}

// instancePrefix begins the names of functions that are called for an instance.
const instancePrefix = "MIG "

// listInstances lists the MIG instances, with everything that never changes.
func (d *device) listInstances() {
	d.instances = nil
	maps.DeleteFunc(d.failing, func(name string, _ failure) bool { return strings.HasPrefix(name, instancePrefix) })
	if !d.readings.Modes.MIG.Or(false) {
		return
	}
	most, _ := ask(&d.handle, "nvmlDeviceGetMaxMigDeviceCount", nvml.Device.GetMaxMigDeviceCount)
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
	attributes, c := ask(h, "nvmlDeviceGetAttributes_v2", nvml.Device.GetAttributes)
	in.facts = gpu.Instance{
		UUID:              uuid,
		Name:              textOf(ask(h, "nvmlDeviceGetName", nvml.Device.GetName)).Or("MIG instance"),
		GPUInstance:       reading(h, "nvmlDeviceGetGpuInstanceId", nvml.Device.GetGpuInstanceId, plain[int]),
		ComputeInstance:   reading(h, "nvmlDeviceGetComputeInstanceId", nvml.Device.GetComputeInstanceId, plain[int]),
		Multiprocessors:   converted(attributes.MultiprocessorCount, c, plain[int]),
		MemorySlices:      converted(attributes.GpuInstanceSliceCount, c, plain[int]),
		ComputeSliceCount: converted(attributes.ComputeInstanceSliceCount, c, plain[int]),
	}
	return true
}

func (d *device) readInstances() {
	d.readings.Instances = nil
	for _, in := range d.instances {
		in.begin(d.began)
		readMemory(&in.handle, &in.facts.Memory)
		d.readings.Instances = append(d.readings.Instances, in.facts)
	}
}
