package nvidia

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// vendor is NVIDIA's id on the PCI bus.
const vendor = 0x10de

// driver is the name of NVIDIA's own driver in the kernel, also of its open one.
const driver = "nvidia"

// Held is why NVIDIA's driver has no card, where another driver of the kernel has them, such as
// nouveau. It is nil where NVIDIA's has a card, where no driver has one, and where there is none.
// It wraps gpu.ErrNoCard, too, where the cards were given away, as to a virtual machine. It reads
// files of the PCI core, which wakes no card.
func Held(sysfs string) *gpu.Advice {
	if sysfs == "" {
		return nil
	}
	holders := map[string][]string{} // the cards of each driver
	kept := false
	for _, d := range drm.NewFinder(sysfs, nil).Displays(vendor) {
		switch d.Driver {
		case driver:
			return nil
		case "":
			continue
		}
		holders[d.Driver] = append(holders[d.Driver], d.Address)
		kept = kept || !givesAway(d.Driver)
	}
	if len(holders) == 0 {
		return nil
	}
	// What was given away is what somebody wanted: it is said where there is nothing else to say.
	maps.DeleteFunc(holders, func(by string, _ []string) bool { return kept && givesAway(by) })
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(holders)) {
		parts = append(parts, "the driver "+drm.Clean(by)+" has the NVIDIA GPU at "+strings.Join(holders[by], ", "))
	}
	has := strings.Join(parts, ", ")
	if !kept {
		return &gpu.Advice{
			What: has + " and reserves it for a virtual machine",
			Try:  "read it in its virtual machine, or give it back to NVIDIA's driver",
			Err:  errors.Join(gpu.ErrNoCard, gpu.ErrNoDevices),
		}
	}
	return &gpu.Advice{
		What: has + ", and gpuwhy only reads NVIDIA's own driver",
		Try: "install NVIDIA's driver, keep the other one from loading (for nouveau, with the line \"blacklist nouveau\" " +
			"in a file of /etc/modprobe.d), and restart the machine",
		Err: gpu.ErrNoDriver,
	}
}

// givesAway reports whether a driver only keeps a card for somebody else: "vfio-pci",
// "nvgrace-gpu-vfio-pci", "pci-stub", "xen-pciback".
func givesAway(driver string) bool {
	return strings.Contains(driver, "vfio") || driver == "pci-stub" || strings.Contains(driver, "pciback")
}
