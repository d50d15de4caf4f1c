package nvidia

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// vendor is NVIDIA's PCI vendor id.
const vendor = 0x10de

// driver is the name of NVIDIA's own kernel driver, proprietary or open.
const driver = "nvidia"

// Held returns why NVIDIA's driver has no card when another kernel driver, such as nouveau, has them. It returns nil if NVIDIA's driver has
// a card, if no driver has one, and if the machine has no card. The advice also wraps gpu.ErrNoCard if the cards were given away, for
// example to a virtual machine. Held reads files of the PCI core, which wakes no card.
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
	// Somebody gave these cards away on purpose, so they are only mentioned if nothing else is.
	maps.DeleteFunc(holders, func(driver string, _ []string) bool { return kept && givesAway(driver) })
	var parts []string
	for _, driver := range slices.Sorted(maps.Keys(holders)) {
		parts = append(parts, "the driver "+drm.Clean(driver)+" has the NVIDIA GPU at "+strings.Join(holders[driver], ", "))
	}
	held := strings.Join(parts, ", ")
	if !kept {
		return &gpu.Advice{
			What: held + " and reserves it for a virtual machine",
			Try:  "read it in its virtual machine, or give it back to NVIDIA's driver",
			Err:  errors.Join(gpu.ErrNoCard, gpu.ErrNoDevices),
		}
	}
	return &gpu.Advice{
		What: held + ", and gpuwhy only reads NVIDIA's own driver",
		Try: "install NVIDIA's driver, keep the other one from loading (for nouveau, with the line \"blacklist nouveau\" " +
			"in a file of /etc/modprobe.d), and restart the machine",
		Err: gpu.ErrNoDriver,
	}
}

// givesAway reports whether a driver only reserves a card for somebody else: "vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub", "xen-pciback".
func givesAway(driver string) bool {
	return strings.Contains(driver, "vfio") || driver == "pci-stub" || strings.Contains(driver, "pciback")
}
