package sampler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// roster remembers every device that was ever seen. A device that its source no
// longer lists stays on the list as lost, and no other device gets its index.
type roster struct {
	node    string
	entries []*entry // by index
	byKey   map[key]*entry
}

type key struct{ node, uuid string }

type entry struct {
	source  string
	device  gpu.Device // as last published
	updated bool       // by the current merge
}

// merge takes the newest readings of the sources and returns all devices by index.
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

// arrival is a new device with its place on the bus, or the place of the device
// before it in its source's list where its own is not known.
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

// admit updates the entries, and adds new devices in the order of their place in
// the machine.
func (r *roster) admit(sources []*source) {
	var arrivals []arrival
	seen := map[key]bool{}
	for _, src := range sources {
		place := ""
		for _, d := range src.last.Devices {
			place = cmp.Or(d.PCI, place)
			d.Node = cmp.Or(d.Node, r.node)
			if seen[key{d.Node, d.UUID}] && d.PCI != "" {
				// The place distinguishes two devices with one UUID.
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

// find returns the entry of a device by node and UUID. A device whose UUID was not
// known while it slept or hung has an entry under a provisional UUID.
func (r *roster) find(d *gpu.Device) *entry {
	e := cmp.Or(r.byKey[key{d.Node, d.UUID}], r.byKey[key{d.Node, provisionalUUID(d.PCI)}])
	if i, ok := d.VendorIndex.Get(); ok && e == nil {
		e = r.byKey[key{d.Node, provisionalByIndex(d.Source, i)}]
	}
	return e
}

// provisionalUUID is the UUID that a source gives to a sleeping device, which it
// may not wake to ask for its own.
func provisionalUUID(pci string) string { return "PCI-" + pci }

// provisionalByIndex is the UUID that a source gives to a device of which it knows
// only the index in the driver's list.
func provisionalByIndex(source string, index int) string {
	return fmt.Sprintf("%s-index-%d", source, index)
}

// miss records why a device has no reading: its source failed, or no longer lists
// the device.
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
