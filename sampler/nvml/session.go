//go:build linux && cgo

package nvml

import (
	"log/slog"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// A session is the library while it is initialized, and the devices that it
// lists.
type session struct {
	lib       *library
	driver    gpu.Driver
	cards     []string // addresses of the kernel's cards when it began, without those that are gone
	byAddress bool
	places    []place

	began    time.Time // by the source's clock
	answered bool      // a device has been read
}

// place is where a device is: on the bus or in the driver's list.
type place struct {
	key    string
	card   *card // nil where the address is not known
	device *device
}

// plan is what a session is made from.
type plan struct {
	cards   []card
	known   map[string]gpu.Identity // by key; of each card
	byIndex bool                    // use the driver's own list
	records map[string]*record      // by key
	cfg     Config
}

// begin initializes the library and lists the devices. It attaches none: the first
// read of each device does, since that can take long or hang.
func begin(l *library, p plan) (*session, error) {
	if c := l.initialize(); c != success {
		return nil, c.advice()
	}
	count, c := l.count()
	if c == success && count > 0 {
		s := &session{lib: l, driver: l.driver(), cards: addresses(p.cards)}
		s.byAddress = !p.byIndex && addressable(p.cards, count)
		s.list(p, count)
		return s, nil
	}
	l.shutdown(p.cfg.Log)
	if c != success {
		return nil, c.advice()
	}
	return nil, &gpu.Advice{
		What: "the NVIDIA driver is loaded and finds no GPU",
		Try:  "check that the card is seated and powered, and visible in this container if gpuwhy runs in one",
		Err:  gpu.ErrNoDevices,
	}
}

// addressable reports whether to attach devices by their address on the bus: if the
// kernel and the driver list the same number, so that each device is known before it
// has answered, and always if one sleeps, since the driver's list would wake it.
func addressable(cards []card, count int) bool {
	return len(cards) > 0 && (len(cards) == count || slices.ContainsFunc(cards, card.asleep))
}

func (s *session) list(p plan, count int) {
	add := func(key string, c *card, identity gpu.Identity, attach func() (nvml.Device, code)) {
		if p.records[key] == nil {
			p.records[key] = newRecord()
		}
		d := newDevice(s.lib, identity, attach, p.records[key], p.cfg, p.cfg.Log.With("device", key))
		d.driver = s.driver.Version
		if c != nil {
			d.identity.PCI = c.address
		}
		s.places = append(s.places, place{key, c, d})
	}
	if s.byAddress {
		for _, c := range p.cards {
			add(c.address, &c, p.known[c.address], func() (nvml.Device, code) { return s.lib.byAddress(c.address) })
		}
		return
	}
	for i := range count {
		identity, known := p.known[indexKey(i)]
		if !known {
			identity = identityByIndex(i)
		}
		add(indexKey(i), nil, identity, func() (nvml.Device, code) { return s.lib.byIndex(i) })
	}
}

// lacks reports whether there is a card that came after the session began, which only
// a new session can read. The session stays when a card goes, since the other cards
// need it; a card that comes back counts as new.
func (s *session) lacks(cards []card) bool {
	now := addresses(cards)
	s.cards = slices.DeleteFunc(s.cards, func(address string) bool { return !slices.Contains(now, address) })
	return len(now) > len(s.cards)
}

// end shuts the library down. No call may run.
func (s *session) end(log *slog.Logger) {
	for _, p := range s.places {
		p.device.release()
	}
	s.lib.shutdown(log)
}

// devices is what there is to read.
func (s *session) devices() []perdevice.Device {
	out := make([]perdevice.Device, len(s.places))
	for i, p := range s.places {
		out[i] = perdevice.Device{Key: p.key, Identity: p.device.before, Read: p.device.read}
		if p.card != nil {
			out[i].Asleep = p.card.asleep
		}
	}
	return out
}
