package sampler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// roster remembers every device that was ever seen: a device that is no longer
// listed stays on the list as lost, and an index is never given to another.
type roster struct {
	node    string
	entries []*entry // by index
	byKey   map[key]*entry
}

type key struct{ node, uuid string }

type entry struct {
	source  string
	device  gpu.Device // as last published
	updated bool       // in the merge under way
}

// merge takes what the sources read last and returns all devices by index.
func (r *roster) merge(sources []*source, now time.Time) []gpu.Device {
	for _, e := range r.entries {
		e.updated = false
	}
	r.admit(sources)
	for _, e := range r.entries {
		if !e.updated {
			e.miss(sources, now)
		}
	}
	out := make([]gpu.Device, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.device
	}
	return out
}

// arrival is a device that is new, and where it belongs: its place on the bus, or
// that of the one before it in its source's list where its own is not known.
type arrival struct {
	source string
	device gpu.Device
	place  string
}

// compare orders arrivals by their place in the machine.
func (a arrival) compare(b arrival) int {
	return cmp.Or(
		strings.Compare(a.device.Node, b.device.Node),
		strings.Compare(a.place, b.place),
		cmp.Compare(a.device.VendorIndex.Or(-1), b.device.VendorIndex.Or(-1)),
		strings.Compare(a.device.UUID, b.device.UUID),
	)
}

// admit brings the entries up to date, and adds devices that are new in the
// order of their place in the machine.
func (r *roster) admit(sources []*source) {
	var arrivals []arrival
	seen := map[key]bool{}
	for _, src := range sources {
		place := ""
		for _, d := range src.last.Devices {
			place = cmp.Or(d.PCI, place)
			d.Node = cmp.Or(d.Node, r.node)
			if seen[key{d.Node, d.UUID}] && d.PCI != "" {
				// Two devices that claim one UUID are told apart by
				// their places.
				d.UUID = provisionalUUID(d.PCI)
			}
			seen[key{d.Node, d.UUID}] = true
			if e := r.find(&d); e != nil {
				d.Index = e.device.Index
				delete(r.byKey, key{d.Node, e.device.UUID})
				r.byKey[key{d.Node, d.UUID}] = e
				e.device, e.updated = d, true
				continue
			}
			arrivals = append(arrivals, arrival{src.Name(), d, place})
		}
	}
	slices.SortFunc(arrivals, arrival.compare)
	for _, a := range arrivals {
		a.device.Index = len(r.entries)
		e := &entry{source: a.source, device: a.device, updated: true}
		r.entries = append(r.entries, e)
		r.byKey[key{a.device.Node, a.device.UUID}] = e
	}
}

// find returns the entry of a device: by node and UUID, or, for one whose UUID
// was not known while it slept or hung, by its place on the bus, or by its index in
// the driver's list.
func (r *roster) find(d *gpu.Device) *entry {
	if e := r.byKey[key{d.Node, d.UUID}]; e != nil {
		return e
	}
	if e := r.byKey[key{d.Node, provisionalUUID(d.PCI)}]; e != nil {
		return e
	}
	i, ok := d.VendorIndex.Get()
	if !ok {
		return nil
	}
	return r.byKey[key{d.Node, provisionalByIndex(d.Source, i)}]
}

// provisionalUUID is what a source that may not wake a sleeping device to ask
// for its UUID calls it.
func provisionalUUID(pci string) string { return "PCI-" + pci }

// provisionalByIndex is what a source calls a device of which it knows nothing but
// that the driver lists it.
func provisionalByIndex(source string, index int) string {
	return fmt.Sprintf("%s-index-%d", source, index)
}

// miss says why a device has no reading: its source failed, or no longer lists
// it.
func (e *entry) miss(sources []*source, now time.Time) {
	d := &e.device
	state, since, reason := gpu.StateLost, now, gpu.Advice{
		What: "the driver no longer lists this device",
		Try:  "look for it in the kernel log (dmesg) and in lspci; a restart of the machine may bring it back",
	}
	for _, src := range sources {
		if src.Name() == e.source && src.failure != nil {
			state, since, reason = gpu.StateNotAnswering, src.failure.Since, src.failure.Advice
		}
	}
	if d.State == state {
		since = d.Since
	}
	xids := d.Health.XIDs // events stay known
	*d = gpu.Device{Identity: d.Identity, State: state, Since: since, Reason: reason}
	d.Health.XIDs = xids
}
