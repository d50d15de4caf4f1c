//go:build linux

package drm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// ids are those of a Radeon RX 7900 XTX, from the public list of PCI ids.
var ids = map[string]string{
	"vendor": "0x1002\n", "device": "0x744c\n", "revision": "0xc8\n",
	"subsystem_vendor": "0x1da2\n", "subsystem_device": "0xe471\n",
}

func cards(t *testing.T, f *Finder, drivers ...string) []Card {
	t.Helper()
	got, err := f.Cards(drivers...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCards(t *testing.T) {
	m := drmtest.New(t)
	f := NewFinder(m.Sysfs, nil)
	if got := cards(t, f, "amdgpu"); len(got) != 0 {
		t.Fatalf("a machine without cards has %v", got)
	}
	second := m.Card(1, "0000:0c:00.0", "amdgpu", ids)
	m.Card(0, "0000:03:00.0", "amdgpu", ids, "0000:00:01.1", "0000:01:00.0", "0000:02:00.0")
	m.Card(2, "0000:00:02.0", "i915", map[string]string{"vendor": "0x8086\n"})
	// An output, a card without PCI, and a dangling link.
	for name, target := range map[string]string{
		"card0-DP-1": second.Dir, "card7": filepath.Join(m.Sysfs, "devices/platform/amdgpu_xcp_1/drm/card7"),
		"card8": "/nowhere", "version": "/dev/null",
	} {
		if err := os.Symlink(target, filepath.Join(m.Sysfs, "class/drm", name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		got := cards(t, f, "amdgpu")
		if len(got) != 2 || got[0].Address != "0000:03:00.0" || got[1].Address != "0000:0c:00.0" {
			t.Fatalf("the cards are %v", got)
		}
		c := got[0]
		if c.Vendor != 0x1002 || c.Product != 0x744c || c.Revision != 0xc8 || c.SubVendor != 0x1da2 || c.SubProduct != 0xe471 ||
			!slices.Equal(c.Nodes, []string{"card0", "renderD128"}) || c.Node() != "card0" || c.Driver != "amdgpu" {
			t.Errorf("the card is %+v", c)
		}
	}
	if got := cards(t, f, "i915", "xe"); len(got) != 1 || got[0].Driver != "i915" {
		t.Errorf("cards of Intel: %v", got)
	}
	second.Unplug()
	if got := cards(t, f, "amdgpu"); len(got) != 1 {
		t.Errorf("without one: %v", got)
	}
	second.Plug()
	if got := cards(t, f, "amdgpu"); len(got) != 2 {
		t.Errorf("with it again: %v", got)
	}
	if got := f.Displays(0x1002); len(got) != 2 || got[0] != (Display{"0000:03:00.0", "amdgpu"}) {
		t.Errorf("displays of AMD: %v", got)
	}
}

// A sleeping card is found, and recognized as asleep, by only its ids and its power state.
func TestAsleepIsNotTouched(t *testing.T) {
	m := drmtest.New(t)
	card := m.Card(0, "0000:03:00.0", "amdgpu", ids)
	card.Set(map[string]string{"gpu_busy_percent": "0\n", "hwmon/hwmon2/name": "amdgpu\n"})
	card.Sleep()
	opened := drmtest.Watch(t, card.Dir)
	f := NewFinder(m.Sysfs, nil)
	for range 3 {
		all := cards(t, f, "amdgpu")
		if len(all) != 1 || !all[0].Asleep() || !all[0].MayDoze() {
			t.Fatalf("no card sleeps: %v", all)
		}
	}
	want := []string{"device", "drm", "power/control", "power/runtime_status",
		"revision", "subsystem_device", "subsystem_vendor", "vendor"}
	if got := opened(); !slices.Equal(got, want) {
		t.Errorf("%q were opened, want %q", got, want)
	}
	card.Wake()
	if all := cards(t, f, "amdgpu"); all[0].Asleep() {
		t.Error("it sleeps although it is awake")
	}
	for status, want := range map[string]bool{
		"suspending": true, "resuming": false, "unsupported": false, "error": false, "": false,
	} {
		card.Set(map[string]string{"power/runtime_status": status})
		if all := cards(t, f, "amdgpu"); all[0].Asleep() != want {
			t.Errorf("%q sleeps: %v, want %v", status, !want, want)
		}
	}
}

func TestHwmon(t *testing.T) {
	m := drmtest.New(t)
	card := m.Card(0, "0000:03:00.0", "i915", map[string]string{
		"hwmon/hwmon4/name": "i915_gt0\n", "hwmon/hwmon4/energy1_input": "1\n",
		"hwmon/hwmon5/name": "i915\n", "hwmon/hwmon5/temp1_input": "40000\n", "hwmon/hwmon5/temp1_label": "pkg\n",
		"hwmon/hwmon5/temp10_input": "41000\n", "hwmon/hwmon5/temp2_crit": "100000\n", "hwmon/hwmon5/fan1_input": "900\n",
	})
	all := cards(t, NewFinder(m.Sysfs, nil), "i915")
	h, err := all[0].Hwmon("i915")
	if err != nil {
		t.Fatal(err)
	}
	want := []Channel{{1, "pkg"}, {2, ""}, {10, ""}}
	if got := h.Channels("temp"); !slices.Equal(got, want) {
		t.Errorf("temperatures %v, want %v", got, want)
	}
	c, ok := h.Labeled("temp", "pkg")
	if v := h.Celsius(c.File("temp", "input")); !ok || v != gpu.Of[gpu.Celsius](40) {
		t.Errorf("the package has %v", v)
	}
	if _, ok := h.Labeled("temp", "junction"); ok || h.Has("energy1_input") || !h.Has("fan1_input") {
		t.Error("it has what it has not")
	}
	if _, err := all[0].Hwmon("xe"); Quality(err) != gpu.NotSupported {
		t.Error("sensors of another driver:", err)
	}
	card.Remove("hwmon")
	if _, err := all[0].Hwmon("i915"); Quality(err) != gpu.NotSupported {
		t.Error("no sensors:", err)
	}
}

// A card with its own switch has the switch's link; the root port is not part of it.
func TestLink(t *testing.T) {
	m := drmtest.New(t)
	link := func(speed, width, maxSpeed, maxWidth string) map[string]string {
		return map[string]string{
			"current_link_speed": speed + " GT/s PCIe\n", "current_link_width": width + "\n",
			"max_link_speed": maxSpeed + " GT/s PCIe\n", "max_link_width": maxWidth + "\n",
		}
	}
	bridges := []string{"0000:00:01.0", "0000:01:00.0", "0000:02:00.0"}
	card := m.Card(0, "0000:03:00.0", "amdgpu", link("2.5", "1", "2.5", "1"), bridges...)
	card.Set(ids)
	dir := filepath.Dir(card.Dir)
	for _, bridge := range []struct {
		vendor string
		files  map[string]string
	}{
		{"0x1002", link("16.0", "16", "16.0", "16")}, // the switch towards the chip
		{"0x1002", link("8.0", "8", "16.0", "16")},   // and towards the host
		{"0x1022", link("8.0", "8", "8.0", "16")},    // the root port
	} {
		for name, text := range bridge.files {
			m.Write(filepath.Join(dir, name), text)
		}
		m.Write(filepath.Join(dir, "vendor"), bridge.vendor+"\n")
		m.Write(filepath.Join(dir, "class"), "0x060400\n")
		dir = filepath.Dir(dir)
	}
	c := cards(t, NewFinder(m.Sysfs, nil), "amdgpu")[0]
	want := gpu.PCIe{
		Generation: gpu.Of(3), MaxGeneration: gpu.Of(3), Width: gpu.Of(8), MaxWidth: gpu.Of(16),
		Replays: gpu.Absent[uint64](gpu.NotSupported),
	}
	if got := c.Link(); got != want {
		t.Errorf("the link is %+v, want %+v", got, want)
	}
	// A root port of the card's own vendor is not a switch of the card.
	m.Write(filepath.Join(m.Sysfs, "devices/pci0000:00/0000:00:01.0/vendor"), "0x1002\n")
	if got := c.Link(); got != want {
		t.Errorf("below a root port of its vendor the link is %+v", got)
	}
	m.Card(1, "0000:00:02.0", "amdgpu", ids)
	c = cards(t, NewFinder(m.Sysfs, nil), "amdgpu")[0]
	if got := c.Link(); got.Generation != gpu.Absent[int](gpu.NotSupported) || got.MaxWidth.Present() {
		t.Errorf("without a link: %+v", got)
	}
}

// In a virtual machine a card's switch is not visible, and the chip has the link to it.
func TestLinkWithinAChip(t *testing.T) {
	link := func(speed, width, most string) map[string]string {
		return map[string]string{
			"current_link_speed": speed + " GT/s PCIe\n", "current_link_width": width + "\n",
			"max_link_speed": speed + " GT/s PCIe\n", "max_link_width": most + "\n",
		}
	}
	none := gpu.PCIe{Replays: gpu.Absent[uint64](gpu.NotSupported)}
	slot := func(generation, width, most int) gpu.PCIe {
		return gpu.PCIe{Generation: gpu.Of(generation), MaxGeneration: gpu.Of(generation), Width: gpu.Of(width), MaxWidth: gpu.Of(most), Replays: none.Replays}
	}
	for name, tt := range map[string]struct {
		files map[string]string
		want  gpu.PCIe
	}{
		"of the chip":                     {link("2.5", "1", "1"), none},
		"of an old card":                  {link("2.5", "16", "16"), slot(1, 16, 16)},
		"of a card in a slot of one lane": {link("8.0", "1", "16"), slot(3, 1, 16)},
	} {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			m.Card(0, "0000:00:05.0", "xe", tt.files).Set(map[string]string{"vendor": "0x8086\n"})
			if got := cards(t, NewFinder(m.Sysfs, nil), "xe")[0]; got.Link() != tt.want {
				t.Errorf("the link is %+v, want %+v", got.Link(), tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	const list = "# comment\n\n1001  Kolter\n\t744c  Not this\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n" +
		"\t1506  Mendocino\n\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]\n\t\t1da2 e471  NITRO+\n1003  ULSI\n\t1111  x\n"
	for _, tt := range []struct {
		vendor, product uint32
		want            string
	}{
		{0x1002, 0x744c, "Radeon RX 7900 XT/7900 XTX"},
		{0x1002, 0x1506, "Mendocino"}, {0x1002, 0x1111, ""}, {0x8086, 1, ""}, {0, 0, ""},
	} {
		if got := nameIn(strings.NewReader(list), tt.vendor, tt.product); got != tt.want {
			t.Errorf("%04x:%04x is %q, want %q", tt.vendor, tt.product, got, tt.want)
		}
	}
}
