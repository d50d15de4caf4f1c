package drm

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Card is a graphics card on the PCI bus with a kernel DRM driver.
type Card struct {
	Address string   // "0000:03:00.0"
	Driver  string   // the kernel driver: "amdgpu", "i915", "xe"
	Nodes   []string // below /dev/dri: "card0", "renderD128"
	Device  Folder   // the PCI device

	Vendor, Product, SubVendor, SubProduct, Revision uint32 // PCI ids; 0: not known
}

// Node returns the card's first node, "card0".
func (c *Card) Node() string { return c.Nodes[0] }

// DRM returns the folder of the card's first node, where i915 has its own files.
func (c *Card) DRM() Folder { return c.Device.In("drm").In(c.Node()) }

// Asleep reports whether the system has powered the card down, or is about to. Asking wakes nothing.
func (c *Card) Asleep() bool {
	status, err := c.Device.Text("power/runtime_status")
	return err == nil && (status == "suspended" || status == "suspending")
}

// MayDoze reports whether the system powers the card down when it is idle.
func (c *Card) MayDoze() bool {
	control, err := c.Device.Text("power/control")
	return err == nil && control == "auto"
}

// Identity returns the identity of a card that has not answered.
func (c *Card) Identity(vendor gpu.Vendor, source, name string) gpu.Identity {
	return gpu.Identity{UUID: gpu.UUIDAt(c.Address), Vendor: vendor, Source: source, Name: name, PCI: c.Address}
}

// A Finder lists cards.
type Finder struct {
	root  string
	read  func(string) ([]byte, error)
	known map[string]Card // by folder: ids never change
}

// NewFinder returns a finder of the cards below the root of sysfs, such as "/sys". It reads files with read; see [Folder].
func NewFinder(root string, read func(file string) ([]byte, error)) *Finder {
	return &Finder{root: root, read: read, known: map[string]Card{}}
}

var (
	cardNode = regexp.MustCompile(`^card[0-9]{1,6}$`)
	anyNode  = regexp.MustCompile(`^(card|renderD)[0-9]{1,6}$`)
	address  = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// Cards returns the cards of the given drivers, ordered by address; none, and no error, if the kernel has no DRM. It asks no driver and
// wakes no card: it reads links, and the ids of new cards. One goroutine at a time may call it.
func (f *Finder) Cards(drivers ...string) ([]Card, error) {
	class := filepath.Join(f.root, "class/drm")
	entries, err := os.ReadDir(class)
	if os.IsNotExist(err) {
		err = nil
	}
	var out []Card
	listed := map[string]bool{}
	for _, e := range entries {
		if !cardNode.MatchString(e.Name()) {
			continue // an output such as "card0-DP-1", or a render node
		}
		dir, err := filepath.EvalSymlinks(filepath.Join(class, e.Name(), "device"))
		if err != nil || !address.MatchString(filepath.Base(dir)) || listed[dir] {
			continue // it is about to disappear, or is not a PCI device
		}
		driver := linked(filepath.Join(dir, "driver"))
		if !slices.Contains(drivers, driver) {
			continue
		}
		listed[dir] = true
		c, known := f.known[dir]
		if !known || c.Driver != driver || c.Nodes[0] != e.Name() {
			c = f.card(dir, driver, e.Name())
			f.known[dir] = c
		}
		out = append(out, c)
	}
	for dir := range f.known {
		if !listed[dir] {
			delete(f.known, dir)
		}
	}
	slices.SortFunc(out, func(a, b Card) int {
		return cmp.Or(cmp.Compare(len(a.Address), len(b.Address)), cmp.Compare(a.Address, b.Address))
	})
	return out, err
}

func (f *Finder) card(dir, driver, node string) Card {
	device := Folder{dir, f.read}
	id := func(name string) uint32 {
		n, _ := device.ID(name) // 0: unknown
		return n
	}
	c := Card{
		Address: filepath.Base(dir), Driver: driver, Device: device, Nodes: []string{node},
		Vendor: id("vendor"), Product: id("device"), Revision: id("revision"),
		SubVendor: id("subsystem_vendor"), SubProduct: id("subsystem_device"),
	}
	nodes, _ := os.ReadDir(filepath.Join(dir, "drm")) // on an error there is only one node
	for _, e := range nodes {
		if anyNode.MatchString(e.Name()) && e.Name() != node {
			c.Nodes = append(c.Nodes, e.Name())
		}
	}
	return c
}

// linked returns the last part of a link's target; "" if there is no link.
func linked(file string) string {
	target, err := os.Readlink(file)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// A Display is a graphics card on the PCI bus, with any driver or none.
type Display struct {
	Address string
	Driver  string // the kernel driver: "vfio-pci"; "" for none
}

// Displays returns a vendor's graphics cards, ordered by address, including cards without a driver and cards given to a virtual machine.
func (f *Finder) Displays(vendor uint32) []Display {
	bus := filepath.Join(f.root, "bus/pci/devices")
	entries, _ := os.ReadDir(bus) // a machine without PCI has none
	var out []Display
	for _, e := range entries {
		device := Folder{filepath.Join(bus, e.Name()), f.read}
		v, err := device.ID("vendor")
		if err != nil || v != vendor {
			continue
		}
		class, err := device.Text("class")
		// Display controllers, and processing accelerators such as an Instinct.
		if err == nil && (strings.HasPrefix(class, "0x03") || strings.HasPrefix(class, "0x12")) {
			out = append(out, Display{e.Name(), linked(filepath.Join(device.Path, "driver"))})
		}
	}
	return out
}

// NoDisplay reports whether the machine certainly has no graphics card of a vendor: it lists its PCI devices, and none of them is one. It
// is not certain under WSL, where Windows has the card, and on a system on a chip, where the GPU is on no bus.
func (f *Finder) NoDisplay(vendor uint32) bool {
	entries, err := os.ReadDir(filepath.Join(f.root, "bus/pci/devices"))
	_, wsl := os.Stat(filepath.Join(f.root, "class/misc/dxg"))
	_, chip := os.Stat(filepath.Join(f.root, "firmware/devicetree/base/compatible"))
	return err == nil && len(entries) > 0 && wsl != nil && chip != nil && len(f.Displays(vendor)) == 0
}

// NoSlot is the link of a GPU in no slot, which is part of a processor or of a system on a chip. The link that its driver reports belongs
// to a bus within the chip, or is made up.
var NoSlot = func() (p gpu.PCIe) {
	gpu.Withdraw(&p, gpu.NotSupported)
	return p
}()

// Link returns the card's link to the host. Reading it wakes a sleeping card. A card with its own switch has an internal link that always
// runs at full speed; then Link returns the link between the switch and the host. If that switch is not visible, as in a virtual machine,
// the link is not known.
//
// Sources: current_link_speed, current_link_width, max_link_speed and max_link_width of the PCI device or of the bridges above it.
func (c *Card) Link() gpu.PCIe {
	card := c.Device
	above := card.above()
	const bridges = 2 // in a card's own switch; more bridges of one vendor belong to the machine
	for range bridges {
		if above.bridgeOf(c.Vendor) && address.MatchString(filepath.Base(above.above().Path)) {
			card, above = above, above.above()
		}
	}
	p := gpu.PCIe{
		Generation: card.generation("current_link_speed"), MaxGeneration: card.generation("max_link_speed"),
		Width: card.lanes("current_link_width"), MaxWidth: card.lanes("max_link_width"),
		Replays: gpu.Absent[uint64](gpu.NotSupported),
	}
	if p.MaxGeneration == gpu.Of(1) && p.MaxWidth == gpu.Of(1) {
		return gpu.PCIe{Replays: p.Replays} // no GPU of these drivers is built for such a slot: the link is internal to the chip
	}
	if address.MatchString(filepath.Base(above.Path)) {
		p.MaxGeneration = lower(p.MaxGeneration, above.generation("max_link_speed"))
		p.MaxWidth = lower(p.MaxWidth, above.lanes("max_link_width"))
	}
	return p
}

func (f Folder) above() Folder { return Folder{filepath.Dir(f.Path), f.Read} }

// bridgeOf reports whether the device is a vendor's PCI bridge.
func (f Folder) bridgeOf(vendor uint32) bool {
	if !address.MatchString(filepath.Base(f.Path)) {
		return false
	}
	v, err := f.ID("vendor")
	if err != nil || v != vendor {
		return false
	}
	class, err := f.Text("class")
	return err == nil && strings.HasPrefix(class, "0x0604")
}

func (f Folder) generation(name string) gpu.Reading[int] {
	speed, err := f.Text(name)
	if err != nil {
		return absent[int](err)
	}
	return Generation(speed)
}

// lanes reads a link width; 0 means "no link".
func (f Folder) lanes(name string) gpu.Reading[int] {
	const most = 32
	n, err := f.Number(name)
	if err == nil && (n <= 0 || n > most) {
		return gpu.Reading[int]{}
	}
	return Of(n, err, 1, 1, most)
}

// lower returns the lower reading of the two ends of a link.
func lower(card, slot gpu.Reading[int]) gpu.Reading[int] {
	if v, ok := slot.Get(); ok && v < card.Or(0) {
		return slot
	}
	return card
}

// OnlyOnLinux says why no card of a vendor is read on a system without sysfs.
func OnlyOnLinux(vendor string) *gpu.Advice {
	return &gpu.Advice{
		What: "gpuwhy reads " + vendor + " GPUs only on Linux",
		Try:  "no action needed if the machine has none; otherwise run gpuwhy on Linux",
		Err:  fmt.Errorf("%w: %w", gpu.ErrNoCard, gpu.ErrNoDriver),
	}
}
