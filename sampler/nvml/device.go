//go:build linux && cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// device reads one device of a session. One goroutine at a time calls it.
type device struct {
	handle
	attach func() (nvml.Device, code)
	driver gpu.Reading[string]

	failed bool      // whole readings fail
	again  time.Time // when to attach the device again then

	before    gpu.Identity // used until the device has reported its own
	identity  gpu.Identity
	readings  gpu.Readings
	due       map[string]time.Time  // when to ask again for readings that are not asked every time
	policies  []gpu.Reading[string] // of the fans
	asks      asks
	fanFails  bool // the driver fails to read a fan that exists
	instances []*instance
	table     processTable
	samples   samples
	activity  activity
	traffic   gpu.Activity  // over PCIe, as last measured
	events    nvml.EventSet // nil while not listening; deaf says why
	deaf      code
	*record
	peers *peers
	cfg   Config
	log   *slog.Logger
}

// record is what is kept of a device between sessions.
type record struct {
	logged     []string // the failing functions of the last log message
	verdicts   nvidia.Verdicts
	accounting accounting

	mu   sync.Mutex
	xids map[int]gpu.XID // the errors that the driver reported, by code
}

// failure is how the last call of a function failed.
type failure struct {
	code  code
	taken time.Time
}

// read attaches the device if necessary, and reads all that is due.
func (d *device) read() (gpu.Device, error) {
	d.begin(d.cfg.Clock.Now())
	c := d.attached()
	foreign := c != success && !c.failure()
	if c == success {
		c = d.readDue()
		d.failed = c != success
	}
	if !foreign {
		d.report(c)
	}
	if c != success {
		clear(d.due) // ask everything again
		heard := gpu.Device{}
		heard.Health.XIDs = d.readings.Health.XIDs // XIDs may be the cause
		why := c.advice()
		if !foreign && !c.failure() { // it is ours, but refuses every call
			why.Err = fmt.Errorf("%w: %s", gpu.ErrNotAnswering, c.Error())
		}
		return heard, why
	}
	out := gpu.Device{Identity: d.identity, Readings: d.readings, Accounted: d.accounting.reading(d.began)}
	d.verdicts.Note(d.began, d.asks.known, d.says()...)
	d.verdicts.Describe(&out)
	return out, nil
}

// asks is the recovery that the driver asked for last.
type asks struct {
	known bool // the driver can say that it asks for nothing
	kind  gpu.FaultKind
}

// says returns the driver's persistent complaints about the device.
func (d *device) says() (kinds []gpu.FaultKind) {
	if d.asks.kind != "" {
		kinds = append(kinds, d.asks.kind)
	}
	for _, f := range d.failing { // from their last calls, maybe in an earlier reading
		if f.code == resetRequired && !slices.Contains(kinds, gpu.FaultNeedsReset) {
			kinds = append(kinds, gpu.FaultNeedsReset)
		}
	}
	if d.fanFails {
		kinds = append(kinds, gpu.FaultFanUnreadable)
	}
	return kinds
}

// readAsks asks which recovery the driver wants. Drivers before the 570 series say whether a reset is needed now, or once the work has
// ended; drivers before the 535 series say nothing.
func (d *device) readAsks() {
	d.asks = asks{}
	field := func(id uint32) (n uint64, c code) {
		v, c := fieldValue(&d.handle, id)
		n, ok := fieldInteger(v)
		if c == success && !ok {
			c = notSupported
		}
		return n, c
	}
	action, c := field(nvml.FI_DEV_GET_GPU_RECOVERY_ACTION)
	switch c {
	case success:
		d.asks = asks{known: true, kind: nvidia.NeedsByNumber(uint32(min(action, math.MaxUint32)))}
	case resetRequired:
		d.asks = asks{known: true, kind: gpu.FaultNeedsReset}
	}
	if !c.older() {
		return
	}
	for _, old := range []struct {
		field uint32
		kind  gpu.FaultKind
	}{{nvml.FI_DEV_DRAIN_AND_RESET_STATUS, gpu.FaultNeedsLaterReset}, {nvml.FI_DEV_RESET_STATUS, gpu.FaultNeedsReset}} {
		if needed, c := field(old.field); c == success {
			d.asks.known = true
			if needed == 1 {
				d.asks.kind = old.kind
			}
		}
	}
}

// readDue reads what is due, and returns why the reading as a whole failed.
func (d *device) readDue() code {
	if len(d.due) == 0 { // everything is asked
		clear(d.failing)
	}
	if d.isDue("limits", seldom) {
		d.identify()
		d.readLimits()
	}
	if d.isDue("state", sometimes) {
		d.readState()
	}
	d.readLive()
	return d.failure()
}

var all = []string{"all"} // functions

// report logs when functions begin to fail, and when none fails any more.
func (d *device) report(c code) {
	failing := all
	if c == success {
		// Some functions are only called when another one fails.
		old := d.began.Add(-2 * seldom)
		maps.DeleteFunc(d.failing, func(_ string, f failure) bool { return f.taken.Before(old) })
		failing = nil
		if len(d.failing) > 0 {
			failing = slices.Sorted(maps.Keys(d.failing))
			c = d.failing[failing[0]].code
		}
	}
	switch {
	case slices.Equal(failing, d.logged):
		return
	case len(failing) == 0:
		d.log.Info("all readings work again")
	case len(d.logged) == 0:
		d.log.Warn("readings fail", "functions", failing, "err", c)
	default:
		d.log.Debug("other readings fail now", "functions", failing, "err", c)
	}
	d.logged = failing
}

// isDue reports whether to ask for something again now. The caller then does.
func (d *device) isDue(what string, every time.Duration) bool {
	if d.began.Before(d.due[what]) {
		return false
	}
	d.due[what] = d.began.Add(every)
	return true
}

// attached makes sure that there is a handle: a new one each minute while the device fails.
func (d *device) attached() code {
	if d.dev != nil && (!d.failed || d.began.Before(d.again)) {
		return success
	}
	d.again = d.began.Add(seldom)
	dev, c := d.attach()
	switch {
	case c == success:
		d.release() // of the old handle
		d.dev = dev
		d.peers.add(dev, d.record)
	case d.dev != nil:
		return success
	}
	return c
}

// release frees what the driver holds for the device.
func (d *device) release() {
	d.stopListening()
	d.stopComparing()
}

func (d *device) identify() {
	h := &d.handle
	text := func(symbol string, method func(nvml.Device) (string, nvml.Return)) gpu.Reading[string] {
		return textOf(ask(h, symbol, method))
	}
	id := &d.identity
	if info, c := ask(h, "nvmlDeviceGetPciInfo_v3", nvml.Device.GetPciInfo); c == success && id.PCI == "" {
		id.PCI = fmt.Sprintf("%04x:%02x:%02x.0", info.Domain, info.Bus, info.Device)
	}
	id.Vendor, id.Source, id.DriverVersion = gpu.NVIDIA, gpu.SourceNVML, d.driver
	provisional := d.before.UUID
	if id.PCI != "" {
		provisional = gpu.UUIDAt(id.PCI)
	}
	id.UUID = cmp.Or(id.UUID, provisional)
	if said, c := ask(h, "nvmlDeviceGetUUID", nvml.Device.GetUUID); c == success {
		if uuid, usable := nvidia.UUID(said); usable {
			id.UUID = uuid
		}
	}
	id.Name = text("nvmlDeviceGetName", nvml.Device.GetName).Or("NVIDIA GPU")
	id.VendorIndex = reading(h, "nvmlDeviceGetIndex", nvml.Device.GetIndex, plain[int])
	if !id.VendorIndex.Present() && d.before.VendorIndex.Present() {
		id.VendorIndex = d.before.VendorIndex
	}
	id.Serial = text("nvmlDeviceGetSerial", nvml.Device.GetSerial)
	id.VBIOS = text("nvmlDeviceGetVbiosVersion", nvml.Device.GetVbiosVersion)
	id.Architecture = reading(h, "nvmlDeviceGetArchitecture", nvml.Device.GetArchitecture, architecture)
}

var architecture = named(map[nvml.DeviceArchitecture]string{
	nvml.DEVICE_ARCH_KEPLER:    "Kepler",
	nvml.DEVICE_ARCH_MAXWELL:   "Maxwell",
	nvml.DEVICE_ARCH_PASCAL:    "Pascal",
	nvml.DEVICE_ARCH_VOLTA:     "Volta",
	nvml.DEVICE_ARCH_TURING:    "Turing",
	nvml.DEVICE_ARCH_AMPERE:    "Ampere",
	nvml.DEVICE_ARCH_ADA:       "Ada Lovelace",
	nvml.DEVICE_ARCH_HOPPER:    "Hopper",
	nvml.DEVICE_ARCH_BLACKWELL: "Blackwell",
	nvml.DEVICE_ARCH_RUBIN:     "Rubin",
})

// codeOf returns the driver's code that prevents reading a device, or success.
func codeOf(d *gpu.Device) code {
	c, _ := errors.AsType[code](d.Reason.Err)
	return c
}

// identityByIndex is the identity until the device answers.
func identityByIndex(i int) gpu.Identity {
	return gpu.Identity{
		UUID:        gpu.UUIDOfIndex(gpu.SourceNVML, i),
		VendorIndex: gpu.Of(i),
		Vendor:      gpu.NVIDIA,
		Source:      gpu.SourceNVML,
		Name:        "NVIDIA GPU",
	}
}
