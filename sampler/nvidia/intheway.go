package nvidia

import (
	"errors"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// Explain is an error of a driver that serves no card, with the driver that has the cards instead, such as nouveau: that stands in
// the way. Where none does, it is the same error.
func (k *Kernel) Explain(err error) error {
	served := errors.Is(err, gpu.ErrNoLibrary) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrNoDevices)
	if !served || k.sysfs == "" {
		return err
	}
	const vendor, ours = 0x10de, "nvidia"
	var drivers, places []string
	virtual := true
	for _, d := range drm.NewFinder(k.sysfs, nil).Displays(vendor) {
		switch d.Driver {
		case ours:
			return err // its own driver has one
		case "":
			continue
		}
		if name := drm.Clean(d.Driver); len(drivers) == 0 || drivers[len(drivers)-1] != name {
			drivers = append(drivers, name)
		}
		places = append(places, d.Address)
		virtual = virtual && strings.HasPrefix(d.Driver, "vfio")
	}
	if len(places) == 0 {
		return err
	}
	many, has := "", " has"
	if len(places) > 1 {
		many = "s"
	}
	if len(drivers) > 1 {
		has = " have"
	}
	why := &gpu.Advice{
		What: "the driver " + strings.Join(drivers, " and ") + has + " the NVIDIA GPU" + many + " at " + strings.Join(places, ", ") +
			", and gpuwhy reads NVIDIA's own driver alone",
		Try: "install NVIDIA's driver and restart the machine, so that it gets the card in place of the other; lspci -k shows which driver has a card",
		Err: err,
	}
	if virtual {
		why.Try = "read it in the virtual machine that it is given to, or give it back to NVIDIA's driver"
	}
	return why
}
