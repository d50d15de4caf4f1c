//go:build linux && cgo

package nvml

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// readXIDs adds the errors reported since the last reading. Each device has its own event set, so that a hanging device blocks no other.
func (d *device) readXIDs() {
	d.readings.Health.Faults = gpu.Absent[[]gpu.Fault](gpu.NotSupported) // the driver has codes
	xids := &d.readings.Health.XIDs
	if d.events == nil {
		if c := d.listen(); c != success {
			*xids = gpu.Absent[[]gpu.XID](c.quality())
			return
		}
	}
	const most = 256 // per reading; the next reading takes the rest
	for range most {
		event, c := invoke(d.lib, "nvmlEventSetWait_v2", d.events, bind(uint32(0), nvml.EventSet.Wait))
		if c != success { // a timeout: no more events
			break
		}
		if event.EventType&nvml.EventTypeXidCriticalError != 0 {
			d.peers.find(event.Device, d.record).hear(int(event.EventData), d.cfg.Clock.Now())
		}
	}
	*xids = gpu.Of(d.heard())
}

// hear counts an error.
func (r *record) hear(xid int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.xids[xid] = gpu.XID{Code: xid, Count: r.xids[xid].Count + 1, Last: now.UTC()}
}

// heard returns all errors so far, by code; never nil.
func (r *record) heard() []gpu.XID {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]gpu.XID, 0, len(r.xids))
	for _, x := range r.xids {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b gpu.XID) int { return cmp.Compare(a.Code, b.Code) })
	return all
}

// peers maps a session's handles to records: a device may receive the event of another.
type peers struct {
	mu      sync.Mutex
	records map[unsafe.Pointer]*record
}

func (p *peers) add(dev nvml.Device, r *record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records[pointerOf(dev)] = r
}

// find returns the record of an event's device, or asked if that device is unknown.
func (p *peers) find(dev nvml.Device, asked *record) *record {
	if dev == nil {
		return asked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.records[pointerOf(dev)], asked)
}

// listen makes the driver queue the device's errors. It tries once a minute.
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
