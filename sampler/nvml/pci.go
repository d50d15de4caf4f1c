//go:build linux && cgo

package nvml

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// kernel reads what the system knows about PCI devices, which wakes no GPU.
type kernel struct {
	sysfs, proc string
	ours        map[string]bool // by address: whether it is a GPU that is visible here
}

// card is a GPU that the NVIDIA driver serves, as the kernel lists it.
type card struct {
	address string // "0000:01:00.0"
	dir     string
}

// cards are the GPUs that the NVIDIA driver serves and that are visible here, by
// address. There are none without that driver or without PCI, as under WSL.
func (k *kernel) cards() []card {
	entries, err := os.ReadDir(filepath.Join(k.sysfs, "bus/pci/drivers/nvidia"))
	if err != nil {
		clear(k.ours)
		return nil
	}
	var out []card
	for _, e := range entries {
		c := card{address: e.Name(), dir: filepath.Join(k.sysfs, "bus/pci/devices", e.Name())}
		if strings.Count(c.address, ":") != 2 { // a file, not an address
			continue
		}
		ours, known := k.ours[c.address]
		if !known {
			// Class 03 is a display controller; the driver serves switches and bridges too.
			ours = c.read("vendor") == "0x10de" && strings.HasPrefix(c.read("class"), "0x03") && k.visible(c.address)
			k.ours[c.address] = ours
		}
		if ours {
			out = append(out, c)
		}
	}
	return out
}

// visible reports whether the driver shows the card here: a container sees all cards
// of the machine in /sys, but only its own in /proc. Listing that folder wakes
// nothing; reading the information file in it would wake the card.
func (k *kernel) visible(address string) bool {
	gpus := filepath.Join(k.proc, "driver/nvidia/gpus")
	if _, err := os.Stat(gpus); err != nil {
		return true
	}
	_, err := os.Stat(filepath.Join(gpus, address))
	return err == nil
}

// asleep reports whether the card is powered down, or on its way there.
func (c card) asleep() bool {
	status := c.read("power/runtime_status")
	return status == "suspended" || status == "suspending"
}

// mayDoze reports whether the system powers the card down when it is idle.
func (c card) mayDoze() bool { return c.read("power/control") == "auto" }

// read returns a file of the card's folder, "" if there is none.
func (c card) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(c.dir, name))
	return strings.TrimSpace(string(b))
}

// identity is the identity of a card that has never answered.
func (c card) identity() gpu.Identity {
	id := func(name string) string { return strings.TrimPrefix(c.read(name), "0x") }
	return gpu.Identity{
		UUID:   gpu.UUIDAt(c.address),
		Vendor: gpu.NVIDIA,
		Source: gpu.SourceNVML,
		Name:   "NVIDIA GPU " + id("vendor") + ":" + id("device"),
		PCI:    c.address,
	}
}

func addresses(cards []card) []string {
	out := make([]string, len(cards))
	for i, c := range cards {
		out[i] = c.address
	}
	return out
}
