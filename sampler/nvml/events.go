//go:build linux && cgo

package nvml

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// readXIDs adds the errors that were reported since the last reading. Each device has a
// set of events of its own, so that a device that hangs blocks no other.
func (d *device) readXIDs() {
	to := &d.readings.Health.XIDs
	if d.events == nil {
		if c := d.listen(); c != success {
			*to = gpu.Absent[[]gpu.XID](c.quality())
			return
		}
	}
	const most = 256 // in one reading; the next one reads the others
	for range most {
		event, c := invoke(d.lib, "nvmlEventSetWait_v2", d.events, at(uint32(0), nvml.EventSet.Wait))
		if c != success { // a timeout: there are no more
			break
		}
		if event.EventType&nvml.EventTypeXidCriticalError != 0 {
			xid := int(event.EventData)
			d.xids[xid] = gpu.XID{Code: xid, Count: d.xids[xid].Count + 1, Last: time.Now().UTC()}
		}
	}
	byCode := func(a, b gpu.XID) int { return cmp.Compare(a.Code, b.Code) }
	none := []gpu.XID{} // not nil
	*to = gpu.Of(append(none, slices.SortedFunc(maps.Values(d.xids), byCode)...))
}

// listen makes the driver keep the device's errors for us. If it refuses, it is asked
// again after a minute.
func (d *device) listen() code {
	switch {
	case d.fatal != success:
		return d.fatal
	case !d.isDue("listen", seldom):
		return d.deaf
	}
	set, c := invoke(d.lib, "nvmlEventSetCreate", d.lib.api, nvml.Interface.EventSetCreate)
	if c != success {
		d.deaf = c
		return c
	}
	_, d.deaf = ask(&d.handle, "nvmlDeviceRegisterEvents", alone(func(dev nvml.Device) nvml.Return {
		return dev.RegisterEvents(nvml.EventTypeXidCriticalError, set)
	}))
	d.events = set
	if d.deaf != success {
		d.stopListening()
	}
	return d.deaf
}

func (d *device) stopListening() {
	if d.events != nil {
		if _, c := invoke(d.lib, "nvmlEventSetFree", d.events, alone(nvml.EventSet.Free)); c != success {
			d.log.Debug("a set of events was not freed", "err", c)
		}
		d.events = nil
	}
}
