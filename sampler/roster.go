package sampler

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// roster remembers every device it has ever seen. A device that its source no
// longer lists stays in the list as lost, and no other device gets its index.
type roster struct {
	node    string
	entries []*entry // by index
	byUUID  map[string]*entry
}

type entry struct {
	source  string
	device  gpu.Device // as last published
	place   string     // on the bus, or that of the device before it; orders new devices
	updated bool       // by the current merge
}

// merge takes the newest readings of the sources and returns all devices by index.
func (r *roster) merge(sources []*source, now time.Time) []gpu.Device {
	for _, e := range r.entries {
		e.updated = false
	}
	r.admit(sources)
	out := make([]gpu.Device, len(r.entries))
	for i, e := range r.entries {
		if !e.updated {
			e.miss(sources, now)
		}
		out[i] = e.device
	}
	return out
}

// admit updates the entries, and adds new devices in the order of their place.
func (r *roster) admit(sources []*source) {
	var arrivals []*entry
	seen := map[string]bool{}
	for _, src := range sources {
		place := ""
		for _, d := range src.last.Devices {
			place = cmp.Or(d.PCI, place)
			d.Node = r.node
			if seen[d.UUID] && d.PCI != "" {
				// The place distinguishes two devices with one UUID.
				d.UUID = gpu.UUIDAt(d.PCI)
			}
			d.UUID = cmp.Or(r.withheld(&d), d.UUID)
			seen[d.UUID] = true
			e := r.find(&d)
			if e == nil {
				arrivals = append(arrivals, &entry{src.Name(), d, place, true})
				continue
			}
			d.Index = e.device.Index
			delete(r.byUUID, e.device.UUID)
			r.byUUID[d.UUID] = e
			e.device, e.source, e.updated = d, src.Name(), true
		}
	}
	slices.SortFunc(arrivals, func(a, b *entry) int {
		return cmp.Or(
			strings.Compare(a.place, b.place),
			cmp.Compare(a.device.VendorIndex.Or(-1), b.device.VendorIndex.Or(-1)),
			strings.Compare(a.device.UUID, b.device.UUID),
		)
	})
	for _, e := range arrivals {
		e.device.Index = len(r.entries)
		r.entries = append(r.entries, e)
		r.byUUID[e.device.UUID] = e
	}
}

// withheld is the UUID of a device that has only its place now, as when a driver can't read
// its number: that of the same product in the same place. It is "" where there is none.
func (r *roster) withheld(d *gpu.Device) string {
	if d.PCI == "" || d.UUID != gpu.UUIDAt(d.PCI) || r.byUUID[d.UUID] != nil {
		return ""
	}
	for _, e := range r.entries {
		if known := &e.device; known.PCI == d.PCI && known.Source == d.Source && known.Name == d.Name && !e.updated {
			return known.UUID
		}
	}
	return ""
}

// find returns the entry of a device by its UUID, or by the one that it had while it
// slept or hung: made of its place, or of its index in the driver's list.
func (r *roster) find(d *gpu.Device) *entry {
	e := cmp.Or(r.byUUID[d.UUID], r.byUUID[gpu.UUIDAt(d.PCI)])
	if i, ok := d.VendorIndex.Get(); ok && e == nil {
		e = r.byUUID[gpu.UUIDOfIndex(d.Source, i)]
	}
	return e
}

// miss records why a device has no reading: its source failed, or does not list it.
func (e *entry) miss(sources []*source, now time.Time) {
	state, since, reason := gpu.StateLost, now, gpu.Advice{
		What: "the driver no longer lists this device",
		Try:  "look for it in the kernel log (dmesg) and in lspci; a restart of the machine may bring it back",
	}
	if e.device.State == state {
		reason = e.device.Reason // what was said when it was lost
	}
	for _, src := range sources {
		if src.Name() == e.source && src.failure != nil && !none(&src.failure.Advice) {
			state, since, reason = gpu.StateNotAnswering, src.failure.Since, src.failure.Advice
		}
	}
	e.device.Enter(state, since, reason)
}

// none reports whether a source has answered, and lists no device.
func none(err error) bool { return errors.Is(err, gpu.ErrNoDevices) || errors.Is(err, gpu.ErrNoCard) }
