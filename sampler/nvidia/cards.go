package nvidia

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Kernel reads what the system knows about PCI devices. Reading it wakes no GPU.
type Kernel struct {
	// Suspects returns the cards that the kernel log reports as broken. Nil: nobody reads the log.
	Suspects func() []gpu.Suspect
	// Devices is the folder of the device nodes: "/dev".
	Devices string

	sysfs, proc string
	mayOpen     func(node string) error
	ours        map[string]bool      // by address: whether it is a GPU visible here
	missing     map[string]unlisted  // by address, at the last reading
	answered    map[string]time.Time // by address: when the driver last listed it, and it answered
	had         map[string]bool      // by address: whether the driver ever had it
	looks       looks
}

// NewKernel returns a Kernel that reads below the given mount points of sysfs and procfs.
func NewKernel(sysfs, proc string) *Kernel {
	return &Kernel{sysfs: sysfs, proc: proc, Devices: "/dev", mayOpen: mayOpen, ours: map[string]bool{}, answered: map[string]time.Time{}, had: map[string]bool{}}
}

// A Card is a GPU that the kernel lists and the NVIDIA driver serves.
type Card struct {
	Address string // "0000:01:00.0"
	dir     string
}

// Cards returns the GPUs that the NVIDIA driver serves and that are visible here, ordered by address. It finds none without that driver, or
// without PCI, as under WSL.
func (k *Kernel) Cards() []Card {
	if k.sysfs == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(k.sysfs, "bus/pci/drivers/nvidia"))
	if err != nil {
		clear(k.ours)
		return nil
	}
	var out []Card
	for _, e := range entries {
		c := Card{Address: e.Name(), dir: filepath.Join(k.sysfs, "bus/pci/devices", e.Name())}
		if strings.Count(c.Address, ":") != 2 { // a file, not an address
			continue
		}
		ours, known := k.ours[c.Address]
		if !known {
			// Class 03 is a display controller; the driver also serves switches and bridges.
			ours = c.read("vendor") == "0x10de" && strings.HasPrefix(c.read("class"), "0x03") && k.visible(c.Address)
			k.ours[c.Address] = ours
		}
		if ours {
			out = append(out, c)
		}
	}
	return out
}

// visible reports whether the driver shows the card here: a container sees all cards of the machine in /sys, but only its own in /proc.
// Listing that folder wakes nothing; reading the information file in it would wake the card.
func (k *Kernel) visible(address string) bool {
	gpus := filepath.Join(k.proc, "driver/nvidia/gpus")
	if _, err := os.Stat(gpus); err != nil {
		return true
	}
	_, err := os.Stat(filepath.Join(gpus, address))
	return err == nil
}

// Asleep reports whether the card is powered down or powering down.
func (c Card) Asleep() bool {
	status := c.read("power/runtime_status")
	return status == "suspended" || status == "suspending"
}

// MayDoze reports whether the system powers the card down when it is idle.
func (c Card) MayDoze() bool { return c.read("power/control") == "auto" }

// read returns the content of a file in the card's folder, "" if the file is missing.
func (c Card) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(c.dir, name))
	return strings.TrimSpace(string(b))
}

// Identity returns the identity of a card that has never answered a source.
func (c Card) Identity(source string) gpu.Identity {
	id := func(name string) string { return strings.TrimPrefix(c.read(name), "0x") }
	return gpu.Identity{
		UUID:   gpu.UUIDAt(c.Address),
		Vendor: gpu.NVIDIA,
		Source: source,
		Name:   "NVIDIA GPU " + id("vendor") + ":" + id("device"),
		PCI:    c.Address,
	}
}

// Addresses returns the addresses of the cards.
func Addresses(cards []Card) []string {
	out := make([]string, len(cards))
	for i, c := range cards {
		out[i] = c.Address
	}
	return out
}
