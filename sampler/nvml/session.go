//go:build linux && cgo

package nvml

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// A session is an initialized library, and the devices that it lists.
type session struct {
	lib       *library
	driver    gpu.Driver
	cards     []string // addresses of the kernel's cards when it began
	byAddress bool
	devices   []*device
	peers     *peers
	calls     []perdevice.Device // read the devices, in the same order

	began    time.Time // by the source's clock
	answered bool      // a device has been read
}

// begin initializes the library and lists the devices. It attaches none: the first read of each device does, since that can take long or
// hang.
func (s *Source) begin(l *library, cards []nvidia.Card, byIndex, proven bool) (*session, error) {
	if c := l.initialize(); c != success {
		return nil, c.advice()
	}
	count, c := invoke(l, "nvmlDeviceGetCount_v2", l.api, nvml.Interface.DeviceGetCount)
	if c == success && count > 0 {
		sess := &session{lib: l, driver: l.driver(), cards: nvidia.Addresses(cards), peers: &peers{records: map[unsafe.Pointer]*record{}}, began: s.cfg.Clock.Now()}
		sess.byAddress = !byIndex && (proven && len(cards) > 0 || addressable(cards, count)) // the keys stay
		s.list(sess, cards, count)
		if news := fmt.Sprint(sess.driver.Version, len(sess.devices)); s.announced != news {
			s.announced = news
			l.log.Info("the NVIDIA driver answers", "library", l.path, "driver", sess.driver.Version, "devices", len(sess.devices))
		}
		return sess, nil
	}
	l.shutdown()
	if c != success {
		return nil, c.advice()
	}
	none := nvidia.NoDevices
	none.Err = gpu.ErrNoDevices
	return nil, &none
}

// addressable reports whether to attach devices by PCI address: if the kernel and the driver list the same number of devices, so that each
// device is known before it answers, and always if one sleeps, since the driver's list would wake it.
func addressable(cards []nvidia.Card, count int) bool {
	return len(cards) > 0 && (len(cards) == count || slices.ContainsFunc(cards, nvidia.Card.Asleep))
}

// list adds the cards or, without addresses, count devices by index, which wakes them.
func (s *Source) list(sess *session, cards []nvidia.Card, count int) {
	lib := sess.lib
	if sess.byAddress {
		for _, c := range cards {
			call := perdevice.Device{Key: c.Address, Identity: s.identity(c), Asleep: c.Asleep}
			s.add(sess, call, func() (nvml.Device, code) {
				return invoke(lib, "nvmlDeviceGetHandleByPciBusId_v2", lib.api,
					bind(c.Address, nvml.Interface.DeviceGetHandleByPciBusId))
			}).identity.PCI = c.Address
		}
		return
	}
	for i := range count {
		key, identity := fmt.Sprintf("index %d", i), identityByIndex(i)
		if d, known := s.last[key]; known {
			identity = d.Identity
		}
		s.add(sess, perdevice.Device{Key: key, Identity: identity}, func() (nvml.Device, code) {
			return invoke(lib, "nvmlDeviceGetHandleByIndex_v2", lib.api, bind(i, nvml.Interface.DeviceGetHandleByIndex))
		})
	}
}

func (s *Source) add(sess *session, call perdevice.Device, attach func() (nvml.Device, code)) *device {
	if s.records[call.Key] == nil {
		s.records[call.Key] = &record{xids: map[int]gpu.XID{}}
	}
	d := &device{
		handle:  handle{lib: sess.lib, failing: map[string]failure{}},
		attach:  attach,
		driver:  sess.driver.Version,
		before:  call.Identity,
		due:     map[string]time.Time{},
		samples: newSamples(s.cfg.Window),
		record:  s.records[call.Key],
		peers:   sess.peers,
		cfg:     s.cfg,
		log:     s.cfg.Log.With("device", call.Key),
	}
	call.Read = d.read
	sess.devices, sess.calls = append(sess.devices, d), append(sess.calls, call)
	return d
}

// outdated reports whether a card came or went since the session began: only a new session reads a new card, and the driver may keep
// answering for one that is gone.
func (s *session) outdated(cards []nvidia.Card) bool {
	return !slices.Equal(nvidia.Addresses(cards), s.cards)
}

// end shuts the library down. No call may be running.
func (s *session) end() {
	for _, d := range s.devices {
		d.release()
	}
	s.lib.shutdown()
}
